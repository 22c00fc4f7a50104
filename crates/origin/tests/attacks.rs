//! Origins that lie, stall or lead astray, and requests that no origin can be asked.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

mod common;
#[path = "common/scripted.rs"]
mod scripted;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use penstock_origin::http::{
    Connections, Fetch, Framing, HttpOrigin, MinimumRate, OriginError, RelayedResponse,
};

use scripted::{server, settings};

/// A server that answers every request with the same bytes and closes.
fn lying(response: impl Into<Vec<u8>>) -> SocketAddr {
    let response = response.into();
    server(move |_, stream| {
        drop(stream.write_all(&response));
        false
    })
    .0
}

fn origin(server: SocketAddr) -> Arc<HttpOrigin> {
    HttpOrigin::new(settings(&[server]))
}

/// Status, framing, names of fields and body of a response.
type Fetched = Result<(u16, Framing, Vec<String>, Vec<u8>), OriginError>;

fn fetch(origin: &Arc<HttpOrigin>, fetch: &Fetch) -> Fetched {
    fetch_each(origin, std::slice::from_ref(fetch)).pop().unwrap()
}

/// Sends requests one after the other, on one set of connections.
fn fetch_each(origin: &Arc<HttpOrigin>, fetches: &[Fetch]) -> Vec<Fetched> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let connections = Connections::default();
        let mut all = Vec::new();
        for fetch in fetches {
            all.push(read(&connections, origin, fetch).await);
        }
        all
    })
}

async fn read(connections: &Connections, origin: &Arc<HttpOrigin>, fetch: &Fetch) -> Fetched {
    let mut response = connections.fetch(origin, fetch).await?;
    let names = response.fields().keys().map(ToString::to_string).collect();
    let mut body = Vec::new();
    while let Some(piece) = response.next().await? {
        body.extend_from_slice(&piece);
    }
    Ok((response.status(), response.framing(), names, body))
}

#[test]
fn a_request_that_cannot_be_sent_is_the_clients_and_takes_no_server_out() {
    let (address, _heads) = server(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        true
    });
    let origin = origin(address);
    for _ in 0..6 {
        for target in ["/a<b", "/a>b", "/a`b", "/a b", "/a\u{7f}b"] {
            assert_eq!(fetch(&origin, &Fetch::get(target)), Err(OriginError::Unsendable), "{target}");
        }
    }
    assert!(origin.server_status()[0].up);
    assert_eq!(fetch(&origin, &Fetch::get("/ab")).unwrap().3, b"ok");
}

#[test]
fn doubtful_framing_and_answers_that_were_not_asked_for_are_malformed() {
    for head in [
        "200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked",
        "200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 12",
        "200 OK\r\nTransfer-Encoding: gzip, chunked",
        "200 OK\r\nTransfer-Encoding: xchunked",
        "200 OK\r\nTransfer-Encoding: chunked, gzip",
        "200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
        "200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "200 OK\r\nTransfer-Encoding: identity",
        "304 Not Modified",
        "101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x",
    ] {
        let address = lying(format!("HTTP/1.1 {head}\r\n\r\n2\r\nok\r\n0\r\n\r\n"));
        let outcome = fetch(&origin(address), &Fetch::get("/"));
        assert_eq!(outcome, Err(OriginError::Malformed), "{head}");
    }
}

#[test]
fn a_malformed_response_ends_its_connection() {
    let (address, heads) = server(|_, stream| {
        let response =
            "HTTP/1.1 200 OK\r\nContent-Length: 12\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
        drop(stream.write_all(response.as_bytes()));
        true
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let (connections, origin) = (Connections::default(), origin(address));
        let outcome = read(&connections, &origin, &Fetch::get("/")).await;
        assert_eq!(outcome, Err(OriginError::Malformed));
        assert_eq!(connections.idle(), 0);
    });
    assert!(heads.recv().unwrap().starts_with("GET / "));
}

#[test]
fn a_304_that_was_asked_for_is_taken() {
    let address = lying("HTTP/1.1 304 Not Modified\r\n\r\n");
    let fetched = fetch(
        &origin(address),
        &Fetch { known: Some(("if-none-match", "\"1\"".to_owned())), ..Fetch::get("/") },
    );
    assert_eq!(fetched.unwrap().0, 304);
}

