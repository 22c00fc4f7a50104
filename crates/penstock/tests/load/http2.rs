//! HTTP/2: against nghttpd, and against scripts of single frames.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use boring::sha::sha256;
use serde_json::Value;

use crate::command::{count, load, report};
use crate::nghttpd::Nghttpd;
use crate::scripted::{Scripted, answer_all};

/// Runs a mode over HTTP/2, without a failure.
fn run(mode: &str, url: &str, options: &[&str]) -> Value {
    let report = report(&[&[mode, "--protocol", "h2", "--insecure", url], options].concat());
    assert_eq!(count(&report, "errors_total"), 0, "{report:#}");
    assert_eq!(report["protocol"], "h2");
    report
}

#[test]
fn requests_share_a_connection_chosen_by_alpn_or_by_prior_knowledge() {
    for server in [Nghttpd::start_tls(&[]), Nghttpd::start_plain(&[])] {
        let files: Vec<_> = (0..3).map(|number| server.file(&number.to_string(), 1000 + number)).collect();
        let options = ["--requests", "300", "--streams", "20", "--objects", "3", "--checksum"];
        let report = run("requests", &server.url("/{}"), &options);
        assert_eq!((count(&report, "requests"), count(&report, "connections_opened")), (300, 1));
        assert_eq!(count(&report, "bytes"), 100 * files.iter().map(|file| file.len).sum::<u64>());
        assert_eq!(count(&report, "streams"), 20);
        assert_eq!(count(&report, "latency_ms.first_byte.count"), 300);
        if server.url("/").starts_with("https") {
            let agreed = report["agreed"].as_object().unwrap();
            assert!(agreed.keys().all(|name| name.ends_with(" h2")), "{agreed:?}");
        }
    }
}

#[test]
fn each_connection_has_its_streams_and_each_request_may_have_its_connection() {
    let server = Nghttpd::start_tls(&[]);
    server.file("small", 100);
    let shared = ["--requests", "200", "--connections", "4", "--threads", "2", "--streams", "5"];
    let report = run("requests", &server.url("/small"), &shared);
    assert_eq!((count(&report, "requests"), count(&report, "connections_opened")), (200, 4));
    let each = run("requests", &server.url("/small"), &["--requests", "10", "--no-keepalive"]);
    assert_eq!((count(&each, "requests"), count(&each, "connections_opened")), (10, 10));
    let handshakes = run("handshakes", &server.url("/small"), &["--requests", "10"]);
    assert_eq!((count(&handshakes, "requests"), count(&handshakes, "handshakes")), (10, 10));
    let rate = ["--requests", "50", "--streams", "5", "--rate", "500"];
    assert_eq!(count(&run("requests", &server.url("/small"), &rate), "requests"), 50);
}

#[test]
fn streams_beyond_those_that_the_server_allows_wait_for_their_turn() {
    let server = Nghttpd::start_plain(&["--max-concurrent-streams=3"]);
    server.file("small", 100_000);
    let report = run("requests", &server.url("/small"), &["--requests", "100", "--streams", "20"]);
    assert_eq!((count(&report, "requests"), count(&report, "connections_opened")), (100, 1));
}

#[test]
fn bodies_larger_than_the_windows_are_read_to_their_last_byte() {
    for (server, bytes) in [
        (Nghttpd::start_tls(&[]), 40_000_000),
        (Nghttpd::start_plain(&["--padding=200"]), 20_000_000),
        (Nghttpd::start_plain(&["--trailer", "x-checked: yes"]), 1_000_000),
    ] {
        let file = server.file("film", bytes);
        let digits: String = sha256(&file.all()).iter().map(|byte| format!("{byte:02x}")).collect();
        let options = ["--requests", "4", "--streams", "2", "--sha256", &digits];
        let report = run("download", &server.url("/film"), &options);
        assert_eq!((count(&report, "bytes"), count(&report, "connections_opened")), (4 * bytes, 1));
        // The window of a paced body is that of one second, and is given back as it is read.
        let paced = ["--requests", "2", "--streams", "2", "--bitrate", "400Mbit", "--sha256", &digits];
        assert_eq!(count(&run("download", &server.url("/film"), &paced), "bytes"), 2 * bytes);
    }
}

#[test]
fn heads_bring_no_bytes_and_a_body_of_nothing_is_whole() {
    let server = Nghttpd::start_plain(&[]);
    server.file("film", 100_000);
    server.file("nothing", 0);
    let heads = run("requests", &server.url("/film"), &["--requests", "5", "--method", "HEAD"]);
    assert_eq!((count(&heads, "requests"), count(&heads, "bytes")), (5, 0));
    let empty = run("requests", &server.url("/nothing"), &["--requests", "5"]);
    assert_eq!((count(&empty, "requests"), count(&empty, "bytes")), (5, 0));
    let missing = report(&["requests", "--protocol", "h2", "--requests", "3", &server.url("/missing")]);
    assert_eq!(count(&missing, "errors.status_4xx"), 3, "{missing:#}");
}

