//! Restoring the cache after a restart of the program.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use penstock_testkit::origin::{Origin, answer, file};
use penstock_testkit::{Client, Content, DEADLINE, EndOfLoad, Setup, until};
use rustix::process::Signal;

use super::Edge;

fn film(body: &Content, fields: &'static str) -> Origin {
    let bytes = body.all();
    Origin::start(move |head, _, stream| file(head, stream, fields, &bytes))
}

#[test]
fn cached_objects_survive_a_kill_and_a_clean_end() {
    let body = Content::new(41, 1_000_003);
    let origin = film(&body, "ETag: \"v1\"\r\nCache-Control: max-age=600\r\nX-Custom: kept\r\n");
    let mut edge = Edge::of(&origin);
    body.assert_range(0..1_000_003, &Client::plain(&edge.server).get("/film.mp4").body);
    let asked = origin.asked().len();
    for signal in [Signal::KILL, Signal::TERM, Signal::KILL] {
        edge.server.start_again(signal);
        edge.server.wait_for_log("the memory tier in");
        for mut client in [Client::plain(&edge.server).boxed(), Client::tls(&edge.server).boxed()] {
            let again = client.get("/film.mp4");
            assert!(again.field("Cache-Status").unwrap().starts_with("penstock; hit; ttl="));
            assert_eq!((again.field("ETag"), again.field("X-Custom")), (Some("\"v1\""), Some("kept")));
            body.assert_range(0..1_000_003, &again.body);
        }
        let range = Client::plain(&edge.server).get_range("/film.mp4", 700_000, 700_099);
        body.assert_range(700_000..700_100, &range.body);
    }
    assert_eq!(origin.asked().len(), asked, "the origin was not asked again");
}

#[test]
fn an_object_that_became_stale_between_processes_is_confirmed_with_its_etag() {
    let origin = Origin::start(|head, _, stream| {
        let fields = "ETag: \"v1\"\r\nCache-Control: max-age=0\r\n";
        if head.to_ascii_lowercase().contains("if-none-match: \"v1\"") {
            answer(stream, "304 Not Modified", fields, b"")
        } else {
            answer(stream, "200 OK", fields, b"body")
        }
    });
    let mut edge = Edge::of(&origin);
    assert_eq!(Client::plain(&edge.server).get("/a.mp4").text(), "body");
    edge.server.start_again(Signal::KILL);
    assert_eq!(Client::plain(&edge.server).get("/a.mp4").text(), "body");
    assert_eq!((edge.fetched("not_modified"), edge.fetched("answered")), (1.0, 0.0));
}

#[test]
fn a_private_response_is_gone_after_a_restart() {
    let origin = Origin::start(|_, number, stream| {
        answer(stream, "200 OK", "Cache-Control: private\r\n", format!("for {number}").as_bytes())
    });
    let mut edge = Edge::of(&origin);
    assert_eq!(Client::plain(&edge.server).get("/a").text(), "for 0");
    edge.server.start_again(Signal::KILL);
    assert_eq!(Client::plain(&edge.server).get("/a").text(), "for 1");
}

#[test]
fn another_size_begins_empty_and_says_so_once() {
    let origin = Origin::start(|_, number, stream| {
        answer(stream, "200 OK", "Cache-Control: max-age=600\r\n", format!("{number}").as_bytes())
    });
    let mut edge = Edge::of(&origin);
    assert_eq!(Client::plain(&edge.server).get("/a").text(), "0");
    let directory = edge.memory.path().display();
    let cache = format!("cache: {{slice: 64KiB, memory: {{directory: {directory}, size: 8MiB}}}}");
    edge.server.configure(&Setup::new().sites(&origin.sites()).section(&cache));
    edge.server.start_again(Signal::TERM);
    edge.server.wait_for_log("begins empty: its size or slice was another");
    assert_eq!(Client::plain(&edge.server).get("/a").text(), "1");
}

/// Several clients request objects while the program is killed repeatedly. Each byte identifies its object. The objects
/// exceed memory and disk together, so that slots and segments are reused.
#[test]
fn killed_a_hundred_times_it_never_sends_a_wrong_byte() {
    const OBJECTS: u64 = 60;
    const KILLS: usize = 100;
    let bodies: Vec<Content> =
        (0..OBJECTS).map(|number| Content::new(1000 + number, 20_000 + 7_000 * number)).collect();
    let origin = {
        let whole: Vec<Vec<u8>> = bodies.iter().map(Content::all).collect();
        Origin::start(move |head, _, stream| {
            let number: usize = head.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
            file(head, stream, "ETag: \"v1\"\r\nCache-Control: max-age=600\r\n", &whole[number])
        })
    };
    let (memory, disk) = (penstock_testkit::memory_directory(), tempfile::tempdir().unwrap());
    let cache = format!(
        "cache: {{slice: 64KiB, memory: {{directory: {}, size: 2MiB}}, disk: [{{directory: {}, size: 4MiB}}]}}",
        memory.path().display(),
        disk.path().display()
    );
    // Without TLS it starts faster.
    let mut server = Setup::new().listeners(&[""]).sites(&origin.sites()).section(&cache).start();
    let (mut kept, mut on_disk) = (0, 0.0);
    for round in 0..KILLS {
        let (served, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let address = server.http();
        thread::scope(|scope| {
            let _end = EndOfLoad(&is_over);
            for client in 0..3 {
                let (bodies, served, is_over) = (&bodies, &served, &is_over);
                let numbers = (round * 31 + client * 17..).take_while(|_| !is_over.load(Ordering::Relaxed));
                scope.spawn(move || ask(address, bodies, numbers, served));
            }
            until("some answers", || (served.load(Ordering::Relaxed) >= 15).then_some(()));
            on_disk += server.metrics().sum("penstock_cache_disk_slices", &[]);
            server.start_again(Signal::KILL);
        });
        kept += usize::from(server.log().iter().any(|line| line.contains("the memory tier in")));
    }
    // It would prove nothing if there was nothing to find.
    assert!(kept > KILLS / 2 && on_disk > KILLS as f64, "{kept} times kept, {on_disk} slices on disk");
    let mut client = Client::plain(&server);
    for (number, body) in bodies.iter().enumerate() {
        body.assert_range(0..body.len, &client.get(&format!("/{number}")).body);
    }
}

/// Asks for objects until the server is gone, and looks at each byte that comes, also of answers that break off.
fn ask(address: SocketAddr, bodies: &[Content], numbers: impl Iterator<Item = usize>, served: &AtomicUsize) {
    let Ok(stream) = TcpStream::connect(address) else { return };
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut client = Client::over(stream);
    for number in numbers.map(|number| number * 7 % bodies.len()) {
        let request = format!("GET /{number} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        if client.stream.write_all(request.as_bytes()).is_err() {
            return;
        }
        let Ok(head) = client.response_to_head() else { return };
        assert_eq!(head.status, 200, "/{number}");
        let Ok(body) = client.body(bodies[number].len) else {
            let got = client.take_unread();
            return bodies[number].assert_range(0..got.len() as u64, &got);
        };
        bodies[number].assert_range(0..bodies[number].len, &body);
        served.fetch_add(1, Ordering::Relaxed);
    }
}
