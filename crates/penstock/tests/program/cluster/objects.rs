//! Objects of a cluster: fetched once, and the same bytes and fields from every node.

use penstock_testkit::origin::{Origin, answer, field, file, range, target};
use penstock_testkit::{Client, Content, Gate, ReservedAddress};

use super::{Cluster, Plan, SLICE, asked_targets, late_answers, size};

const FIELDS: &str = "ETag: \"v1\"\r\nCache-Control: max-age=600\r\n";

/// The bytes of a target that ends with a number.
pub(super) fn content_of(target: &str, len: u64) -> Content {
    let digits: String = target.chars().filter(char::is_ascii_digit).collect();
    Content::new(digits.parse().unwrap_or(0), len)
}

/// An origin with a file of this length for each target.
pub(super) fn files(len: u64) -> Origin {
    Origin::start(move |head, _, stream| file(head, stream, FIELDS, &content_of(target(head), len).all()))
}

#[test]
fn each_object_is_fetched_from_the_origin_once_whichever_node_is_asked() {
    let origin = files(10_000);
    let cluster = Cluster::of(3, &origin);
    for round in 0..3 {
        for number in 0..60 {
            let mut client = Client::plain(&cluster.servers[(number + round) % 3]);
            let target = format!("/film/{number}");
            let response = client.get(&target);
            assert_eq!(response.status, 200, "{}", response.head);
            assert_eq!(response.field("ETag"), Some("\"v1\""));
            content_of(&target, 10_000).assert_range(0..10_000, &response.body);
        }
    }
    let asked = asked_targets(&origin);
    assert_eq!(asked.len(), 60);
    cluster.fetched_once(&asked);
    // Each node owns a third, so two of three first requests go to another node.
    assert!(cluster.asked("answered") > 60.0, "{}", cluster.asked("answered"));
}

#[test]
fn copies_of_hot_objects_take_no_more_than_a_part_of_the_memory_of_a_node() {
    const LENGTH: u64 = 4 * SLICE;
    const OBJECTS: u64 = 200;
    let origin = files(LENGTH);
    let cluster = Cluster::of(2, &origin);
    let node = &cluster.servers[0];
    let bytes = |name: &str| node.metrics().sum(name, &[]);
    let mut client = Client::plain(node);
    for number in 0..OBJECTS {
        // The second request has it kept, the others are hits.
        for _ in 0..4 {
            let target = format!("/film/{number}");
            content_of(&target, LENGTH).assert_range(0..LENGTH, &client.get(&target).body);
        }
    }
    let (all, copied) = (bytes("penstock_cache_bytes_max"), bytes("penstock_cache_copied_bytes"));
    assert!(bytes("penstock_cache_bytes") > 0.9 * all, "the objects are twice what fits");
    let part = copied / all;
    assert!((0.15..0.28).contains(&part), "a quarter, and what is evicted next: {part}");
    let other = cluster.servers[1].metrics();
    assert_eq!(other.sum("penstock_cache_copied_bytes", &[]), 0.0, "it was asked for its own ones alone");
    let asked = asked_targets(&origin);
    assert!(asked.values().filter(|times| **times == 1).count() > 100, "those of the other node: {asked:?}");
}

#[test]
fn a_large_object_is_fetched_in_slices_of_which_each_comes_once() {
    const LENGTH: u64 = 40 * SLICE + 1234;
    let origin = files(LENGTH);
    let cluster = Cluster::of(3, &origin);
    for round in 0..2 {
        for server in &cluster.servers {
            let response = Client::plain(server).get("/film/1");
            content_of("/film/1", LENGTH).assert_range(0..LENGTH, &response.body);
            let part = Client::plain(server).get_range("/film/1", 20 * SLICE + 5, 21 * SLICE + 9);
            assert_eq!(part.status, 206, "round {round}: {}", part.head);
            content_of("/film/1", LENGTH).assert_range(20 * SLICE + 5..21 * SLICE + 10, &part.body);
        }
    }
    let asked = origin.asked();
    let ranges: Vec<_> = asked.iter().filter_map(|head| range(head)).collect();
    let length_of = |&(first, last): &(usize, usize)| (last as u64).min(LENGTH - 1) - first as u64 + 1;
    let bytes: u64 = ranges.iter().map(length_of).sum();
    // After an answer that was late, a node asks the origin itself.
    let late: f64 = cluster.servers.iter().map(late_answers).sum();
    assert!(
        bytes == LENGTH || (bytes > LENGTH && late > 0.0),
        "{bytes} bytes, {late} late answers: {ranges:?}"
    );
}

