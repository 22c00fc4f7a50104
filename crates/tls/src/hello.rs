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
