//! Faults of `key: {…}`: keyservers and hardware modules.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use penstock_config::{KeyserverConfig, RemoteKeyPlace};

use crate::fixture::{Fixture, around};

fn with_key(key: &str) -> String {
    around(&format!("tls: {{certificates: [{{chain: ec.crt, key: {key}}}]}}"))
}

/// A fixture with something that could be a module, and a PIN.
fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fs::write(fixture.path().join("module.so"), "").unwrap();
    fs::write(fixture.path().join("pin"), "1234\n").unwrap();
    fs::set_permissions(fixture.path().join("pin"), fs::Permissions::from_mode(0o600)).unwrap();
    fixture
}

#[test]
fn faults_of_keyservers_are_told_with_what_to_write() {
    let fixture = fixture();
    const WHOLE: &str =
        "write key: {keyserver: [\"keys.example.com:2407\"], ca: ca.pem, chain: edge.pem, key: edge.key}";
    let files = "ca: ec.crt, chain: ec.crt, key: ec.key";
    let host = "write such as keys.example.com:2407 or \"[2001:db8::9]:2407\"";
    for (key, fault) in [
        (
            "{}".to_owned(),
            format!(
                "key: this section names neither a keyserver nor a hardware module; {WHOLE}, or key: {{pkcs11: \
                 \"pkcs11:...\"}}"
            ),
        ),
        ("{keyserver: [\"a:1\"]}".into(), format!("key: a keyserver needs ca, chain and key; {WHOLE}")),
        (
            "{keyserver: [\"a:1\"], ca: ec.crt, chain: ec.crt}".into(),
            format!("key: a keyserver needs ca, chain and key; {WHOLE}"),
        ),
        (format!("{{keyserver: [], {files}}}"), "keyserver: there are 0 servers; write 1 to 16".into()),
        (
            format!("{{keyserver: [{}], {files}}}", ["\"a:1\""; 17].join(", ")),
            "keyserver: there are 17 servers; write 1 to 16".into(),
        ),
        (
            format!("{{keyserver: [\"a:1\"], {files}, deadline: 1ms}}"),
            "deadline: 1ms is out of range; write a time from 10ms to 1m".into(),
        ),
        (
            format!("{{keyserver: [\"a:1\"], {}}}", files.replace("ca: ec.crt", "ca: text.pem")),
            "ca: DIR/text.pem holds no certificate; write a PEM file with -----BEGIN CERTIFICATE-----".into(),
        ),
        (
            format!("{{keyserver: [\"a:1\"], {}}}", files.replace("key: ec.key", "key: other.key")),
            "key: DIR/other.key does not belong to the certificate in DIR/ec.crt; write the key this certificate was \
             issued for"
                .into(),
        ),
        (
            format!("{{keyserver: [\"a:1\"], {files}, pkcs11: \"pkcs11:\"}}"),
            "pkcs11: this key is on keyservers already; write keyserver or pkcs11; a copy in a file is a fallback".into(),
        ),
    ] {
        assert_eq!(fixture.faults(&with_key(&key)), [format!("edge.yaml:3: {fault}")], "{key}");
    }
    for wrong in ["a", "a:", "a:0", ":1", "a:65536", "2001:db8::9:1", "[a]:1", "[2001:db8::9]", "a b:1"] {
        let faults = fixture.faults(&with_key(&format!("{{keyserver: [\"{wrong}\"], {files}}}")));
        assert_eq!(faults, [format!("edge.yaml:3: keyserver: `{wrong}` is not a host with a port; {host}")]);
    }
}

