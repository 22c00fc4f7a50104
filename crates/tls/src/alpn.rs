//! Negotiation of the application protocol (ALPN, RFC 7301).

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

/// Decides on the list of the extension, each name after its length. The library has checked the list.
pub(crate) fn choose(offered: &[u8]) -> AlpnDecision<'_> {
    let mut speaks_http_1 = false;
    let mut foreign = false;
    for name in names(offered) {
        if name == b"http/1.1" {
            return AlpnDecision::Agreed(name);
        }
        speaks_http_1 |= is_http_1(name);
        foreign |= !is_grease(name);
    }
    if foreign && !speaks_http_1 { AlpnDecision::Foreign } else { AlpnDecision::NoneNeeded }
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

    fn answer(names: &[&[u8]]) -> &'static str {
        let list: Vec<u8> =
            names.iter().flat_map(|name| [&[u8::try_from(name.len()).unwrap()], *name].concat()).collect();
        match choose(&list) {
            AlpnDecision::Agreed(name) => {
                assert_eq!(name, b"http/1.1");
                "agreed"
            }
            AlpnDecision::NoneNeeded => "none",
            AlpnDecision::Foreign => "alert",
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
        assert_eq!(choose(&[]), AlpnDecision::NoneNeeded);
        assert_eq!(choose(&[9, b'h']), AlpnDecision::NoneNeeded);
    }
}
