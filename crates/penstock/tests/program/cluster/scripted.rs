//! A node that does not do as it should: what it says is bounded, and clients get the right bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use penstock_testkit::origin::{Origin, answer, field, target, write};
use penstock_testkit::{Client, Gate, ReservedAddress, Server, Setup, memory_directory};

/// A server all of whose objects belong to this other node. Both speak plain HTTP.
fn server_beside(node: &Origin, origin: &Origin, address: &ReservedAddress, memory: &str) -> Server {
    server_with("peers: true", node, origin, address, memory)
}

/// The same with these settings of the site's origin.
fn server_with(
    settings: &str,
    node: &Origin,
    origin: &Origin,
    address: &ReservedAddress,
    memory: &str,
) -> Server {
    let cluster = format!(
        "cluster: {{self: edge1, nodes: [{{name: edge1, address: \"{address}\", weight: 0}}, \
         {{name: edge2, address: \"127.0.0.1:{}\"}}]}}",
        node.port()
    );
    let cache = format!("cache: {{slice: 64KiB, memory: {{directory: {memory}, size: 16MiB}}}}");
    let server = Setup::new().sites(&origin.sites_with(settings)).section(&cluster).section(&cache).start();
    server.tolerate_warning("is out: ");
    server
}

#[test]
fn what_a_node_says_of_freshness_load_and_faults_is_checked() {
    let says = [
        ("Penstock-Freshness: fresh=600000, age=0, swr=0, sie=0\r\n", "node"),
        (
            "Penstock-Freshness: fresh=18446744073709551615, age=18446744073709551615, swr=0, sie=0\r\n",
            "node",
        ),
        ("Penstock-Freshness: none\r\n", "node"),
        ("Penstock-Freshness: fresh=-1, age=0, swr=0, sie=0\r\n", "origin"),
        ("Penstock-Freshness: fresh=1, fresh=2\r\n", "origin"),
        ("Penstock-Freshness: \r\n", "origin"),
        ("Penstock-Fault: a fault that does not exist\r\n", "origin"),
        ("Penstock-Fault: unreachable\r\n", "origin"),
        ("Penstock-Load: requests=1, connections=2\r\nPenstock-Freshness: none\r\n", "node"),
        ("", "origin"),
    ];
    let node = Origin::start(move |head, _, stream| match target(head).strip_prefix("/film/") {
        Some(number) => {
            let fields = format!("ETag: \"n\"\r\n{}", says[number.parse::<usize>().unwrap()].0);
            answer(stream, "200 OK", &fields, b"node")
        }
        None => answer(stream, "204 No Content", "", b""),
    });
    let origin = Origin::answering("200 OK", "ETag: \"o\"\r\nCache-Control: max-age=60\r\n", "origin");
    let (address, memory) = (ReservedAddress::reserve(), memory_directory());
    let server = server_beside(&node, &origin, &address, &memory.path().display().to_string());
    for (number, (fields, expected)) in says.into_iter().enumerate() {
        let response = Client::plain(&server).get(&format!("/film/{number}"));
        assert_eq!((response.status, response.text()), (200, expected), "{fields}");
        assert!(!response.head.to_ascii_lowercase().contains("penstock-"), "{}", response.head);
    }
}

#[test]
fn a_node_whose_framing_is_wrong_spoils_no_object() {
    const LENGTH: usize = 1000;
    const FIELDS: &str = "Penstock-Freshness: fresh=600000, age=0, swr=0, sie=0\r\nETag: \"v1\"\r\n";
    const BODY: [u8; LENGTH] = [b'a'; LENGTH];
    let node = Origin::start(|head, _, stream| {
        let begin = format!("HTTP/1.1 200 OK\r\n{FIELDS}");
        let of = |length: usize| format!("{begin}Content-Length: {length}\r\n\r\n");
        match target(head) {
            "/endless" => {
                write(stream, begin);
                while write(stream, format!("X-Line: {}\r\n", "a".repeat(1000))) {}
                false
            }
            "/short" => {
                write(stream, of(LENGTH));
                write(stream, &BODY[..400]);
                false
            }
            "/more" => write(stream, [of(LENGTH).as_bytes(), &BODY, of(4).as_bytes(), b"evil"].concat()),
            "/two-lengths" => {
                write(stream, format!("{begin}Content-Length: 4\r\nContent-Length: {LENGTH}\r\n\r\nevil"))
            }
            "/both" => write(
                stream,
                format!(
                    "{begin}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n"
                ),
            ),
            "/negative" => write(stream, format!("{begin}Content-Length: -4\r\n\r\nevil")),
            "/good" => write(stream, of(LENGTH)) && write(stream, BODY),
            _ => answer(stream, "204 No Content", "", b""),
        }
    });
    let origin = Origin::start(|head, _, stream| {
        penstock_testkit::origin::file(head, stream, "ETag: \"v1\"\r\nCache-Control: max-age=60\r\n", &BODY)
    });
    let (address, memory) = (ReservedAddress::reserve(), memory_directory());
    let server = server_beside(&node, &origin, &address, &memory.path().display().to_string());
    for path in ["/endless", "/short", "/more", "/good", "/two-lengths", "/both", "/negative", "/good"] {
        // The second time from what was kept.
        for time in ["first", "second"] {
            let response = Client::plain(&server).get(path);
            assert_eq!(response.status, 200, "{path}, {time}: {}", response.head);
            assert!(response.body == BODY, "{path}, {time}: {}", response.text());
        }
    }
}