#[test]
fn faults_of_hardware_modules_are_told_with_what_to_write() {
    let fixture = fixture();
    fs::write(fixture.path().join("long"), [b'1'; 5000]).unwrap();
    let library = "write the path of the module's shared library, such as /usr/lib/softhsm/libsofthsm2.so";
    let pin = "write the path of a file whose first line is the PIN";
    for (uri, fault) in [
        (
            "pkcs11:token=a?module-path=module.so",
            "pkcs11: names no key; add object=LABEL or id=%01; ".to_owned(),
        ),
        (
            "pkcs11:token=a;object=b?module-path=video",
            format!("pkcs11: module-path: DIR/video is a directory; {library}"),
        ),
        (
            "pkcs11:token=a;object=b?module-path=no.so",
            format!("pkcs11: module-path: DIR/no.so does not exist; {library}"),
        ),
        (
            "pkcs11:token=a;object=b?module-path=module.so&pin-source=file:no",
            format!("pkcs11: pin-source: DIR/no does not exist; {pin}"),
        ),
        (
            "pkcs11:token=a;object=b?module-path=module.so&pin-source=long",
            format!("pkcs11: pin-source: DIR/long is larger than 4 KiB; {pin}"),
        ),
    ] {
        let faults = fixture.faults(&with_key(&format!("{{pkcs11: \"{uri}\"}}")));
        let [shown] = &faults[..] else { panic!("{uri}: {faults:?}") };
        assert!(shown.starts_with(&format!("edge.yaml:3: {fault}")), "{uri}: {shown}");
    }
    let uri = "pkcs11: \"pkcs11:token=a;object=b?module-path=module.so\"";
    for (extra, value) in [("ca", "ec.crt"), ("chain", "ec.crt"), ("key", "ec.key")] {
        let what = format!(
            "edge.yaml:3: {extra}: a key in a hardware module has none; remove it; the module is named in the URI"
        );
        assert_eq!(fixture.faults(&with_key(&format!("{{{uri}, {extra}: {value}}}"))), [what]);
    }
    let fallback = around("tls: {certificates: [{chain: ec.crt, key: ec.key, fallback: ec.key}]}");
    let what = "edge.yaml:3: fallback: this certificate has its key in a file already; remove it, or write key: \
                {keyserver: [...]} or {pkcs11: ...}";
    assert_eq!(fixture.faults(&fallback), [what]);
}

#[test]
fn a_key_in_a_token_is_read_with_its_files_beside_the_configuration() {
    let fixture = fixture();
    let key =
        "{pkcs11: \"pkcs11:token=a%20b;id=%01?module-path=module.so&pin-source=file:pin\", deadline: 300ms}";
    let config = fixture.read(&with_key(key)).unwrap();
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    let Some(RemoteKeyPlace::Token(token)) = &config.tls.certificates[0].remote else {
        panic!("it is no token")
    };
    assert_eq!(
        (&token.uri.module, &token.uri.pin),
        (&fixture.path().join("module.so"), &Some(fixture.path().join("pin")))
    );
    assert_eq!((token.uri.token.to_string(), token.uri.key.to_string()), ("a b".to_owned(), "01".to_owned()));
    assert_eq!(token.deadline.as_millis(), 300);
    fs::set_permissions(fixture.path().join("pin"), fs::Permissions::from_mode(0o644)).unwrap();
    let warned = fixture.shown(&fixture.read(&with_key(key)).unwrap().warnings);
    assert_eq!(
        warned,
        ["edge.yaml:3: pin-source: DIR/pin may be read by every user of this machine; run chmod 600 on it"]
    );
}

#[test]
fn the_keys_of_a_keyserver_are_directories_and_tokens() {
    let fixture = fixture();
    let read = |keys: &str| {
        let file = fixture.path().join("keyserver.yaml");
        let rest = "address: 127.0.0.1:2407\nchain: ec.crt\nkey: ec.key\nca: ec.crt\nclients: [{name: a, keys: [\"*\"]}]\n";
        fs::write(&file, format!("{rest}keys: {keys}\n")).unwrap();
        KeyserverConfig::load(&file)
    };
    let uri = "pkcs11:token=a;object=b?module-path=module.so";
    let config = read(&format!("[{{directory: video}}, {{pkcs11: \"{uri}\"}}]")).unwrap();
    assert_eq!((config.directories.len(), config.tokens.len()), (1, 1));
    for (keys, fault) in [
        ("[{}]".to_owned(), "keys: this entry names neither a directory nor a hardware module"),
        (
            format!("[{{directory: video, pkcs11: \"{uri}\"}}]"),
            "keys: this entry names a directory and a hardware module",
        ),
        ("[{pkcs11: \"pkcs11:\"}]".to_owned(), "pkcs11: names no module"),
        ("[]".to_owned(), "there are no keys"),
    ] {
        let faults = read(&keys).expect_err(&keys);
        assert!(faults.iter().any(|found| found.what == fault), "{keys}: {faults:?}");
    }
}