#[test]
fn the_framing_tells_whether_the_end_of_a_body_proves_anything() {
    for (head, body, framing) in [
        ("Content-Length: 2", "ok", Framing::Length),
        ("Transfer-Encoding: Chunked", "2\r\nok\r\n0\r\n\r\n", Framing::Chunked),
        ("X: y", "ok", Framing::Close),
    ] {
        let address = lying(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}"));
        let (_, found, _, body) = fetch(&origin(address), &Fetch::get("/")).unwrap();
        assert_eq!((found, &*body), (framing, &b"ok"[..]), "{head}");
    }
    assert!(!Framing::Close.proves_completeness());
    assert!(Framing::CloseNotify.proves_completeness() && Framing::Chunked.proves_completeness());
}

#[test]
fn underscore_twins_of_framing_fields_are_dropped_in_both_directions() {
    let (address, heads) = server(|_, stream| {
        let head = "HTTP/1.1 200 OK\r\nContent_Length: 9\r\nTransfer_Encoding: chunked\r\nX_Y: 1\r\nContent-Length: 2\r\n\r\nok";
        stream.write_all(head.as_bytes()).unwrap();
        true
    });
    let mut request = Fetch::get("/");
    for name in ["Content_Length", "transfer_encoding", "TRANSFER_ENCODING"] {
        assert!(!request.pass(name, b"1"), "{name}");
    }
    assert!(request.pass("x_y", b"1"));
    let (_, _, mut names, body) = fetch(&origin(address), &request).unwrap();
    names.sort_unstable();
    assert_eq!((names, &*body), (vec!["content-length".to_owned(), "x_y".to_owned()], &b"ok"[..]));
    let head = heads.recv().unwrap().to_ascii_lowercase();
    assert!(
        head.contains("\r\nx_y: 1\r\n") && !head.contains("_encoding") && !head.contains("_length"),
        "{head}"
    );
}

#[test]
fn a_body_that_trickles_ends() {
    let (address, _heads) = server(|_, stream| {
        let mut sent = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
        while sent.is_ok() {
            thread::sleep(Duration::from_millis(1));
            sent = stream.write_all(b"x");
        }
        false
    });
    let mut settings = settings(&[address]);
    settings.limits.minimum_rate =
        MinimumRate { bytes_per_second: 1 << 20, window: Duration::from_millis(50) };
    let outcome = fetch(&HttpOrigin::new(settings), &Fetch::get("/"));
    assert_eq!(outcome, Err(OriginError::TooSlow));
}

#[test]
fn a_relayed_body_that_trickles_ends_and_gives_its_place_to_the_next_request() {
    let (address, _heads) = server(|head, stream| {
        let delimiter = match head.starts_with("GET /chunked") {
            true => "Transfer-Encoding: chunked",
            false => "Content-Length: 1000000",
        };
        let mut sent = stream.write_all(format!("HTTP/1.1 200 OK\r\n{delimiter}\r\n\r\n").as_bytes());
        while sent.is_ok() {
            thread::sleep(Duration::from_millis(1));
            sent = stream.write_all(b"1\r\nx\r\n");
        }
        false
    });
    let mut settings = settings(&[address]);
    settings.limits.connections = 1;
    settings.limits.minimum_rate =
        MinimumRate { bytes_per_second: 1 << 20, window: Duration::from_millis(50) };
    let origin = HttpOrigin::new(settings);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let connections = Connections::default();
        // Twice, because each needs the only connection.
        for target in ["/chunked", "/socket", "/chunked", "/socket"] {
            let mut response = connections.relay(&origin, &Fetch::get(target), None).await.unwrap();
            let error = match response.take_socket() {
                Some((_, socket, _)) => read_socket(&mut response, &socket).await,
                None => loop {
                    match response.next().await {
                        Ok(piece) => assert!(piece.is_some(), "{target}"),
                        Err(error) => break error,
                    }
                },
            };
            assert_eq!(error, OriginError::TooSlow, "{target}");
        }
    });
}

/// Reads what is to be moved from a socket, until the response is too slow.
async fn read_socket(response: &mut RelayedResponse, socket: &tokio::net::TcpStream) -> OriginError {
    let mut bytes = [0; 4096];
    loop {
        let began = Instant::now();
        socket.readable().await.unwrap();
        let read = socket.try_read(&mut bytes).unwrap_or(0);
        if let Err(error) = response.count_wait(began.elapsed(), read) {
            return error;
        }
    }
}

