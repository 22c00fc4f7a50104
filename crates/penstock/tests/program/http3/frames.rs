//! What a client may not send by RFC 9114, RFC 9204 and RFC 9218, case by case, and the error that it gets.
//!
//! Two clients send them: one over aioquic (`frames.py`), and one over h3i, the conformance tool of quiche's authors (`h3i/`).
//! Cases with [`Outcome::Lenient`] are those in which the server differs from the standard, each with its reason.

use penstock_testkit::{Server, Tool};
use serde_json::{Value, json};

use super::{H3I, PYTHON, has_client, has_h3i, setup};

const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/http3/frames.py");

const FILE: &str = "This file was sent whole.\n";

/// Error codes of RFC 9114 §8.1 and RFC 9204 §6.
mod error {
    pub(super) const NONE: u64 = 0x100;
    pub(super) const STREAM_CREATION: u64 = 0x103;
    pub(super) const CLOSED_CRITICAL_STREAM: u64 = 0x104;
    pub(super) const FRAME_UNEXPECTED: u64 = 0x105;
    pub(super) const FRAME: u64 = 0x106;
    pub(super) const ID: u64 = 0x108;
    pub(super) const SETTINGS: u64 = 0x109;
    pub(super) const MISSING_SETTINGS: u64 = 0x10a;
    pub(super) const REQUEST_INCOMPLETE: u64 = 0x10d;
    pub(super) const MESSAGE: u64 = 0x10e;
    pub(super) const DECOMPRESSION_FAILED: u64 = 0x200;
    /// The library's own, for what ends within an integer. RFC 9114 §7.1 has `H3_FRAME_ERROR`.
    pub(super) const OF_LIBRARY: u64 = 0x999;
}

/// Types of frames (RFC 9114 §7.2, RFC 9218 §7.2).
mod frame {
    pub(super) const DATA: u64 = 0;
    pub(super) const HEADERS: u64 = 1;
    pub(super) const CANCEL_PUSH: u64 = 3;
    pub(super) const SETTINGS: u64 = 4;
    pub(super) const PUSH_PROMISE: u64 = 5;
    pub(super) const GOAWAY: u64 = 7;
    pub(super) const MAX_PUSH_ID: u64 = 0xd;
    /// Those of HTTP/2 that HTTP/3 has not (RFC 9114 §11.2.1).
    pub(super) const RESERVED: [u64; 4] = [2, 6, 8, 9];
    pub(super) const UNKNOWN: u64 = 0x21;
    pub(super) const PRIORITY_UPDATE: u64 = 0xf_0700;
    pub(super) const PRIORITY_UPDATE_OF_PUSH: u64 = 0xf_0701;
}

/// RFC 9114 §7.2.8 has `H3_FRAME_UNEXPECTED`.
const RESERVED_ARE_SKIPPED: &str = "the library skips them as it skips unknown frames";

/// What the server does.
enum Outcome {
    /// It closes the connection.
    Connection(u64),
    /// It resets the request.
    Stream(u64),
    /// It answers the request.
    Answer,
    /// It goes on, and answers another request.
    GoesOn,
    /// It goes on although the standard asks for another outcome. The reason follows.
    Lenient(&'static str),
}

struct Case {
    name: String,
    steps: Vec<(String, Vec<u8>, &'static str)>,
    is_bare: bool,
    outcome: Outcome,
}

impl Case {
    fn new(name: impl Into<String>, outcome: Outcome) -> Self {
        Self { name: name.into(), steps: Vec::new(), is_bare: false, outcome }
    }

    /// Sends on a stream.
    fn on(mut self, stream: &str, bytes: Vec<u8>) -> Self {
        self.steps.push((stream.to_owned(), bytes, ""));
        self
    }

    /// Ends the last stream, behind what was sent on it.
    fn end(mut self) -> Self {
        self.steps.last_mut().unwrap().2 = "end";
        self
    }

    /// Resets it.
    fn reset(mut self) -> Self {
        self.steps.last_mut().unwrap().2 = "reset";
        self
    }

    /// Stops the response on it.
    fn stop(mut self) -> Self {
        self.steps.last_mut().unwrap().2 = "stop";
        self
    }