#[test]
fn many_objects_on_five_nodes_are_fetched_once_each() {
    let objects = size("PENSTOCK_TEST_CLUSTER_OBJECTS", 200);
    let origin = files(1000);
    let cluster = Cluster::of(5, &origin);
    std::thread::scope(|scope| {
        for (place, server) in cluster.servers.iter().enumerate() {
            scope.spawn(move || {
                let mut client = Client::plain(server);
                for number in 0..objects {
                    // Each node begins elsewhere, so that they meet at some objects only.
                    let target = format!("/film/{}", (number + place * objects / 5) % objects);
                    content_of(&target, 1000).assert_range(0..1000, &client.get(&target).body);
                }
            });
        }
    });
    let asked = asked_targets(&origin);
    assert_eq!(asked.len(), objects);
    cluster.fetched_once(&asked);
    println!("{objects} objects, each asked of five nodes: {} requests at the origin", origin.asked().len());
}

#[test]
fn an_object_of_several_blocks_is_fetched_from_their_owners() {
    const BLOCK: u64 = 64 << 20;
    const LENGTH: u64 = 5 * BLOCK / 2;
    let content = Content::new(9, LENGTH);
    let origin = Origin::start(move |head, _, stream| {
        let (first, last) = range(head).expect("a range");
        let last = (last as u64).min(LENGTH - 1);
        let fields = format!("Content-Range: bytes {first}-{last}/{LENGTH}\r\n{FIELDS}");
        answer(stream, "206 Partial Content", &fields, &content.bytes(first as u64..last + 1))
    });
    let cluster = Cluster::of(3, &origin);
    let parts = [BLOCK - 500, 2 * BLOCK - 500, LENGTH - 1000];
    for server in cluster.servers.iter().chain(&cluster.servers) {
        for first in parts {
            let response = Client::plain(server).get_range("/film", first, first + 999);
            content.assert_range(first..first + 1000, &response.body);
        }
    }
    let mut later: Vec<usize> = origin
        .asked()
        .iter()
        .filter_map(|head| range(head))
        .map(|(first, _)| first)
        .filter(|first| *first > 0)
        .collect();
    let all = later.len();
    later.sort_unstable();
    later.dedup();
    assert_eq!(all, later.len(), "a slice was asked for twice");
    let heads = origin.asked().len() - all;
    assert!((1..=3).contains(&heads), "the first slice: once for each owner that did not know the object");
}

#[test]
fn an_object_of_another_node_is_kept_from_its_second_request_on() {
    let origin = files(10 * SLICE);
    let cluster = Cluster::of(2, &origin);
    let kept = |server: &penstock_testkit::Server| server.metrics().sum("penstock_cache_slices", &[]);
    for number in 0..10 {
        let target = format!("/film/{number}");
        let before: Vec<f64> = cluster.servers.iter().map(kept).collect();
        for server in &cluster.servers {
            content_of(&target, 10 * SLICE)
                .assert_range(0..10 * SLICE, &Client::plain(server).get(&target).body);
        }
        let once: Vec<f64> =
            cluster.servers.iter().map(kept).zip(&before).map(|(now, then)| now - then).collect();
        assert!(once == [10.0, 0.0] || once == [0.0, 10.0], "the owner alone keeps it: {once:?}");
        for server in &cluster.servers {
            Client::plain(server).get(&target);
            let hit = Client::plain(server).get(&target);
            content_of(&target, 10 * SLICE).assert_range(0..10 * SLICE, &hit.body);
            assert!(hit.field("Cache-Status").unwrap().starts_with("penstock; hit"), "{}", hit.head);
        }
    }
    assert_eq!(asked_targets(&origin).len(), 10);
}

