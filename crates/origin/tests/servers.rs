//! The choice of a server and of a connection.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

mod common;
#[path = "common/scripted.rs"]
mod scripted;

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use penstock_origin::http::{Connections, Fetch, HttpOrigin, OriginResponse, ServerId};

use scripted::{server, settings};

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test)
}

async fn body_of(mut response: OriginResponse<'_>) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(piece) = response.next().await.unwrap() {
        body.extend_from_slice(&piece);
    }
    body
}

/// Answers with the address of the client, and so tells the connections apart.
fn tell_client(_: &str, stream: &mut TcpStream) -> bool {
    let text = stream.peer_addr().unwrap().to_string();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len());
    stream.write_all(head.as_bytes()).is_ok()
}

#[test]
fn a_connection_that_is_too_old_takes_no_further_request() {
    let (address, _heads) = server(tell_client);
    for (age, connections_used) in [(Duration::from_secs(3600), 1), (Duration::ZERO, 3)] {
        let mut settings = settings(&[address]);
        settings.limits.connection_age = age;
        let origin = HttpOrigin::new(settings);
        run(async {
            let connections = Connections::default();
            let (mut fetched, mut relayed) = (Vec::new(), Vec::new());
            for _ in 0..3 {
                fetched.push(body_of(connections.fetch(&origin, &Fetch::get("/")).await.unwrap()).await);
                let mut response = connections.relay(&origin, &Fetch::get("/"), None).await.unwrap();
                let mut body = Vec::new();
                while let Some(pieces) = response.next().await.unwrap() {
                    pieces.iter().for_each(|piece| body.extend_from_slice(piece));
                }
                relayed.push(body);
            }
            for mut clients in [fetched, relayed] {
                clients.sort_unstable();
                clients.dedup();
                assert_eq!(clients.len(), connections_used, "{age:?}");
            }
            assert_eq!(connections.idle(), if connections_used == 1 { 2 } else { 0 });
        });
    }
}

/// A server of one version of a film, which honours If-Range.
fn versioned(tag: &'static str) -> (SocketAddr, Receiver<String>) {
    server(move |head, stream| {
        let is_other = head.contains("if-range: ") && !head.contains(&format!("if-range: {tag}\r\n"));
        let answer = match head.contains("range: bytes") && !is_other {
            true => format!(
                "HTTP/1.1 206 Partial Content\r\nETag: {tag}\r\nContent-Range: bytes 2-3/4\r\nContent-Length: 2\r\n\r\nlm"
            ),
            false => format!("HTTP/1.1 200 OK\r\nETag: {tag}\r\nContent-Length: 4\r\n\r\nfilm"),
        };
        stream.write_all(answer.as_bytes()).is_ok()
    })
}

fn slice(known: &str, preferred: Option<ServerId>) -> Fetch {
    let known = Some(("if-range", known.to_owned()));
    Fetch { range: Some((2, 3)), known, preferred, ..Fetch::get("/film") }
}

#[test]
fn the_other_servers_are_asked_before_a_server_with_another_tag_is_believed() {
    let servers: Vec<_> = ["\"a\"", "\"b\"", "\"c\""].into_iter().map(versioned).collect();
    let addresses: Vec<_> = servers.iter().map(|(address, _)| *address).collect();
    let origin = HttpOrigin::new(settings(&addresses));
    run(async {
        let connections = Connections::default();
        // In turns, so that each server is the first one.
        for _ in 0..3 {
            for tag in ["\"a\"", "\"b\"", "\"c\""] {
                let response = connections.fetch(&origin, &slice(tag, None)).await.unwrap();
                assert_eq!((response.status(), response.field("etag")), (206, Some(tag)));
                assert_eq!(body_of(response).await, b"lm");
            }
        }
        for (_, heads) in &servers {
            heads.try_iter().for_each(drop);
        }
        // A version that no server has is a change, and each was asked once.
        let response = connections.fetch(&origin, &slice("\"d\"", None)).await.unwrap();
        assert_eq!(response.status(), 200);
        for (_, heads) in &servers {
            assert_eq!(heads.try_iter().count(), 1);
        }
    });
    assert!(origin.server_status().iter().all(|server| server.up));
}

#[test]
fn slices_come_from_the_server_that_gave_the_head_while_it_is_in() {
    let servers: Vec<_> = (0..3).map(|_| versioned("\"a\"")).collect();
    let addresses: Vec<_> = servers.iter().map(|(address, _)| *address).collect();
    let origin = HttpOrigin::new(settings(&addresses));
    run(async {
        let connections = Connections::default();
        let head = connections.fetch(&origin, &Fetch::get("/film")).await.unwrap();
        let preferred = head.answered_by();
        assert!(preferred.is_some());
        drop(head);
        for _ in 0..7 {
            let response = connections.fetch(&origin, &slice("\"a\"", preferred)).await.unwrap();
            assert_eq!((response.status(), response.answered_by()), (206, preferred));
            body_of(response).await;
        }
        let asked: Vec<_> = servers.iter().map(|(_, heads)| heads.try_iter().count()).collect();
        assert_eq!(asked.iter().max(), Some(&8), "{asked:?}");
        // A preference for a server of another origin has no effect.
        let other = HttpOrigin::new(settings(&addresses[..1]));
        let response = connections.fetch(&other, &slice("\"a\"", preferred)).await.unwrap();
        assert_eq!(response.status(), 206);
    });
}

#[test]
fn a_preferred_server_that_fails_is_replaced() {
    let (gone, _heads) = server(|_, _| false);
    let (alive, _told) = versioned("\"a\"");
    let mut settings = settings(&[gone, alive]);
    settings.limits.retries = 1;
    let origin = HttpOrigin::new(settings);
    run(async {
        let connections = Connections::default();
        let head = connections.fetch(&origin, &Fetch::get("/film")).await.unwrap();
        let alive = head.answered_by();
        assert_eq!(body_of(head).await, b"film");
        let response = connections.fetch(&origin, &slice("\"a\"", alive)).await.unwrap();
        assert_eq!((response.status(), response.answered_by()), (206, alive));
    });
}
