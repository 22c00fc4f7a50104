//! Requests with bodies on their way through.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

mod common;
#[path = "common/scripted.rs"]
#[expect(dead_code, reason = "servers of this test read bodies")]
mod scripted;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use penstock_origin::http::{
    Connections, Fetch, HttpOrigin, Method, OriginError, OriginLimits, OriginSettings, request_body,
};
use std::sync::Arc;

use common::LIMITS;
use scripted::settings;

const MINUTE: Duration = Duration::from_secs(60);

/// A server that reads one request for each connection until it has seen `end`, or the connection's end, answers with
/// `answer`, and tells what it has read.
fn server(end: &'static str, answer: &'static str) -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut read = Vec::new();
            let mut byte = [0];
            while !read.ends_with(end.as_bytes()) && matches!(stream.read(&mut byte), Ok(1)) {
                read.push(byte[0]);
            }
            drop(stream.write_all(answer.as_bytes()));
            drop(tell.send(String::from_utf8(read).unwrap()));
        }
    });
    (address, told)
}

fn origin(servers: &[SocketAddr]) -> Arc<HttpOrigin> {
    impatient_origin(servers, MINUTE)
}

fn impatient_origin(servers: &[SocketAddr], first_byte: Duration) -> Arc<HttpOrigin> {
    HttpOrigin::new(OriginSettings {
        host: Some("origin.example".to_owned()),
        limits: OriginLimits { first_byte, retries: 3, ..LIMITS },
        ..settings(servers)
    })
}

/// The status and body of the answer to a POST whose body is these pieces; with `whole` it ends as it should.
fn post(
    origin: &Arc<HttpOrigin>,
    pieces: &[&'static str],
    length: Option<u64>,
    whole: bool,
) -> Result<(u16, String), OriginError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let connections = Connections::default();
        let (sender, body) = request_body(length);
        let pieces = pieces.to_vec();
        tokio::task::spawn_local(async move {
            for piece in pieces {
                if sender.send(piece).await.is_err() {
                    return;
                }
            }
            if whole {
                sender.finish();
            }
        });
        let mut fetch = Fetch { method: Method::POST, ..Fetch::get("/form?x=1") };
        assert!(fetch.pass("Content-Type", b"text/plain"));
        let mut answer = connections.pass(origin, &fetch, body).await?;
        let mut text = String::new();
        while let Some(piece) = answer.next().await? {
            text.push_str(str::from_utf8(&piece).unwrap());
        }
        Ok((answer.status(), text))
    })
}

const ANSWER: &str = "HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\ndone";

#[test]
fn a_body_arrives_whole_with_its_length_and_its_fields() {
    let (address, told) = server("worlds", ANSWER);
    let answer = post(&origin(&[address]), &["hello ", "worlds"], Some(12), true);
    assert_eq!(answer, Ok((201, "done".to_owned())));
    let request = told.recv().unwrap();
    assert!(request.starts_with("POST /form?x=1 HTTP/1.1\r\n"), "{request}");
    for field in
        ["host: origin.example", "content-length: 12", "content-type: text/plain", "via: 1.1 penstock"]
    {
        assert!(request.to_ascii_lowercase().contains(&format!("\r\n{field}\r\n")), "{request}");
    }
    assert!(request.ends_with("\r\n\r\nhello worlds"), "{request}");
}

#[test]
fn a_body_of_unknown_length_goes_in_chunks() {
    let (address, told) = server("0\r\n\r\n", ANSWER);
    let answer = post(&origin(&[address]), &["hello ", "worlds"], None, true);
    assert_eq!(answer, Ok((201, "done".to_owned())));
    let request = told.recv().unwrap();
    assert!(request.to_ascii_lowercase().contains("\r\ntransfer-encoding: chunked\r\n"), "{request}");
    assert!(request.ends_with("0\r\n\r\n"), "{request}");
}

#[test]
fn a_body_that_breaks_off_never_looks_whole() {
    for length in [Some(12), None] {
        let (address, told) = server("0\r\n\r\n", "");
        assert_eq!(post(&origin(&[address]), &["hello "], length, false), Err(OriginError::Abandoned));
        assert!(!told.recv().unwrap().ends_with("0\r\n\r\n"));
    }
}

#[test]
fn a_body_goes_to_another_server_only_if_the_first_has_seen_nothing() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (there, told) = server("worlds", ANSWER);
    for _ in 0..2 {
        let answer = post(&origin(&[gone, there]), &["hello ", "worlds"], Some(12), true);
        assert_eq!(answer, Ok((201, "done".to_owned())));
        assert!(told.recv().unwrap().ends_with("hello worlds"));
    }
    let (closing, first) = server("worlds", "");
    let answer = post(&origin(&[closing, there]), &["hello ", "worlds"], Some(12), true);
    assert_eq!(answer, Err(OriginError::CutShort));
    assert!(first.recv().unwrap().ends_with("hello worlds"));
    assert!(told.try_recv().is_err(), "the other was not asked");
}

#[test]
fn redirections_of_a_post_are_not_followed() {
    let (address, _told) = server(
        "worlds",
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n",
    );
    let answer = post(&origin(&[address]), &["hello ", "worlds"], Some(12), true);
    assert_eq!(answer, Ok((307, String::new())));
}

#[test]
fn a_client_that_stops_sending_is_no_fault_of_the_server() {
    let (address, _told) = server("worlds", ANSWER);
    let origin = impatient_origin(&[address], Duration::from_millis(50));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let connections = Connections::default();
        for _ in 0..4 {
            let (sender, body) = request_body(Some(12));
            sender.send("hello ").await.unwrap();
            let fetch = Fetch { method: Method::POST, ..Fetch::get("/form") };
            let outcome = connections.pass(&origin, &fetch, body).await;
            assert_eq!(outcome.err(), Some(OriginError::Abandoned));
            drop(sender);
        }
    });
    assert!(origin.server_status()[0].up);
}