#[test]
fn all_that_a_viewer_fetches_comes_over_one_connection() {
    let server = Nghttpd::start_tls(&[]);
    let tracks = ["video", "audio"];
    for track in tracks {
        let mut list = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n".to_owned();
        for number in 0..5 {
            server.file(&format!("{track}{number}.ts"), 2500);
            list.push_str(&format!("#EXTINF:0.2,\n{track}{number}.ts\n"));
        }
        server.write(&format!("{track}.m3u8"), &(list + "#EXT-X-ENDLIST\n"));
    }
    server.write(
        "index.m3u8",
        "#EXTM3U\n\
         #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"a\",DEFAULT=YES,URI=\"audio.m3u8\"\n\
         #EXT-X-STREAM-INF:BANDWIDTH=100000,AUDIO=\"a\"\nvideo.m3u8\n",
    );
    let options = ["--viewers", "3", "--requests", "3", "--start", "200ms"];
    let report = run("playback", &server.url("/index.m3u8"), &options);
    assert_eq!(count(&report, "playback.players_started"), 3, "{report:#}");
    assert_eq!(count(&report, "connections_opened"), 3, "{report:#}");
    // Three playlists and five segments of each track.
    assert_eq!(count(&report, "requests"), 3 * 13, "{report:#}");
}

#[test]
fn heading_and_table_name_the_protocol() {
    let server = Nghttpd::start_plain(&[]);
    server.file("small", 100);
    let options = ["load", "requests", "--requests", "3", &server.url("/small")];
    let said = |more: &[&str]| {
        let finished = penstock_testkit::Tool::penstock().args(options).args(more).run().ok();
        (finished.stderr.clone(), finished.text())
    };
    let (heading, table) = said(&["--protocol", "h2", "--streams", "3"]);
    assert!(heading.contains("1 connection over HTTP/2 with 3 streams each"), "{heading}");
    assert!(table.contains(" over HTTP/2 with 3 streams each, the generator"), "{table}");
    assert!(table.contains("connections end by GOAWAY and FIN"), "{table}");
}

#[test]
fn a_server_that_chooses_another_protocol_or_none_is_told_apart() {
    let server = Scripted::start_tls(|mut stream, _| answer_all(&mut stream, ""));
    let url = server.url("https");
    let report = report(&["requests", "--protocol", "h2", "--insecure", "--requests", "3", &url]);
    assert_eq!(count(&report, "errors.protocol_refused"), 3, "{report:#}");
    assert_eq!(count(&report, "handshakes"), 3, "{report:#}");
    let detail = report["error_details"]["protocol_refused"].as_str().unwrap();
    assert!(detail.ends_with("the server chose no protocol instead of h2"), "{detail}");
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `:status: 200` of the static table (RFC 7541, appendix A).
const STATUS_200: &[u8] = &[0x88];

/// A frame (RFC 9113 §4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Serves HTTP/2: sends SETTINGS, and for each request what `answer` returns for its stream. Returns after an answer of
/// nothing.
fn serve(stream: &mut (impl Read + Write), answer: impl Fn(u32) -> Vec<u8>) {
    let mut preface = [0; 24];
    let mut start = frame(SETTINGS, 0, 0, &[]);
    start.extend(frame(SETTINGS, 1, 0, &[]));
    if stream.read_exact(&mut preface).is_err() || stream.write_all(&start).is_err() {
        return;
    }
    assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    let mut header = [0; 9];
    while stream.read_exact(&mut header).is_ok() {
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        if stream.read_exact(&mut payload).is_err() {
            return;
        }
        let number = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        if header[3] == HEADERS {
            let answer = answer(number);
            if stream.write_all(&answer).is_err() || answer.is_empty() {
                return;
            }
        }
    }
}

/// Ends a connection by FIN. Closing it with unread frames would reset it.
fn end(mut stream: TcpStream) {
    stream.shutdown(Shutdown::Write).unwrap();
    drop(stream.read_to_end(&mut Vec::new()));
}

/// A response of five bytes.
fn hello(stream: u32) -> Vec<u8> {
    let head = frame(HEADERS, END_HEADERS, stream, STATUS_200);
    [head, frame(DATA, END_STREAM, stream, b"hello")].concat()
}

#[test]
fn several_requests_are_under_way_at_a_time() {
    // The first three requests are answered when the third has arrived.
    let server = Scripted::start(|mut stream, _| {
        let waiting = RefCell::new(Vec::new());
        serve(&mut stream, |number| {
            let mut waiting = waiting.borrow_mut();
            waiting.push(number);
            if waiting.len() < 3 {
                return ping();
            }
            waiting.drain(..).flat_map(hello).collect()
        });
    });
    let options = ["--requests", "3", "--streams", "3"];
    let report = run("requests", &server.url("http"), &options);
    assert_eq!((count(&report, "requests"), count(&report, "bytes")), (3, 15));
}

/// A frame that needs no more than an acknowledgement.
fn ping() -> Vec<u8> {
    frame(6, 0, 0, &[0; 8])
}

#[test]
fn every_fault_of_a_stream_or_a_connection_has_its_kind() {
    type Answer = fn(u32) -> Vec<u8>;
    let cases: [(&str, Answer); 7] = [
        ("stream_reset_refused_stream", |stream| frame(RST_STREAM, 0, stream, &[0, 0, 0, 7])),
        ("stream_reset_internal_error", |stream| {
            let head = frame(HEADERS, END_HEADERS, stream, STATUS_200);
            [head, frame(RST_STREAM, 0, stream, &[0, 0, 0, 2])].concat()
        }),
        ("goaway_enhance_your_calm", |_| frame(GOAWAY, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 11])),
        ("http2_invalid", |_| frame(DATA, 0, 0, b"stream 0 has no data")),
        ("http2_invalid", |stream| {
            // The length is 9 and the body has 5 bytes.
            let head = [STATUS_200, &[0x0f, 0x0d, 1, b'9']].concat();
            let body = frame(DATA, END_STREAM, stream, b"hello");
            [frame(HEADERS, END_HEADERS, stream, &head), body].concat()
        }),
        // The script ends with an empty answer.
        ("closed_before_response", |_| Vec::new()),
        ("status_5xx", |stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &[0x8e])),
    ];
    for (kind, answer) in cases {
        let server = Scripted::start(move |mut stream, _| {
            serve(&mut stream, answer);
            end(stream);
        });
        let report = report(&["requests", "--protocol", "h2", "--requests", "4", &server.url("http")]);
        assert_eq!(count(&report, &format!("errors.{kind}")), 4, "{kind}: {report:#}");
        assert_eq!(count(&report, "errors_total"), 4, "{kind}: {report:#}");
        let resets = kind.starts_with("stream_reset") || kind == "status_5xx";
        assert_eq!(count(&report, "connections_opened"), if resets { 1 } else { 4 }, "{kind}: {report:#}");
    }
}