    /// One stream more than the server allows, which the client's own library refuses.
    fn refused(mut self, stream: &str) -> Self {
        self.steps.push((stream.to_owned(), Vec::new(), "refused"));
        self
    }

    /// No stream has been opened before.
    fn bare(mut self) -> Self {
        self.is_bare = true;
        self
    }

    fn awaits(&self) -> &'static str {
        match self.outcome {
            Outcome::Connection(_) => "connection",
            Outcome::Stream(_) => "stream",
            Outcome::Answer => "response",
            Outcome::GoesOn | Outcome::Lenient(_) => "probe",
        }
    }

    fn to_json(&self) -> Value {
        let hexadecimal = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let steps: Vec<_> = self
            .steps
            .iter()
            .map(|(stream, bytes, then)| json!([stream, hexadecimal(bytes), then]))
            .collect();
        json!({"steps": steps, "bare": self.is_bare, "awaits": self.awaits()})
    }

    /// What came, if it is something else than the outcome.
    fn differs(&self, came: &Value) -> Option<String> {
        let is_right = match self.outcome {
            Outcome::Connection(code) => came["closed"] == code,
            Outcome::Stream(code) => came["closed"].is_null() && came["reset"] == code,
            Outcome::Answer => came["closed"].is_null() && came["response"] == true,
            Outcome::GoesOn | Outcome::Lenient(_) => came["closed"].is_null() && came["probe"] == true,
        };
        (!is_right).then(|| format!("{}: {came}", self.name))
    }
}

/// An integer of QUIC (RFC 9000 §16), always in four bytes.
fn number(value: u64) -> Vec<u8> {
    (u32::try_from(value).unwrap() | 0x8000_0000).to_be_bytes().to_vec()
}

fn frame(kind: u64, content: &[u8]) -> Vec<u8> {
    [number(kind), number(content.len() as u64), content.to_vec()].concat()
}

/// A frame with less content than its length says.
fn cut(kind: u64, length: u64, content: &[u8]) -> Vec<u8> {
    [number(kind), number(length), content.to_vec()].concat()
}

fn settings(pairs: &[(u64, u64)]) -> Vec<u8> {
    frame(
        frame::SETTINGS,
        &pairs.iter().flat_map(|(id, value)| [number(*id), number(*value)].concat()).collect::<Vec<_>>(),
    )
}

/// A HEADERS frame of literals.
fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = vec![0, 0];
    for (name, value) in fields {
        // Three bits for the length of a name, and seven for that of a value (RFC 9204 §4.5.6).
        match u8::try_from(name.len()).unwrap() {
            short @ 0..7 => section.push(0x20 | short),
            long => section.extend([0x27, long - 7]),
        }
        section.extend_from_slice(name.as_bytes());
        section.push(u8::try_from(value.len()).unwrap());
        section.extend_from_slice(value.as_bytes());
    }
    frame(frame::HEADERS, &section)
}

const HEAD: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/small.txt")];

/// The head of a request that is fine, and more fields.
fn head_with(more: &[(&str, &str)]) -> Vec<u8> {
    fields(&[&HEAD[..], more].concat())
}

fn head() -> Vec<u8> {
    head_with(&[])
}

/// The same without one of its fields.
fn head_without(name: &str) -> Vec<u8> {
    fields(&HEAD.into_iter().filter(|field| field.0 != name).collect::<Vec<_>>())
}