#[test]
fn an_object_without_a_validator_and_one_without_bytes_arrive_whole() {
    const LENGTH: u64 = 3 * SLICE + 77;
    let origin = Origin::start(|head, _, stream| match target(head) {
        "/empty" => answer(stream, "200 OK", "Cache-Control: max-age=60\r\n", b""),
        _ => answer(stream, "200 OK", "Cache-Control: max-age=60\r\n", &Content::new(7, LENGTH).all()),
    });
    let cluster = Cluster::of(2, &origin);
    for server in cluster.servers.iter().chain(&cluster.servers) {
        assert_eq!(Client::plain(server).get("/empty").body, b"");
        let response = Client::plain(server).get("/film");
        Content::new(7, LENGTH).assert_range(0..LENGTH, &response.body);
    }
}

#[test]
fn requests_to_all_nodes_at_the_same_time_are_one_request_to_the_origin() {
    let gate = Gate::closed();
    let held = gate.clone();
    let origin = Origin::start(move |_, _, stream| held.pass() && answer(stream, "200 OK", FIELDS, b"once"));
    let cluster = Cluster::of(3, &origin);
    let mut clients: Vec<_> = (0..12).map(|number| Client::plain(&cluster.servers[number % 3])).collect();
    clients.iter_mut().for_each(|client| client.ask("/film"));
    gate.wait_for_arrivals(1);
    gate.open();
    for client in &mut clients {
        assert_eq!(client.response().unwrap().text(), "once");
    }
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn age_freshness_tags_and_validators_are_those_of_the_owner() {
    let origin = Origin::start(|head, _, stream| {
        let fields = "ETag: \"v1\"\r\nCache-Control: max-age=600\r\nAge: 100\r\nSurrogate-Key: film one\r\n\
            X-Custom: kept\r\nLast-Modified: Tue, 01 Sep 2026 10:00:00 GMT\r\n";
        assert!(field(head, "penstock-site").is_none(), "internal fields reach no origin");
        answer(stream, "200 OK", fields, b"body")
    });
    let cluster = Cluster::of(2, &origin);
    for server in &cluster.servers {
        for _ in 0..3 {
            let response = Client::plain(server).get("/film");
            let age: u64 = response.field("Age").unwrap().parse().unwrap();
            assert!((100..160).contains(&age), "{}", response.head);
            assert_eq!(response.field("X-Custom"), Some("kept"));
            assert_eq!(response.field("Last-Modified"), Some("Tue, 01 Sep 2026 10:00:00 GMT"));
            assert!(!response.head.to_ascii_lowercase().contains("penstock-"), "{}", response.head);
        }
        let known = Client::plain(server).get_with("/film", "If-None-Match: \"v1\"\r\n");
        assert_eq!(known.status, 304);
    }
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn a_node_with_other_rules_for_keys_shares_no_objects() {
    let origin = files(100);
    let plan = Plan::new(&[1, 1]);
    let same = origin.sites_with("peers: true");
    let other = format!("{same}\n  cache: {{query: ignore_all}}");
    let servers = vec![plan.setup(0, &same).start(), plan.setup(1, &other).start()];
    servers.iter().for_each(|server| server.tolerate_warning("is out: "));
    let cluster = Cluster { servers, plan };
    cluster.wait_for_all();
    for number in 0..20 {
        let target = format!("/film/{number}?a=b");
        for server in &cluster.servers {
            content_of(&target, 100).assert_range(0..100, &Client::plain(server).get(&target).body);
        }
    }
    assert_eq!(origin.asked().len(), 40, "each node asks for itself");
    assert!(cluster.asked("refused") > 5.0);
}

#[test]
fn what_a_client_changes_through_a_node_is_new_there() {
    let origin = Origin::start(|_, number, stream| {
        let fields = format!("ETag: \"{number}\"\r\nCache-Control: max-age=600\r\n");
        answer(stream, "200 OK", &fields, number.to_string().as_bytes())
    });
    let cluster = Cluster::of(2, &origin);
    for path in ["/a", "/b", "/c", "/d", "/e", "/f"] {
        for server in cluster.servers.iter().chain(&cluster.servers) {
            Client::plain(server).get(path);
        }
        for server in &cluster.servers {
            let put = format!("PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
            let changed: usize = Client::plain(server).request(put).text().parse().unwrap();
            let found: usize = Client::plain(server).get(path).text().parse().unwrap();
            assert!(found > changed, "{path}: {found} is older than {changed}");
        }
    }
}

#[test]
fn nodes_that_take_each_other_for_the_owner_do_not_wait_for_each_other() {
    const LENGTH: u64 = 20 * SLICE + 99;
    let gate = Gate::closed();
    let held = gate.clone();
    let origin = Origin::start(move |head, _, stream| {
        held.pass() && file(head, stream, FIELDS, &content_of(target(head), LENGTH).all())
    });
    let sites = origin.sites_with("peers: true");
    let mut plan = Plan::new(&[0, 1]);
    let first = plan.setup(0, &sites).start();
    plan.weights = vec![1, 0];
    let servers = vec![first, plan.setup(1, &sites).start()];
    servers.iter().for_each(|server| server.tolerate_warning("is out: "));
    let cluster = Cluster { servers, plan };
    cluster.wait_for_all();
    let mut clients: Vec<_> = (0..12).map(|place| Client::plain(&cluster.servers[place % 2])).collect();
    for (place, client) in clients.iter_mut().enumerate() {
        client.ask(&format!("/film/{}", place / 4));
    }
    gate.wait_for_arrivals(3);
    gate.open();
    for (place, client) in clients.iter_mut().enumerate() {
        let body = client.response().unwrap().body;
        content_of(&format!("/film/{}", place / 4), LENGTH).assert_range(0..LENGTH, &body);
    }
    let parts: Vec<_> = cluster
        .servers
        .iter()
        .map(|server| Client::plain(server).get_range("/film/0", SLICE, LENGTH - 1))
        .collect();
    parts.iter().for_each(|part| content_of("/film/0", LENGTH).assert_range(SLICE..LENGTH, &part.body));
}

#[test]
fn all_misses_go_through_the_shield() {
    let origin = files(5000);
    let plan = Plan::new(&[1, 1, 0]);
    let cluster = Cluster::start(plan, &origin.sites_with("peers: true, shield: [edge3]"));
    for number in 0..20 {
        for server in &cluster.servers {
            let target = format!("/film/{number}");
            content_of(&target, 5000).assert_range(0..5000, &Client::plain(server).get(&target).body);
        }
    }
    let asked = origin.asked();
    assert_eq!(asked.len(), 20);
    let by_shield = |head: &&String| field(head, "cdn-loop").unwrap().ends_with("node=\"edge3\"");
    assert!(asked.iter().all(|head| by_shield(&head)), "{asked:?}");
}

#[test]
fn an_origin_that_leads_back_to_the_cluster_is_a_loop() {
    let address = ReservedAddress::reserve();
    let sites = format!("- origin: {{http: [\"http://{address}\"], peers: true}}");
    let plan = Plan::new(&[1]);
    let setup = plan.setup(0, &sites).listeners(&["tls: true", &format!("address: {address}")]);
    let server = setup.start();
    let response = Client::plain(&server).get("/film");
    assert_eq!(response.status, 508, "{}", response.head);
}