#[test]
fn a_body_that_ends_with_its_connection_is_short_and_one_that_pauses_is_late() {
    let begin = |stream: u32| {
        let head = frame(HEADERS, END_HEADERS, stream, STATUS_200);
        [head, frame(DATA, 0, stream, b"hel")].concat()
    };
    let pausing = Scripted::start(move |mut stream, _| serve(&mut stream, begin));
    // The second request ends the connection while the first has a part of its body.
    let ending = Scripted::start(move |mut stream, _| {
        serve(&mut stream, |number| if number == 1 { begin(number) } else { Vec::new() });
        end(stream);
    });
    for (server, kind, timeout) in [(pausing, "body_timeout", "1s"), (ending, "body_short", "30s")] {
        let options =
            ["requests", "--protocol", "h2", "--streams", "2", "--requests", "2", "--timeout", timeout];
        let report = report(&[&options[..], &[&server.url("http")]].concat());
        assert!(count(&report, &format!("errors.{kind}")) > 0, "{report:#}");
        assert_eq!(count(&report, "requests"), 0, "{report:#}");
    }
}

#[test]
fn a_connection_that_the_server_drains_is_replaced_without_a_failure() {
    // Each connection answers one request and then says that it will answer no more.
    let server = Scripted::start(|mut stream, _| {
        serve(&mut stream, |number| {
            let goaway = [&number.to_be_bytes()[..], &[0; 4]].concat();
            [hello(number), frame(GOAWAY, 0, 0, &goaway)].concat()
        });
    });
    // Also requests that may not be sent twice: GOAWAY says that the server has not acted upon them.
    for method in ["GET", "POST"] {
        let report = run("requests", &server.url("http"), &["--requests", "5", "--method", method]);
        assert_eq!((count(&report, "requests"), count(&report, "connections_opened")), (5, 5), "{method}");
    }
}

#[test]
fn early_data_carries_the_preface_and_the_request_and_again_when_it_was_refused() {
    let run = |takes: fn(usize) -> bool, mode: &str, more: &[&str]| {
        let server = Scripted::start_early_http2(takes, |stream| serve(stream, hello));
        let options = [&["--requests", "5", "--resume", "early-data"], more].concat();
        let report = run(mode, &server.url("https"), &options);
        assert_eq!(count(&report, "requests"), 5, "{report:#}");
        assert_eq!((count(&report, "handshakes"), count(&report, "resumed")), (5, 4), "{report:#}");
        (count(&report, "early_data_sent"), count(&report, "early_data_accepted"))
    };
    for (mode, more) in [("handshakes", &[][..]), ("requests", &["--no-keepalive"])] {
        assert_eq!(run(|_| true, mode, more), (4, 4), "{mode}");
        // Every second server of the fleet refuses; its tickets allow none either.
        assert_eq!(run(|number| number % 2 == 0, mode, more), (2, 0), "{mode}");
    }
}

#[test]
fn a_server_without_an_answer_ends_no_run_late() {
    let server = Scripted::start(|mut stream, _| drop(stream.read_to_end(&mut Vec::new())));
    let options = [
        "requests",
        "--protocol",
        "h2",
        "--streams",
        "3",
        "--requests",
        "3",
        "--timeout",
        "1s",
        &server.url("http"),
    ];
    let finished = load(&options).exits_with(1);
    assert!(finished.text().contains("response_timeout"), "{}", finished.text());
}
