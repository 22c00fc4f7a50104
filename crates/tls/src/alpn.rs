//! Which application protocol is agreed on (ALPN, RFC 7301).

/// What is answered to an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice<'a> {
    /// This one, which we speak.
    Agreed(&'a [u8]),
    /// None, and the handshake goes on: such a client speaks some HTTP, and HTTP/1.1 needs no agreement.
    NoneNeeded,
    /// None, and the handshake ends: the client came for another service that a certificate of ours is good for
    /// too. Going on would let an attacker who redirected it turn one protocol's bytes into another's (ALPACA).
    Foreign,
}

/// The answer to an offer: the list of the extension, each name behind its length. The library has checked it.
pub(crate) fn choose(offered: &[u8]) -> Choice<'_> {
    let mut speaks_http = false;
    let mut foreign = false;
    for name in names(offered) {
        if name == b"http/1.1" {
            return Choice::Agreed(name);
        }
        speaks_http |= is_http(name);
        foreign |= !is_grease(name);
    }
    if foreign && !speaks_http { Choice::Foreign } else { Choice::NoneNeeded }
}

/// Other versions of HTTP and its forerunner, drafts included (`h2-16`, `spdy/3.1`).
fn is_http(name: &[u8]) -> bool {
    let families: [&[u8]; 4] = [b"http/", b"h2", b"h3", b"spdy/"];
    families.iter().any(|family| name.starts_with(family))
}

/// Names that clients make up so that servers stay used to unknown ones (RFC 8701 §3).
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
            Choice::Agreed(name) => {
                assert_eq!(name, b"http/1.1");
                "agreed"
            }
            Choice::NoneNeeded => "none",
            Choice::Foreign => "alert",
        }
    }

    #[test]
    fn http_1_1_is_agreed_on_wherever_it_stands() {
        assert_eq!(answer(&[b"http/1.1"]), "agreed");
        assert_eq!(answer(&[b"h3", b"h2", b"http/1.1"]), "agreed");
        assert_eq!(answer(&[b"acme-tls/1", b"http/1.1"]), "agreed");
    }

    #[test]
    fn who_speaks_another_http_is_served_without_an_agreement() {
        for offer in [&b"h2"[..], b"h2-16", b"h3", b"http/1.0", b"http/0.9", b"spdy/3.1"] {
            assert_eq!(answer(&[offer]), "none");
            assert_eq!(answer(&[b"\x8a\x8a", offer]), "none");
            assert_eq!(answer(&[b"ftp", offer]), "none");
        }
    }

    #[test]
    fn who_came_for_another_service_is_turned_away() {
        for offer in [&b"ftp"[..], b"acme-tls/1", b"imap", b"smtp", b"xmpp-client", b"HTTP/1.1", b"\x0a\x1a"]
        {
            assert_eq!(answer(&[offer]), "alert");
            assert_eq!(answer(&[b"\x8a\x8a", offer]), "alert");
        }
    }

    #[test]
    fn an_offer_of_nothing_but_made_up_names_is_no_offer() {
        assert_eq!(answer(&[b"\x0a\x0a", b"\xfa\xfa"]), "none");
        assert_eq!(choose(&[]), Choice::NoneNeeded);
        assert_eq!(choose(&[9, b'h']), Choice::NoneNeeded);
    }
}