#[test]
fn the_rest_of_a_response_comes_from_elsewhere_if_a_node_stops_in_it() {
    const LENGTH: usize = 1000;
    let asked_alive = Arc::new(AtomicUsize::new(0));
    let (gate, counted) = (Gate::closed(), Arc::clone(&asked_alive));
    let held = gate.clone();
    let node = Origin::start(move |head, _, stream| {
        if !target(head).starts_with("/film") {
            // It is alive until it has begun to answer, and says nothing from then on.
            let first = counted.fetch_add(1, Ordering::SeqCst) == 0;
            return (first || held.pass()) && answer(stream, "204 No Content", "", b"");
        }
        counted.fetch_add(1, Ordering::SeqCst);
        let fields = "Penstock-Freshness: fresh=600000, age=0, swr=0, sie=0\r\nETag: \"v1\"\r\n";
        write(stream, format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n{fields}\r\n"))
            && write(stream, [b'a'; 10])
            && held.pass()
    });
    let origin = Origin::start(|head, _, stream| {
        assert_eq!(field(head, "penstock-site"), None);
        let fields = "ETag: \"v1\"\r\nCache-Control: max-age=60\r\n";
        penstock_testkit::origin::file(head, stream, fields, &[b'a'; LENGTH])
    });
    let (address, memory) = (ReservedAddress::reserve(), memory_directory());
    let server = server_beside(&node, &origin, &address, &memory.path().display().to_string());
    let response = Client::plain(&server).get("/film");
    assert_eq!((response.status, response.body), (200, vec![b'a'; LENGTH]));
    assert!(asked_alive.load(Ordering::SeqCst) >= 2);
    gate.open();
}

#[test]
fn a_node_that_takes_requests_and_never_answers_costs_one_wait() {
    const ANSWERED: usize = 5;
    let (gate, silent) = (Gate::closed(), Arc::new(AtomicBool::new(false)));
    let (held, is_silent) = (gate.clone(), Arc::clone(&silent));
    let number_of =
        |head: &str| target(head).strip_prefix("/film/").map(|text| text.parse::<usize>().unwrap());
    let node = Origin::start(move |head, _, stream| {
        let number = number_of(head);
        if number.is_some_and(|number| number >= ANSWERED) {
            is_silent.store(true, Ordering::SeqCst);
        }
        if is_silent.load(Ordering::SeqCst) {
            // Neither to requests for objects nor to the question whether it is alive.
            held.pass();
            return false;
        }
        let fields = "Penstock-Freshness: fresh=600000, age=0, swr=0, sie=0\r\nETag: \"n\"\r\n";
        match number {
            Some(_) => answer(stream, "200 OK", fields, b"node"),
            None => answer(stream, "204 No Content", "", b""),
        }
    });
    let origin = Origin::answering("200 OK", "ETag: \"o\"\r\nCache-Control: max-age=60\r\n", "origin");
    let (address, memory) = (ReservedAddress::reserve(), memory_directory());
    let server = server_beside(&node, &origin, &address, &memory.path().display().to_string());
    for number in 0..5 * ANSWERED {
        let response = Client::plain(&server).get(&format!("/film/{number}"));
        let expected = if number < ANSWERED { "node" } else { "origin" };
        assert_eq!((response.status, response.text()), (200, expected), "{number}");
    }
    let waited =
        node.asked().iter().filter(|head| number_of(head).is_some_and(|number| number >= ANSWERED)).count();
    assert_eq!(waited, 1, "{:?}", node.asked());
    let failed = server.metrics().sum("penstock_cluster_requests_total", &["outcome=\"failed\""]);
    assert_eq!(failed, 1.0);
    gate.open();
}

#[test]
fn a_node_that_is_alive_and_never_gives_an_object_costs_one_wait() {
    let gate = Gate::closed();
    let held = gate.clone();
    let node = Origin::start(move |head, _, stream| match target(head).starts_with("/film") {
        true => {
            held.pass();
            false
        }
        false => answer(stream, "204 No Content", "", b""),
    });
    let origin = Origin::answering("200 OK", "ETag: \"o\"\r\nCache-Control: max-age=60\r\n", "origin");
    let (address, memory) = (ReservedAddress::reserve(), memory_directory());
    let settings = "peers: true, retries: 0, timeouts: {connect: 1s, first_byte: 3s}";
    let server = server_with(settings, &node, &origin, &address, &memory.path().display().to_string());
    for number in 0..10 {
        let response = Client::plain(&server).get(&format!("/film/{number}"));
        assert_eq!((response.status, response.text()), (200, "origin"), "{number}");
    }
    let waited = node.asked().iter().filter(|head| target(head).starts_with("/film")).count();
    assert_eq!(waited, 1, "{:?}", node.asked());
    let metrics = server.metrics();
    assert_eq!(metrics.sum("penstock_cluster_requests_total", &["outcome=\"stalled\""]), 1.0);
    assert_eq!(metrics.sum("penstock_cluster_peer_up", &[]), 0.0);
    gate.open();
}
