//! Every field of a ClientHello wrong: which alert answers it, how it is counted, and that others are served on.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use penstock_testkit::{Client, Server, Setup};

use super::client_hello::{
    ClientHello, P256, X25519, X25519_MLKEM768, ext, key_shares, list8, list16, message, numbers,
    pre_shared_keys, record, records, server_name,
};

pub(crate) const FAILURES: &str = "penstock_handshake_failures_total";

/// The first thing that the server says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The version it chose, and the random bytes.
    Hello(u16, Vec<u8>),
    /// A fatal alert.
    Alert(u8),
    /// It closes without a word.
    Nothing,
}

/// Sends bytes, and reads what comes first. The client has nothing more to say then.
pub(crate) fn ask(server: &Server, bytes: &[u8]) -> Answer {
    let mut stream = Client::connect(server.https()).stream;
    // A server that has seen enough may end it before everything is sent.
    drop(stream.write_all(bytes));
    let answer = answer(&mut stream);
    drop(stream.shutdown(Shutdown::Write));
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "it does not end: {error}"),
    }
    answer
}

pub(crate) fn answer(stream: &mut TcpStream) -> Answer {
    let mut head = [0; 5];
    match stream.read_exact(&mut head) {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
            return Answer::Nothing;
        }
        Err(error) => panic!("no answer: {error}"),
    }
    let mut body = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
    stream.read_exact(&mut body).unwrap();
    match (head[0], &*body) {
        (21, [2, number]) => Answer::Alert(*number),
        // Type and length, then legacy_version and random.
        (22, [2, _, _, _, body @ ..]) => {
            let version = u16::from_be_bytes([body[0], body[1]]);
            Answer::Hello(version, body[2..34].to_vec())
        }
        _ => panic!("neither a ServerHello nor an alert: {head:?} {body:?}"),
    }
}

/// A ClientHello, and the alert and the counted reason it has to get. Alerts by their numbers in RFC 8446 §6.
struct Case {
    name: &'static str,
    bytes: Vec<u8>,
    alert: u8,
    reason: &'static str,
}

const UNEXPECTED_MESSAGE: u8 = 10;
const HANDSHAKE_FAILURE: u8 = 40;
const ILLEGAL_PARAMETER: u8 = 47;
const DECODE_ERROR: u8 = 50;
const PROTOCOL_VERSION: u8 = 70;
const INAPPROPRIATE_FALLBACK: u8 = 86;
const MISSING_EXTENSION: u8 = 109;
const UNRECOGNIZED_NAME: u8 = 112;

fn case(name: &'static str, hello: &ClientHello, alert: u8, reason: &'static str) -> Case {
    Case { name, bytes: hello.records(), alert, reason }
}

fn raw(name: &'static str, bytes: &[u8], alert: u8, reason: &'static str) -> Case {
    Case { name, bytes: bytes.to_vec(), alert, reason }
}

/// A hello whose body is changed after it was put together.
fn patched(hello: &ClientHello, patch: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut body = hello.body();
    patch(&mut body);
    records(&message(1, &body), 16 * 1024)
}

/// Where the session id's length stands: behind version and random.
const SESSION_ID: usize = 34;

