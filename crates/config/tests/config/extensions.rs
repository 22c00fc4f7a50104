//! Faults and warnings of `ocsp` and `ech`.

use std::fs;

use penstock_tls::ech::EchKey;

use crate::fixture::{Fixture, around};

#[test]
fn faults_of_ocsp_are_told_with_what_to_write() {
    let fixture = Fixture::new();
    for (lines, fault) in [
        (
            "tls: {ocsp: maybe}",
            "edge.yaml:3: ocsp: `maybe` is unknown; write auto, off or {file: staple.der}",
        ),
        ("tls: {ocsp: {}}", "edge.yaml:3: ocsp: no file is named; write {file: staple.der} or auto"),
        (
            "tls: {ocsp: {file: video}}",
            "edge.yaml:3: file: DIR/video is not a regular file; write the path of a file",
        ),
        (
            "tls: {ocsp: {file: huge.pem}}",
            "edge.yaml:3: file: DIR/huge.pem is larger than 64KiB; write a file in DER",
        ),
        (
            "tls: {ocsp: {file: none.der}}",
            "edge.yaml:3: file: DIR/none.der cannot be read (No such file or directory (os error 2)); make it with: \
             openssl ocsp -respout FILE ...",
        ),
        (
            "tls: {certificates: [{chain: ec.crt, key: ec.key, ocsp: soon}]}",
            "edge.yaml:3: ocsp: `soon` is unknown; write auto, off or {file: staple.der}",
        ),
    ] {
        assert_eq!(fixture.faults(&around(lines)), [fault], "{lines}");
    }
}

#[test]
fn faults_of_ech_are_told_with_what_to_write() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path().join("keys")).unwrap();
    for (lines, fault) in [
        (
            "tls: {ech: {}}",
            "edge.yaml:3: ech: no directory is named; write {directory: ech-keys}, and fill it with: penstock ech new",
        ),
        (
            "tls: {versions: [\"1.2\"], ech: {directory: keys}}",
            "edge.yaml:3: ech: it needs TLS 1.3; add \"1.3\" to versions, or remove ech",
        ),
    ] {
        assert_eq!(fixture.faults(&around(lines)), [fault], "{lines}");
    }
    for wrong in ["none", "text.pem"] {
        let faults = fixture.faults(&around(&format!("tls: {{ech: {{directory: {wrong}}}}}")));
        let [fault] = &faults[..] else { panic!("{faults:?}") };
        assert!(fault.starts_with(&format!("edge.yaml:3: directory: DIR/{wrong} ")), "{fault}");
    }
}

#[test]
fn a_public_name_that_no_certificate_is_for_is_a_warning() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path().join("keys")).unwrap();
    for (id, name) in [(0, "EC.example.com"), (1, "public.example.com")] {
        let key = EchKey::generate(name, id, 64).unwrap();
        fs::write(fixture.path().join(format!("keys/{id}.pem")), key.to_pem().as_bytes()).unwrap();
    }
    let lines = "tls: {certificates: [{chain: ec.crt, key: ec.key}], ech: {directory: keys}}";
    let warnings = fixture.shown(&fixture.read(&around(lines)).unwrap().warnings);
    let warning = "edge.yaml:3: ech: no certificate is for the public name public.example.com; add one: clients with \
                   an outdated key need it to learn the new one";
    assert_eq!(warnings.iter().filter(|one| one.contains("ech:")).collect::<Vec<_>>(), [warning]);
}
