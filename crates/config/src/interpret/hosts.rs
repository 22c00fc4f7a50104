//! Host names of sites.

use std::collections::HashMap;
use std::net::IpAddr;

use serde_saphyr::Spanned;

use super::reader::Reader;
use crate::model::HostPattern;
use crate::raw;
use crate::section::{Position, position};

/// The hosts of the sites so far, with the listeners on which each answers.
pub(super) type TakenHosts = HashMap<HostPattern, Vec<(Option<Vec<String>>, Position)>>;

pub(super) fn hosts(
    section: &Spanned<raw::Site>,
    listeners: Option<&Vec<String>>,
    taken: &mut TakenHosts,
    reader: &mut Reader<'_>,
) -> Vec<HostPattern> {
    let entries: Vec<(&str, Position)> = match &section.value.hosts {
        Some(list) => list.value.iter().map(|text| (text.value.as_str(), position(text))).collect(),
        None => vec![("*", position(section))],
    };
    if let (Some(list), true) = (&section.value.hosts, entries.is_empty()) {
        reader.fault(position(list), "hosts: the list is empty", "write [\"*\"] for every host");
    }
    let mut hosts = Vec::new();
    for (text, here) in entries {
        match pattern(text) {
            Err((what, instead)) => reader.fault(here, format!("hosts: {what}"), instead),
            Ok(pattern) => {
                let others = taken.entry(pattern.clone()).or_default();
                if let Some((_, first)) = others.iter().find(|(other, _)| share(other.as_ref(), listeners)) {
                    let what = format!("hosts: `{text}` is already defined on {}", reader.line(*first, here));
                    reader.fault(here, what, "remove one of them or write another host");
                } else {
                    others.push((listeners.cloned(), here));
                    hosts.push(pattern);
                }
            }
        }
    }
    hosts
}

/// Whether two sites answer on one listener.
fn share(one: Option<&Vec<String>>, other: Option<&Vec<String>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.iter().any(|name| other.contains(name)),
        _ => true,
    }
}

/// Parses a host name; an error is the fault and its remedy.
pub(super) fn pattern(text: &str) -> Result<HostPattern, (String, String)> {
    let fault = |what: &str, instead: String| Err((format!("`{text}` {what}"), instead));
    if text == "*" {
        return Ok(HostPattern::Any);
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(HostPattern::Exact(address.to_string()));
    }
    if let Some((_, host)) = text.split_once("://") {
        return fault("is a URL", format!("write {}", host.split(['/', ':']).next().unwrap_or(host)));
    }
    if let Some((host, _)) = text.split_once(':') {
        return fault("has a port", format!("write {host}: a site answers on every listener"));
    }
    if !text.is_ascii() {
        return fault("is not in ASCII", "write the form that begins with xn--".to_owned());
    }
    let lower = text.to_ascii_lowercase();
    let name = lower.strip_suffix('.').unwrap_or(&lower);
    let domain = name.strip_prefix("*.");
    let checked = domain.unwrap_or(name);
    if checked.contains('*') {
        return fault("has a `*` inside", "write *.example.com for one label, or \"*\" for all".to_owned());
    }
    let label_is_fine = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    if name.len() > 253 || !checked.split('.').all(label_is_fine) {
        return fault("is not a host name", "write a name such as video.example.com".to_owned());
    }
    Ok(match domain {
        Some(domain) => HostPattern::Under(domain.to_owned()),
        None => HostPattern::Exact(name.to_owned()),
    })
}
