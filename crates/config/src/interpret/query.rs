//! Which parameters of a query tell one object from another.

use penstock_http::query::{Counting, Name, QueryRules};
use serde_saphyr::Spanned;

use super::reader::Reader;
use crate::limits;
use crate::raw;
use crate::section::{Texts, WordOr, place};

pub(super) fn query(
    written: Option<&Spanned<WordOr<raw::QueryRules>>>,
    reader: &mut Reader<'_>,
) -> QueryRules {
    let Some(written) = written else { return QueryRules::default() };
    let section = match &written.value {
        WordOr::Word(word) => {
            let counting = match word.as_str() {
                "all" => Counting::All,
                "ignore_all" => Counting::Nothing,
                other => {
                    let what = format!("query: `{}` is unknown", other.escape_debug());
                    let instead = "write all, ignore_all, {ignore: [\"utm_*\"]} or {keep: [v]}";
                    reader.fault(place(written), what, instead);
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
            reader.fault(place(list), what, "remove one of them: what is not kept is ignored");
            Counting::All
        }
    };
    QueryRules { counting, sorted: reader.flag("sort", section.sort.as_ref(), false) }
}

fn names(key: &str, list: &Texts, reader: &mut Reader<'_>) -> Vec<Name> {
    if list.value.len() > limits::QUERY_NAMES_MAX {
        let what = format!("{key}: there are {} names", list.value.len());
        let instead = format!("write at most {}; one may end with * for many", limits::QUERY_NAMES_MAX);
        reader.fault(place(list), what, instead);
    }
    let mut names = Vec::new();
    for text in &list.value {
        match Name::parse(&text.value) {
            Some(name) => names.push(name),
            None => {
                let what =
                    format!("{key}: `{}` cannot be the name of a parameter", text.value.escape_debug());
                reader.fault(place(text), what, "write a name such as session, or its start such as utm_*");
            }
        }
    }
    names
}
