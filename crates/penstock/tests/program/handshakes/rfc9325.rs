//! The recommendations for TLS (RFC 9325): what they forbid is refused to every client.

use penstock_testkit::{Setup, Tool};

use super::client_hello::{ClientHello, ext, list16, numbers};
use super::fields::{Answer, ask, serves};

const HANDSHAKE_FAILURE: Answer = Answer::Alert(40);

/// Each by what forbids it: sections 4.1 and 4.2.
const FORBIDDEN: [(&str, &[u16]); 7] = [
    ("NULL and export", &[0x0000, 0x0001, 0x0002, 0x003b, 0xc006, 0xc010, 0x0003, 0x0008]),
    ("RC4", &[0x0004, 0x0005, 0xc007, 0xc011]),
    ("DES and 3DES", &[0x0009, 0x000a, 0xc008, 0xc012]),
    ("static RSA", &[0x002f, 0x0035, 0x003c, 0x003d, 0x009c, 0x009d]),
    ("static ECDH", &[0xc004, 0xc005, 0xc02d, 0xc02e, 0xc031, 0xc032]),
    ("finite field DHE", &[0x0033, 0x0039, 0x0067, 0x009e, 0x009f, 0xccaa]),
    ("CBC", &[0xc009, 0xc00a, 0xc013, 0xc014, 0xc023, 0xc024, 0xc027, 0xc028]),
];

#[test]
fn forbidden_suites_are_not_spoken() {
    let server = Setup::new().start();
    for (kind, suites) in FORBIDDEN {
        for suite in suites {
            let answer = ask(&server, &ClientHello::tls12().suites(&[*suite]).records());
            assert_eq!(answer, HANDSHAKE_FAILURE, "{kind}: {suite:04x}");
        }
    }
    serves(&server);
}

#[test]
fn compression_is_not_used_even_if_the_client_prefers_it() {
    let server = Setup::new().start();
    let hello = ClientHello { compression: vec![1, 0], ..ClientHello::tls12() };
    // Who offers it is answered; what was chosen openssl tells.
    assert!(matches!(ask(&server, &hello.records()), Answer::Hello(0x0303, _)));
    for version in ["-tls1_2", "-tls1_3"] {
        let text = Tool::s_client(&server).args([version, "-comp"]).run().ok().text();
        assert!(text.contains("Compression: NONE"), "{version}: {text}");
    }
}

#[test]
fn no_signature_uses_sha_1_even_for_clients_that_offer_nothing_else() {
    let server = Setup::new().start();
    let with = |hello: ClientHello, schemes: &[u16]| {
        ask(&server, &hello.with(ext::SIGNATURES, list16(&numbers(schemes))).records())
    };
    assert_eq!(with(ClientHello::tls12(), &[0x0101]), HANDSHAKE_FAILURE, "MD5");
    assert_eq!(with(ClientHello::tls13(), &[0x0203, 0x0201]), HANDSHAKE_FAILURE, "SHA-1 in TLS 1.3");
    // RFC 9155 section 4: a client that names no signatures means SHA-1.
    assert_eq!(with(ClientHello::tls12(), &[0x0203, 0x0201]), HANDSHAKE_FAILURE, "SHA-1 in TLS 1.2");
    let silent = ClientHello::tls12().without(ext::SIGNATURES);
    assert_eq!(ask(&server, &silent.records()), HANDSHAKE_FAILURE, "no signatures named");
    for algorithms in ["RSA+SHA1:RSA+SHA256", "ECDSA+SHA1:ECDSA+SHA256"] {
        let client = ["-tls1_2", "-sigalgs", algorithms, "-cipher", "DEFAULT@SECLEVEL=0"];
        let text = Tool::s_client(&server).args(client).run().ok().text();
        assert!(text.contains("Peer signing digest: SHA256"), "{algorithms}: {text}");
    }
    serves(&server);
}
