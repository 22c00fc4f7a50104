//! Reports unknown keys.

use super::reader::Reader;
use crate::section::{Inside, Key, Section, UnknownKey, position};

pub(super) fn report<S: Section>(root: &S, reader: &mut Reader<'_>) {
    let mut found = Vec::new();
    root.unknown_keys_within(&mut found);
    for UnknownKey { key, siblings } in found {
        let name = &key.value;
        let remedy = instead_of(name, siblings, S::KEYS);
        reader.fault(position(&key), format!("unknown key `{name}`"), remedy);
    }
}

/// The remedy for an unknown key `name` among `siblings`.
fn instead_of(name: &str, siblings: &'static [Key], root: &'static [Key]) -> String {
    if let Some(near) = nearest(name, siblings.iter().map(|key| key.name)) {
        return format!("write `{near}`");
    }
    let mut sections = Vec::new();
    find_sections(name, "", root, &mut Vec::new(), &mut sections);
    if sections.is_empty() {
        let known: Vec<&str> = siblings.iter().map(|key| key.name).collect();
        format!("write one of: {}", known.join(", "))
    } else {
        format!("it belongs to {}", sections.join(" or "))
    }
}

/// The most similar candidate, if it is similar enough for a typing error.
pub(super) fn nearest<'c>(name: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let tolerated = (name.chars().count() / 3).max(1);
    candidates
        .map(|candidate| (strsim::osa_distance(&name, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= tolerated)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The sections that have a key of this name.
fn find_sections(
    name: &str,
    path: &str,
    keys: &'static [Key],
    seen: &mut Vec<*const Key>,
    sections: &mut Vec<String>,
) {
    // A route has the sections of its site.
    if seen.contains(&keys.as_ptr()) {
        return;
    }
    seen.push(keys.as_ptr());
    for key in keys {
        if key.name == name {
            sections.push(if path.is_empty() { "the top level".to_owned() } else { format!("`{path}`") });
        }
        if let Inside::Section(inside) | Inside::List(inside) = key.inside {
            let path = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
            find_sections(name, &path, inside, seen, sections);
        }
    }
}