fn fixed_fields() -> Vec<Case> {
    let new = ClientHello::tls13;
    let old = ClientHello::tls12;
    let version = |legacy_version, hello| ClientHello { legacy_version, ..hello };
    let compression =
        |methods: &[u8], hello: ClientHello| ClientHello { compression: methods.to_vec(), ..hello };
    vec![
        case("SSL 2.0 in legacy_version", &version(0x0200, old()), PROTOCOL_VERSION, "unsupported_version"),
        case("SSL 3.0 in legacy_version", &version(0x0300, old()), PROTOCOL_VERSION, "unsupported_version"),
        case("SSL 3.0 beside TLS 1.3", &version(0x0300, new()), PROTOCOL_VERSION, "unsupported_version"),
        case("TLS 1.0 in legacy_version", &version(0x0301, old()), PROTOCOL_VERSION, "unsupported_version"),
        case("TLS 1.1 in legacy_version", &version(0x0302, old()), PROTOCOL_VERSION, "unsupported_version"),
        case(
            "a session id too long",
            &ClientHello { session_id: vec![7; 33], ..new() },
            DECODE_ERROR,
            "malformed",
        ),
        raw(
            "a session id that leaves its message",
            &patched(&new(), |body| body[SESSION_ID] = 32 + 200),
            DECODE_ERROR,
            "malformed",
        ),
        case("no suites", &new().suites(&[]), DECODE_ERROR, "malformed"),
        raw(
            "half a suite",
            &patched(&new(), |body| {
                body[SESSION_ID + 34] = 7;
                body.insert(SESSION_ID + 35, 0);
            }),
            DECODE_ERROR,
            "malformed",
        ),
        case("only unknown suites", &new().suites(&[0x6a6a, 0xfefe]), HANDSHAKE_FAILURE, "no_shared_cipher"),
        case(
            "only suites of TLS 1.2 in TLS 1.3",
            &new().suites(&[0xc02b]),
            HANDSHAKE_FAILURE,
            "no_shared_cipher",
        ),
        case(
            "only suites of TLS 1.3 in TLS 1.2",
            &old().suites(&[0x1301]),
            HANDSHAKE_FAILURE,
            "no_shared_cipher",
        ),
        case(
            "a fallback",
            &old().suites(&[0xc02b, 0x5600]),
            INAPPROPRIATE_FALLBACK,
            "inappropriate_fallback",
        ),
        case("no compression methods", &compression(&[], new()), DECODE_ERROR, "malformed"),
        case("only deflate in TLS 1.3", &compression(&[1], new()), ILLEGAL_PARAMETER, "malformed"),
        case("only deflate in TLS 1.2", &compression(&[1], old()), ILLEGAL_PARAMETER, "malformed"),
        case("deflate besides null in TLS 1.3", &compression(&[1, 0], new()), ILLEGAL_PARAMETER, "malformed"),
        raw("bytes behind the extensions", &patched(&new(), |body| body.push(0)), DECODE_ERROR, "malformed"),
        raw("nothing at all", &records(&message(1, &[]), 99), DECODE_ERROR, "malformed"),
        raw(
            "a block of extensions shorter than it says",
            &patched(&new(), |body| body.truncate(body.len() - 1)),
            DECODE_ERROR,
            "malformed",
        ),
    ]
}

/// Extensions of a client of TLS 1.3 with another body: too short, cut off, or with what may not be in them.
fn extensions() -> Vec<Case> {
    let two_names = list16(&[&[0], &*list16(b"a"), &[0], &*list16(b"b")].concat());
    let bodies: Vec<(&str, u16, Vec<u8>)> = vec![
        ("no server name in the list", ext::SERVER_NAME, list16(&[])),
        ("two server names", ext::SERVER_NAME, two_names),
        ("no groups", ext::GROUPS, list16(&[])),
        ("half a group", ext::GROUPS, list16(&[0, 29, 0])),
        ("no signature algorithms", ext::SIGNATURES, list16(&[])),
        ("half a signature algorithm", ext::SIGNATURES, list16(&[4, 3, 4])),
        ("no versions", ext::VERSIONS, list8(&[])),
        ("half a version", ext::VERSIONS, list8(&[0x7a, 0x7a, 3])),
        ("ALPN without a name", ext::ALPN, list16(&[])),
        ("ALPN with an empty name", ext::ALPN, list16(&[0])),
        ("ALPN with a name that leaves its list", ext::ALPN, list16(b"\x09http/1.1")),
        ("no PSK modes", ext::PSK_MODES, list8(&[])),
        ("key shares cut off", ext::KEY_SHARE, vec![0, 40, 0, 29]),
        ("early data with a body", ext::EARLY_DATA, vec![1]),
    ];
    let case = |(name, number, body)| {
        case(name, &ClientHello::tls13().with(number, body), DECODE_ERROR, "malformed")
    };
    bodies.into_iter().map(case).collect()
}

