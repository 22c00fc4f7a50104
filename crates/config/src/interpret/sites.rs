//! Sites: content by host name.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_saphyr::Spanned;

use super::cache::site_cache;
use super::cors::cors;
use super::early_data::early_requests;
use super::listeners::https_port;
use super::origins::origin;
use super::reader::Reader;
use super::redirects::{self, canonical, fixed, nothing, rewrite};
use super::routes::{check_redirect, routes};
use super::signed_urls::signed_urls;
use super::unknown_keys::nearest;
use crate::limits;
use crate::model::{Cluster, DotFiles, HostPattern, Hsts, HttpsPort, Listener, Origin, Site, SiteSettings};
use crate::pattern::PathPattern;
use crate::raw;
use crate::section::{Position, Sections, Text, Texts, WordOr, position, start};

/// What the settings of a site refer to.
pub(super) struct Surroundings<'s> {
    pub(super) cluster: Option<&'s Cluster>,
    pub(super) listeners: &'s [Listener],
    /// Where requests of plain HTTP are redirected to.
    pub(super) https: HttpsPort,
}

impl<'s> Surroundings<'s> {
    pub(super) fn new(cluster: Option<&'s Cluster>, listeners: &'s [Listener]) -> Self {
        Self { cluster, listeners, https: https_port(listeners) }
    }
}

/// The hosts of the sites so far, with the listeners on which each answers.
type TakenHosts = HashMap<HostPattern, Vec<(Option<Vec<String>>, Position)>>;

pub(super) fn sites(
    list: Option<&Sections<raw::Site>>,
    around: &Surroundings<'_>,
    reader: &mut Reader<'_>,
) -> Vec<Site> {
    let entries = list.map_or(&[][..], |list| &list.value);
    if entries.is_empty() {
        let instead = "write sites: [{hosts: [\"*\"], origin: {directory: /srv/video}}]";
        reader.fault(start(list), "there is no site", instead);
    }
    let mut taken = HashMap::new();
    entries.iter().filter_map(|section| site(section, around, &mut taken, reader)).collect()
}

fn site(
    section: &Spanned<raw::Site>,
    around: &Surroundings<'_>,
    taken: &mut TakenHosts,
    reader: &mut Reader<'_>,
) -> Option<Site> {
    let raw = &section.value;
    let listeners = raw.listeners.as_ref().map(|list| listeners(list, around, reader));
    let hosts = hosts(section, listeners.as_ref(), taken, reader);
    let place = Place { here: position(section), from: &PathPattern::all(), base: None };
    let is_plain = listeners.as_ref().is_some_and(|names| {
        let is_plain = |listener: &Listener| {
            !listener.tls || !listener.name.as_ref().is_some_and(|name| names.contains(name))
        };
        around.listeners.iter().all(is_plain)
    });
    let settings = settings(&raw.settings, &place, is_plain, around, reader)?;
    let routes = routes(raw.routes.as_ref(), &settings, around, reader);
    check_redirect(&settings, raw.settings.redirect.as_ref(), &routes, reader);
    Some(Site { hosts, listeners, routes, settings })
}

/// Names of listeners.
fn listeners(list: &Texts, around: &Surroundings<'_>, reader: &mut Reader<'_>) -> Vec<String> {
    if list.value.is_empty() {
        reader.fault(position(list), "listeners: the list is empty", "remove it: a site answers on all");
    }
    let known = || around.listeners.iter().filter_map(|listener| listener.name.as_deref());
    for text in list.value.iter().filter(|text| !known().any(|name| name == text.value)) {
        let what = format!("listeners: no listener has the name `{}`", text.value.escape_debug());
        let instead = match nearest(&text.value, known()) {
            Some(near) => format!("write {near}"),
            None => "add name: to a listener".to_owned(),
        };
        reader.fault(position(text), what, instead);
    }
    list.value.iter().map(|text| text.value.clone()).collect()
}

/// Where settings are written.
pub(super) struct Place<'p> {
    pub(super) here: Position,
    /// The path of the route; all paths for a site.
    pub(super) from: &'p PathPattern,
    /// The settings of the site, for a route.
    pub(super) base: Option<&'p SiteSettings>,
}

