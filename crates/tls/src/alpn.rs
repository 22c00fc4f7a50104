//! Negotiation of the application protocol (ALPN, RFC 7301).

/// The versions of HTTP that a listener speaks; at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpVersions {
    /// HTTP/1.0 and HTTP/1.1.
    pub h1: bool,
    /// HTTP/2.
    pub h2: bool,
    /// HTTP/3, over QUIC.
    pub h3: bool,
}

impl HttpVersions {
    /// HTTP/1 alone.
    pub const H1: Self = Self { h1: true, h2: false, h3: false };
    /// HTTP/1 and HTTP/2.
    pub const H1_AND_H2: Self = Self { h1: true, h2: true, h3: false };
    /// All of them.
    pub const ALL: Self = Self { h1: true, h2: true, h3: true };
    /// HTTP/3 alone.
    pub const H3: Self = Self { h1: false, h2: false, h3: true };

    /// The versions as bits, for the library's callbacks.
    pub(crate) fn bits(self) -> u8 {
        u8::from(self.h1) | u8::from(self.h2) << 1 | u8::from(self.h3) << 2
    }

    pub(crate) fn of_bits(bits: u8) -> Self {
        Self { h1: bits & 1 != 0, h2: bits & 2 != 0, h3: bits & 4 != 0 }
    }
}

/// Name of HTTP/2 over TLS (RFC 9113 §3.2).
pub(crate) const H2: &[u8] = b"h2";

/// Name of HTTP/3 (RFC 9114 §3.1).
const H3: &[u8] = b"h3";

/// Decision about an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AlpnDecision<'a> {
    /// This one.
    Agreed(&'a [u8]),
    /// None; the handshake continues, because the client understands HTTP/1.1 without negotiation.
    NoneNeeded,
    /// None; the handshake ends with `no_application_protocol` (RFC 7301 §3.2). A client of another HTTP version would
    /// not understand the response. A client of another service may have been redirected by an attacker (ALPACA).
    Foreign,
}

/// Decides on the list of the extension, each name after its length. The library has checked the list. The server prefers
/// HTTP/2, whatever the order of the list.
pub(crate) fn choose(offered: &[u8], spoken: HttpVersions) -> AlpnDecision<'_> {
    let mut h1 = None;
    let mut speaks_http_1 = false;
    let mut foreign = false;
    for name in names(offered) {
        match name {
            H3 if spoken.h3 => return AlpnDecision::Agreed(name),
            H2 if spoken.h2 => return AlpnDecision::Agreed(name),
            b"http/1.1" if spoken.h1 => h1 = Some(name),
            _ => {}
        }
        speaks_http_1 |= spoken.h1 && is_http_1(name);
        foreign |= !is_grease(name);
    }
    match h1 {
        Some(name) => AlpnDecision::Agreed(name),
        None if foreign && !speaks_http_1 => AlpnDecision::Foreign,
        None => AlpnDecision::NoneNeeded,
    }
}

/// Versions of HTTP whose clients understand an HTTP/1.1 response: `http/1.0`, `http/0.9`.
fn is_http_1(name: &[u8]) -> bool {
    name.starts_with(b"http/")
}

/// Reserved names that clients send to keep servers tolerant (GREASE, RFC 8701 §3).
fn is_grease(name: &[u8]) -> bool {
    matches!(name, [first, second] if first == second && first & 0x0f == 0x0a)
}

