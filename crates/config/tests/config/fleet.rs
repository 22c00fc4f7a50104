//! The fleet: its store, its secret, and what needs it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use penstock_config::{SessionCache, StorePlace, StrikePlace};

use crate::fixture::{Fixture, around};

const NEW_SECRET: &str =
    "make one with: (umask 077; openssl rand -hex 32 > fleet.key), and copy it to each edge";
const URL: &str = "write redis://HOST:6379, rediss://HOST:6379 for TLS, or unix:///run/valkey/valkey.sock";

/// A fixture with `fleet.key` and the directory `state`.
fn with_secret(secret: &str, mode: u32) -> Fixture {
    let fixture = Fixture::new();
    let file = fixture.path().join("fleet.key");
    fs::write(&file, secret).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    let state = fixture.path().join("state");
    fs::create_dir(&state).unwrap();
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
    fixture
}

fn good() -> Fixture {
    with_secret(&format!("{}\n", "s".repeat(64)), 0o600)
}

#[test]
fn a_fleet_is_read_and_shares_what_tls_says() {
    let fixture = good();
    let lines = "\
tls: {tickets: {valkey: true}, session_cache: {valkey: true}, early_data: {register: valkey}}
fleet: {valkey: \"redis://edge:p%40ss@127.0.0.1:7000/3\", secret: fleet.key, deadline: 50ms, name: edge-1, state: state}
";
    let config = fixture.read(&around(lines)).unwrap();
    assert_eq!(fixture.shown(&config.warnings), [""; 0]);
    let fleet = config.fleet.unwrap();
    let tcp = StorePlace::Tcp { host: "127.0.0.1".to_owned(), port: 7000, authorities: None };
    assert_eq!(fleet.store.place, tcp);
    assert_eq!((fleet.store.user.as_deref(), fleet.store.database), (Some("edge"), 3));
    assert_eq!(fleet.store.password.unwrap().expose(), b"p@ss");
    assert_eq!(fleet.secret.expose(), "s".repeat(64).as_bytes());
    assert_eq!((fleet.deadline, fleet.name.as_str()), (Duration::from_millis(50), "edge-1"));
    assert_eq!(fleet.state, Some(fixture.path().join("state")));
    assert!(config.tls.tickets.shared);
    assert_eq!(config.tls.session_cache, SessionCache::Fleet);
    assert_eq!(config.tls.early_data.unwrap().register, StrikePlace::Fleet);
}

#[test]
fn without_a_word_a_fleet_shares_purges_only_and_has_a_name() {
    let fixture = good();
    let config =
        fixture.read(&around("fleet: {valkey: unix:///run/valkey.sock, secret: fleet.key}")).unwrap();
    let fleet = config.fleet.unwrap();
    assert_eq!(fleet.store.place, StorePlace::Unix("/run/valkey.sock".into()));
    assert_eq!((fleet.deadline, fleet.state), (Duration::from_millis(20), None));
    assert!(fleet.name.ends_with(":8080"), "{}", fleet.name);
    assert!(!config.tls.tickets.shared);
    assert_eq!(config.tls.session_cache, SessionCache::Internal);
    assert!(fixture.read(&around("")).unwrap().fleet.is_none());
}

#[test]
fn a_secret_that_protects_nothing_is_refused() {
    let lines = "fleet: {valkey: \"redis://127.0.0.1\", secret: fleet.key}";
    for (secret, mode, fault) in [
        ("short", 0o600, format!("secret: DIR/fleet.key has less than 32 bytes; {NEW_SECRET}")),
        (
            &*"s".repeat(64),
            0o644,
            "secret: DIR/fleet.key may be read by every user of this machine; run chmod 600 on it: its holder can read \
             traffic"
                .to_owned(),
        ),
    ] {
        let faults = with_secret(secret, mode).faults(&around(lines));
        assert_eq!(faults, [format!("edge.yaml:3: {fault}")]);
    }
    let [fault] = Fixture::new().faults(&around(lines)).try_into().unwrap();
    assert!(
        fault.starts_with("edge.yaml:3: secret: DIR/fleet.key cannot be read (")
            && fault.ends_with(NEW_SECRET)
    );
}

#[test]
fn a_password_comes_from_a_file_of_its_owner() {
    let fixture = good();
    let file = fixture.path().join("word");
    let lines = "fleet: {valkey: \"unix://edge@/run/valkey.sock\", password_file: word, secret: fleet.key}";
    let write = |text: &str, mode: u32| {
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    };
    write("p@ss word\n", 0o600);
    let store = fixture.read(&around(lines)).unwrap().fleet.unwrap().store;
    assert_eq!(store.place, StorePlace::Unix("/run/valkey.sock".into()));
    assert_eq!((store.user.as_deref(), store.password.unwrap().expose()), (Some("edge"), &b"p@ss word"[..]));
    let instead = "write the password of the store into it, on one line";
    for text in ["", "\n", "two\nlines\n"] {
        write(text, 0o600);
        let fault = format!("edge.yaml:3: password_file: DIR/word has no line of text; {instead}");
        assert_eq!(fixture.faults(&around(lines)), [fault]);
    }
    write("word", 0o644);
    let danger = "run chmod 600 on it: its holder can write to the store";
    let fault =
        format!("edge.yaml:3: password_file: DIR/word may be read by every user of this machine; {danger}");
    assert_eq!(fixture.faults(&around(lines)), [fault]);
    write("word", 0o600);
    let fault = "edge.yaml:3: password_file: valkey has a password too; remove the one in the URL, which other files \
                 repeat";
    assert_eq!(fixture.faults(&around(&lines.replace("edge@", "edge:word@"))), [fault]);
}

#[test]
fn faults_of_a_fleet_say_what_to_write() {
    let fixture = good();
    let store = "valkey: \"redis://127.0.0.1\", secret: fleet.key";
    for (lines, fault) in [
        ("fleet: {secret: fleet.key}".to_owned(), format!("fleet: there is no store; add valkey: {URL}")),
        (
            "fleet: {valkey: \"redis://127.0.0.1\"}".to_owned(),
            format!("fleet: there is no secret; add secret: FILE; {NEW_SECRET}"),
        ),
        (
            "fleet: {valkey: \"127.0.0.1:6379\", secret: fleet.key}".to_owned(),
            format!("valkey: this is not the URL of a store; {URL}"),
        ),
        (
            "fleet: {valkey: \"http://127.0.0.1\", secret: fleet.key}".to_owned(),
            format!("valkey: `http` is not the scheme of a store; {URL}"),
        ),
        (
            "fleet: {valkey: \"unix://valkey.sock\", secret: fleet.key}".to_owned(),
            format!("valkey: the path of the socket is not absolute; {URL}"),
        ),
        (
            "fleet: {valkey: \"unix://edge/valkey.sock\", secret: fleet.key}".to_owned(),
            format!("valkey: the path of the socket is not absolute; {URL}"),
        ),
        (
            format!("fleet: {{{store}, ca: ec.crt}}"),
            "ca: the store does not use TLS; remove it, or write rediss:// in valkey".to_owned(),
        ),
        (
            format!("fleet: {{{store}, deadline: 2s}}"),
            "deadline: 2s is out of range; write a time from 5ms to 1s".to_owned(),
        ),
        (
            format!("fleet: {{{store}, name: \"edge 1\"}}"),
            "name: `edge 1` cannot be the name of an edge; write up to 64 letters, digits, -, _, . or :".to_owned(),
        ),
        (
            "tls: {session_cache: {valkey: true}}".to_owned(),
            "session_cache: valkey needs a store; add fleet: {valkey: \"redis://127.0.0.1:6379\", secret: fleet.key} \
             to the file"
                .to_owned(),
        ),
        (
            format!("fleet: {{{store}}}\ntls: {{early_data: {{register: redis}}}}"),
            "register: `redis` is unknown; write process or valkey".to_owned(),
        ),
        (
            format!("fleet: {{{store}}}\ntls: {{tickets: {{valkey: true, directory: state}}}}"),
            "directory: ticket keys come from a directory or from the store, not from both; remove directory or valkey"
                .to_owned(),
        ),
    ] {
        let line = lines.lines().count() + 2;
        assert_eq!(fixture.faults(&around(&lines)), [format!("edge.yaml:{line}: {fault}")], "{lines}");
    }
}

#[test]
fn a_store_on_the_network_without_tls_is_a_warning() {
    let fixture = good();
    let lines = "fleet: {valkey: \"redis://store.example.com\", secret: fleet.key}";
    let warnings = fixture.shown(&fixture.read(&around(lines)).unwrap().warnings);
    assert_eq!(
        warnings,
        [
            "edge.yaml:3: valkey: the password and the time of each operation can be read on the network; write \
             rediss://, or encrypt the network; stored values are sealed in any case"
        ]
    );
}