/// Reads settings; what is not written is that of `place.base`, or the default. `is_plain`: no request uses HTTPS.
pub(super) fn settings(
    raw: &raw::SiteSettings,
    place: &Place<'_>,
    is_plain: bool,
    around: &Surroundings<'_>,
    reader: &mut Reader<'_>,
) -> Option<SiteSettings> {
    let origin = response_origin(raw, place, is_plain, around, reader);
    let base = place.base.cloned();
    let mut settings = base.unwrap_or_else(|| SiteSettings::new(Origin::Directory(PathBuf::new())));
    if let Some(fields) = raw.headers.as_ref().map(|headers| &headers.value) {
        settings.headers.hsts =
            fields.hsts.as_ref().map_or(settings.headers.hsts, |written| hsts(written, reader));
    }
    let of_headers = raw.headers.as_ref().and_then(|headers| headers.value.cors.as_ref());
    if raw.cors.is_some() || of_headers.is_some() {
        settings.headers.cors = cors(raw.cors.as_ref(), of_headers, reader);
    }
    if let Some(text) = &raw.index {
        settings.index = index(text, reader).unwrap_or_else(|| limits::INDEX.to_owned());
    }
    settings.cache = site_cache(raw.cache.as_ref(), settings.cache, reader);
    settings.rewrite =
        raw.rewrite.as_ref().map_or(settings.rewrite, |text| rewrite(text, place.from, reader));
    canonical(raw, around.https, &mut settings.canonical, reader);
    if let Some(text) = &raw.early_data {
        settings.early_data = early_requests(Some(text), reader);
    }
    if let Some(list) = &raw.methods {
        settings.methods = super::forwarding::methods(Some(list), reader);
    }
    if let Some(text) = &raw.forwarded {
        settings.forwarded = super::forwarding::forwarded(Some(text), reader);
    }
    if let Some(section) = &raw.signed_urls {
        settings.signed_urls = signed_urls(Some(section), reader);
    }
    if let Some(text) = &raw.dot_files {
        settings.dot_files = dot_files(Some(text), reader);
    }
    settings.origin = origin?;
    check_cache(raw, &settings.origin, reader);
    Some(settings)
}

/// Where responses come from: one key says it.
fn response_origin(
    raw: &raw::SiteSettings,
    place: &Place<'_>,
    is_plain: bool,
    around: &Surroundings<'_>,
    reader: &mut Reader<'_>,
) -> Option<Origin> {
    let redirect = raw.redirect.as_ref().and_then(|written| match &written.value {
        WordOr::Section(section) => Some((section, position(written))),
        WordOr::Word(_) => None,
    });
    let kinds = [
        ("origin", raw.origin.as_ref().map(position)),
        ("redirect", redirect.map(|(_, here)| here)),
        ("respond", raw.respond.as_ref().map(position)),
    ];
    let mut written = kinds.iter().filter_map(|(kind, here)| Some((kind, (*here)?)));
    if let (Some((first, _)), Some((kind, here))) = (written.next(), written.next()) {
        let what = format!("{kind}: there is {first} already, which answers all requests");
        reader.fault(here, what, "keep one of them, or write routes");
        return None;
    }
    match (&raw.origin, redirect, &raw.respond) {
        (Some(section), ..) => origin(section, around.cluster, reader),
        (None, Some((section, here)), _) => {
            redirects::redirect(section, here, place.from, reader).map(Origin::Redirect)
        }
        (None, None, Some(section)) => Some(Origin::Fixed(fixed(section, reader))),
        (None, None, None) => match place.base {
            Some(base) => Some(base.origin.clone()),
            // Each request gets the redirect.
            None if is_plain && raw.redirect.is_some() => Some(Origin::Fixed(nothing())),
            None => {
                let instead =
                    "add origin: {directory: /srv/video} or origin: {http: [\"http://192.0.2.5:8080\"]}";
                reader.fault(place.here, "this site has no origin", instead);
                None
            }
        },
    }
}

fn check_cache(raw: &raw::SiteSettings, origin: &Origin, reader: &mut Reader<'_>) {
    let Some(cache) = &raw.cache else { return };
    match origin {
        Origin::Directory(_) => {
            let what =
                "cache: files of a directory are not cached, the system keeps them in memory by itself";
            reader.fault(position(cache), what, "remove it, or write origin: {http: [...]}");
        }
        Origin::Http(http) if http.uncached.is_some() => {
            reader.fault(position(cache), "cache: this origin has cache: off", "keep one of them");
        }
        Origin::Redirect(_) | Origin::Fixed(_) => {
            reader.fault(position(cache), "cache: there is no origin", "remove it");
        }
        Origin::Http(_) => {}
    }
}

fn hosts(
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
                    let what = format!("hosts: `{text}` is already defined on line {}", first.line);
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
