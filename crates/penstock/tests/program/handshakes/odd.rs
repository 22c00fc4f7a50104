//! ClientHellos that are odd and right, and what comes after the first.

use std::io::{Read, Write};
use std::net::Shutdown;

use boring::ssl::SslVersion;
use penstock_testkit::{Client, ContentType, Random, Records, Setup, TlsOptions, Tool};

use super::client_hello::{
    ClientHello, P256, X25519, ext, key_shares, list8, list16, message, numbers, pre_shared_keys, record,
    records,
};
use super::fields::{Answer, FAILURES, answer, ask, counted_as, serves};

const ALERTS: &str = "penstock_tls_alerts_total";

/// `DOWNGRD` and a number: the end of the server's random when it could have spoken a later version.
const SENTINEL: &[u8] = b"DOWNGRD\x01";

fn is_hello(answer: &Answer) -> bool {
    matches!(answer, Answer::Hello(0x0303, _))
}

#[test]
fn odd_hellos_that_the_standard_allows_are_answered() {
    let server = Setup::new().start();
    let new = ClientHello::tls13;
    let grease = new()
        .suites(&[0x3a3a, 0x1301])
        .with(ext::GROUPS, list16(&numbers(&[0x4a4a, X25519])))
        .with(ext::SIGNATURES, list16(&numbers(&[0x5a5a, 0x0403])))
        .with(ext::VERSIONS, list8(&numbers(&[0x6a6a, 0x0304])))
        .with(ext::KEY_SHARE, key_shares(&[(0x4a4a, &[0]), (X25519, &[9; 32])]))
        .and(ext::ALPN, list16(&[list8(&[0x8a, 0x8a]), list8(b"http/1.1")].concat()))
        .and(0x7a7a, [])
        .and(0x9a9a, [0]);
    let mut many = new();
    (0..3500).for_each(|number| many = many.clone().and(0xa000 + number, []));
    let versions: Vec<u16> = (0..126).map(|number| 0x7f00 + number).chain([0x0304]).collect();
    let suites: Vec<u16> = (0..6000).map(|number| 0xd000 + number).chain([0x1301]).collect();
    let odd = [
        ("GREASE in every list", grease.records()),
        ("3500 unknown extensions", many.records()),
        ("127 versions", new().with(ext::VERSIONS, list8(&numbers(&versions))).records()),
        ("6001 suites", new().suites(&suites).records()),
        ("padding of 10 KiB", new().and(ext::PADDING, vec![0; 10 * 1024]).records()),
        ("100 unknown pre-shared keys", new().and(ext::PRE_SHARED_KEY, pre_shared_keys(100, 100)).records()),
        ("a ticket that is none", ClientHello::tls12().and(ext::TICKET, vec![0x33; 8000]).records()),
        ("no session id", ClientHello { session_id: Vec::new(), ..new() }.records()),
        ("one byte in each record", records(&message(1, &new().body()), 1)),
        ("some empty records before", [record(22, &[]).repeat(10), new().records()].concat()),
        (
            "a version of the future in TLS 1.2's field",
            ClientHello { legacy_version: 0x0399, ..ClientHello::tls12() }.records(),
        ),
        ("the fallback signal without a fallback", new().suites(&[0x1301, 0x5600]).records()),
    ];
    for (name, bytes) in &odd {
        let answer = ask(&server, bytes);
        assert!(is_hello(&answer), "{name}: {answer:?}");
    }
    // None of them was finished.
    server.counted(FAILURES, &[], odd.len() as f64);
    server.counted(FAILURES, &["reason=\"closed_by_client\""], odd.len() as f64);
    serves(&server);
}

#[test]
fn a_hello_cut_short_anywhere_is_never_taken_for_a_whole_one() {
    let server = Setup::new().start();
    let body = ClientHello::tls13().body();
    for length in 0..body.len() {
        let cut = records(&message(1, &body[..length]), 16 * 1024);
        let (answer, reason) = counted_as(&server, &cut);
        let Answer::Alert(alert) = answer else { panic!("{length}: {answer:?}") };
        // A hello may end behind its compression methods; then it has no supported version, or no groups.
        let without_extensions = length == 2 + 32 + 33 + 8 + 2;
        assert_eq!((alert, &*reason) == (50, "malformed"), !without_extensions, "{length}: {alert} {reason}");
    }
    serves(&server);
}

#[test]
fn changed_bits_never_end_in_more_than_an_alert() {
    const TRIES: u32 = 300;
    let server = Setup::new().start();
    let mut random = Random::from_environment();
    let lines = server.log().len();
    let mut hellos = 0;
    for _ in 0..TRIES {
        let hello = if random.below(2) == 0 { ClientHello::tls13() } else { ClientHello::tls12() };
        let hello = hello.and(ext::PRE_SHARED_KEY, pre_shared_keys(2, 2));
        let mut bytes = message(1, &hello.body());
        for _ in 0..=random.below(4) {
            // Type and length stay: otherwise most would end there.
            let at = 4 + usize::try_from(random.below(bytes.len() as u64 - 4)).unwrap();
            bytes[at] ^= 1 << random.below(8);
        }
        hellos += u32::from(matches!(ask(&server, &records(&bytes, 16 * 1024)), Answer::Hello(..)));
    }
    println!("{hellos} of {TRIES} were still hellos");
    server.counted(FAILURES, &[], f64::from(TRIES));
    assert_eq!(server.log().len(), lines, "a client can make the server log");
    serves(&server);
}