/// Extensions that are well formed and lead nowhere, and those of TLS 1.2.
fn agreement() -> Vec<Case> {
    let new = ClientHello::tls13;
    let old = ClientHello::tls12;
    let strange = list16(&numbers(&[0xfefe]));
    let named = |name: &[u8]| new().with(ext::SERVER_NAME, server_name(name));
    let future = list8(&numbers(&[0x7a7a, 0x0305]));
    let rows: Vec<(&str, ClientHello, u8, &str)> = vec![
        ("an extension twice", new().and(ext::PSK_MODES, list8(&[1])), DECODE_ERROR, "malformed"),
        ("an unknown extension twice", new().and(0xfafa, []).and(0xfafa, []), DECODE_ERROR, "malformed"),
        ("an empty server name", named(b""), UNRECOGNIZED_NAME, "malformed"),
        ("a server name with NUL", named(b"local\0host"), UNRECOGNIZED_NAME, "malformed"),
        ("a server name of 256 bytes", named(&[b'a'; 256]), UNRECOGNIZED_NAME, "malformed"),
        ("unknown groups", new().with(ext::GROUPS, &*strange), HANDSHAKE_FAILURE, "no_shared_group"),
        ("groups left out", new().without(ext::GROUPS), MISSING_EXTENSION, "no_shared_group"),
        // RFC 8446 §9.2 would have missing_extension; the library finds that there is none in common.
        (
            "signature algorithms left out",
            new().without(ext::SIGNATURES),
            HANDSHAKE_FAILURE,
            "no_shared_signature_algorithm",
        ),
        (
            "unknown signature algorithms",
            new().with(ext::SIGNATURES, &*strange),
            HANDSHAKE_FAILURE,
            "no_shared_signature_algorithm",
        ),
        ("unknown versions", new().with(ext::VERSIONS, future), PROTOCOL_VERSION, "unsupported_version"),
        (
            "an extended master secret with a body",
            old().with(ext::EXTENDED_MASTER_SECRET, [1]),
            DECODE_ERROR,
            "malformed",
        ),
        (
            "a renegotiation on a new connection",
            old().and(ext::RENEGOTIATION, list8(&[1; 12])),
            HANDSHAKE_FAILURE,
            "malformed",
        ),
        ("no point formats", old().with(ext::POINT_FORMATS, list8(&[])), ILLEGAL_PARAMETER, "malformed"),
        (
            "only compressed points",
            old().with(ext::POINT_FORMATS, list8(&[1])),
            ILLEGAL_PARAMETER,
            "malformed",
        ),
    ];
    rows.into_iter().map(|(name, hello, alert, reason)| case(name, &hello, alert, reason)).collect()
}

fn keys() -> Vec<Case> {
    let new = ClientHello::tls13;
    let shares = |shares: &[(u16, &[u8])]| new().with(ext::KEY_SHARE, key_shares(shares));
    let only = |group, key: &[u8]| shares(&[(group, key)]).with(ext::GROUPS, list16(&numbers(&[group])));
    let pre_shared = |body: Vec<u8>| new().and(ext::PRE_SHARED_KEY, body);
    let off_curve = [&[4][..], &[1; 64]].concat();
    let empty_identity = [list16(&[0; 6]), list16(&list8(&[0; 32]))].concat();
    let rows: Vec<(&str, ClientHello, u8)> = vec![
        ("key shares left out", new().without(ext::KEY_SHARE), MISSING_EXTENSION),
        ("an empty key share", shares(&[(X25519, &[])]), DECODE_ERROR),
        ("a key share twice", shares(&[(X25519, &[9; 32]), (X25519, &[8; 32])]), ILLEGAL_PARAMETER),
        ("an X25519 share one byte short", only(X25519, &[9; 31]), ILLEGAL_PARAMETER),
        ("an X25519 share one byte long", only(X25519, &[9; 33]), ILLEGAL_PARAMETER),
        ("an X25519 share of low order", only(X25519, &[0; 32]), ILLEGAL_PARAMETER),
        ("a point off the curve", only(P256, &off_curve), ILLEGAL_PARAMETER),
        ("the point at infinity", only(P256, &[0]), ILLEGAL_PARAMETER),
        ("a compressed point", only(P256, &[2; 33]), ILLEGAL_PARAMETER),
        ("an ML-KEM share one byte short", only(X25519_MLKEM768, &[0; 1215]), ILLEGAL_PARAMETER),
        ("an ML-KEM share out of range", only(X25519_MLKEM768, &[0xff; 1216]), ILLEGAL_PARAMETER),
        (
            "a pre-shared key that is not the last extension",
            pre_shared(pre_shared_keys(1, 1)).and(ext::PADDING, [0; 9]),
            ILLEGAL_PARAMETER,
        ),
        ("no pre-shared key in the list", pre_shared(pre_shared_keys(0, 0)), DECODE_ERROR),
        ("more identities than binders", pre_shared(pre_shared_keys(3, 2)), ILLEGAL_PARAMETER),
        ("an empty identity", pre_shared(empty_identity), DECODE_ERROR),
    ];
    rows.into_iter().map(|(name, hello, alert)| case(name, &hello, alert, "malformed")).collect()
}

