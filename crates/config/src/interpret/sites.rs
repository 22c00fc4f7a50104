//! Sites: content by host name.

use std::collections::HashMap;

use serde_saphyr::Spanned;

use super::hosts::{TakenHosts, hosts};
use super::reader::Reader;
use super::routes::{check_redirect, routes};
use super::settings::{SettingsPlace, Surroundings, settings};
use super::unknown_keys::nearest;
use crate::model::{Listener, Site};
use crate::pattern::PathPattern;
use crate::raw;
use crate::section::{Sections, Texts, position, start};

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
    let place = SettingsPlace { here: position(section), from: &PathPattern::all(), base: None };
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