/// Frames on the stream of a request (RFC 9114 §4.1, §7).
fn frames_of_requests() -> Vec<Case> {
    use Outcome::{Answer, Connection, GoesOn, Lenient, Stream};
    let data = || frame(frame::DATA, b"data");
    let trailers = || fields(&[("x-trailer", "1")]);
    let unexpected =
        |name, bytes: Vec<u8>| Case::new(name, Connection(error::FRAME_UNEXPECTED)).on("r0", bytes);
    let mut cases = vec![
        unexpected("DATA before HEADERS", [data(), head()].concat()),
        unexpected("DATA after trailers", [head(), data(), trailers(), data()].concat()),
        unexpected("HEADERS after trailers", [head(), data(), trailers(), trailers()].concat()),
        unexpected("SETTINGS on a request", [head(), settings(&[])].concat()),
        unexpected("GOAWAY on a request", [head(), frame(frame::GOAWAY, &[0])].concat()),
        unexpected("MAX_PUSH_ID on a request", [head(), frame(frame::MAX_PUSH_ID, &[0])].concat()),
        unexpected("CANCEL_PUSH on a request", [head(), frame(frame::CANCEL_PUSH, &[0])].concat()),
        unexpected("PUSH_PROMISE of a client", [head(), frame(frame::PUSH_PROMISE, &[0, 0, 0])].concat()),
        unexpected(
            "PRIORITY_UPDATE on a request",
            [head(), frame(frame::PRIORITY_UPDATE, b"\0u=1")].concat(),
        ),
        Case::new("unknown frames around a head", Answer)
            .on(
                "r0",
                [frame(frame::UNKNOWN, b"x"), head(), frame(frame::UNKNOWN, b""), frame(0x1f_00ff, b"y")]
                    .concat(),
            )
            .end(),
        Case::new("a frame in single bytes", Answer)
            .on("r0", head()[..1].to_vec())
            .on("r0", head()[1..2].to_vec())
            .on("r0", head()[2..].to_vec())
            .end(),
        Case::new("trailers", Answer).on("r0", [head(), data(), trailers()].concat()).end(),
        Case::new("a stream without a frame", Stream(error::REQUEST_INCOMPLETE)).on("r0", Vec::new()).end(),
        Case::new("a stream with unknown frames only", Stream(error::REQUEST_INCOMPLETE))
            .on("r0", frame(frame::UNKNOWN, b"x"))
            .end(),
        Case::new("a stream that is reset before its head", GoesOn).on("r0", head()[..20].to_vec()).reset(),
        Case::new(
            "a field section that refers to no entry of the static table",
            Connection(error::DECOMPRESSION_FAILED),
        )
        .on("r0", frame(frame::HEADERS, &[0, 0, 0xff, 0x40])),
        Case::new(
            "a field section that refers to the dynamic table, which is empty",
            Connection(error::DECOMPRESSION_FAILED),
        )
        .on("r0", frame(frame::HEADERS, &[2, 0, 0x80])),
        Case::new("an empty field section", Connection(error::DECOMPRESSION_FAILED))
            .on("r0", frame(frame::HEADERS, &[])),
        // RFC 9114 §7.1 has `H3_FRAME_ERROR`, but the library does not tell that a frame was cut.
        Case::new("the end of a stream within a head", Stream(error::REQUEST_INCOMPLETE))
            .on("r0", head()[..20].to_vec())
            .end(),
        Case::new(
            "the end of a stream within a body",
            Lenient("the same; a body with a Content-Length is compared with it"),
        )
        .on("r0", [head(), cut(frame::DATA, 10, b"abc")].concat())
        .end(),
    ];
    for reserved in frame::RESERVED {
        let case = Case::new("a frame of HTTP/2 on a request", Lenient(RESERVED_ARE_SKIPPED));
        cases.push(case.on("r0", [frame(reserved, b""), head()].concat()).end());
    }
    cases
}

/// Requests whose parts arrive one by one, or not at all (RFC 9114 §4.1, §4.1.1).
fn parts_of_requests() -> Vec<Case> {
    use Outcome::{Answer, GoesOn};
    vec![
        Case::new("the end of a stream after its head", Answer).on("r0", head()).on("r0", Vec::new()).end(),
        Case::new("a body in frames of one byte", Answer)
            .on("r0", [head_with(&[("content-length", "99")]), frame(frame::DATA, b"x").repeat(99)].concat())
            .end(),
        Case::new("a request that is reset within its body", GoesOn)
            .on("r0", [head(), cut(frame::DATA, 10, b"abc")].concat())
            .on("r0", Vec::new())
            .reset(),
        Case::new("a request whose response is stopped", GoesOn).on("r0", head()).stop(),
    ]
}

