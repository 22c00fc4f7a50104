//! The parameters of a query that belong to the cache key, and the fields that requests vary by.

use penstock_http::query::{Counting, Name, QueryRules};
use serde_saphyr::Spanned;

use super::reader::Reader;
use crate::limits;
use crate::raw;
use crate::section::{Texts, WordOr, position};

pub(super) fn query(raw: Option<&Spanned<WordOr<raw::QueryRules>>>, reader: &mut Reader<'_>) -> QueryRules {
    let Some(raw) = raw else { return QueryRules::default() };
    let section = match &raw.value {
        WordOr::Word(word) => {
            let counting = match word.as_str() {
                "all" => Counting::All,
                "ignore_all" => Counting::Nothing,
                other => {
                    let what = format!("query: `{}` is unknown", other.escape_debug());
                    let instead = "write all, ignore_all, {ignore: [\"utm_*\"]} or {keep: [v]}";
                    reader.fault(position(raw), what, instead);
                    Counting::All
                }
            };
            return QueryRules { counting, sorted: false };
        }
        WordOr::Section(section) => section,
    };
    let counting = match (&section.ignore, &section.keep) {
        (None, None) => Counting::All,
        (Some(list), None) => Counting::Except(names("ignore", list, reader)),
        (None, Some(list)) => Counting::Only(names("keep", list, reader)),
        (Some(_), Some(list)) => {
            let what = "keep: this query has an ignore already";
            reader.fault(position(list), what, "remove one of them: what is not kept is ignored");
            Counting::All
        }
    };
    QueryRules { counting, sorted: reader.flag("sort", section.sort.as_ref(), false) }
}

fn names(key: &str, list: &Texts, reader: &mut Reader<'_>) -> Vec<Name> {
    if list.value.len() > limits::QUERY_NAMES_MAX {
        let what = format!("{key}: there are {} names", list.value.len());
        let instead = format!("write at most {}; one may end with * for many", limits::QUERY_NAMES_MAX);
        reader.fault(position(list), what, instead);
    }
    let mut names = Vec::new();
    for text in &list.value {
        match Name::parse(&text.value) {
            Some(name) => names.push(name),
            None => {
                let what =
                    format!("{key}: `{}` cannot be the name of a parameter", text.value.escape_debug());
                reader.fault(
                    position(text),
                    what,
                    "write a name such as session, or its start such as utm_*",
                );
            }
        }
    }
    names
}

/// Fields that must not differ between clients of one object: framing, conditions and ranges.
const NEVER_PASSED: [&str; 14] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "range",
    "te",
    "transfer-encoding",
    "upgrade",
    "via",
];

pub(super) fn vary(list: Option<&Texts>, reader: &mut Reader<'_>) -> Vec<String> {
    let Some(list) = list else { return Vec::new() };
    if list.value.len() > limits::VARY_NAMES_MAX {
        let what = format!("vary: there are {} names", list.value.len());
        reader.fault(position(list), what, format!("write at most {}", limits::VARY_NAMES_MAX));
    }
    let mut names: Vec<String> = Vec::new();
    for text in &list.value {
        let name = text.value.to_ascii_lowercase();
        let name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if name.is_empty() || !name.bytes().all(name_byte) {
            let what = format!("vary: `{}` cannot be the name of a field", text.value.escape_debug());
            reader.fault(position(text), what, "write a name such as Accept-Encoding");
        } else if penstock_http::cmcd::is_field(&name) {
            let what = format!("vary: {} differs with each request, and selects nothing", text.value);
            reader.fault(position(text), what, "remove it; cmcd: {to_origin: true} has the origin told");
        } else if NEVER_PASSED.contains(&name.as_str()) {
            let what = format!("vary: {} is never forwarded for cached objects", text.value);
            reader.fault(
                position(text),
                what,
                "remove it: ranges and conditions are answered from the cache",
            );
        } else if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
