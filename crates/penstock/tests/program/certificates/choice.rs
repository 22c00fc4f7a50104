//! Chosen by what the client can verify and by the name it asks for.

use std::fs;

use penstock_testkit::{Certificates, Server, Setup, Tool, rsa_key};
use rcgen::{KeyPair, PKCS_ECDSA_P384_SHA384};

use super::{connect, shown};

const HOSTS: &[&str] = &["localhost"];

/// A server with one certificate of each kind of key for the same host, the dearest first.
fn every_kind() -> Server {
    let server = Setup::new().start();
    let certificates = server.certificates();
    certificates.leaf("p384", HOSTS, &KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap());
    // In the plain form that OpenSSL writes (RFC 8410).
    let ed25519 = Tool::new("openssl").args(["genpkey", "-algorithm", "ed25519"]).run().ok().text();
    certificates.leaf("ed25519", HOSTS, &KeyPair::from_pem(&ed25519).unwrap());
    let setup = Setup::new().tls(&Certificates::yaml(&["rsa", "p384", "ed25519", "ec"]));
    server.reload(&setup);
    server
}

#[test]
fn each_client_gets_the_cheapest_certificate_that_it_can_verify() {
    let server = every_kind();
    let new = "X25519:P-256";
    for (sigalgs, version, groups, certificate) in [
        ("ECDSA+SHA256:RSA-PSS+SHA256:ed25519", "-tls1_3", new, "ec"),
        ("ed25519:RSA-PSS+SHA256", "-tls1_3", new, "ed25519"),
        ("ed25519:RSA+SHA256", "-tls1_2", new, "ed25519"),
        ("ECDSA+SHA384:RSA-PSS+SHA256", "-tls1_3", new, "p384"),
        ("RSA-PSS+SHA256", "-tls1_3", new, "rsa"),
        ("RSA-PSS+SHA256", "-tls1_2", new, "rsa"),
        ("RSA+SHA1:RSA+SHA512", "-tls1_2", new, "rsa"),
        // The scheme names only a hash, so that the groups tell which curves are known.
        ("ECDSA+SHA256:RSA+SHA256", "-tls1_2", "X25519:P-384", "p384"),
        ("ECDSA+SHA256:RSA+SHA256", "-tls1_2", "X25519", "rsa"),
    ] {
        let client = [version, "-sigalgs", sigalgs, "-groups", groups, "-cipher", "DEFAULT@SECLEVEL=0"];
        assert_eq!(shown(&server, &client), certificate, "{sigalgs} {version} {groups}");
    }
}

#[test]
fn a_client_that_can_verify_none_of_them_gets_an_alert() {
    let setup = Setup::new().tls(&Certificates::yaml(&["ec"]));
    let server = setup.start();
    for version in ["-tls1_2", "-tls1_3"] {
        let refused = connect(&server, &[version, "-sigalgs", "RSA-PSS+SHA256"]);
        assert!(refused.stderr.contains("alert handshake failure"), "{version}: {}", refused.stderr);
    }
}

#[test]
fn clients_without_a_name_can_have_a_certificate_of_their_own() {
    // As one did for Windows XP: both are for the same host, and only old clients send no name.
    let certificates = "certificates:\n- {chain: rsa.crt, key: rsa.key, default: no_sni}\n\
                        - {chain: old.crt, key: old.key}\n- {chain: other.crt, key: other.key, default: true}";
    let server = Setup::new().start();
    server.certificates().leaf("old", &["localhost"], &KeyPair::from_pem(rsa_key()).unwrap());
    server.reload(&Setup::new().tls(certificates));
    assert_eq!(shown(&server, &[]), "rsa");
    assert_eq!(shown(&server, &["-servername", "localhost"]), "old");
    assert_eq!(shown(&server, &["-servername", "elsewhere.example"]), "other");
    // Who has no name and does not know RSA still gets what there is.
    assert_eq!(shown(&server, &["-sigalgs", "ECDSA+SHA256"]), "other");
}

#[test]
fn names_that_are_no_host_names_get_the_default_and_others_compare_without_case_and_final_dot() {
    let server = Setup::new().start();
    server.reload(&Setup::new().tls(&Certificates::yaml(&["ec", "wild"])));
    // Health checks and set-top boxes ask by address (RFC 6066 §3 has no address literals).
    let long = format!("{}.example", "a".repeat(240));
    for name in ["192.0.2.1", "::1", "[::1]", "[x]", "a..b", "-", "*", &long] {
        assert_eq!(shown(&server, &["-servername", name]), "ec", "{name}");
    }
    for name in ["A.WILD.example", "a.wild.example."] {
        assert_eq!(shown(&server, &["-servername", name]), "wild", "{name}");
    }
}

#[test]
fn the_chain_goes_out_with_its_intermediates_and_without_its_root() {
    let server = Setup::new().start();
    let key = KeyPair::generate().unwrap();
    let chain = server.certificates().pem_of_three("three", HOSTS, &key);
    assert_eq!(chain.matches("BEGIN CERTIFICATE").count(), 3);
    fs::write(server.certificates().path("three.crt"), chain).unwrap();
    fs::write(server.certificates().path("three.key"), key.serialize_pem()).unwrap();
    server.reload(&Setup::new().tls(&Certificates::yaml(&["three"])));
    for version in ["-tls1_2", "-tls1_3"] {
        let text = connect(&server, &[version, "-showcerts"]).ok().text();
        let sent: Vec<&str> = text
            .lines()
            .filter_map(|line| line.trim_start().split_once(" s:CN = ").map(|(_, subject)| subject))
            .collect();
        assert_eq!(sent, ["three", "Test intermediate"], "{version}: {text}");
        assert!(text.contains("Verify return code: 0 (ok)"), "{version}: {text}");
    }
}
