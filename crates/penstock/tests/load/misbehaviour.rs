//! Every failure is counted by its kind.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use boring::ssl::SslVersion;
use rustix::process::{Pid, Signal, kill_process};
use socket2::SockRef;

use crate::command::{count, load, report};
use crate::scripted::{Scripted, answer_all, read_request};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// Ends the connection with RST instead of FIN.
fn reset(stream: &TcpStream) {
    SockRef::from(stream).set_linger(Some(Duration::ZERO)).unwrap();
}

/// The report of four requests to a plain server.
fn requests(script: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> serde_json::Value {
    let server = Scripted::start(script);
    report(&["requests", "--requests", "4", "--timeout", "30s", &server.url("http")])
}

/// Sends nothing, and waits for the end of the connection.
fn silent(mut stream: TcpStream, _: usize) {
    drop(stream.read_to_end(&mut Vec::new()));
}

/// The report of requests to a server that exceeds the timeout.
fn impatient(mode: &str, script: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> serde_json::Value {
    let server = Scripted::start(script);
    let url = server.url(if mode == "handshakes" { "https" } else { "http" });
    report(&[mode, "--insecure", "--requests", "4", "--connections", "4", "--timeout", "5s", &url])
}

/// The report of four handshakes.
fn handshakes(script: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> serde_json::Value {
    let server = Scripted::start(script);
    report(&["handshakes", "--insecure", "--requests", "4", "--timeout", "30s", &server.url("https")])
}

/// Fails unless all four failed, all in this way.
#[track_caller]
fn assert_all_failed(report: &serde_json::Value, kind: &str) {
    assert_eq!(count(report, &format!("errors.{kind}")), 4, "{report:#}");
    assert_eq!(count(report, "errors_total"), 4, "{report:#}");
}

#[test]
fn a_server_that_is_not_there_refuses() {
    let address = penstock_testkit::unused_address();
    let url = format!("https://{address}/");
    let report = report(&["handshakes", "--insecure", "--requests", "4", &url]);
    assert_all_failed(&report, "connect_refused");
    assert_eq!(count(&report, "handshakes"), 0);
    load(&["handshakes", "--insecure", "--requests", "4", &url]).exits_with(1);
}

#[test]
fn an_end_a_reset_and_silence_within_the_handshake_are_three_things() {
    let closing = |mut stream: TcpStream, _| {
        // Unread data would turn the end into a reset.
        stream.read_exact(&mut [0; 200]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        drop(stream.read_to_end(&mut Vec::new()));
    };
    assert_all_failed(&handshakes(closing), "handshake_closed");
    let resetting = |mut stream: TcpStream, _| {
        stream.read_exact(&mut [0; 200]).unwrap();
        reset(&stream);
    };
    assert_all_failed(&handshakes(resetting), "handshake_reset");
    assert_all_failed(&impatient("handshakes", silent), "handshake_timeout");
}

#[test]
fn an_alert_is_named_and_what_is_no_tls_is_told_apart() {
    let alerting = |mut stream: TcpStream, _| {
        stream.read_exact(&mut [0; 200]).unwrap();
        stream.write_all(&[21, 3, 3, 0, 2, 2, 40]).unwrap();
        drop(stream.read_to_end(&mut Vec::new()));
    };
    assert_all_failed(&handshakes(alerting), "handshake_alert_handshake_failure");
    let talking = |mut stream: TcpStream, _| {
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        drop(stream.read_to_end(&mut Vec::new()));
    };
    assert_all_failed(&handshakes(talking), "handshake_invalid");
}

#[test]
fn a_self_signed_certificate_is_rejected_unless_told_otherwise() {
    let server = Scripted::start_tls(|mut stream, _| answer_all(&mut stream, OK));
    let url = server.url("https");
    assert_all_failed(&report(&["handshakes", "--requests", "4", &url]), "certificate_rejected");
    let trusting = report(&["handshakes", "--requests", "4", "--insecure", &url]);
    assert_eq!((count(&trusting, "handshakes"), count(&trusting, "errors_total")), (4, 0), "{trusting:#}");
}

#[test]
fn an_end_before_the_response_differs_from_a_reset_and_from_silence() {
    let closing = |mut stream: TcpStream, _| {
        read_request(&mut stream);
    };
    assert_all_failed(&requests(closing), "closed_before_response");
    let resetting = |mut stream: TcpStream, _| {
        read_request(&mut stream);
        reset(&stream);
    };
    assert_all_failed(&requests(resetting), "reset_before_response");
    assert_all_failed(&impatient("requests", silent), "response_timeout");
}

#[test]
fn a_head_that_arrives_byte_by_byte_has_no_more_time_than_one_that_does_not_arrive() {
    let dripping = |mut stream: TcpStream, _| {
        read_request(&mut stream);
        let mut is_taken = stream.write_all(b"HTTP/1.1 200 OK\r\nX: ").is_ok();
        while is_taken {
            is_taken = stream.write_all(b"y").is_ok();
            thread::sleep(Duration::from_millis(20));
        }
    };
    let server = Scripted::start(dripping);
    let options = ["requests", "--requests", "4", "--connections", "4", "--timeout", "1s"];
    let report = report(&[&options[..], &[&server.url("http")]].concat());
    assert_all_failed(&report, "response_timeout");
}

#[test]
fn connections_end_by_close_notify_and_fin_or_by_reset_as_told() {
    for (ending, scheme) in
        [("close-notify", "http"), ("close-notify", "https"), ("reset", "http"), ("reset", "https")]
    {
        let (ends, seen) = std::sync::mpsc::channel();
        // An orderly end is Ok(0), over TLS after close_notify.
        let end = move |stream: &mut dyn Read| {
            ends.send(stream.read(&mut [0; 100]).map_err(|error| error.kind())).unwrap();
        };
        let server = if scheme == "http" {
            Scripted::start(move |mut stream, _| {
                read_request(&mut stream);
                stream.write_all(OK.as_bytes()).unwrap();
                end(&mut stream);
            })
        } else {
            Scripted::start_tls(move |mut stream, _| {
                read_request(&mut stream);
                stream.write_all(OK.as_bytes()).unwrap();
                end(&mut stream);
            })
        };
        let url = server.url(scheme);
        let options = ["requests", "--insecure", "--no-keepalive", "--requests", "3", "--ending", ending];
        let report = report(&[&options[..], &[&url]].concat());
        assert_eq!((count(&report, "requests"), count(&report, "errors_total")), (3, 0), "{report:#}");
        assert_eq!(report["ending"], ending);
        for _ in 0..3 {
            let end = seen.recv_timeout(Duration::from_secs(60)).unwrap();
            assert_eq!(
                end.is_ok_and(|count| count == 0),
                ending == "close-notify",
                "{ending} {scheme}: {end:?}"
            );
        }
    }
    let server = Scripted::start_tls(|mut stream, _| answer_all(&mut stream, OK));
    let url = server.url("https");
    let table =
        |ending| load(&["handshakes", "--insecure", "--requests", "1", "--ending", ending, &url]).ok().text();
    assert!(table("close-notify").contains("connections end by close_notify and FIN"));
    assert!(table("reset").contains("connections end by RST"));
}

#[test]
fn a_body_can_be_short_long_cut_or_stuck() {
    let say = |response: &'static str| {
        move |mut stream: TcpStream, _| {
            read_request(&mut stream);
            stream.write_all(response.as_bytes()).unwrap();
        }
    };
    assert_all_failed(&requests(say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello")), "body_short");
    assert_all_failed(&requests(say("HTTP/1.1 200 OK\r\nContent-Le")), "head_cut");
    assert_all_failed(&requests(say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nhello")), "body_long");
    assert_all_failed(&requests(say("no HTTP\r\n\r\n")), "response_malformed");
    let stuck = |mut stream: TcpStream, _| {
        read_request(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello").unwrap();
        drop(stream.read_to_end(&mut Vec::new()));
    };
    assert_all_failed(&impatient("requests", stuck), "body_timeout");
}

#[test]
fn a_response_over_tls_that_is_cut_is_short_whatever_its_framing() {
    for (response, kind) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", "body_short"),
        ("HTTP/1.1 200 OK\r\n\r\nhello", "body_short"),
        ("", "closed_before_response"),
    ] {
        let server = Scripted::start_tls(move |mut stream, _| {
            read_request(&mut stream);
            stream.write_all(response.as_bytes()).unwrap();
        });
        let url = server.url("https");
        assert_all_failed(&report(&["requests", "--requests", "4", "--insecure", &url]), kind);
    }
}

#[test]
fn responses_of_errors_are_responses_and_errors() {
    let statuses = ["404 Not Found", "500 Internal Server Error", "503 Service Unavailable", "200 OK"];
    let server = Scripted::start(move |mut stream, number| {
        let status = statuses[number % 4];
        answer_all(&mut stream, &format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
    });
    let url = server.url("http");
    let report = report(&["requests", "--requests", "8", "--no-keepalive", &url]);
    assert_eq!(count(&report, "requests"), 8);
    assert_eq!(count(&report, "errors.status_4xx"), 2, "{report:#}");
    assert_eq!(count(&report, "errors.status_5xx"), 4, "{report:#}");
    assert_eq!(count(&report, "statuses.503"), 2);
    assert_eq!(count(&report, "latency_ms.total.count"), 8);
    load(&["requests", "--requests", "8", "--strict", &url]).exits_with(1);
}

#[test]
fn a_connection_that_the_server_ends_between_two_requests_is_no_failure() {
    let server = Scripted::start(|mut stream, _| {
        read_request(&mut stream);
        stream.write_all(OK.as_bytes()).unwrap();
    });
    let report = report(&["requests", "--requests", "4", &server.url("http")]);
    assert_eq!((count(&report, "requests"), count(&report, "errors_total")), (4, 0), "{report:#}");
    assert_eq!(count(&report, "connections_opened"), 4);
    assert_eq!(count(&report, "retried"), 3);
}

/// Answers the first request of each connection, and ends the connection when it has read the second one.
fn reads_the_second(how: fn(&TcpStream)) -> (Scripted, Arc<AtomicUsize>) {
    let read = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&read);
    let server = Scripted::start(move |mut stream, _| {
        if read_request(&mut stream) {
            counted.fetch_add(1, Ordering::SeqCst);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        }
        if read_request(&mut stream) {
            counted.fetch_add(1, Ordering::SeqCst);
            how(&stream);
        }
    });
    (server, read)
}

#[test]
fn a_post_that_the_server_has_read_is_not_sent_again() {
    for (is_reset, kind) in [(false, "closed_before_response"), (true, "reset_before_response")] {
        for method in ["POST", "PATCH", "LOCK"] {
            let (server, read) = reads_the_second(if is_reset { reset } else { |_| () });
            let arguments = ["requests", "--requests", "10", "--connections", "1", "--method", method];
            let report = report(&[&arguments[..], &[&server.url("http")]].concat());
            assert_eq!(read.load(Ordering::SeqCst), 10, "{method}: each was read once");
            let counts = ["requests", "retried", "errors_total"].map(|name| count(&report, name));
            assert_eq!(counts, [5, 0, 5], "{method}: {report:#}");
            assert_eq!(count(&report, &format!("errors.{kind}")), 5, "{method}: {report:#}");
        }
    }
}

#[test]
fn requests_that_may_be_sent_twice_are_sent_again_and_resets_are_told() {
    for method in ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"] {
        let (server, _) = reads_the_second(reset);
        let url = server.url("http");
        let arguments = ["requests", "--requests", "4", "--connections", "1", "--method", method, &url];
        let report = report(&arguments);
        let names = ["requests", "errors_total", "retried", "retried_resets"];
        assert_eq!(names.map(|name| count(&report, name)), [4, 0, 3, 3], "{method}: {report:#}");
        load(&arguments).exits_with(0);
        load(&[&arguments[..], &["--strict"]].concat()).exits_with(1);
    }
    let (server, _) = reads_the_second(|_| ());
    load(&["requests", "--requests", "4", "--connections", "1", "--strict", &server.url("http")])
        .exits_with(0);
}

#[test]
fn a_range_that_was_ignored_and_a_body_that_changed_are_noticed() {
    let server = Scripted::start(|mut stream, _| answer_all(&mut stream, OK));
    let ranged = report(&["requests", "--requests", "4", "--range", "0-1", &server.url("http")]);
    assert_all_failed(&ranged, "range_ignored");

    let changing = Scripted::start(|mut stream, number| {
        answer_all(&mut stream, &format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{}", number % 2));
    });
    let url = changing.url("http");
    let report = report(&["requests", "--requests", "8", "--checksum", "--no-keepalive", &url]);
    assert_eq!((count(&report, "requests"), count(&report, "errors.body_wrong")), (8, 4), "{report:#}");
}

#[test]
fn a_slow_server_shows_in_an_open_loop_as_the_waiting_that_it_causes() {
    const PAUSE: Duration = Duration::from_millis(50);
    let server = Scripted::start(|mut stream, _| {
        while read_request(&mut stream) {
            thread::sleep(PAUSE);
            if stream.write_all(OK.as_bytes()).is_err() {
                return;
            }
        }
    });
    // 10 requests are due within 50 ms, and one connection takes 50 ms for each: the last waits for nine others.
    let arguments = ["requests", "--requests", "10", "--rate", "200", &server.url("http")];
    let open = report(&arguments);
    assert_eq!(count(&open, "requests"), 10);
    assert!(count(&open, "generator.queued_starts") > 0);
    let slowest = open["latency_ms"]["total"]["max"].as_f64().unwrap();
    assert!(slowest > 400.0, "the wait counts from when the request was due: {slowest} ms");
    let response = open["latency_ms"]["first_byte"]["p50"].as_f64().unwrap();
    assert!(response < slowest, "the server took {response} ms for one");
}

#[test]
fn early_data_goes_out_with_the_first_flight_and_again_when_it_was_refused() {
    let run = |takes: fn(usize) -> bool, mode: &str| {
        let server = Scripted::start_early(takes, OK);
        let url = server.url("https");
        let options =
            [mode, "--insecure", "--requests", "5", "--no-keepalive", "--resume", "early-data", &url];
        let options: Vec<&str> =
            options.into_iter().filter(|one| mode == "requests" || *one != "--no-keepalive").collect();
        let report = report(&options);
        assert_eq!((count(&report, "requests"), count(&report, "errors_total")), (5, 0), "{report:#}");
        assert_eq!((count(&report, "handshakes"), count(&report, "resumed")), (5, 4), "{report:#}");
        (count(&report, "early_data_sent"), count(&report, "early_data_accepted"))
    };
    for mode in ["handshakes", "requests"] {
        assert_eq!(run(|_| true, mode), (4, 4), "{mode}");
        // Every second server of the fleet refuses; its tickets allow none either.
        assert_eq!(run(|number| number % 2 == 0, mode), (2, 0), "{mode}");
        assert_eq!(run(|_| false, mode), (0, 0), "{mode}");
    }
}

#[test]
fn a_server_that_asks_for_a_certificate_gets_it_or_says_what_it_lacks() {
    let directory = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["client".to_owned()]).unwrap();
    let [chain, key] = ["client.crt", "client.key"].map(|name| directory.path().join(name));
    std::fs::write(&chain, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    for (version, alert) in [
        (SslVersion::TLS1_2, "handshake_alert_handshake_failure"),
        (SslVersion::TLS1_3, "handshake_alert_certificate_required"),
    ] {
        let server = Scripted::start_for_known_clients(version, OK);
        let url = server.url("https");
        let unknown = ["handshakes", "--insecure", "--requests", "4", &url];
        assert_all_failed(&report(&unknown), alert);
        let (chain, key) = (chain.to_str().unwrap(), key.to_str().unwrap());
        let known = [&unknown[..], &["--client-certificate", chain, "--client-key", key]].concat();
        let report = report(&known);
        assert_eq!((count(&report, "requests"), count(&report, "errors_total")), (4, 0), "{report:#}");
    }
}

#[test]
fn a_server_that_never_comes_to_its_answer_ends_no_run_late() {
    let server = Scripted::start(|mut stream, _| {
        read_request(&mut stream);
        while stream.write_all(&b"HTTP/1.1 100 Continue\r\n\r\n".repeat(1000)).is_ok() {}
    });
    assert_all_failed(&report(&["requests", "--requests", "4", &server.url("http")]), "head_too_large");
}

#[test]
fn the_first_failure_of_a_kind_is_told_with_where_and_what_to_do() {
    let server = Scripted::start_tls(|mut stream, _| answer_all(&mut stream, OK));
    let (url, address) = (server.url("https"), server.address.to_string());
    let rejected = report(&["handshakes", "--requests", "2", &url]);
    let said = rejected["error_details"]["certificate_rejected"].as_str().unwrap();
    assert_eq!(said, format!("{address}: self signed certificate"));
    assert_eq!(rejected["addresses"][&address]["errors"], 2, "{rejected:#}");
    let table = load(&["handshakes", "--requests", "2", &url]).exits_with(1).text();
    assert!(table.contains(said) && table.contains("--ca"), "{table}");

    let plain = Scripted::start(|mut stream, _| {
        answer_all(&mut stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    });
    let report = report(&["requests", "--requests", "2", &plain.url("http")]);
    let said = format!("{}: 404 for /object", plain.address);
    assert_eq!(report["error_details"]["status_4xx"], said, "{report:#}");
    assert_eq!(report["addresses"][plain.address.to_string()]["errors"], 2, "{report:#}");
}

#[test]
fn a_server_that_chose_http_2_is_told_from_one_that_talks_nonsense() {
    let server = Scripted::start_http2();
    let url = server.url("https");
    let offering = ["handshakes", "--insecure", "--requests", "4", "--alpn", "h2,http/1.1", &url];
    let asked = report(&offering);
    assert_all_failed(&asked, "response_malformed");
    let said = asked["error_details"]["response_malformed"].as_str().unwrap();
    assert!(said.ends_with("/object over h2, which is not the protocol of --protocol"), "{said}");
    // A handshake alone needs no HTTP.
    let silent = report(&[&offering[..], &["--no-request"]].concat());
    assert_eq!((count(&silent, "handshakes"), count(&silent, "errors_total")), (4, 0), "{silent:#}");
}

#[test]
fn a_run_without_one_success_ends_with_1_whatever_was_in_the_way() {
    let missing = Scripted::start(|mut stream, _| {
        answer_all(&mut stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    });
    let said = load(&["requests", "--requests", "2", &missing.url("http")]).exits_with(1).stderr;
    assert!(said.contains("2 failed: status_4xx"), "{said}");
    let silent = Scripted::start(silent);
    let said = load(&["requests", "--duration", "200ms", &silent.url("http")]).exits_with(1).stderr;
    assert!(said.contains("no operation ended: 1 were cut off"), "{said}");
    // The last of four succeeds.
    let mixed = Scripted::start(|mut stream, number| {
        let status = if number == 3 { "200 OK" } else { "404 Not Found" };
        answer_all(&mut stream, &format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
    });
    load(&["requests", "--requests", "4", "--no-keepalive", &mixed.url("http")]).exits_with(0);
}

#[test]
fn operations_cut_off_by_the_end_of_the_run_lower_no_rate() {
    let server = Scripted::start(|mut stream, number| match number {
        0 => answer_all(&mut stream, OK),
        _ => silent(stream, number),
    });
    let report = report(&["requests", "--duration", "300ms", "--connections", "2", &server.url("http")]);
    assert_eq!(count(&report, "unfinished"), 1, "{report:#}");
    let [seconds, rate] = ["seconds", "requests_per_second"].map(|key| report[key].as_f64().unwrap());
    // The second of waiting for the silent connection brought nothing.
    let slowest = |phase: &str| report["latency_ms"][phase]["max"].as_f64().unwrap() / 1e3;
    assert!(seconds < 0.4 + slowest("tcp") + slowest("total"), "{report:#}");
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let counted = count(&report, "requests") as f64;
    assert!((rate * seconds - counted).abs() < 0.5, "{report:#}");
}

#[test]
fn a_rate_beyond_all_means_is_void_and_the_requests_are_made_all_the_same() {
    let server = Scripted::start(|mut stream, _| answer_all(&mut stream, OK));
    // At this rate all starts are due at once; the last of them must not come before the first request.
    let arguments = ["requests", "--requests", "100000000", "--rate", "10000k", "--duration", "2s"];
    let report = report(&[&arguments[..], &[&server.url("http")]].concat());
    assert!(report["void"].as_str().unwrap().contains("lower --rate"), "{report:#}");
    let fastest = report["latency_ms"]["total"]["min"].as_f64().unwrap();
    assert!(count(&report, "requests") > 0 && fastest < 1900.0, "{report:#}");
}

#[test]
fn a_second_in_which_the_server_stands_still_is_in_the_percentiles_of_an_open_loop() {
    use std::sync::OnceLock;
    use std::time::Instant;
    let began = OnceLock::new();
    let stall = Duration::from_secs(1)..Duration::from_secs(2);
    let server = Scripted::start(move |mut stream, _| {
        while read_request(&mut stream) {
            let now = began.get_or_init(Instant::now).elapsed();
            if stall.contains(&now) {
                thread::sleep(stall.end - now);
            }
            if stream.write_all(OK.as_bytes()).is_err() {
                return;
            }
        }
    });
    // 400 requests are due in 4 seconds on 4 connections. The 100 of the second that stands still wait 0 to 1 s: a quarter
    // of all. A closed loop would have seen 4 slow ones. 1 % of all are 4: the slowest but 4 of 100 waited 0.96 s.
    let options = ["requests", "--rate", "100", "--duration", "4s", "--connections", "4"];
    let report = report(&[&options[..], &[&server.url("http")]].concat());
    assert_eq!(count(&report, "requests"), 400, "{report:#}");
    let percentile = |name: &str| report["latency_ms"]["total"][name].as_f64().unwrap();
    assert!(percentile("p99") >= 930.0, "{report:#}");
    // 40 of the 100 waited longer than 0.6 s.
    assert!(percentile("p90") >= 570.0, "{report:#}");
    // The time of the server alone, as a generator without a schedule measures it.
    assert!(report["latency_ms"]["first_byte"]["p95"].as_f64().unwrap() < 570.0, "{report:#}");
}

#[test]
fn an_interrupt_ends_the_run_with_the_figures_up_to_then() {
    for signal in [Signal::INT, Signal::TERM] {
        ended_by(signal);
    }
}

fn ended_by(signal: Signal) {
    let (seen, requests) = std::sync::mpsc::channel();
    let server = Scripted::start(move |mut stream, _| {
        while read_request(&mut stream) {
            // The receiver may be gone.
            if seen.send(()).is_err() || stream.write_all(OK.as_bytes()).is_err() {
                return;
            }
        }
    });
    let mut command = Command::new(penstock_testkit::program());
    command.args(["load", "requests", "--duration", "1h", "--think", "1ms", "--json", &server.url("http")]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    for _ in 0..5 {
        requests.recv_timeout(Duration::from_secs(60)).unwrap();
    }
    kill_process(Pid::from_child(&child), signal).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(count(&report, "requests") >= 4, "{report:#}");
}
