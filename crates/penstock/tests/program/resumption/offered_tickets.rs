//! Tickets that clients offer and no server made, or made too long ago: a full handshake, never a failure, counted.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use boring::ssl::{
    Ssl, SslContext, SslMethod, SslRef, SslSession, SslSessionCacheMode, SslVerifyMode, SslVersion,
};
use penstock_sys::ssl::client;
use penstock_testkit::{Certificates, Client, Server, Setup, until};

use super::{BODY, start};

const VERSIONS: [SslVersion; 2] = [SslVersion::TLS1_2, SslVersion::TLS1_3];

/// One fetch, with this session offered; whether it was resumed, and the last session that the server gave.
fn fetch(server: &Server, version: SslVersion, offered: Option<&SslSession>) -> (bool, Option<SslSession>) {
    let given = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&given);
    let mut context = SslContext::builder(SslMethod::tls()).unwrap();
    context.set_verify(SslVerifyMode::NONE);
    context.set_min_proto_version(Some(version)).unwrap();
    context.set_max_proto_version(Some(version)).unwrap();
    context.set_session_cache_mode(SslSessionCacheMode::CLIENT | SslSessionCacheMode::NO_INTERNAL);
    context.set_new_session_callback(move |_: &mut SslRef, session| {
        *keep.lock().unwrap() = Some(session);
    });
    let mut ssl = Ssl::new(&context.build()).unwrap();
    ssl.set_hostname("localhost").unwrap();
    if let Some(session) = offered {
        client::offer_live_session(&mut ssl, session).unwrap();
    }
    let mut stream = ssl.connect(Client::connect(server.https()).stream).unwrap();
    stream.write_all(b"GET /a.mp4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with(BODY), "{answer}");
    let resumed = stream.ssl().session_reused();
    let session = given.lock().unwrap().take();
    (resumed, session)
}

/// A session of this server.
fn session_of(server: &Server, version: SslVersion) -> SslSession {
    let (resumed, session) = fetch(server, version, None);
    assert!(!resumed);
    session.expect("a session")
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn offered(server: &Server, outcome: &str) -> f64 {
    server.metrics().sum("penstock_tls_tickets_offered_total", &[&format!("outcome=\"{outcome}\"")])
}

#[test]
fn a_forged_cut_or_blown_up_ticket_gets_a_full_handshake_and_is_counted() {
    let server = start(Setup::new());
    for version in VERSIONS {
        let session = session_of(&server, version);
        let ticket = client::ticket_of(&session);
        assert!(fetch(&server, version, Some(&session)).0, "the ticket as it was given");
        let flipped = |place: usize| {
            let mut flipped = ticket.clone();
            flipped[place] ^= 1;
            flipped
        };
        let last = ticket.len() - 1;
        for (what, forged, outcome) in [
            ("its name", flipped(3), "unknown_key"),
            ("its initialisation vector", flipped(20), "forged"),
            ("its content", flipped(60), "forged"),
            ("its authentication code", flipped(last), "forged"),
            ("cut by a byte", ticket[..last].to_vec(), "forged"),
            ("cut to its vector", ticket[..40].to_vec(), "forged"),
            ("cut to its name", ticket[..16].to_vec(), "forged"),
            ("one byte", vec![0], "forged"),
            ("longer", [ticket.clone(), vec![7; 1000]].concat(), "forged"),
            ("huge", [ticket.clone(), vec![7; 12_000]].concat(), "forged"),
            ("nothing of ours", vec![0xaa; 200], "unknown_key"),
        ] {
            let before = offered(&server, outcome);
            let forged = client::with_ticket(&session, &forged, now()).unwrap();
            let (resumed, next) = fetch(&server, version, Some(&forged));
            assert!(!resumed, "{version:?}: {what}");
            assert_eq!(offered(&server, outcome), before + 1.0, "{version:?}: {what}");
            assert!(next.is_some(), "{version:?}: {what}: a good ticket follows");
        }
    }
    let failed = server.metrics().sum("penstock_handshakes_total", &["outcome=\"failed\""]);
    assert_eq!(failed, 0.0);
}

#[test]
fn an_expired_ticket_gets_a_full_handshake_and_is_counted() {
    let directory = penstock_testkit::disk_directory();
    let key = directory.path().join("a.key");
    fs::write(&key, (100..180).collect::<Vec<u8>>()).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    // Tickets live for a second, while the key stays.
    let keys = directory.path().display();
    let tickets = format!("tickets: {{directory: {keys}, rotate: 1s, keep: 2}}");
    let server = start(Setup::new().tls(&format!("{}\n{tickets}", Certificates::yaml(&["ec"]))));
    server.expect_warning("a.key still seals and is older than rotate times keep");
    for (count, version) in (1..).zip(VERSIONS) {
        let session = session_of(&server, version);
        let ticket = client::ticket_of(&session);
        until("the ticket to expire, and to be counted so", || {
            // The client believes it to be young, or it would not offer it.
            let young = client::with_ticket(&session, &ticket, now()).unwrap();
            let (resumed, _) = fetch(&server, version, Some(&young));
            // In the very second in which it ends, the library and this test may read the clock differently.
            (!resumed && offered(&server, "expired") >= f64::from(count)).then_some(())
        });
    }
    server.wait_for_log("older than rotate times keep");
}

#[test]
fn a_ticket_of_another_version_is_left_alone() {
    let server = start(Setup::new());
    let session = session_of(&server, SslVersion::TLS1_2);
    let both = client::with_ticket(&session, &client::ticket_of(&session), now()).unwrap();
    let mut context = SslContext::builder(SslMethod::tls()).unwrap();
    context.set_verify(SslVerifyMode::NONE);
    let mut ssl = Ssl::new(&context.build()).unwrap();
    client::offer_live_session(&mut ssl, &both).unwrap();
    let stream = ssl.connect(Client::connect(server.https()).stream).unwrap();
    assert_eq!(stream.ssl().version2(), Some(SslVersion::TLS1_3));
    assert!(!stream.ssl().session_reused());
    until("the ticket to be counted", || (offered(&server, "unsuitable") == 1.0).then_some(()));
}
