//! Sites: content by host name.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use serde_saphyr::Spanned;

use super::access::access;
use super::cache::site_cache;
use super::cors::cors;
use super::early_data::early_requests;
use super::origins::origin;
use super::reader::Reader;
use super::signed_urls::signed_urls;
use super::site_limits::site_limits;
use crate::limits;
use crate::model::{Cluster, DotFiles, Headers, HostPattern, Hsts, Origin, Site};
use crate::raw;
use crate::section::{Position, Sections, Text, WordOr, position, start};

/// The default file of a directory.
pub(crate) const INDEX: &str = "index.html";

pub(super) fn sites(
    list: Option<&Sections<raw::Site>>,
    cluster: Option<&Cluster>,
    reader: &mut Reader<'_>,
) -> Vec<Site> {
    let entries = list.map_or(&[][..], |list| &list.value);
    if entries.is_empty() {
        let instead = "write sites: [{hosts: [\"*\"], origin: {directory: /srv/video}}]";
        reader.fault(start(list), "there is no site", instead);
    }
    let mut taken = HashMap::new();
    entries.iter().filter_map(|section| site(section, cluster, &mut taken, reader)).collect()
}

fn site(
    section: &Spanned<raw::Site>,
    cluster: Option<&Cluster>,
    taken: &mut HashMap<HostPattern, Position>,
    reader: &mut Reader<'_>,
) -> Option<Site> {
    let raw = &section.value;
    let hosts = hosts(section, taken, reader);
    let fields = raw.headers.as_ref().map(|headers| &headers.value);
    let headers = Headers {
        hsts: fields.and_then(|fields| hsts(fields.hsts.as_ref()?, reader)),
        cors: cors(raw.cors.as_ref(), fields.and_then(|fields| fields.cors.as_ref()), reader),
    };
    let index = raw.index.as_ref().and_then(|text| index(text, reader)).unwrap_or_else(|| INDEX.to_owned());
    let cache = site_cache(raw.cache.as_ref(), reader);
    let origin = origin(section, cluster, reader)?;
    if let (Origin::Directory(_), Some(cache)) = (&origin, &raw.cache) {
        let what = "cache: files of a directory are not cached, the system keeps them in memory by itself";
        reader.fault(position(cache), what, "remove it, or write origin: {http: [...]}");
    }
    if let (Origin::Http(http), Some(cache)) = (&origin, &raw.cache)
        && http.uncached.is_some()
    {
        reader.fault(position(cache), "cache: this origin has cache: off", "keep one of them");
    }
    if let (Origin::Http(http), Some(cache)) = (&origin, &raw.cache)
        && let (Some(_), Some(bypass)) = (&http.s3, &cache.value.bypass)
    {
        let what = "bypass: requests to a bucket are signed here, and none goes past the cache";
        reader.fault(position(bypass), what, "remove it");
    }
    let early_data = early_requests(raw.early_data.as_ref(), reader);
    let methods = super::forwarding::methods(raw.methods.as_ref(), reader);
    let forwarded = super::forwarding::forwarded(raw.forwarded.as_ref(), reader);
    let signed_urls = signed_urls(raw.signed_urls.as_ref(), reader);
    let access = access(raw.access.as_ref(), reader);
    let limits = site_limits(raw.limits.as_ref(), reader);
    let dot_files = dot_files(raw.dot_files.as_ref(), reader);
    Some(Site {
        hosts,
        origin,
        cache,
        methods,
        forwarded,
        signed_urls,
        access,
        limits,
        early_data,
        dot_files,
        index,
        headers,
    })
}

fn hosts(
    section: &Spanned<raw::Site>,
    taken: &mut HashMap<HostPattern, Position>,
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
            Ok(pattern) => match taken.get(&pattern) {
                Some(first) => {
                    let what = format!("hosts: `{text}` is already defined on {}", reader.line(*first, here));
                    reader.fault(here, what, "remove one of them or write another host");
                }
                None => {
                    taken.insert(pattern.clone(), here);
                    hosts.push(pattern);
                }
            },
        }
    }
    hosts
}

/// Parses a host name; an error is the fault and its remedy.
fn pattern(text: &str) -> Result<HostPattern, (String, String)> {
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

fn hsts(raw: &Spanned<WordOr<raw::Hsts>>, reader: &mut Reader<'_>) -> Option<Hsts> {
    let range = Duration::ZERO..=Duration::from_secs(limits::HSTS_SECONDS_MAX);
    let section = match &raw.value {
        WordOr::Word(word) => {
            let text = Text { value: word.clone(), referenced: raw.referenced, defined: raw.defined };
            let max_age = reader.time("hsts", Some(&text), &range, Duration::ZERO);
            return Some(Hsts { max_age, include_subdomains: false, preload: false });
        }
        WordOr::Section(section) => section,
    };
    if section.max_age.is_none() {
        reader.fault(position(raw), "hsts: it has no max_age", "add max_age: 180d");
        return None;
    }
    let hsts = Hsts {
        max_age: reader.time("max_age", section.max_age.as_ref(), &range, Duration::ZERO),
        include_subdomains: reader.flag("include_subdomains", section.include_subdomains.as_ref(), false),
        preload: reader.flag("preload", section.preload.as_ref(), false),
    };
    let year = Duration::from_secs(limits::HSTS_PRELOAD_SECONDS_MIN);
    if let Some(text) = section
        .preload
        .as_ref()
        .filter(|_| hsts.preload && !(hsts.include_subdomains && hsts.max_age >= year))
    {
        let what = "preload: browsers build in only sites with include_subdomains and a max_age of a year";
        let instead = "write {max_age: 365d, include_subdomains: true, preload: true}, or remove preload";
        reader.fault(position(text), what, instead);
    }
    Some(hsts)
}

fn dot_files(text: Option<&Text>, reader: &mut Reader<'_>) -> DotFiles {
    match text.map(|text| (text, text.value.as_str())) {
        Some((_, "allow")) => return DotFiles::Allow,
        Some((_, "deny")) | None => {}
        Some((text, other)) => {
            let what = format!("dot_files: `{other}` is unknown");
            reader.fault(position(text), what, "write allow or deny");
        }
    }
    DotFiles::Deny
}

fn index(text: &Text, reader: &mut Reader<'_>) -> Option<String> {
    let name = text.value.as_str();
    let plain = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\0']);
    if plain {
        return Some(name.to_owned());
    }
    let what = format!("index: `{}` is not a plain file name", name);
    reader.fault(position(text), what, "write a name without slashes, such as index.html");
    None
}
