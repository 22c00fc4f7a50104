//! Reads raw fields of a ClientHello. Malformed fields count as absent.

/// Whether the client offers to resume a session: by ticket in any version, or by session ID in TLS 1.2.
///
/// `hello` is the whole message without its header, `extension` finds the body of an extension by number.
pub fn offers_resumption<'h>(hello: &[u8], extension: impl Fn(u16) -> Option<&'h [u8]>) -> bool {
    if extension(extension::PRE_SHARED_KEY).is_some() {
        return true;
    }
    let has_ticket = extension(extension::SESSION_TICKET).is_some_and(|ticket| !ticket.is_empty());
    // A list of two-byte versions after its one-byte length.
    let versions =
        extension(extension::SUPPORTED_VERSIONS).and_then(|body| body.get(1..)).unwrap_or_default();
    // TLS 1.3 clients send random session IDs for middlebox compatibility (RFC 8446 appendix D.4).
    let is_tls13 = versions.chunks_exact(2).any(|version| version == [3, 4]);
    has_ticket || !is_tls13 && hello.get(SESSION_ID_LENGTH_AT).is_some_and(|length| *length > 0)
}

/// Whether `legacy_version` is 0x0300 or less, which ends the handshake whatever the extensions offer
/// (RFC 8446 appendix D.5).
pub(crate) fn has_obsolete_version(hello: &[u8]) -> bool {
    hello.first_chunk::<2>().is_none_or(|version| u16::from_be_bytes(*version) <= 0x0300)
}

/// Offset after the version and the random number (RFC 8446 §4.1.2).
const SESSION_ID_LENGTH_AT: usize = 2 + 32;

/// Extensions by their numbers in the IANA registry.
pub(crate) mod extension {
    pub(crate) const SUPPORTED_GROUPS: u16 = 10;
    pub(crate) const SIGNATURE_ALGORITHMS: u16 = 13;
    pub(crate) const SESSION_TICKET: u16 = 35;
    pub(crate) const PRE_SHARED_KEY: u16 = 41;
    pub(crate) const SUPPORTED_VERSIONS: u16 = 43;
    pub(crate) const TRANSPORT_PARAMETERS: u16 = 57;
}

/// The numbers of a list of two bytes each: suites, schemes, groups, versions.
pub(crate) fn numbers(list: &[u8]) -> impl Iterator<Item = u16> + '_ {
    list.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

/// The ticket that a client offers: the first pre-shared key of TLS 1.3, or that of TLS 1.2 and before.
///
/// The two are the bodies of the extensions `pre_shared_key` (RFC 8446 §4.2.11) and `session_ticket` (RFC 5077 §3.2).
/// An empty ticket only asks for one.
pub fn offered_ticket<'h>(
    pre_shared_key: Option<&'h [u8]>,
    session_ticket: Option<&'h [u8]>,
) -> Option<&'h [u8]> {
    let identity = pre_shared_key.and_then(|body| {
        let (_, identities) = body.split_first_chunk::<2>()?;
        let (length, identity) = identities.split_first_chunk::<2>()?;
        identity.get(..usize::from(u16::from_be_bytes(*length)))
    });
    identity.or(session_ticket).filter(|ticket| !ticket.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resumption_is_offered_by_ticket_or_session_id_but_not_by_a_random_id_in_tls_1_3() {
        let hello_with_id = |length: usize| {
            let mut hello = vec![3; 2 + 32];
            hello.push(u8::try_from(length).unwrap());
            hello.extend(vec![7; length]);
            hello
        };
        let versions: &[u8] = &[4, 3, 4, 3, 3];
        let only_12: &[u8] = &[2, 3, 3];
        for (id, extensions, offers) in [
            (32, &[(43, versions)][..], false),
            (32, &[(43, versions), (41, &[0])], true),
            (32, &[(43, versions), (35, &[])], false),
            (32, &[(43, versions), (35, &[1])], true),
            (32, &[(43, only_12)], true),
            (32, &[], true),
            (0, &[], false),
            (0, &[(35, &[])], false),
            (0, &[(35, &[1])], true),
        ] {
            let found = |number| extensions.iter().find(|(known, _)| *known == number).map(|(_, body)| *body);
            assert_eq!(offers_resumption(&hello_with_id(id), found), offers, "{id} {extensions:?}");
        }
        assert!(!offers_resumption(&[], |_| None));
    }

    #[test]
    fn ssl_3_and_older_are_obsolete() {
        for (version, obsolete) in
            [(0x0000, true), (0x0002, true), (0x0300, true), (0x0301, false), (0x0303, false)]
        {
            assert_eq!(has_obsolete_version(&u16::to_be_bytes(version)), obsolete, "{version:04x}");
        }
        assert!(has_obsolete_version(&[3]));
    }

    #[test]
    fn a_ticket_is_offered_in_either_extension_or_not_at_all() {
        // Length of all identities, one of three bytes with its age; then the binders.
        let psk = [0, 9, 0, 3, 1, 2, 3, 0, 0, 0, 0, 0, 33];
        assert_eq!(offered_ticket(Some(&psk), None), Some(&[1, 2, 3][..]));
        assert_eq!(offered_ticket(Some(&psk), Some(&[9])), Some(&[1, 2, 3][..]));
        assert_eq!(offered_ticket(None, Some(&[9])), Some(&[9][..]));
        assert_eq!(offered_ticket(None, Some(&[])), None);
        assert_eq!(offered_ticket(None, None), None);
        for length in 0..7 {
            assert_eq!(offered_ticket(Some(&psk[..length]), None), None, "{length} bytes");
        }
    }
}