#[test]
fn a_head_that_trickles_ends_at_its_deadline() {
    let (address, _heads) = server(|_, stream| {
        let mut sent = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        while sent.is_ok() {
            thread::sleep(Duration::from_millis(1));
            sent = stream.write_all(b"X");
        }
        false
    });
    let mut settings = settings(&[address]);
    settings.limits.first_byte = Duration::from_millis(100);
    assert_eq!(fetch(&HttpOrigin::new(settings), &Fetch::get("/")), Err(OriginError::Timeout));
}

#[test]
fn endless_interim_responses_end() {
    let (address, _heads) = server(|_, stream| {
        let interim = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(100);
        while stream.write_all(interim.as_bytes()).is_ok() {}
        false
    });
    assert_eq!(fetch(&origin(address), &Fetch::get("/")), Err(OriginError::InterimResponses));
}

#[test]
fn some_interim_responses_are_fine_and_so_is_a_long_body_behind_them() {
    let body = vec![b'x'; 3 << 20];
    let mut response = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(10);
    response
        .extend_from_slice(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes());
    response.extend_from_slice(&body);
    let fetched = fetch(&origin(lying(response)), &Fetch::get("/")).unwrap();
    assert!(fetched.3 == body);
}

#[test]
fn an_endless_trailer_ends() {
    let (address, _heads) = server(|_, stream| {
        let mut sent =
            stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n");
        while sent.is_ok() {
            sent = stream.write_all(b"Filler: 0123456789\r\n");
        }
        false
    });
    assert_eq!(fetch(&origin(address), &Fetch::get("/")), Err(OriginError::TrailerTooLarge));
}

#[test]
fn one_url_that_is_never_answered_well_takes_no_server_out() {
    let answers = |head: &str, stream: &mut TcpStream| match head.split(' ').nth(1) {
        Some("/cut") => false,
        Some("/garbled") => stream.write_all(b"nonsense\r\n\r\n").is_ok(),
        // The client gives up first, and closes the connection.
        Some("/silent") => stream.read(&mut [0]).is_ok_and(|read| read > 0),
        _ => stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_ok(),
    };
    let (server, _told) = server(answers);
    let expected = [
        ("/cut", OriginError::CutShort),
        ("/garbled", OriginError::Malformed),
        ("/silent", OriginError::Timeout),
    ];
    for (path, error) in expected {
        let mut settings = settings(&[server]);
        settings.limits.first_byte = Duration::from_millis(100);
        let origin = HttpOrigin::new(settings);
        for fetched in fetch_each(&origin, &vec![Fetch::get(path); 5]) {
            assert_eq!(fetched.unwrap_err(), error, "{path}");
        }
        assert!(origin.server_status()[0].up, "{path}");
        assert_eq!(fetch(&origin, &Fetch::get("/good")).unwrap().0, 200);
    }
}

#[test]
fn one_url_that_always_fails_takes_no_server_out() {
    let answers = |head: &str, stream: &mut TcpStream| {
        let status = if head.starts_with("GET /broken") { "503 Not now" } else { "200 OK" };
        stream.write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nok").as_bytes()).is_ok()
    };
    let (servers, told): (Vec<_>, Vec<_>) = (0..3).map(|_| server(answers)).unzip();
    let origin = HttpOrigin::new(settings(&servers));
    let ask =
        |fetches: Vec<Fetch>| fetch_each(&origin, &fetches).into_iter().map(|fetched| fetched.unwrap().0);
    let broken = (0..100).map(|number| Fetch::get(format!("/broken?{number}"))).collect();
    assert!(ask(broken).all(|status| status == 503));
    assert!(origin.server_status().iter().all(|server| server.up), "{:?}", origin.server_status());
    let good = (0..9).map(|number| Fetch::get(format!("/good/{number}"))).collect();
    assert!(ask(good).all(|status| status == 200));
    for heads in told {
        let good = heads.try_iter().filter(|head| head.starts_with("GET /good")).count();
        assert_eq!(good, 3, "each server has its turns");
    }
}
