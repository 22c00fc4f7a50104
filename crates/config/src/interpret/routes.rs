//! Routes of a site.

use serde_saphyr::Spanned;

use super::reader::Reader;
use super::settings::{SettingsPlace, Surroundings, settings};
use crate::limits;
use crate::model::{Condition, ConditionTest, Origin, Redirect, Route, RouteMatcher, SiteSettings};
use crate::pattern::PathPattern;
use crate::raw;
use crate::section::{Position, Sections, Text, Texts, WordOr, position};

/// Reads the routes of a site with these settings.
pub(super) fn routes(
    list: Option<&Sections<raw::Route>>,
    base: &SiteSettings,
    around: &Surroundings<'_>,
    reader: &mut Reader<'_>,
) -> Vec<Route> {
    let Some(list) = list else { return Vec::new() };
    if list.value.len() > limits::ROUTES_MAX {
        let what = format!("routes: there are {}", list.value.len());
        reader.fault(position(list), what, format!("write at most {} for one site", limits::ROUTES_MAX));
        return Vec::new();
    }
    let mut routes: Vec<(Route, Position)> = Vec::new();
    for section in &list.value {
        let here = section.value.path.as_ref().map_or_else(|| position(section), position);
        let Some(route) = route(section, base, around, reader) else { continue };
        if let Some((_, first)) = routes.iter().find(|(known, _)| covers(&known.matcher, &route.matcher)) {
            let what = format!(
                "routes: no request comes to `{}`: the route on line {} matches all of its requests",
                route.matcher.path, first.line
            );
            reader.fault(here, what, "write it in front of that one, or remove it");
        }
        if let Origin::Redirect(redirect) = &route.settings.origin
            && section.value.settings.redirect.is_some()
            && leads_back(redirect, |pattern| {
                is_unconditional(&route.matcher) && route.matcher.path.covers(pattern)
            })
        {
            reader.fault(here, "redirect: this route redirects to itself", "write another path");
        }
        routes.push((route, here));
    }
    routes.into_iter().map(|(route, _)| route).collect()
}

/// Checks that the redirect of a site does not lead back to it.
pub(super) fn check_redirect(
    settings: &SiteSettings,
    written: Option<&Spanned<WordOr<raw::Redirect>>>,
    routes: &[Route],
    reader: &mut Reader<'_>,
) {
    let (Origin::Redirect(redirect), Some(written)) = (&settings.origin, written) else { return };
    let may_be_of_route = |pattern: &PathPattern| {
        routes.iter().any(|route| route.matcher.path.covers(pattern) || pattern.covers(&route.matcher.path))
    };
    if leads_back(redirect, |pattern| !may_be_of_route(pattern)) {
        let instead = "write a URL with another host, or a route for the new path";
        reader.fault(position(written), "redirect: this site redirects to itself", instead);
    }
}

/// Whether the paths to which a redirect on the same host leads are `ours`.
fn leads_back(redirect: &Redirect, ours: impl Fn(&PathPattern) -> bool) -> bool {
    let path = redirect.to.beginning().split(['?', '#']).next().unwrap_or_default();
    let text = match redirect.to.fixed() {
        Some(_) => path.to_owned(),
        None => format!("{path}*"),
    };
    let text = if redirect.to.written().starts_with("{path}") { "/*" } else { &*text };
    let is_path = text.starts_with('/');
    is_path && PathPattern::parse(text).is_ok_and(|pattern| ours(&pattern))
}

fn route(
    section: &Spanned<raw::Route>,
    base: &SiteSettings,
    around: &Surroundings<'_>,
    reader: &mut Reader<'_>,
) -> Option<Route> {
    let raw = &section.value;
    let path = match &raw.path {
        None => PathPattern::all(),
        Some(text) => match PathPattern::parse(&text.value) {
            Ok(path) => path,
            Err((what, instead)) => {
                reader.fault(position(text), format!("path: {what}"), instead);
                return None;
            }
        },
    };
    let conditions = raw.when.as_ref().map(|when| &when.value);
    let of = |list: fn(&raw::Conditions) -> Option<&Texts>| conditions.and_then(list);
    let matcher = RouteMatcher {
        methods: methods(of(|when| when.methods.as_ref()), reader),
        query: tests("query", of(|when| when.query.as_ref()), reader),
        headers: tests("headers", of(|when| when.headers.as_ref()), reader),
        path,
    };
    let place = SettingsPlace { here: position(section), from: &matcher.path, base: Some(base) };
    let settings = settings(&raw.settings, &place, false, around, reader)?;
    Some(Route { matcher, settings })
}

fn methods(list: Option<&Texts>, reader: &mut Reader<'_>) -> Vec<String> {
    let Some(list) = list else { return Vec::new() };
    check_length("methods", list, reader);
    let mut methods = Vec::new();
    for text in &list.value {
        let fine = !text.value.is_empty()
            && text.value.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
        if fine {
            methods.push(text.value.clone());
        } else {
            let what = format!("methods: `{}` is not the name of a method", text.value.escape_debug());
            reader.fault(position(text), what, "write names in capital letters, such as POST");
        }
    }
    methods
}

fn tests(key: &str, list: Option<&Texts>, reader: &mut Reader<'_>) -> Vec<Condition> {
    let Some(list) = list else { return Vec::new() };
    check_length(key, list, reader);
    list.value.iter().filter_map(|text| test(key, text, reader)).collect()
}

fn test(key: &str, text: &Text, reader: &mut Reader<'_>) -> Option<Condition> {
    let written = text.value.as_str();
    let (name, test) = match (written.strip_prefix('!'), written.split_once('=')) {
        (Some(name), _) => (name, ConditionTest::Absent),
        (None, Some((name, value))) => (name, ConditionTest::Is(value.to_owned())),
        (None, None) => (written, ConditionTest::Present),
    };
    let name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    if name.is_empty() || !name.bytes().all(name_byte) {
        let what = format!("{key}: `{}` is not a condition", written.escape_debug());
        reader.fault(position(text), what, "write name, !name or name=value");
        return None;
    }
    let name = if key == "headers" { name.to_ascii_lowercase() } else { name.to_owned() };
    Some(Condition { name, test })
}

fn check_length(key: &str, list: &Texts, reader: &mut Reader<'_>) {
    let most = limits::ROUTE_CONDITIONS_MAX;
    if list.value.len() > most {
        let what = format!("{key}: there are {} entries", list.value.len());
        reader.fault(position(list), what, format!("write at most {most}"));
    }
}

fn is_unconditional(matcher: &RouteMatcher) -> bool {
    matcher.methods.is_empty() && matcher.query.is_empty() && matcher.headers.is_empty()
}

/// Whether every request of `narrow` is one of `wide`. False if that is not certain.
fn covers(wide: &RouteMatcher, narrow: &RouteMatcher) -> bool {
    let has_all = |wide: &[Condition], narrow: &[Condition]| wide.iter().all(|one| narrow.contains(one));
    let methods = wide.methods.is_empty()
        || !narrow.methods.is_empty() && narrow.methods.iter().all(|name| wide.methods.contains(name));
    methods
        && has_all(&wide.query, &narrow.query)
        && has_all(&wide.headers, &narrow.headers)
        && wide.path.covers(&narrow.path)
}