fn records_and_messages() -> Vec<Case> {
    let hello = message(1, &ClientHello::tls13().body());
    let twice = records(&[&*hello, &*hello].concat(), 16 * 1024);
    let huge = (0..14).map(|number| (0xaa00 + number, vec![0; 4600])).collect::<Vec<_>>();
    // The extensions alone may have 64 KiB; 1,000 suites exceed the limit of the whole message.
    let huge = ClientHello { extensions: Some(huge), ..ClientHello::tls12() }.suites(&[0xc02b; 1000]);
    let sslv2 = [&[0x80, 46, 1, 0, 2, 0, 21, 0, 0, 0, 16][..], &[5, 0, 0x80].repeat(7), &[3; 16]].concat();
    vec![
        raw("a hello of SSL 2.0", &sslv2, PROTOCOL_VERSION, "unsupported_version"),
        raw("a ChangeCipherSpec first", &record(20, &[1]), UNEXPECTED_MESSAGE, "unexpected_message"),
        raw(
            "application data first",
            &record(23, b"GET / HTTP/1.1\r\n\r\n"),
            UNEXPECTED_MESSAGE,
            "unexpected_message",
        ),
        raw("a record of an unknown type first", &record(99, &[0]), UNEXPECTED_MESSAGE, "unexpected_message"),
        raw(
            "a Finished first",
            &records(&message(20, &[0; 12]), 99),
            UNEXPECTED_MESSAGE,
            "unexpected_message",
        ),
        raw(
            "a ServerHello first",
            &records(&message(2, &[0; 40]), 99),
            UNEXPECTED_MESSAGE,
            "unexpected_message",
        ),
        raw("two hellos in one record", &twice, UNEXPECTED_MESSAGE, "unexpected_message"),
        raw("a hello of more than 64 KiB", &huge.records(), ILLEGAL_PARAMETER, "too_long"),
        raw(
            "empty records without end",
            &record(22, &[]).repeat(5000),
            UNEXPECTED_MESSAGE,
            "unexpected_message",
        ),
        raw(
            "warnings without end",
            &record(21, &[1, 90]).repeat(5000),
            UNEXPECTED_MESSAGE,
            "unexpected_message",
        ),
        raw("half an alert", &record(21, &[2]), DECODE_ERROR, "malformed"),
        raw("an alert of an unknown level", &record(21, &[9, 9]), ILLEGAL_PARAMETER, "malformed"),
    ]
}

/// Asks, and says by which reason the failure was counted.
pub(crate) fn counted_as(server: &Server, bytes: &[u8]) -> (Answer, String) {
    let before = server.metrics();
    let answer = ask(server, bytes);
    // The alert leaves before the failure is counted, and the connection ends after it.
    let after = server.metrics();
    let grown = after.0.iter().filter(|(series, count)| {
        series.starts_with(FAILURES) && before.0.get(*series).copied().unwrap_or(0.0) < **count
    });
    let reasons = grown.filter_map(|(series, _)| Some(series.split('"').nth(1)?.to_owned()));
    (answer, reasons.collect::<Vec<_>>().join(" and "))
}

pub(crate) fn serves(server: &Server) {
    server.write("a.txt", "a\n");
    assert_eq!(Client::tls(server).get("/a.txt").text(), "a\n");
    server.counted("penstock_worker_panics_total", &[], 0.0);
}

#[test]
fn every_wrong_field_gets_its_alert_and_is_counted() {
    let server = Setup::new().start();
    let lines = server.log().len();
    let cases: Vec<Case> = [fixed_fields(), extensions(), agreement(), keys(), records_and_messages()]
        .into_iter()
        .flatten()
        .collect();
    let mut wrong = Vec::new();
    for case in &cases {
        let (answer, reason) = counted_as(&server, &case.bytes);
        if (&answer, &*reason) != (&Answer::Alert(case.alert), case.reason) {
            wrong.push(format!("{}: {answer:?} {reason}, not {} {}", case.name, case.alert, case.reason));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    server.counted(FAILURES, &[], cases.len() as f64);
    server.counted("penstock_handshakes_total", &["outcome=\"ok\""], 0.0);
    assert_eq!(server.log().len(), lines, "a client can make the server log");
    serves(&server);
}