/// Unidirectional streams (RFC 9114 §6.2, RFC 9204 §4.2).
fn unidirectional_streams() -> Vec<Case> {
    use Outcome::{Connection, GoesOn, Lenient};
    let mut cases = vec![
        Case::new("a second control stream", Connection(error::STREAM_CREATION)).on("u0", vec![0, 4, 0]),
        Case::new("a second encoder stream", Connection(error::STREAM_CREATION)).on("u0", vec![2]),
        Case::new("a second decoder stream", Connection(error::STREAM_CREATION)).on("u0", vec![3]),
        Case::new("a push stream of a client", Connection(error::STREAM_CREATION)).on("u0", vec![1, 0]),
        Case::new("a stream of an unknown type", GoesOn).on("u0", number(frame::UNKNOWN)),
        // One of the cases of h3i itself. Of eight streams three are for control and QPACK.
        (0..5)
            .fold(Case::new("more streams than the server allows", GoesOn), |case, count| {
                case.on(&format!("u{count}"), number(frame::UNKNOWN))
            })
            .refused("u5"),
        Case::new("a stream that ends before its type", GoesOn).on("u0", vec![0x40]).end(),
        Case::new(
            "an encoder that takes more table than there is",
            Lenient("the library drops what an encoder says"),
        )
        .on("encoder", vec![0x3f, 0xe1, 0x1f]),
        Case::new(
            "an acknowledgement of a section without entries",
            Lenient("the library drops what a decoder says"),
        )
        .on("decoder", vec![0x80]),
    ];
    for stream in ["control", "encoder", "decoder"] {
        let closes = |what: &str| {
            let name = format!("the {what} of the {stream} stream");
            Case::new(name, Connection(error::CLOSED_CRITICAL_STREAM)).on(stream, Vec::new())
        };
        cases.extend([closes("reset").reset(), closes("end").end()]);
    }
    cases
}

/// SETTINGS, which begin the control stream (RFC 9114 §7.2.4).
fn first_settings() -> Vec<Case> {
    use Outcome::{Connection, GoesOn, Lenient};
    let settings_alone = |name, outcome, bytes: Vec<u8>| {
        Case::new(name, outcome).bare().on("control", [vec![0], bytes].concat())
    };
    let mut cases = vec![
        settings_alone(
            "GOAWAY before SETTINGS",
            Connection(error::MISSING_SETTINGS),
            frame(frame::GOAWAY, &number(0)),
        ),
        settings_alone(
            "an unknown frame before SETTINGS",
            Connection(error::MISSING_SETTINGS),
            frame(frame::UNKNOWN, b"x"),
        ),
        settings_alone("an unknown setting", GoesOn, settings(&[(0x21, 7), (0x33, 0)])),
        settings_alone(
            "the end of SETTINGS within a setting",
            Connection(error::OF_LIBRARY),
            frame(frame::SETTINGS, &[0x40]),
        ),
        settings_alone(
            "a setting twice",
            Lenient("RFC 9114 §7.2.4 allows it; the last one counts"),
            settings(&[(6, 1), (6, 2)]),
        ),
        settings_alone(
            "a setting of HTTP/3 datagrams without QUIC's",
            Connection(error::SETTINGS),
            settings(&[(0x33, 1)]),
        ),
    ];
    for reserved in [2, 3, 4, 5] {
        cases.push(settings_alone(
            "a setting of HTTP/2",
            Connection(error::SETTINGS),
            settings(&[(reserved, 1)]),
        ));
    }
    cases
}

