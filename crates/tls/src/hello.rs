//! What a ClientHello says about its client, read from the raw fields.
//!
//! Everything here is a pure function of bytes a stranger sent: malformed fields read as "says nothing".

/// TLS cipher suites by their numbers in the IANA registry.
mod suite {
    pub(super) const AES_128_GCM: u16 = 0x1301;
    pub(super) const AES_256_GCM: u16 = 0x1302;
    pub(super) const CHACHA20_POLY1305: u16 = 0x1303;
    pub(super) const ECDHE_ECDSA_AES_128_GCM: u16 = 0xc02b;
    pub(super) const ECDHE_ECDSA_AES_256_GCM: u16 = 0xc02c;
    pub(super) const ECDHE_RSA_AES_128_GCM: u16 = 0xc02f;
    pub(super) const ECDHE_RSA_AES_256_GCM: u16 = 0xc030;
    pub(super) const ECDHE_RSA_CHACHA20_POLY1305: u16 = 0xcca8;
    pub(super) const ECDHE_ECDSA_CHACHA20_POLY1305: u16 = 0xcca9;
}

/// Whether the first suite of the list that we could agree on is a ChaCha20 one.
///
/// Clients without AES hardware lead with it, and only for them it is the cheaper cipher. GREASE values
/// (RFC 8701) and suites we do not speak are passed over.
pub fn leads_with_chacha20(cipher_suites: &[u8]) -> bool {
    numbers(cipher_suites).find_map(|number| match number {
        suite::CHACHA20_POLY1305
        | suite::ECDHE_RSA_CHACHA20_POLY1305
        | suite::ECDHE_ECDSA_CHACHA20_POLY1305 => Some(true),
        suite::AES_128_GCM
        | suite::AES_256_GCM
        | suite::ECDHE_ECDSA_AES_128_GCM
        | suite::ECDHE_ECDSA_AES_256_GCM
        | suite::ECDHE_RSA_AES_128_GCM
        | suite::ECDHE_RSA_AES_256_GCM => Some(false),
        _ => None,
    }) == Some(true)
}

/// Whether the client can verify an ECDSA certificate with the suites it offers.
///
/// `signature_algorithms` is the body of that extension (RFC 8446 §4.2.3), `None` when the client sent none.
pub fn accepts_ecdsa(cipher_suites: &[u8], signature_algorithms: Option<&[u8]>) -> bool {
    let suite_fits = numbers(cipher_suites).any(|number| {
        matches!(
            number,
            suite::AES_128_GCM
                | suite::AES_256_GCM
                | suite::CHACHA20_POLY1305
                | suite::ECDHE_ECDSA_AES_128_GCM
                | suite::ECDHE_ECDSA_AES_256_GCM
                | suite::ECDHE_ECDSA_CHACHA20_POLY1305
        )
    });
    // A list of two-byte schemes behind its two-byte length; the low byte 3 means ECDSA.
    let schemes = signature_algorithms.and_then(|body| body.get(2..)).unwrap_or_default();
    suite_fits && schemes.chunks_exact(2).any(|scheme| scheme[1] == 3 && (2..=6).contains(&scheme[0]))
}

/// Whether the client offers to resume a session: by ticket in any version, or by session ID in TLS 1.2.
///
/// `hello` is the whole message without its header, `extension` finds the body of an extension by number.
pub fn offers_resumption<'h>(hello: &[u8], extension: impl Fn(u16) -> Option<&'h [u8]>) -> bool {
    if extension(extension::PRE_SHARED_KEY).is_some() {
        return true;
    }
    let has_ticket = extension(extension::SESSION_TICKET).is_some_and(|ticket| !ticket.is_empty());
    // A list of two-byte versions behind its one-byte length.
    let versions =
        extension(extension::SUPPORTED_VERSIONS).and_then(|body| body.get(1..)).unwrap_or_default();
    // There, session IDs are random for the sake of middleboxes (RFC 8446 appendix D.4).
    let is_tls13 = versions.chunks_exact(2).any(|version| version == [3, 4]);
    has_ticket || !is_tls13 && hello.get(SESSION_ID_LENGTH_AT).is_some_and(|length| *length > 0)
}

/// Behind the version and the random number (RFC 8446 §4.1.2).
const SESSION_ID_LENGTH_AT: usize = 2 + 32;

/// Extensions by their numbers in the IANA registry.
mod extension {
    pub(super) const SESSION_TICKET: u16 = 35;
    pub(super) const PRE_SHARED_KEY: u16 = 41;
    pub(super) const SUPPORTED_VERSIONS: u16 = 43;
}

fn numbers(cipher_suites: &[u8]) -> impl Iterator<Item = u16> + '_ {
    cipher_suites.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suites(list: &[u16]) -> Vec<u8> {
        list.iter().flat_map(|number| number.to_be_bytes()).collect()
    }

    #[test]
    fn a_phone_that_leads_with_chacha20_is_recognised_behind_grease() {
        assert!(leads_with_chacha20(&suites(&[0x4a4a, 0x1303, 0x1301])));
        assert!(leads_with_chacha20(&suites(&[0xcca9, 0xc02b])));
    }

    #[test]
    fn a_client_with_aes_first_does_not_lead_with_chacha20() {
        assert!(!leads_with_chacha20(&suites(&[0x1301, 0x1303])));
        assert!(!leads_with_chacha20(&suites(&[0x009c, 0xc02f, 0xcca8])));
        assert!(!leads_with_chacha20(&[]));
        assert!(!leads_with_chacha20(&[0x13]));
    }

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
    fn ecdsa_needs_both_a_scheme_and_a_suite() {
        let ecdsa_p256 = [0, 2, 4, 3];
        let rsa_pss = [0, 2, 8, 4];
        assert!(accepts_ecdsa(&suites(&[0x1301]), Some(&ecdsa_p256)));
        assert!(accepts_ecdsa(&suites(&[0xc02b]), Some(&ecdsa_p256)));
        assert!(!accepts_ecdsa(&suites(&[0xc02f]), Some(&ecdsa_p256)));
        assert!(!accepts_ecdsa(&suites(&[0x1301]), Some(&rsa_pss)));
        assert!(!accepts_ecdsa(&suites(&[0x1301]), None));
        assert!(!accepts_ecdsa(&suites(&[0x1301]), Some(&[0])));
    }
}