#[test]
fn a_server_that_could_speak_tls_1_3_says_so_when_it_speaks_tls_1_2() {
    let server = Setup::new().start();
    let Answer::Hello(0x0303, random) = ask(&server, &ClientHello::tls12().records()) else {
        panic!("no hello")
    };
    assert_eq!(&random[24..], SENTINEL, "RFC 8446 section 4.1.3");
    let Answer::Hello(_, random) = ask(&server, &ClientHello::tls13().records()) else { panic!("no hello") };
    assert_ne!(&random[24..], SENTINEL);
    // One that could not, has nothing to say; and a fallback to its best version is none.
    let tls = "certificates: [{chain: ec.crt, key: ec.key}]\nversions: [\"1.2\"]";
    let server = Setup::new().tls(tls).start();
    let fallback = ClientHello::tls12().suites(&[0xc02b, 0x5600]);
    let Answer::Hello(0x0303, random) = ask(&server, &fallback.records()) else { panic!("no hello") };
    assert_ne!(&random[24..], SENTINEL);
}

#[test]
fn a_second_hello_that_is_not_the_one_asked_for_is_refused() {
    let server = Setup::new().start();
    let first = || ClientHello::tls13().with(ext::KEY_SHARE, key_shares(&[]));
    let other_share = key_shares(&[(P256, &[9; 65])]);
    let mut failures = 0.0;
    for (name, second, alert) in [
        ("without the share", first().records(), 47),
        ("a share of another group", first().with(ext::KEY_SHARE, &*other_share).records(), 47),
        ("no share at all", first().without(ext::KEY_SHARE).records(), 109),
        ("another message", records(&message(20, &[0; 32]), 99), 10),
        ("two hellos", records(&message(1, &ClientHello::tls13().body()).repeat(2), 16 * 1024), 10),
        ("a cut one", records(&message(1, &ClientHello::tls13().body()[..80]), 99), 50),
    ] {
        let mut stream = Client::connect(server.https()).stream;
        stream.write_all(&first().records()).unwrap();
        assert!(is_hello(&answer(&mut stream)), "{name}");
        // The server sends a ChangeCipherSpec behind its HelloRetryRequest.
        let mut compatibility = [0; 6];
        stream.read_exact(&mut compatibility).unwrap();
        assert_eq!(compatibility, [20, 3, 3, 0, 1, 1]);
        stream.write_all(&second).unwrap();
        assert_eq!(answer(&mut stream), Answer::Alert(alert), "{name}");
        stream.shutdown(Shutdown::Write).unwrap();
        failures += 1.0;
        server.counted(FAILURES, &[], failures);
    }
    server.counted("penstock_hello_retry_requests_total", &[], failures);
    serves(&server);
}

#[test]
fn clients_cannot_renegotiate() {
    let server = Setup::new().start();
    server.write("a.txt", "a\n");
    // openssl asks for another handshake when it is told `R`.
    let mut s_client = Tool::s_client(&server).args(["-tls1_2"]).start();
    server.counted("penstock_handshakes_total", &["version=\"TLSv1.2\"", "outcome=\"ok\""], 1.0);
    s_client.say("R\n");
    let finished = s_client.finish();
    assert!(finished.stderr.contains("no renegotiation"), "{}", finished.stderr);
    server.counted(ALERTS, &["direction=\"sent\"", "alert=\"no_renegotiation\""], 1.0);

    // TLS 1.3 has no renegotiation at all.
    let mut client = Records::connect(&server);
    client.assert_open();
    client.stream.send(ContentType::Handshake, &message(1, &ClientHello::tls13().body())).unwrap();
    assert!(client.rest().is_err());
    server.counted(ALERTS, &["direction=\"sent\"", "alert=\"unexpected_message\""], 1.0);
    server.counted("penstock_handshakes_total", &["outcome=\"ok\""], 2.0);
    serves(&server);
}

#[test]
fn a_hello_in_a_hundred_packets_is_one_hello() {
    let server = Setup::new().start();
    let bytes = ClientHello::tls13().records();
    let mut stream = Client::connect(server.https()).stream;
    for part in bytes.chunks(bytes.len().div_ceil(100)) {
        stream.write_all(part).unwrap();
    }
    assert!(is_hello(&answer(&mut stream)));
    drop(stream);
    server.counted(FAILURES, &[], 1.0);
    Client::tls_with(&server, &TlsOptions::version(SslVersion::TLS1_2)).assert_open();
}