/// Frames of the control stream (RFC 9114 §7.2, RFC 9218 §7.2).
fn frames_of_control() -> Vec<Case> {
    use Outcome::{Connection, GoesOn, Lenient};
    let control = |name, code, bytes: Vec<u8>| Case::new(name, Connection(code)).on("control", bytes);
    let goaway = |id| frame(frame::GOAWAY, &number(id));
    let pushes = |id| frame(frame::MAX_PUSH_ID, &number(id));
    let mut cases = vec![
        control("a second SETTINGS", error::FRAME_UNEXPECTED, settings(&[])),
        control("DATA on the control stream", error::FRAME_UNEXPECTED, frame(frame::DATA, b"x")),
        control("HEADERS on the control stream", error::FRAME_UNEXPECTED, head()),
        control(
            "PUSH_PROMISE on the control stream",
            error::FRAME_UNEXPECTED,
            frame(frame::PUSH_PROMISE, &[0, 0, 0]),
        ),
        control("GOAWAY that rises", error::ID, [goaway(0), goaway(4)].concat()),
        control("an empty GOAWAY", error::FRAME, frame(frame::GOAWAY, &[])),
        control("GOAWAY with more than a number", error::FRAME, frame(frame::GOAWAY, &[0; 9])),
        control("MAX_PUSH_ID that falls", error::ID, [pushes(5), pushes(4)].concat()),
        control("PRIORITY_UPDATE without an id", error::FRAME, frame(frame::PRIORITY_UPDATE, b"")),
        control(
            "PRIORITY_UPDATE of a request beyond all that are allowed",
            error::ID,
            frame(frame::PRIORITY_UPDATE, &number(4_000_000)),
        ),
        // A client that leaves is left.
        control("GOAWAY that falls", error::NONE, [goaway(8), goaway(4), goaway(4)].concat()),
        Case::new("PRIORITY_UPDATE of requests", GoesOn).on(
            "control",
            [&b"\0u=1, i"[..], b"\x04"].map(|update| frame(frame::PRIORITY_UPDATE, update)).concat(),
        ),
        Case::new("PRIORITY_UPDATE that is no structured field", GoesOn)
            .on("control", frame(frame::PRIORITY_UPDATE, b"\0u=;(")),
        Case::new("MAX_PUSH_ID that rises", GoesOn).on("control", [pushes(1), pushes(1), pushes(5)].concat()),
        Case::new("an unknown frame on the control stream", GoesOn)
            .on("control", frame(frame::UNKNOWN, b"x")),
        Case::new(
            "CANCEL_PUSH of a push that is not",
            Lenient("the library reads none; this server pushes nothing"),
        )
        .on("control", frame(frame::CANCEL_PUSH, &[5])),
        Case::new(
            "PRIORITY_UPDATE of a push that is not",
            Lenient("the library reads none of id 0, 3, 6, ..."),
        )
        .on("control", frame(frame::PRIORITY_UPDATE_OF_PUSH, b"\0u=1")),
        // RFC 9218 §7.2 has `H3_ID_ERROR`.
        Case::new("PRIORITY_UPDATE of a stream that is no request", Connection(error::FRAME_UNEXPECTED))
            .on("control", frame(frame::PRIORITY_UPDATE, b"\x03u=1")),
    ];
    for reserved in frame::RESERVED {
        let case = Case::new("a frame of HTTP/2 on the control stream", Lenient(RESERVED_ARE_SKIPPED));
        cases.push(case.on("control", frame(reserved, b"")));
    }
    cases
}

