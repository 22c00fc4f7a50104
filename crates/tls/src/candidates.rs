//! Index of certificates by server name.

use std::collections::HashMap;

use crate::certificate::Algorithm;
use crate::signatures::Verifiable;

/// Index of a certificate in the list of its generation.
pub(crate) type CertificateIndex = usize;

/// The certificates for one name, at most one per kind of key.
#[derive(Clone, Copy, Debug, Default)]
struct Candidates([Option<CertificateIndex>; Algorithm::ALL.len()]);

impl Candidates {
    fn add(&mut self, algorithm: Algorithm, place: CertificateIndex) {
        // The first one listed wins: the order of the configuration is the preference.
        self.0[algorithm as usize].get_or_insert(place);
    }

    /// Certificates whose signatures the client can verify, or cannot; the cheapest to sign with first.
    fn that(self, can_be_verified: bool, by: Verifiable) -> impl Iterator<Item = CertificateIndex> {
        let fits = move |algorithm: &Algorithm| by.has(*algorithm) == can_be_verified;
        Algorithm::ALL.into_iter().filter(fits).filter_map(move |algorithm| self.0[algorithm as usize])
    }
}

/// Finds certificates by server name: exact, then wildcard, then the default.
#[derive(Debug, Default)]
pub(crate) struct NameIndex {
    exact: HashMap<String, Candidates>,
    /// By the part after `*.`.
    wildcard: HashMap<String, Candidates>,
    default: Candidates,
    no_sni: Candidates,
}

impl NameIndex {
    /// Adds a certificate under its names.
    pub(crate) fn add(&mut self, names: &[String], algorithm: Algorithm, place: CertificateIndex) {
        for name in names {
            match name.strip_prefix("*.") {
                Some(parent) => self.wildcard.entry(parent.to_owned()).or_default().add(algorithm, place),
                None => self.exact.entry(name.clone()).or_default().add(algorithm, place),
            }
        }
    }

    /// Adds a certificate for clients that send no name or an unknown one.
    pub(crate) fn add_default(&mut self, algorithm: Algorithm, place: CertificateIndex) {
        self.default.add(algorithm, place);
    }

    /// Adds a certificate for clients that send no name; it precedes the default.
    pub(crate) fn add_for_no_sni(&mut self, algorithm: Algorithm, place: CertificateIndex) {
        self.no_sni.add(algorithm, place);
    }

    /// The certificates for a client, best first; the others are fallbacks if the first cannot be loaded.
    ///
    /// Certificates that the client cannot verify come last: the library then sends the right alert.
    pub(crate) fn choose(
        &self,
        server_name: Option<&str>,
        verifiable: Verifiable,
    ) -> impl Iterator<Item = CertificateIndex> {
        let own = match server_name {
            Some(name) => self.named(name),
            None => [Some(self.no_sni), Some(self.default)],
        };
        let own = own.into_iter().flatten();
        let fitting = own.clone().flat_map(move |candidates| candidates.that(true, verifiable));
        let others = own.flat_map(move |candidates| candidates.that(false, verifiable));
        fitting.chain(others).chain(self.default.that(true, verifiable))
    }

    /// Whether a certificate covers the name.
    pub(crate) fn covers(&self, name: &str) -> bool {
        self.covering(name).into_iter().any(|found| found.is_some())
    }

    /// The candidates that cover the name; the default if there are none.
    fn named(&self, name: &str) -> [Option<Candidates>; 2] {
        match self.covering(name) {
            [None, None] => [Some(self.default), None],
            covering => covering,
        }
    }

    fn covering(&self, name: &str) -> [Option<Candidates>; 2] {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let exact = self.exact.get(&name).copied();
        // A wildcard covers one label (RFC 6125 §6.4.3).
        let wildcard = name.split_once('.').and_then(|(_, parent)| self.wildcard.get(parent)).copied();
        [exact, wildcard]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::Algorithm::{Ed25519, P256, P384, Rsa};

    fn index() -> NameIndex {
        let mut index = NameIndex::default();
        index.add(&["a.test".into(), "*.cdn.test".into()], Rsa, 0);
        index.add(&["a.test".into()], P256, 1);
        index.add(&["b.cdn.test".into()], P256, 2);
        index.add_default(Rsa, 3);
        index
    }

    fn first(index: &NameIndex, name: Option<&str>, verifiable: &[Algorithm]) -> Option<CertificateIndex> {
        index.choose(name, Verifiable::only(verifiable)).next()
    }

    const NEW: &[Algorithm] = &[P256, Rsa];
    const OLD: &[Algorithm] = &[Rsa];

    #[test]
    fn clients_that_accept_ecdsa_get_it_and_others_get_rsa() {
        assert_eq!(first(&index(), Some("a.test"), NEW), Some(1));
        assert_eq!(first(&index(), Some("a.test"), OLD), Some(0));
    }

    #[test]
    fn an_exact_name_beats_a_wildcard_and_a_wildcard_covers_one_label() {
        assert_eq!(first(&index(), Some("b.cdn.test"), NEW), Some(2));
        assert_eq!(first(&index(), Some("c.cdn.test"), NEW), Some(0));
        assert_eq!(first(&index(), Some("c.d.cdn.test"), NEW), Some(3));
    }

    #[test]
    fn a_wildcard_that_the_client_can_verify_beats_an_exact_name_that_it_cannot() {
        assert_eq!(first(&index(), Some("b.cdn.test"), OLD), Some(0));
    }

    #[test]
    fn no_name_and_unknown_names_get_the_default() {
        assert_eq!(first(&index(), None, NEW), Some(3));
        assert_eq!(first(&index(), Some("elsewhere.test"), OLD), Some(3));
    }

    #[test]
    fn a_certificate_for_clients_without_a_name_is_for_no_other_client() {
        let mut index = index();
        index.add_for_no_sni(Rsa, 9);
        assert_eq!(first(&index, None, NEW), Some(9));
        assert_eq!(first(&index, Some("elsewhere.test"), NEW), Some(3));
        assert_eq!(first(&index, Some("a.test"), OLD), Some(0));
    }

    #[test]
    fn names_compare_without_case_or_trailing_dot() {
        assert_eq!(first(&index(), Some("A.Test."), NEW), Some(1));
    }

    #[test]
    fn of_several_keys_the_cheapest_that_fits_comes_first_and_the_others_follow() {
        let mut index = NameIndex::default();
        for (place, algorithm) in [Rsa, P384, Ed25519, P256].into_iter().enumerate() {
            index.add(&["a.test".into()], algorithm, place);
        }
        index.add_default(Rsa, 7);
        let all = |verifiable: &[Algorithm]| {
            index.choose(Some("a.test"), Verifiable::only(verifiable)).collect::<Vec<_>>()
        };
        assert_eq!(all(&[Rsa, P384, P256]), [3, 1, 0, 2, 7]);
        assert_eq!(all(&[P384]), [1, 3, 2, 0]);
        assert_eq!(all(&[]), [3, 2, 1, 0], "the library refuses with the right alert");
    }
}
