//! Session ticket keys, and what is said about the directory they are shared in.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use penstock_config::Tickets;
use penstock_tls::tickets::TicketPolicy;

use crate::fixture::{Fixture, around};

const KEYS: &str = "tls: {tickets: {directory: keys}}";

/// A fixture with the directory `keys`, and these files in it.
fn with_files(files: &[(&str, &[u8], u32)]) -> Fixture {
    let fixture = Fixture::new();
    let directory = fixture.path().join("keys");
    fs::create_dir(&directory).unwrap();
    for (name, content, mode) in files {
        fs::write(directory.join(name), content).unwrap();
        fs::set_permissions(directory.join(name), fs::Permissions::from_mode(*mode)).unwrap();
    }
    fixture
}

fn key() -> Vec<u8> {
    (100..180).collect()
}

/// The report on a right configuration that uses this directory.
fn warnings(fixture: &Fixture) -> Vec<String> {
    fixture.shown(&fixture.read(&around(KEYS)).unwrap().warnings)
}

#[test]
fn a_directory_of_keys_is_taken_without_a_word() {
    let fixture = with_files(&[("a.key", &key(), 0o600)]);
    let lines = "tls: {tickets: {directory: keys, rotate: 6h, keep: 4, introduction: 2m}}";
    let config = fixture.read(&around(lines)).unwrap();
    assert_eq!(fixture.shown(&config.warnings), [""; 0]);
    let policy = TicketPolicy {
        rotate: Duration::from_secs(6 * 3600),
        keep: 4,
        introduction: Duration::from_secs(120),
    };
    assert_eq!(
        config.tls.tickets,
        Tickets { directory: Some(fixture.path().join("keys")), shared: false, policy }
    );
}

#[test]
fn garbage_is_named_with_what_is_wrong() {
    let fixture = with_files(&[
        ("a.key", &key(), 0o600),
        ("b.key", b"\xff\xff\xff", 0o600),
        ("c.key", b"hello", 0o600),
    ]);
    assert_eq!(
        warnings(&fixture),
        [
            "edge.yaml:3: directory: DIR/keys/b.key has 3 bytes: a key has 48 or 80, or one line of Base64; it is \
             ignored: remove or replace it",
            "edge.yaml:3: directory: DIR/keys/c.key has no key of 48 or 80 bytes in Base64 in line 1; it is ignored: \
             remove or replace it",
        ]
    );
}

#[test]
fn a_key_that_every_user_may_read_is_a_warning() {
    let fixture = with_files(&[("a.key", &key(), 0o644)]);
    assert_eq!(
        warnings(&fixture),
        [
            "edge.yaml:3: directory: DIR/keys/a.key may be read by every user of this machine; run chmod 600 on it; its \
             holder can read traffic"
        ]
    );
}

#[test]
fn an_empty_directory_is_a_warning() {
    assert_eq!(
        warnings(&with_files(&[])),
        [
            "edge.yaml:3: directory: there is no ticket key in DIR/keys; until there is one a random key seals, which no \
          other machine has: run penstock tickets rotate on the directory"
        ]
    );
}

/// On a tmpfs it is gone after a reboot, which must not keep the server from starting.
#[test]
fn a_directory_that_is_not_there_is_a_warning_and_a_file_in_its_place_a_fault() {
    let fixture = Fixture::new();
    let config = fixture.read(&around(KEYS)).unwrap();
    let warnings: Vec<String> = fixture.shown(&config.warnings);
    assert_eq!(
        warnings,
        [
            "edge.yaml:3: directory: DIR/keys cannot be listed (No such file or directory (os error 2)); until it can be, a \
             random key seals, which no other machine has"
        ]
    );
    fs::write(fixture.path().join("keys"), "a file").unwrap();
    assert_eq!(
        fixture.faults(&around(KEYS)),
        ["edge.yaml:3: directory: DIR/keys is not a directory; write the path of a directory"]
    );
}
