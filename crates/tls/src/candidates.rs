//! Which certificate answers which server name.

use std::collections::HashMap;

use crate::certificate::KeyKind;

/// Where a certificate stands in the list it was given in.
pub(crate) type Place = usize;

/// The certificates that answer one name, at most one per kind of key.
#[derive(Clone, Copy, Debug, Default)]
struct Candidates {
    ecdsa: Option<Place>,
    rsa: Option<Place>,
    other: Option<Place>,
}

impl Candidates {
    fn add(&mut self, kind: KeyKind, place: Place) {
        let slot = match kind {
            KeyKind::Ecdsa => &mut self.ecdsa,
            KeyKind::Rsa => &mut self.rsa,
            KeyKind::Other => &mut self.other,
        };
        // The first one listed wins, so that the order in the configuration means something.
        slot.get_or_insert(place);
    }

    /// ECDSA first, because it costs the server a tenth of RSA.
    fn choose(&self, accepts_ecdsa: bool) -> Option<Place> {
        let (first, second) = if accepts_ecdsa { (self.ecdsa, self.rsa) } else { (self.rsa, self.ecdsa) };
        first.or(second).or(self.other)
    }
}

/// Finds certificates by server name: exact, then wildcard, then the default.
#[derive(Debug, Default)]
pub(crate) struct NameIndex {
    exact: HashMap<String, Candidates>,
    /// By the part behind `*.`.
    wildcard: HashMap<String, Candidates>,
    default: Candidates,
}

impl NameIndex {
    /// Enters a certificate under its names.
    pub(crate) fn add(&mut self, names: &[String], kind: KeyKind, place: Place) {
        for name in names {
            match name.strip_prefix("*.") {
                Some(parent) => self.wildcard.entry(parent.to_owned()).or_default().add(kind, place),
                None => self.exact.entry(name.clone()).or_default().add(kind, place),
            }
        }
    }

    /// Has this certificate answer clients that send no or an unknown name.
    pub(crate) fn add_default(&mut self, kind: KeyKind, place: Place) {
        self.default.add(kind, place);
    }

    /// The certificate for a client.
    pub(crate) fn choose(&self, server_name: Option<&str>, accepts_ecdsa: bool) -> Option<Place> {
        self.named(server_name).unwrap_or(&self.default).choose(accepts_ecdsa)
    }

    fn named(&self, server_name: Option<&str>) -> Option<&Candidates> {
        let name = server_name?.trim_end_matches('.').to_ascii_lowercase();
        if let Some(found) = self.exact.get(&name) {
            return Some(found);
        }
        // A wildcard covers one label (RFC 6125 §6.4.3).
        let (_, parent) = name.split_once('.')?;
        self.wildcard.get(parent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> NameIndex {
        let mut index = NameIndex::default();
        index.add(&["a.test".into(), "*.cdn.test".into()], KeyKind::Rsa, 0);
        index.add(&["a.test".into()], KeyKind::Ecdsa, 1);
        index.add(&["b.cdn.test".into()], KeyKind::Ecdsa, 2);
        index.add_default(KeyKind::Rsa, 3);
        index
    }

    #[test]
    fn ecdsa_goes_to_those_who_accept_it_and_rsa_to_the_others() {
        assert_eq!(index().choose(Some("a.test"), true), Some(1));
        assert_eq!(index().choose(Some("a.test"), false), Some(0));
    }

    #[test]
    fn an_exact_name_beats_a_wildcard_and_a_wildcard_covers_one_label() {
        assert_eq!(index().choose(Some("b.cdn.test"), true), Some(2));
        assert_eq!(index().choose(Some("c.cdn.test"), true), Some(0));
        assert_eq!(index().choose(Some("c.d.cdn.test"), true), Some(3));
    }

    #[test]
    fn no_name_and_unknown_names_get_the_default() {
        assert_eq!(index().choose(None, true), Some(3));
        assert_eq!(index().choose(Some("elsewhere.test"), false), Some(3));
    }

    #[test]
    fn names_compare_without_case_or_trailing_dot() {
        assert_eq!(index().choose(Some("A.Test."), true), Some(1));
    }
}