/// Requests that are malformed (RFC 9114 §4.1.2, §4.2, §4.3).
fn malformed_requests() -> Vec<Case> {
    use Outcome::{Answer, Lenient, Stream};
    let malformed =
        |name: &str, bytes: Vec<u8>| Case::new(name, Stream(error::MESSAGE)).on("r0", bytes).end();
    let mut cases = vec![
        malformed("a pseudo-header field twice", head_with(&[(":path", "/small.txt")])),
        malformed(
            "a pseudo-header field after a field",
            fields(&[HEAD[0], HEAD[1], HEAD[2], ("x-a", "b"), HEAD[3]]),
        ),
        malformed("an unknown pseudo-header field", fields(&[&HEAD[..], &[(":unknown", "1")]].concat())),
        malformed("a pseudo-header field of responses", fields(&[&HEAD[..], &[(":status", "200")]].concat())),
        malformed("an empty path", fields(&[HEAD[0], HEAD[1], HEAD[2], (":path", "")])),
        malformed("a path without a slash", fields(&[HEAD[0], HEAD[1], HEAD[2], (":path", "small.txt")])),
        malformed("no host", head_without(":authority")),
        malformed("an empty host", fields(&[HEAD[0], HEAD[1], (":authority", ""), HEAD[3]])),
        malformed("two hosts", head_with(&[("host", "other.example")])),
        malformed(
            "user information in the authority",
            fields(&[HEAD[0], HEAD[1], (":authority", "a@localhost"), HEAD[3]]),
        ),
        malformed("an uppercase name", head_with(&[("X-Upper", "1")])),
        malformed("an empty name", head_with(&[("", "1")])),
        malformed("a space in a name", head_with(&[("x a", "1")])),
        malformed("a line break in a value", head_with(&[("x-a", "1\r\nx-b: 2")])),
        malformed("a zero in a value", head_with(&[("x-a", "1\0")])),
        malformed("TE other than trailers", head_with(&[("te", "gzip")])),
        malformed("Content-Length without a body", head_with(&[("content-length", "5")])),
        malformed(
            "two values of Content-Length",
            head_with(&[("content-length", "0"), ("content-length", "1")]),
        ),
        malformed("Content-Length that is no number", head_with(&[("content-length", "+0")])),
        malformed("extended CONNECT, which was not offered", head_with(&[(":protocol", "websocket")])),
        malformed(
            "a body that is longer than its Content-Length",
            [head_with(&[("content-length", "1")]), frame(frame::DATA, b"ab")].concat(),
        ),
        // The other of the cases of h3i itself.
        malformed(
            "a body that is shorter than its Content-Length",
            [head_with(&[("content-length", "5")]), frame(frame::DATA, b"test")].concat(),
        ),
        Case::new("the same host twice", Answer).on("r0", head_with(&[("host", "localhost")])).end(),
        Case::new("the host in Host alone", Answer)
            .on("r0", fields(&[HEAD[0], HEAD[1], HEAD[3], ("host", "localhost")]))
            .end(),
        Case::new("TE with trailers", Answer).on("r0", head_with(&[("te", "trailers")])).end(),
        Case::new("a body as long as its Content-Length", Answer)
            .on(
                "r0",
                [head_with(&[("content-length", "2")]), frame(frame::DATA, b"a"), frame(frame::DATA, b"b")]
                    .concat(),
            )
            .end(),
        Case::new("a pseudo-header field in trailers", Lenient("trailers are dropped unread"))
            .on("r0", [head(), fields(&[(":path", "/")])].concat())
            .end(),
    ];
    for (name, _) in [HEAD[0], HEAD[1], HEAD[3]] {
        cases.push(malformed(&format!("no {name}"), head_without(name)));
    }
    for name in ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"] {
        cases.push(malformed(&format!("the field {name}"), head_with(&[(name, "x")])));
    }
    cases
}

fn came(server: &Server, client: Tool, cases: &[Case]) -> Vec<Value> {
    let probe: String = head().iter().map(|byte| format!("{byte:02x}")).collect();
    let cases: Vec<_> = cases.iter().map(Case::to_json).collect();
    let input = json!({"probe": probe, "cases": cases}).to_string();
    let came = serde_json::from_slice(&client.run_with_input(input.as_bytes()).ok().stdout).unwrap();
    server.counted("penstock_http3_streams", &[], 0.0);
    came
}

/// Every case has its outcome, with each client that is there.
fn check(cases: &[Case]) {
    let server = setup().start();
    server.write("small.txt", FILE);
    let address = server.https();
    let authority = server.certificates().authority();
    let mut clients = Vec::new();
    if has_client() {
        let client = Tool::new(PYTHON).arg(CLIENT).arg(&authority);
        clients.push(("aioquic", client.args([address.ip().to_string(), address.port().to_string()])));
    }
    if has_h3i() {
        clients.push(("h3i", Tool::new(H3I).arg(address.to_string()).env("SSL_CERT_FILE", &authority)));
    }
    for (name, client) in clients {
        let came = came(&server, client, cases);
        assert_eq!(came.len(), cases.len());
        let differ: Vec<_> = cases.iter().zip(&came).filter_map(|(case, came)| case.differs(came)).collect();
        assert!(differ.is_empty(), "{name}: {differ:#?}");
    }
    for case in cases {
        if let Outcome::Lenient(reason) = case.outcome {
            println!("{}: {reason}", case.name);
        }
    }
}

#[test]
fn frames_that_a_request_may_not_have_end_its_connection() {
    check(&[frames_of_requests(), parts_of_requests()].into_iter().flatten().collect::<Vec<_>>());
}

#[test]
fn streams_and_frames_of_control_that_are_not_allowed_end_their_connection() {
    let cases = [unidirectional_streams(), first_settings(), frames_of_control()];
    check(&cases.into_iter().flatten().collect::<Vec<_>>());
}

#[test]
fn malformed_requests_are_reset_and_their_connection_goes_on() {
    check(&malformed_requests());
}
