//! Certificates that are ordered from an authority.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use penstock_config::{AcmeChallenge, AcmeKey};

use crate::fixture::Fixture;

/// A configuration with these keys of `tls.acme`, further keys of `tls`, and hosts.
fn with(keys: &str, tls: &str, hosts: &str) -> String {
    format!(
        "listeners: [{{address: \"127.0.0.1:8080\"}}, {{address: \"127.0.0.1:8443\", tls: true}}]\n\
         tls: {{acme: {{{keys}}}{tls}}}\n\
         sites: [{{hosts: [{hosts}], origin: {{directory: video}}}}]\n"
    )
}

const USUAL: &str = "agree_to_terms: true, ca_file: ec.crt, storage: acme";

#[test]
fn hosts_without_a_certificate_are_ordered() {
    let fixture = Fixture::new();
    let hosts = "a.example.com, ec.example.com, \"192.0.2.1\", localhost, b.example.com";
    let tls = ", certificates: [{chain: ec.crt, key: ec.key}]";
    let config = fixture.read(&with(USUAL, tls, hosts)).unwrap();
    let acme = config.tls.acme.unwrap();
    assert_eq!(acme.names, ["a.example.com", "b.example.com"]);
    assert_eq!((acme.challenge.clone(), acme.key), (AcmeChallenge::Http01, AcmeKey::EcdsaP256));
    assert_eq!(acme.directory, "https://acme-v02.api.letsencrypt.org/directory");
    assert_eq!(acme.label(), "acme-v02.api.letsencrypt.org_directory");
    assert!(acme.certificate("*.a.example.com").ends_with("_.a.example.com.pem"));
    for wrong in ["", "..", "a/b", "a.b", "\u{e4}", &"x".repeat(200)] {
        assert_eq!(acme.http_answer(wrong), None, "{wrong}");
    }
    assert!(acme.http_answer("LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0").is_some());
}

#[test]
fn wildcards_need_a_record() {
    let fixture = Fixture::new();
    let command = fixture.path().join("set");
    fs::write(&command, "#!/bin/sh\n").unwrap();
    let dns = format!("{USUAL}, challenge: dns-01, command: set");
    let hosts = "\"*.example.com\", other.example.com";
    assert_eq!(
        fixture.faults(&with(&dns, "", hosts)),
        [
            "edge.yaml:2: command: DIR/set is not a program; write the path of a file with chmod +x, without arguments"
        ]
    );
    fs::set_permissions(&command, fs::Permissions::from_mode(0o700)).unwrap();
    let config = fixture.read(&with(&dns, "", hosts)).unwrap();
    assert_eq!(config.tls.acme.unwrap().names, ["*.example.com", "other.example.com"]);
    let config = fixture.read(&with(USUAL, "", hosts)).unwrap();
    assert_eq!(
        fixture.shown(&config.warnings),
        [
            "edge.yaml:2: acme: *.example.com gets no certificate: http-01 proves single names; write challenge: dns-01, \
          or list the names"
        ]
    );
}

#[test]
fn mistakes_are_told_with_what_to_write() {
    let fixture = Fixture::new();
    let host = "a.example.com";
    for (keys, fault) in [
        (
            "ca_file: ec.crt",
            "acme: the terms of the certificate authority have not been agreed to; read them, and write agree_to_terms: \
             true",
        ),
        (
            "agree_to_terms: true, ca_file: ec.crt, directory: \"http://ca.example\"",
            "directory: `http://ca.example` is not a URL of https; write the URL of the authority, such as \
             https://acme-v02.api.letsencrypt.org/directory",
        ),
        (
            "agree_to_terms: true, ca_file: ec.crt, email: ops",
            "email: `ops` is not an address; write an address such as ops@example.com",
        ),
        (
            "agree_to_terms: true, ca_file: ec.crt, valkey: true",
            "valkey: valkey needs a store; add fleet: {valkey: \"redis://127.0.0.1:6379\", secret: fleet.key} to the file",
        ),
        (
            "agree_to_terms: true, ca_file: ec.crt, key: rsa",
            "key: `rsa` is unknown; write ecdsa-p256 or ecdsa-p384",
        ),
        (
            "agree_to_terms: true, ca_file: ec.crt, challenge: http",
            "challenge: `http` is unknown; write http-01, tls-alpn-01 or dns-01",
        ),
        (
            "agree_to_terms: true, ca_file: ec.crt, challenge: dns-01",
            "acme: dns-01 needs a command; add command: FILE, which sets the record",
        ),
        (
            "agree_to_terms: true, ca_file: ec.crt, storage: ec.crt",
            "storage: DIR/ec.crt is not a directory; write the path of a directory",
        ),
        (
            "agree_to_terms: true, ca_file: ec.crt, external_account: {id: one, key_file: text.pem}",
            "key_file: DIR/text.pem holds no key in base64url; write {id: ID, key_file: FILE}, with the key in base64url \
             in the file",
        ),
    ] {
        assert_eq!(fixture.faults(&with(keys, "", host)), [format!("edge.yaml:2: {fault}")]);
    }
    assert_eq!(
        fixture.faults(&with(USUAL, "", "\"*\"")),
        [
            "edge.yaml:2: acme: no site has a host that needs a certificate; write the names in hosts of the sites, such \
          as hosts: [video.example.com]"
        ]
    );
    let plain = with(USUAL, "", host).replace("{address: \"127.0.0.1:8080\"}, ", "");
    assert_eq!(
        fixture.faults(&plain),
        [
            "edge.yaml:2: acme: http-01 needs a listener of plain HTTP, which is reached on port 80; add {address: \
          0.0.0.0:80, redirect: https} to listeners, or write challenge: tls-alpn-01"
        ]
    );
}
