//! Which signatures a client can verify, and so which certificates it can be shown.

use crate::certificate::Algorithm;
use crate::hello::{extension, numbers};
use crate::suites::SignedBy;

/// The kinds of keys whose signatures a client can verify in the version that will be spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verifiable(u8);

/// The signatures that the server makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SignatureRules {
    /// TLS 1.3 is spoken.
    pub(crate) tls13: bool,
    /// Old clients get signatures over SHA-1 if they know nothing better.
    pub(crate) sha1: bool,
}

/// RFC 8446 §4.2.3.
mod scheme {
    pub(super) const ECDSA_P256: u16 = 0x0403;
    pub(super) const ECDSA_P384: u16 = 0x0503;
    pub(super) const ECDSA_P521: u16 = 0x0603;
    pub(super) const ED25519: u16 = 0x0807;
    /// Those of RSA keys that may sign a TLS 1.3 handshake.
    pub(super) const RSA_PSS: [u16; 3] = [0x0804, 0x0805, 0x0806];
    /// Those that may sign only older ones.
    pub(super) const RSA_PKCS1: [u16; 4] = [0x0201, 0x0401, 0x0501, 0x0601];
    /// Those over SHA-1, of RSA and ECDSA keys.
    pub(super) const WITH_SHA1: [u16; 2] = [0x0201, 0x0203];
    /// Before TLS 1.3 the scheme names a hash, and the curve is that of the certificate.
    pub(super) const ECDSA: [u16; 4] = [0x0203, ECDSA_P256, ECDSA_P384, ECDSA_P521];
}

/// Groups by their numbers in the IANA registry.
mod group {
    pub(super) const P256: u16 = 23;
    pub(super) const P384: u16 = 24;
    pub(super) const P521: u16 = 25;
}

impl Verifiable {
    /// Reads what a client offers: its cipher suites and, by number, its extensions.
    pub(crate) fn of<'h>(
        suites: SignedBy,
        find: impl Fn(u16) -> Option<&'h [u8]>,
        rules: SignatureRules,
    ) -> Self {
        let versions = find(extension::SUPPORTED_VERSIONS).and_then(|body| body.get(1..)).unwrap_or_default();
        let schemes = find(extension::SIGNATURE_ALGORITHMS).map(|body| body.get(2..).unwrap_or_default());
        if rules.tls13 && numbers(versions).any(|version| version == 0x0304) {
            return Self::in_tls13(schemes.unwrap_or_default());
        }
        let groups = find(extension::SUPPORTED_GROUPS).and_then(|body| body.get(2..)).unwrap_or_default();
        Self::in_tls12(suites, schemes, groups, rules.sha1)
    }

    /// Each scheme stands for one curve, and RSA signs with PSS only (RFC 8446 §4.2.3).
    fn in_tls13(schemes: &[u8]) -> Self {
        Self::where_true(|algorithm| {
            numbers(schemes).any(|offered| match algorithm {
                Algorithm::P256 => offered == scheme::ECDSA_P256,
                Algorithm::P384 => offered == scheme::ECDSA_P384,
                Algorithm::P521 => offered == scheme::ECDSA_P521,
                Algorithm::Ed25519 => offered == scheme::ED25519,
                Algorithm::Rsa => scheme::RSA_PSS.contains(&offered),
            })
        })
    }

    /// Without the extension a client takes SHA-1 with every key that goes with its suites (RFC 5246 §7.4.1.4.1), and
    /// gets none if the server does not sign with SHA-1 (RFC 9155 §4). The curve of an ECDSA certificate has to be among its groups
    /// (RFC 8422 §5.1).
    fn in_tls12(suites: SignedBy, schemes: Option<&[u8]>, groups: &[u8], sha1: bool) -> Self {
        let made = |offered: u16| sha1 || !scheme::WITH_SHA1.contains(&offered);
        let has_scheme = |wanted: &dyn Fn(u16) -> bool| match schemes {
            Some(list) => numbers(list).filter(|offered| made(*offered)).any(wanted),
            None => sha1,
        };
        let ecdsa = suites.ecdsa && has_scheme(&|offered| scheme::ECDSA.contains(&offered));
        let has_group = |wanted| numbers(groups).any(|offered| offered == wanted);
        Self::where_true(|algorithm| match algorithm {
            Algorithm::P256 => ecdsa && has_group(group::P256),
            Algorithm::P384 => ecdsa && has_group(group::P384),
            Algorithm::P521 => ecdsa && has_group(group::P521),
            // Ed25519 uses the suites of ECDSA (RFC 8422 §5.10), and no client accepts it by default.
            Algorithm::Ed25519 => {
                schemes.is_some() && suites.ecdsa && has_scheme(&|offered| offered == scheme::ED25519)
            }
            Algorithm::Rsa => {
                let fits =
                    |offered| scheme::RSA_PSS.contains(&offered) || scheme::RSA_PKCS1.contains(&offered);
                suites.rsa && has_scheme(&fits)
            }
        })
    }

    /// Whether signatures with this kind of key can be verified.
    pub(crate) fn has(self, algorithm: Algorithm) -> bool {
        self.0 & bit(algorithm) != 0
    }

    fn where_true(can: impl Fn(Algorithm) -> bool) -> Self {
        let verifiable = Algorithm::ALL.into_iter().filter(|algorithm| can(*algorithm));
        Self(verifiable.fold(0, |bits, algorithm| bits | bit(algorithm)))
    }

    /// For tests of others.
    #[cfg(test)]
    pub(crate) fn only(list: &[Algorithm]) -> Self {
        Self::where_true(|algorithm| list.contains(&algorithm))
    }
}

