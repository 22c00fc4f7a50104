//! Settings of a site or of one of its routes.

use std::path::PathBuf;
use std::time::Duration;

use serde_saphyr::Spanned;

use super::access::access;
use super::cache::site_cache;
use super::cors::cors;
use super::early_data::early_requests;
use super::error_pages::error_pages;
use super::field_rules::{Direction, check_request_rules, field_rules};
use super::listeners::https_port;
use super::metrics::title_patterns;
use super::origins::origin;
use super::players::{check_cmcd, players};
use super::reader::Reader;
use super::redirects::{self, canonical, fixed, nothing, rewrite};
use super::signed_urls::signed_urls;
use super::site_limits::{check_subjects, pace, site_limits};
use super::site_tokens::site_tokens;
use crate::limits;
use crate::model::{Cluster, DotFiles, Hsts, HttpsPort, Listener, Origin, SiteSettings};
use crate::pattern::PathPattern;
use crate::raw;
use crate::section::{Position, Text, WordOr, position};

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

/// Where settings are written.
pub(super) struct SettingsPlace<'p> {
    pub(super) here: Position,
    /// The path of the route; all paths for a site.
    pub(super) from: &'p PathPattern,
    /// The settings of the site, for a route.
    pub(super) base: Option<&'p SiteSettings>,
}

/// Reads settings; what is not written is that of `place.base`, or the default. `is_plain`: no request uses HTTPS.
pub(super) fn settings(
    raw: &raw::SiteSettings,
    place: &SettingsPlace<'_>,
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
    if let Some(fields) = raw.headers.as_ref().map(|headers| &headers.value) {
        let headers = &mut settings.headers;
        if let Some(section) = &fields.response {
            headers.response = field_rules(section, Direction::Response, reader);
        }
        if let Some(section) = &fields.request {
            headers.request = field_rules(section, Direction::Request, reader);
        }
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
    if let Some(list) = &raw.error_pages {
        settings.error_pages = error_pages(list, reader);
    }
    if let Some(text) = &raw.maintenance {
        let is_off = matches!(text.value.as_str(), "off" | "false");
        settings.maintenance = (!is_off).then(|| reader.output_file("maintenance", text));
    }
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
    super::forwarding::request_id(raw, &mut settings, reader);
    tokens(raw, &mut settings, reader);
    if let Some(section) = &raw.access {
        settings.access = access(Some(section), reader);
    }
    if let Some(section) = &raw.limits {
        settings.limits = site_limits(Some(section), reader);
    }
    if let Some(section) = &raw.pace {
        settings.pace = pace(section, reader);
    }
    if let Some(text) = &raw.dot_files {
        settings.dot_files = dot_files(Some(text), reader);
    }
    settings.compress = reader.flag("compress", raw.compress.as_ref(), settings.compress);
    settings.players = players(raw, settings.players, around.cluster, reader);
    settings.title_patterns = title_patterns(raw.title_patterns.as_ref(), reader).or(settings.title_patterns);
    settings.origin = origin?;
    check_cmcd(raw.cmcd.as_ref(), settings.players.cmcd, &settings.origin, reader);
    check_subjects(raw.limits.as_ref(), &settings, reader);
    check_cache(raw, &settings.origin, reader);
    check_request_rules(raw, &settings, place.here, reader);
    Some(settings)
}

fn tokens(raw: &raw::SiteSettings, settings: &mut SiteSettings, reader: &mut Reader<'_>) {
    if let Some(written) = &raw.tokens {
        settings.tokens = site_tokens(written, reader);
    }
    if let Some(section) = &raw.signed_urls {
        if raw.tokens.is_some() {
            let what = "signed_urls: there is tokens already, which is the same with other formats";
            reader.fault(position(section), what, "keep one of them");
        }
        settings.tokens = Some(signed_urls(section, reader));
    }
    // A field that goes to the origin is part of a key of the cache.
    let field = settings.tokens.as_ref().and_then(|rules| rules.field.as_ref());
    if let Some(name) = field.filter(|name| settings.cache.vary.contains(name)) {
        let here = raw.cache.as_ref().map(position).or_else(|| raw.tokens.as_ref().map(position));
        let what = format!("vary: {name} has the token, which no origin sees");
        reader.fault(here.unwrap_or_default(), what, "remove it from cache.vary, or write another field");
    }
}

/// Where responses come from: one key says it.
fn response_origin(
    raw: &raw::SiteSettings,
    place: &SettingsPlace<'_>,
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
        Origin::Http(http) => {
            if let (Some(_), Some(bypass)) = (&http.s3, &cache.value.bypass) {
                let what = "bypass: requests to a bucket are signed here, and none goes past the cache";
                reader.fault(position(bypass), what, "remove it");
            }
        }
    }
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
