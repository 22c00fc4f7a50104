//! The servers of an origin, and how each request chooses one.

use penstock_tls::ClientIdentity;

use super::url::url;
use crate::interpret::cors::names;
use crate::interpret::pem;
use crate::interpret::reader::Reader;
use crate::limits;
use crate::model::{Balance, OriginServer};
use crate::raw;
use crate::section::{Entries, Text, Texts, WordOr, position};

/// Fields without which a response cannot be framed, or is stored and selected wrongly.
const NOT_HIDDEN: [&str; 14] = [
    "age",
    "cache-control",
    "cdn-cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "date",
    "expires",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "vary",
];

/// The servers, backups last.
pub(super) fn targets(list: &Entries<raw::OriginServer>, reader: &mut Reader<'_>) -> Vec<OriginServer> {
    if list.value.is_empty() {
        reader.fault(position(list), "http: the list is empty", "write [\"http://192.0.2.5:8080\"]");
    }
    if list.value.len() > limits::ORIGIN_TARGETS {
        let what = format!("http: {} servers are too many", list.value.len());
        let instead = format!("write at most {}, or one name for many", limits::ORIGIN_TARGETS);
        reader.fault(position(list), what, instead);
    }
    let mut targets: Vec<OriginServer> = Vec::new();
    for entry in &list.value {
        let (text, weight, is_backup) = match &entry.value {
            WordOr::Word(word) => {
                let text = Text { value: word.clone(), referenced: entry.referenced, defined: entry.defined };
                (text, 1, false)
            }
            WordOr::Section(section) => {
                let weight =
                    reader.number("weight", section.weight.as_ref(), &(1..=limits::ORIGIN_WEIGHT_MAX), 1);
                let is_backup = reader.flag("backup", section.backup.as_ref(), false);
                let Some(text) = &section.url else {
                    reader.fault(
                        position(entry),
                        "http: this server has no url",
                        "add url: http://192.0.2.5:8080",
                    );
                    continue;
                };
                (text.clone(), weight, is_backup)
            }
        };
        let Some(url) = url(&text, reader) else { continue };
        if targets.iter().any(|known| known.url == url) {
            let what = format!("http: {} is listed twice", text.value);
            reader.fault(position(&text), what, "keep one of them");
        } else {
            targets.push(OriginServer { url, weight, is_backup });
        }
    }
    targets.sort_by_key(|server| server.is_backup);
    if targets.first().is_some_and(|first| first.is_backup) {
        let what = "http: every server is a backup";
        reader.fault(position(list), what, "remove backup: true from at least one");
    }
    targets
}

pub(super) fn balance(text: Option<&Text>, reader: &mut Reader<'_>) -> Balance {
    match text.map(|text| (text, text.value.as_str())) {
        None | Some((_, "round_robin")) => Balance::RoundRobin,
        Some((_, "least_connections")) => Balance::LeastConnections,
        Some((text, other)) => {
            let what = format!("balance: `{}` is unknown", other.escape_debug());
            let instead = "write round_robin or least_connections, or spread: {by: url} to hash URLs";
            reader.fault(position(text), what, instead);
            Balance::RoundRobin
        }
    }
}

/// The certificate that servers are shown.
pub(super) fn identity(raw: &raw::Origin, secure: bool, reader: &mut Reader<'_>) -> Option<ClientIdentity> {
    let (chain, key) = match (&raw.chain, &raw.key) {
        (None, None) => return None,
        (Some(chain), Some(key)) => (chain, key),
        (Some(text), None) | (None, Some(text)) => {
            let (has, missing) = if raw.key.is_none() { ("chain", "key") } else { ("key", "chain") };
            let what = format!("{has}: the certificate for these servers has no {missing}");
            reader.fault(position(text), what, format!("add {missing}: FILE.pem"));
            return None;
        }
    };
    if !secure {
        let what = "chain: none of these servers speaks https";
        reader.fault(position(chain), what, "remove chain and key, or write https://");
        return None;
    }
    pem::certificate(chain, key, reader).map(|certificate| ClientIdentity::new(&certificate.into()))
}

/// Names of fields to remove, in lowercase letters.
pub(super) fn hidden_fields(list: Option<&Texts>, reader: &mut Reader<'_>) -> Vec<String> {
    let mut names = names("hide", list, reader);
    for text in list.iter().flat_map(|list| &list.value) {
        if NOT_HIDDEN.iter().any(|name| text.value.eq_ignore_ascii_case(name)) {
            let what = format!("hide: {} says how the response is read or stored", text.value);
            reader.fault(position(text), what, "remove it from the list");
        }
    }
    names.iter_mut().for_each(|name| name.make_ascii_lowercase());
    names
}