fn names(mut list: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (&length, rest) = list.split_first()?;
        let (name, behind) = rest.split_at_checked(usize::from(length))?;
        list = behind;
        Some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&[u8]]) -> Vec<u8> {
        names.iter().flat_map(|name| [&[u8::try_from(name.len()).unwrap()], *name].concat()).collect()
    }

    /// The answer of a listener of HTTP/1 alone.
    fn answer(names: &[&[u8]]) -> &'static str {
        match choose(&list(names), HttpVersions::H1) {
            AlpnDecision::Agreed(name) => {
                assert_eq!(name, b"http/1.1");
                "agreed"
            }
            AlpnDecision::NoneNeeded => "none",
            AlpnDecision::Foreign => "alert",
        }
    }

    #[test]
    fn http_2_is_preferred_wherever_it_stands() {
        for offer in [&[H2][..], &[H2, b"http/1.1"], &[b"http/1.1", H2], &[b"\x0a\x0a", b"http/1.0", H2]] {
            assert_eq!(choose(&list(offer), HttpVersions::H1_AND_H2), AlpnDecision::Agreed(H2), "{offer:?}");
        }
        let both = HttpVersions::H1_AND_H2;
        assert_eq!(choose(&list(&[b"http/1.1"]), both), AlpnDecision::Agreed(b"http/1.1"));
        assert_eq!(choose(&list(&[b"http/1.0"]), both), AlpnDecision::NoneNeeded);
        assert_eq!(choose(&list(&[b"h3"]), both), AlpnDecision::Foreign);
        assert_eq!(choose(&list(&[b"H2"]), both), AlpnDecision::Foreign, "names are compared byte by byte");
    }

    #[test]
    fn a_listener_without_http_1_agrees_on_http_2_or_nothing() {
        let spoken = HttpVersions { h1: false, h2: true, h3: false };
        assert_eq!(choose(&list(&[b"http/1.1", H2]), spoken), AlpnDecision::Agreed(H2));
        assert_eq!(choose(&list(&[b"http/1.1"]), spoken), AlpnDecision::Foreign);
        assert_eq!(choose(&list(&[b"http/1.0"]), spoken), AlpnDecision::Foreign);
    }

    #[test]
    fn http_3_is_agreed_on_over_quic_alone() {
        assert_eq!(choose(&list(&[b"h3-29", H3]), HttpVersions::H3), AlpnDecision::Agreed(H3));
        assert_eq!(choose(&list(&[H2, b"http/1.1"]), HttpVersions::H3), AlpnDecision::Foreign);
        assert_eq!(choose(&list(&[b"hq-interop"]), HttpVersions::H3), AlpnDecision::Foreign);
    }

    #[test]
    fn the_versions_survive_their_bits() {
        for (h1, h2, h3) in
            [(false, true, false), (true, false, true), (true, true, false), (false, false, true)]
        {
            let versions = HttpVersions { h1, h2, h3 };
            assert_eq!(HttpVersions::of_bits(versions.bits()), versions);
        }
    }

    #[test]
    fn http_1_1_is_agreed_on_wherever_it_stands() {
        assert_eq!(answer(&[b"http/1.1"]), "agreed");
        assert_eq!(answer(&[b"h3", b"h2", b"http/1.1"]), "agreed");
        assert_eq!(answer(&[b"acme-tls/1", b"http/1.1"]), "agreed");
    }

    #[test]
    fn clients_of_an_older_http_version_are_served_without_alpn() {
        for offer in [&b"http/1.0"[..], b"http/0.9"] {
            assert_eq!(answer(&[offer]), "none");
            assert_eq!(answer(&[b"\x8a\x8a", offer]), "none");
            assert_eq!(answer(&[b"ftp", offer]), "none");
        }
    }

    #[test]
    fn clients_of_another_protocol_get_an_alert() {
        for offer in [
            &b"h2"[..],
            b"h2-16",
            b"h3",
            b"spdy/3.1",
            b"ftp",
            b"acme-tls/1",
            b"imap",
            b"smtp",
            b"xmpp-client",
            b"HTTP/1.1",
            b"\x0a\x1a",
        ] {
            assert_eq!(answer(&[offer]), "alert");
            assert_eq!(answer(&[b"\x8a\x8a", offer]), "alert");
        }
    }

    #[test]
    fn an_offer_of_grease_names_only_is_no_offer() {
        assert_eq!(answer(&[b"\x0a\x0a", b"\xfa\xfa"]), "none");
        assert_eq!(choose(&[], HttpVersions::H1), AlpnDecision::NoneNeeded);
        assert_eq!(choose(&[9, b'h'], HttpVersions::H1), AlpnDecision::NoneNeeded);
    }
}