fn bit(algorithm: Algorithm) -> u8 {
    1 << (algorithm as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::Algorithm::{Ed25519, P256, P384, P521, Rsa};

    /// The body of an extension that is a list of numbers, behind a length field.
    fn list(length_bytes: usize, numbers: &[u16]) -> Vec<u8> {
        let mut body = vec![0; length_bytes];
        body.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
        body
    }

    struct Hello<'a> {
        tls13: bool,
        suites: SignedBy,
        schemes: Option<&'a [u16]>,
        groups: &'a [u16],
        sha1: bool,
    }

    impl Hello<'_> {
        fn verifies(&self) -> Vec<Algorithm> {
            let versions = list(1, if self.tls13 { &[0x7a7a, 0x0304, 0x0303] } else { &[0x0303] });
            let schemes = self.schemes.map(|schemes| list(2, schemes));
            let groups = list(2, self.groups);
            let find = |number| match number {
                43 => Some(&versions[..]),
                13 => schemes.as_deref(),
                10 => Some(&groups[..]),
                _ => None,
            };
            let found = Verifiable::of(self.suites, find, SignatureRules { tls13: true, sha1: self.sha1 });
            Algorithm::ALL.into_iter().filter(|algorithm| found.has(*algorithm)).collect()
        }
    }

    const NONE: SignedBy = SignedBy { ecdsa: false, rsa: false };
    const ECDSA: SignedBy = SignedBy { ecdsa: true, rsa: false };
    const RSA: SignedBy = SignedBy { ecdsa: false, rsa: true };
    const BOTH: SignedBy = SignedBy { ecdsa: true, rsa: true };

    #[test]
    fn in_tls_1_3_each_curve_has_its_own_scheme_and_rsa_needs_pss() {
        let tls13 =
            |schemes| Hello { tls13: true, suites: NONE, schemes: Some(schemes), groups: &[29], sha1: false };
        assert_eq!(tls13(&[0x0403, 0x0804, 0x0401]).verifies(), [P256, Rsa]);
        assert_eq!(tls13(&[0x0503]).verifies(), [P384]);
        assert_eq!(tls13(&[0x0603, 0x0203]).verifies(), [P521]);
        assert_eq!(tls13(&[0x0807]).verifies(), [Ed25519]);
        assert_eq!(tls13(&[0x0401, 0x0601, 0x0201]).verifies(), []);
        assert_eq!(tls13(&[]).verifies(), []);
    }

    #[test]
    fn in_tls_1_2_a_key_needs_a_suite_a_scheme_and_a_curve() {
        let tls12 = |suites, schemes, groups| {
            Hello { tls13: false, suites, schemes: Some(schemes), groups, sha1: false }.verifies()
        };
        assert_eq!(tls12(BOTH, &[0x0403, 0x0401], &[29, 23]), [P256, Rsa]);
        assert_eq!(tls12(BOTH, &[0x0403, 0x0401], &[29]), [Rsa], "P-256 is not among the groups");
        assert_eq!(tls12(BOTH, &[0x0403], &[23, 24]), [P256, P384], "the scheme names only a hash");
        assert_eq!(tls12(RSA, &[0x0403, 0x0401], &[23]), [Rsa], "no suite for ECDSA");
        assert_eq!(tls12(ECDSA, &[0x0403, 0x0401], &[23]), [P256], "no suite for RSA");
        assert_eq!(tls12(BOTH, &[0x0804], &[23]), [Rsa], "RSA-PSS only");
        assert_eq!(tls12(BOTH, &[0x0807], &[29]), [Ed25519]);
        assert_eq!(tls12(RSA, &[0x0807], &[29]), []);
        assert_eq!(tls12(NONE, &[0x0403, 0x0401], &[23]), [], "only suites that the server does not have");
    }

    #[test]
    fn a_client_without_signature_algorithms_takes_sha_1_if_the_server_makes_such_signatures() {
        let old =
            |suites, groups, sha1| Hello { tls13: false, suites, schemes: None, groups, sha1 }.verifies();
        assert_eq!(old(RSA, &[23], true), [Rsa]);
        assert_eq!(old(BOTH, &[23], true), [P256, Rsa]);
        assert_eq!(old(BOTH, &[], true), [Rsa]);
        assert_eq!(old(BOTH, &[23], false), []);
    }

    #[test]
    fn signatures_over_sha_1_count_only_if_the_server_makes_them() {
        let schemes = Some(&[0x0203, 0x0201][..]);
        let old = |sha1| Hello { tls13: false, suites: BOTH, schemes, groups: &[23], sha1 }.verifies();
        assert_eq!(old(true), [P256, Rsa]);
        assert_eq!(old(false), []);
    }

    #[test]
    fn malformed_lists_say_nothing() {
        for body in [&[][..], &[0], &[0, 2], &[0, 2, 4], &[0, 3, 4, 3, 5]] {
            let found = Verifiable::of(NONE, |_| Some(body), SignatureRules { tls13: true, sha1: true });
            assert!(found.0 & !bit(P256) == 0, "{body:?}");
        }
    }

    #[test]
    fn a_server_without_tls_1_3_judges_by_the_older_rules() {
        let versions = list(1, &[0x0304, 0x0303]);
        let schemes = list(2, &[0x0401]);
        let find = |number| match number {
            43 => Some(&versions[..]),
            13 => Some(&schemes[..]),
            _ => None,
        };
        let of = |tls13| Verifiable::of(RSA, find, SignatureRules { tls13, sha1: false });
        assert!(of(false).has(Rsa));
        assert!(!of(true).has(Rsa));
    }
}
