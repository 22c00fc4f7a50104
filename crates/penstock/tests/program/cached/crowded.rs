//! Clients whose requests all need the origin: a network does not take all its connections.

use std::net::TcpStream;

use penstock_testkit::origin::{Origin, answer, file, target};
use penstock_testkit::{Client, Content, Gate, Server, Setup, until};
use tempfile::TempDir;

const CROWD: usize = 300;
const FILM: u64 = 1 << 20;
const RANGED: &str = "ETag: \"v1\"\r\nCache-Control: max-age=600\r\n";

/// A server whose clients are named by a balancer, in front of an origin that holds `/slow` paths back.
struct Crowded {
    server: Server,
    origin: Origin,
    gate: Gate,
    film: Content,
    _memory: TempDir,
}

impl Crowded {
    fn new(limits: &str) -> Self {
        let (gate, film) = (Gate::closed(), Content::new(61, FILM));
        let (passing, bytes) = (gate.clone(), film.all());
        let origin = Origin::start(move |head, _, stream| {
            if target(head).starts_with("/slow") && !passing.pass() {
                return false;
            }
            if target(head).ends_with(".mp4") {
                file(head, stream, RANGED, &bytes)
            } else {
                answer(stream, "200 OK", "Cache-Control: no-store\r\n", b"body\n")
            }
        });
        let memory = penstock_testkit::memory_directory();
        let cache = format!(
            "cache: {{slice: 64KiB, memory: {{directory: {}, size: 32MiB}}}}",
            memory.path().display()
        );
        let setup = Setup::new().listeners(&["proxy_protocol: true"]).sites(&origin.sites()).section(&cache);
        let server = setup.limits(limits).start();
        server.tolerate_warning("is out: ");
        Self { server, origin, gate, film, _memory: memory }
    }

    /// A client at this address that has asked for a path.
    fn ask(&self, address: &str, path: &str) -> Client<TcpStream> {
        let mut client = Client::plain(&self.server);
        client.send(format!("PROXY TCP4 {address} 127.0.0.1 1111 80\r\n"));
        client.ask(path);
        client
    }

    /// The same, once its request has come to the origin.
    fn ask_origin(&self, address: &str, path: &str) -> Client<TcpStream> {
        until("a place for the network", || {
            let (asked, refused) = (self.origin.asked().len(), self.refused());
            let client = self.ask(address, path);
            until("the request to be let in or refused", || {
                (self.origin.asked().len() > asked || self.refused() > refused).then_some(())
            });
            (self.origin.asked().len() > asked).then_some(client)
        })
    }

    /// A range of the film for a client at this address.
    fn range(&self, address: &str, last: u64) -> Client<TcpStream> {
        let mut client = Client::plain(&self.server);
        client.send(format!(
            "PROXY TCP4 {address} 127.0.0.1 1111 80\r\n\
             GET /film.mp4 HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-{last}\r\n\r\n"
        ));
        assert_eq!(client.response_to_head().unwrap().status, 206);
        client
    }

    fn refused(&self) -> f64 {
        let refused = ["reason=\"network_fetches\""];
        self.server.metrics().sum("penstock_request_rejections_total", &refused)
    }
}

#[test]
fn three_hundred_slow_misses_of_one_network_leave_the_origin_to_others() {
    let crowded = Crowded::new("drain_deadline: 1s");
    let mut crowd: Vec<_> =
        (0..CROWD).map(|number| crowded.ask("192.0.2.1", &format!("/slow?x={number}"))).collect();
    // The default for one network is less than half of the crowd.
    until("the crowd to be let in or refused", || {
        (crowded.origin.asked().len() >= 128 && crowded.refused() >= 172.0).then_some(())
    });
    assert_eq!(crowded.refused(), 172.0);
    assert_eq!(crowded.ask("198.51.100.1", "/other").response().unwrap().text(), "body\n");
    let playlist = crowded.ask("192.0.2.9", "/slow.m3u8?x=1&_HLS_msn=7").response().unwrap();
    assert_eq!((playlist.status, playlist.field("Retry-After")), (429, Some("1")));
    crowded.gate.open();
    let answers: Vec<u16> = crowd.iter_mut().map(|client| client.response().unwrap().status).collect();
    assert_eq!(answers.iter().filter(|status| **status == 200).count(), 128);
    assert_eq!(answers.iter().filter(|status| **status == 429).count(), 172);
    until("places for the network", || {
        (crowded.ask("192.0.2.1", "/other").response().unwrap().status == 200).then_some(())
    });
}

#[test]
fn requests_that_need_no_fetch_of_their_own_are_not_limited() {
    let crowded = Crowded::new("fetches_per_network: 1");
    let film = crowded.ask("198.51.100.1", "/film.mp4").response().unwrap();
    crowded.film.assert_range(0..FILM, &film.body);
    let mut held = vec![crowded.ask_origin("192.0.2.1", "/slow.mp4")];
    assert_eq!(crowded.ask("192.0.2.2", "/other").response().unwrap().status, 429);
    let whole = crowded.ask("192.0.2.3", "/film.mp4").response().unwrap();
    crowded.film.assert_range(0..FILM, &whole.body);
    // It waits for the fetch of its neighbour.
    held.push(crowded.ask("192.0.2.4", "/slow.mp4"));
    crowded.gate.open();
    for client in &mut held {
        assert_eq!(client.response_to_head().unwrap().status, 200);
        crowded.film.assert_range(0..FILM, &client.body(FILM).unwrap());
    }
}

#[test]
fn a_response_that_has_begun_waits_for_its_network() {
    let crowded = Crowded::new("fetches_per_network: 1");
    crowded.film.assert_range(0..100, &crowded.range("192.0.2.1", 99).body(100).unwrap());
    let mut held = crowded.ask_origin("192.0.2.2", "/slow");
    // The first slice is in the cache, the second is not.
    let mut waiting = crowded.range("192.0.2.3", 99_999);
    crowded.film.assert_range(0..65_536, &waiting.body(65_536).unwrap());
    assert_eq!(crowded.origin.asked().len(), 2, "it waits");
    crowded.gate.open();
    assert_eq!(held.response().unwrap().status, 200);
    crowded.film.assert_range(65_536..100_000, &waiting.body(100_000 - 65_536).unwrap());
}

#[test]
fn a_network_whose_requests_wait_in_great_numbers_leaves_places_to_others() {
    const PLACES: usize = 40;
    let crowded = Crowded::new(&format!("waiters_per_fill: {PLACES}"));
    let path = "/slow/film.mp4";
    let mut crowd = vec![crowded.ask_origin("198.51.100.1", path)];
    crowd.extend((0..3 * PLACES).map(|number| crowded.ask(&format!("198.51.100.{number}"), path)));
    until("some of the network are turned away", || {
        let refused = crowded.server.metrics().sum("penstock_requests_total", &["5xx"]);
        (refused >= 2.0 * PLACES as f64).then_some(())
    });
    let mut others: Vec<_> =
        (0..PLACES / 4).map(|number| crowded.ask(&format!("203.0.113.{number}"), path)).collect();
    crowded.gate.open();
    for client in &mut others {
        let response = client.response().unwrap();
        assert_eq!(response.status, 200, "{}", response.head);
        crowded.film.assert_range(0..FILM, &response.body);
    }
    let statuses: Vec<_> = crowd.iter_mut().map(|client| client.response().unwrap().status).collect();
    assert!(statuses.iter().all(|status| matches!(status, 200 | 503)), "{statuses:?}");
}
