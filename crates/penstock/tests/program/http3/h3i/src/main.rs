//! A client of HTTP/3 over h3i, the conformance tool of quiche's authors. It does what `frames.py` does over aioquic, whose
//! description has the cases on standard input and what is printed. A request that is answered at the end of a case begins before it,
//! so that the case goes by beside it; another follows.
//!
//! Argument: the address and port of the server. `SSL_CERT_FILE` names its authority.

use std::collections::HashMap;
use std::thread;

use h3i::actions::h3::{Action, ExpectedStreamSendResult, StreamEvent, StreamEventType, WaitType};
use h3i::client::connection_summary::ConnectionSummary;
use h3i::client::sync_client;
use h3i::config::Config;
use h3i::frame::H3iFrame;
use h3i::quiche;
use h3i::quiche::h3::frame::Frame;
use serde_json::{Value, json};

const CONTENT: &[u8] = b"This file was sent whole.\n";

const CASES_AT_ONCE: usize = 8;

/// A stream that ends when its connection does.
const NEVER: u64 = 4_000_000;

#[derive(serde::Deserialize)]
struct Input {
    /// A request, in hexadecimal digits.
    probe: String,
    cases: Vec<Case>,
}

#[derive(serde::Deserialize)]
struct Case {
    steps: Vec<(String, String, String)>,
    bare: bool,
    awaits: String,
}

#[derive(Default)]
struct Script {
    actions: Vec<Action>,
    streams: HashMap<String, u64>,
}

impl Script {
    fn new(case: &Case, probe: &[u8]) -> Self {
        let mut script = Self::default();
        let goes_on = case.awaits != "connection";
        if !case.bare {
            script.send("control", b"\x00\x04\x00", "");
            script.send("encoder", b"\x02", "");
            script.send("decoder", b"\x03", "");
        }
        // The first request is that of the case.
        script.stream("r0");
        if !case.bare {
            // The server has read the types of the streams when this is answered: a reset would take them back.
            script.send("r7", probe, "end");
            script.wait(script.streams["r7"]);
        }
        if goes_on {
            script.send("r8", &probe[..9], "");
        }
        for (number, (stream, bytes, then)) in case.steps.iter().enumerate() {
            if number > 0 {
                // h3i goes on with the next packet that it receives, at the latest with the acknowledgement of the last step.
                script.actions.push(Action::FlushPackets);
            }
            script.send(stream, &bytes_of(bytes), then);
        }
        // Before the next packet is read: what has come already is not waited for.
        match case.awaits.as_str() {
            "connection" => script.wait(NEVER),
            "probe" => {}
            _ => script.wait(0),
        }
        if goes_on {
            script.send("r8", &probe[9..], "end");
            script.wait(script.streams["r8"]);
            script.send("r9", probe, "end");
            script.wait(script.streams["r9"]);
        }
        let error = quiche::ConnectionError { is_app: true, error_code: 0x100, reason: Vec::new() };
        script.actions.push(Action::ConnectionClose { error });
        script
    }

    /// The id of a stream: the next of its kind for a new name.
    fn stream(&mut self, name: &str) -> u64 {
        let kind = if name.starts_with('r') { 0 } else { 2 };
        let next = 4 * self.streams.values().filter(|id| *id % 4 == kind).count() as u64 + kind;
        *self.streams.entry(name.to_owned()).or_insert(next)
    }

    fn send(&mut self, name: &str, bytes: &[u8], then: &str) {
        let stream_id = self.stream(name);
        let expected_result = match then {
            "refused" => ExpectedStreamSendResult::Error(quiche::Error::StreamLimit),
            _ => ExpectedStreamSendResult::OkExact(bytes.len()),
        };
        let (bytes, fin_stream) = (bytes.to_vec(), then == "end");
        self.actions.push(Action::StreamBytes { stream_id, fin_stream, bytes, expected_result });
        match then {
            "reset" => self.actions.push(Action::ResetStream { stream_id, error_code: 0x10c }),
            "stop" => self.actions.push(Action::StopSending { stream_id, error_code: 0x10c }),
            _ => {}
        }
    }

    /// Waits for the end of a stream, or its reset.
    fn wait(&mut self, stream_id: u64) {
        let event = StreamEvent { stream_id, event_type: StreamEventType::Finished };
        self.actions.push(WaitType::StreamEvent(event).into());
    }
}

fn bytes_of(digits: &str) -> Vec<u8> {
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

fn is_answered(frames: &[H3iFrame]) -> bool {
    let content = frames.iter().filter_map(|frame| match frame {
        H3iFrame::QuicheH3(Frame::Data { payload }) => Some(&payload[..]),
        _ => None,
    });
    content.collect::<Vec<_>>().concat() == CONTENT && reset(frames).is_none()
}

fn reset(frames: &[H3iFrame]) -> Option<u64> {
    frames.iter().find_map(|frame| match frame {
        H3iFrame::ResetStream(reset) => Some(reset.error_code),
        _ => None,
    })
}

fn report(script: &Script, summary: &ConnectionSummary) -> Value {
    let came = |name| script.streams.get(name).map(|id| summary.stream_map.stream(*id)).unwrap_or_default();
    let closed = summary.conn_close_details.peer_error().map(|error| match error.is_app {
        true => json!(error.error_code),
        false => json!(format!("of QUIC, {:#x}", error.error_code)),
    });
    let probe = is_answered(&came("r8")) && is_answered(&came("r9"));
    json!({"closed": closed, "reset": reset(&came("r0")), "response": is_answered(&came("r0")), "probe": probe})
}

fn run(case: &Case, probe: &[u8], address: &str) -> Value {
    let config = Config::new().with_host_port("localhost:443".to_owned()).with_connect_to(address.to_owned());
    let config = config.enable_dgram(false).with_idle_timeout(20_000).build().unwrap();
    let script = Script::new(case, probe);
    let summary = sync_client::connect(config, script.actions.clone(), None);
    report(&script, &summary.unwrap_or_else(|error| panic!("{error:?}")))
}

fn main() {
    let address = std::env::args().nth(1).expect("an address");
    let input: Input = serde_json::from_reader(std::io::stdin()).unwrap();
    let probe = bytes_of(&input.probe);
    let mut reports = Vec::new();
    for cases in input.cases.chunks(CASES_AT_ONCE) {
        reports.extend(thread::scope(|scope| {
            let running: Vec<_> =
                cases.iter().map(|case| scope.spawn(|| run(case, &probe, &address))).collect();
            running.into_iter().map(|case| case.join().unwrap()).collect::<Vec<_>>()
        }));
    }
    println!("{}", Value::from(reports));
}
