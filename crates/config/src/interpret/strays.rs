//! Keys that cannot be obeyed: unknown ones, and those whose feature is not built yet.

use super::reader::Reader;
use crate::raw;
use crate::section::{Inside, Key, Section, Stray, place};

pub(super) fn report(root: &raw::Root, reader: &mut Reader<'_>) {
    let mut found = Vec::new();
    root.strays_inside("", &mut found);
    for stray in found {
        match stray {
            Stray::Later { path, place } => {
                reader.fault(place, format!("{path} is not supported yet"), "remove it");
            }
            Stray::Unknown { key, siblings } => {
                let name = &key.value;
                reader.fault(place(&key), format!("unknown key `{name}`"), instead_of(name, siblings));
            }
        }
    }
}

/// What somebody who wrote `name` among `siblings` probably meant.
fn instead_of(name: &str, siblings: &'static [Key]) -> String {
    if let Some(near) = nearest(name, siblings.iter().map(|key| key.name)) {
        return format!("write `{near}`");
    }
    let mut homes = Vec::new();
    find_homes(name, "", raw::Root::KEYS, &mut homes);
    if homes.is_empty() {
        let known: Vec<&str> = siblings.iter().map(|key| key.name).collect();
        format!("write one of: {}", known.join(", "))
    } else {
        format!("it belongs to {}", homes.join(" or "))
    }
}

/// The candidate that is a slip of the finger away.
pub(super) fn nearest<'c>(name: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let tolerated = (name.chars().count() / 3).max(1);
    candidates
        .map(|candidate| (strsim::osa_distance(&name, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= tolerated)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The sections that have a key of this very name.
fn find_homes(name: &str, path: &str, keys: &'static [Key], homes: &mut Vec<String>) {
    for key in keys {
        if key.name == name {
            homes.push(if path.is_empty() { "the top level".to_owned() } else { format!("`{path}`") });
        }
        if let Inside::Section(inside) | Inside::List(inside) = key.inside {
            let path = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
            find_homes(name, &path, inside, homes);
        }
    }
}
