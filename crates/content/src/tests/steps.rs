//! Where a request for bytes goes in a cluster.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_cache::purge::{Pattern, PurgeTarget};
use penstock_cluster::Load;
use penstock_config::{ClusterNode, Config, limits};
use penstock_origin::http::OriginError;

use super::fixture::{Fixture, content, run};
use super::scripted::{FieldList, Gate, Reply};
use crate::origin::forget_on_peers;
use crate::peers::{Peer, Peers, Route, Step};
use crate::requester::{Hop, Requester};

const CLIENT: Requester = Requester::Client(IpAddr::V4(Ipv4Addr::LOCALHOST));

/// Four nodes, of which the first is this one and the last owns nothing.
pub(super) fn peers(now: Instant) -> Arc<Peers> {
    let text = "listeners: [{address: 127.0.0.1:80}]\nsites: [{origin: {http: [\"http://a\"]}}]\n\
        cluster: {self: e0, nodes: [{name: e0, address: 127.0.0.1:1}, {name: e1, address: 127.0.0.1:2}, \
        {name: e2, address: 127.0.0.1:3}, {name: e3, address: 127.0.0.1:4, weight: 0}]}\n";
    let config = Config::from_text(text, Path::new("/nowhere/edge.yaml")).unwrap();
    Peers::open(&config.cluster.unwrap(), None, now)
}

/// Nodes of a cluster whose objects belong to others than this one.
fn owners(names: &[&str]) -> Arc<Peers> {
    let others: String = names
        .iter()
        .map(|name| format!(", {{name: {name}, address: \"127.0.0.1:{}\"}}", &name[1..]))
        .collect();
    let text = format!(
        "listeners: [{{address: 127.0.0.1:80}}]\nsites: [{{origin: {{http: [\"http://a\"]}}}}]\n\
         cluster: {{self: e0, nodes: [{{name: e0, address: 127.0.0.1:9, weight: 0}}{others}]}}\n"
    );
    let config = Config::from_text(&text, Path::new("/nowhere/edge.yaml")).unwrap();
    Peers::open(&config.cluster.unwrap(), None, Instant::now())
}

/// What a node says of its object.
const OF_NODE: FieldList<'static> =
    &[("etag", "\"a\""), ("penstock-freshness", "fresh=60000, age=0, swr=0, sie=0")];

#[test]
fn an_object_that_comes_too_slowly_from_a_node_is_asked_of_the_origin() {
    run(async {
        let peers = owners(&["e1", "e2"]);
        let fixture = Fixture::in_cluster(&peers);
        let whole = content(1000, 0);
        fixture.origin.reply(Reply::ok(OF_NODE, &whole).cut_after(300, OriginError::TooSlow));
        let body = whole.clone();
        // Without the field of a node: it counts as a refusal of each node, and as an answer of the origin.
        fixture.origin.handle(move |asked| Reply::part_of(&body, &[("etag", "\"a\"")], asked));
        let answer = fixture.get("GET /x", "").await;
        assert!(answer.body == whole && answer.fault.is_none());
        let ranges: Vec<_> =
            fixture.origin.asked().iter().map(|asked| asked.range.map(|(first, _)| first)).collect();
        assert_eq!(ranges, [Some(0), Some(300)], "the rest came from the origin at once");
        fixture.get("GET /y", "").await;
        assert_eq!(fixture.origin.requests(), 2 + 3, "another object: both nodes, then the origin");
    });
}

/// Routes whose nodes are ranked so.
fn route_ranked(peers: &Peers, names: [&str; 3]) -> Route {
    let routes = (0..=u8::MAX).map(|number| Route::new([number; 16], 0));
    routes.into_iter().find(|route| peers.rank(*route) == names).unwrap()
}

/// Later than any takeover.
fn later(now: Instant) -> Instant {
    now + Duration::from_secs(limits::PEER_TAKEOVER_SECONDS)
}

fn node(peers: &Peers, name: &str) -> Arc<Peer> {
    peers.others().into_iter().find(|peer| peer.name() == name).unwrap()
}

/// The steps of a request, each as the name of a node with the hop, or `origin`.
fn steps(peers: &Peers, route: Route, requester: Requester, shield: &[&str], now: Instant) -> Vec<String> {
    let shield: Vec<String> = shield.iter().map(|name| (*name).to_owned()).collect();
    let steps = peers.steps(route, requester, &shield, now);
    let shown = |step| match step {
        Step::Peer(peer, hop) => format!("{} {}", Peer::name(&peer), hop.label()),
        Step::Origin => "origin".to_owned(),
    };
    steps.into_iter().map(shown).collect()
}

#[test]
fn a_client_is_served_by_the_owner_or_the_substitutes_in_front_of_this_node() {
    let now = Instant::now();
    let peers = peers(now);
    for (rank, expected) in [
        (["e1", "e2", "e0"], vec!["e1 owner", "e2 owner", "origin"]),
        (["e1", "e0", "e2"], vec!["e1 owner", "origin"]),
        (["e0", "e1", "e2"], vec!["origin"]),
    ] {
        let route = route_ranked(&peers, rank);
        assert_eq!(steps(&peers, route, CLIENT, &[], later(now)), expected, "{rank:?}");
        let of_peer = Requester::Peer(Hop::Owner);
        assert_eq!(steps(&peers, route, of_peer, &[], later(now)), ["origin"], "no third node");
    }
}

#[test]
fn a_node_that_is_out_is_passed_over() {
    let now = Instant::now();
    let peers = peers(now);
    node(&peers, "e1").take_out("a test");
    let route = route_ranked(&peers, ["e1", "e2", "e0"]);
    assert_eq!(steps(&peers, route, CLIENT, &[], later(now)), ["e2 owner", "origin"]);
    node(&peers, "e2").take_out("a test");
    assert_eq!(steps(&peers, route, CLIENT, &[], later(now)), ["origin"]);
}

#[test]
fn an_owner_that_is_new_asks_its_substitute_first_and_not_for_ever() {
    let now = Instant::now();
    let peers = peers(now);
    let route = route_ranked(&peers, ["e0", "e2", "e1"]);
    for requester in [CLIENT, Requester::Peer(Hop::Owner)] {
        assert_eq!(steps(&peers, route, requester, &[], now), ["e2 held", "origin"]);
        assert_eq!(steps(&peers, route, requester, &[], later(now)), ["origin"]);
    }
    peers.note_purge(now);
    assert_eq!(steps(&peers, route, CLIENT, &[], now), ["origin"], "the substitute may not have purged");
    let other = route_ranked(&peers, ["e2", "e0", "e1"]);
    assert_eq!(steps(&peers, other, Requester::Peer(Hop::Owner), &[], now), ["origin"], "not the owner");
}

#[test]
fn misses_go_through_the_shield_and_those_of_the_shield_do_not() {
    let now = Instant::now();
    let peers = peers(now);
    let route = route_ranked(&peers, ["e0", "e1", "e2"]);
    for requester in [CLIENT, Requester::Peer(Hop::Owner)] {
        assert_eq!(steps(&peers, route, requester, &["e3"], later(now)), ["e3 shield", "origin"]);
    }
    assert_eq!(steps(&peers, route, CLIENT, &["e0", "e3"], later(now)), ["origin"], "this node is one");
    assert_eq!(steps(&peers, route, CLIENT, &["e9"], later(now)), ["origin"], "no node has that name");
    for hop in [Hop::Shield, Hop::OnlyIfCached] {
        assert_eq!(steps(&peers, route, Requester::Peer(hop), &["e3"], now), ["origin"]);
    }
}

#[test]
fn an_owner_that_has_too_much_to_do_sheds_to_the_next() {
    let now = Instant::now();
    let peers = peers(now);
    let route = route_ranked(&peers, ["e1", "e2", "e0"]);
    let always = Load {
        requests: limits::PEER_LOAD_ALWAYS,
        connections: limits::PEER_LOAD_CONNECTIONS,
        busy: limits::PEER_LOAD_BUSY_THOUSANDTHS,
    };
    let none = Load::default();
    for (load, first) in [
        (always, "e1 owner"),
        (Load { requests: 10 * always.requests, ..none }, "e2 owner"),
        (Load { connections: 10 * always.connections, ..none }, "e2 owner"),
        (Load { busy: 1000, ..none }, "e2 owner"),
    ] {
        node(&peers, "e1").set_load(load);
        assert_eq!(steps(&peers, route, CLIENT, &[], later(now))[0], first, "{load:?}");
    }
    peers.set_own_load(0, 1000);
    node(&peers, "e2").set_load(Load { busy: 1000, ..none });
    assert_eq!(steps(&peers, route, CLIENT, &[], later(now))[0], "e1 owner", "all are as busy");
}

#[test]
fn a_node_that_has_missed_a_purge_is_not_asked() {
    let now = Instant::now();
    let peers = peers(now);
    let route = route_ranked(&peers, ["e1", "e2", "e0"]);
    let everything = Pattern { place: None, target: PurgeTarget::Everything };
    peers.missed.add(&everything, false, &["e1".to_owned(), "e3".to_owned()], 1, now);
    assert_eq!(steps(&peers, route, CLIENT, &["e3"], later(now)), ["e2 owner", "origin"]);
    let purge = peers.missed.claim(|_| true, |_| true, now).unwrap();
    peers.missed.repeated(&purge, &[], |_| true, now);
    assert_eq!(steps(&peers, route, CLIENT, &[], later(now)), ["e1 owner", "e2 owner", "origin"]);
}

#[test]
fn a_node_that_is_alive_and_answers_nothing_is_not_asked_for_a_minute() {
    let now = Instant::now();
    let peers = peers(now);
    let route = route_ranked(&peers, ["e1", "e2", "e0"]);
    let asked = |now| steps(&peers, route, CLIENT, &[], now);
    node(&peers, "e1").note_stalled(now);
    let minute = Duration::from_secs(limits::PEER_STALLED_SECONDS);
    node(&peers, "e1").end_stall(now + minute / 2);
    assert_eq!(asked(later(now)), ["e2 owner", "origin"]);
    node(&peers, "e1").end_stall(now + minute);
    assert_eq!(asked(later(now)), ["e1 owner", "e2 owner", "origin"]);
}

#[test]
fn a_node_that_is_late_is_out_only_if_it_has_answered_nothing_else_meanwhile() {
    for answers_others in [false, true] {
        run(async move {
            let peers = owners(&["e1"]);
            let fixture = Fixture::in_cluster(&peers);
            fixture.origin.reply(Reply::ok(OF_NODE, b"late").slowly(4, Duration::from_secs(24 * 3600)));
            fixture.origin.handle(|asked| match &*asked.target {
                "/alive" => Reply::new(204),
                _ => Reply::ok(OF_NODE, b"in time"),
            });
            let late = fixture.spawn("GET /x", "");
            fixture.origin.wait_for_requests(1).await;
            if answers_others {
                assert_eq!(fixture.get("GET /y", "").await.body, b"in time");
            }
            assert_eq!(late.await.unwrap().body, b"in time", "of the origin");
            let node = node(&peers, "e1");
            assert_eq!(node.is_stalled(), !answers_others);
            assert_eq!(node.answers(), u64::from(answers_others));
        });
    }
}

#[test]
fn a_change_of_the_nodes_moves_only_its_share_and_keeps_the_state_of_the_others() {
    let now = Instant::now();
    let peers = peers(now);
    let routes: Vec<Route> = (0..=u8::MAX).map(|number| Route::new([number; 16], 0)).collect();
    let owners = || routes.iter().map(|route| peers.rank(*route)[0].clone()).collect::<Vec<_>>();
    let before = owners();
    let mut nodes: Vec<ClusterNode> = peers.cluster().nodes.clone();
    let new = ClusterNode { name: "e4".to_owned(), address: "127.0.0.1:5".parse().unwrap(), weight: 1 };
    let gone = nodes.remove(1);
    nodes.insert(0, new);
    node(&peers, "e2").take_out("a test");
    assert!(peers.set_members(&nodes, later(now)));
    assert!(!peers.set_members(&nodes, later(now)), "it is the same list");
    assert!(!peers.is_member(&gone.name) && peers.is_member("e4"));
    assert!(!node(&peers, "e2").origin().is_up(), "it is still out");
    for (then, owner) in before.iter().zip(owners()) {
        assert!(*then == owner || *then == gone.name || owner == "e4", "{then} to {owner}");
    }
    let route = routes.iter().find(|route| peers.rank(**route)[..2] == ["e0", "e4"]).unwrap();
    assert_eq!(steps(&peers, *route, CLIENT, &[], later(now))[0], "e4 held", "the nodes have just changed");
    nodes.retain(|node| node.name != "e0");
    assert!(!peers.set_members(&nodes, now), "this node belongs to it");
}

#[test]
fn a_block_is_asked_for_as_long_as_an_entry_lives() {
    let peers = peers(Instant::now());
    let (route, other) = (Route::new([1; 16], 0), Route::new([1; 16], u64::MAX));
    let first = peers.ask_others(route);
    let second = peers.ask_others(route);
    assert!(peers.is_asking(route) && !peers.is_asking(other));
    drop(first);
    assert!(peers.is_asking(route));
    drop(second);
    assert!(!peers.is_asking(route));
}

#[test]
fn the_blocks_that_others_are_asked_for_are_bounded() {
    let peers = peers(Instant::now());
    let route = |number: usize| Route { key: [0; 16], block: number as u64 };
    let mut asked: Vec<_> =
        (0..limits::PEER_OUTGOING).map(|number| peers.ask_others(route(number))).collect();
    assert!(asked.iter().all(Option::is_some));
    assert!(peers.ask_others(route(limits::PEER_OUTGOING)).is_none());
    assert!(peers.ask_others(route(7)).is_some(), "one that is asked for already");
    asked.pop();
    assert!(peers.ask_others(route(limits::PEER_OUTGOING)).is_some());
}

#[test]
fn a_node_that_hangs_does_not_keep_others_from_forgetting_an_object() {
    run(async {
        let peers = owners(&["e1", "e2", "e3"]);
        let fixture = Fixture::in_cluster(&peers);
        fixture.origin.reply(Reply::new(204).head_after(&Gate::new()));
        fixture.origin.handle(|_| Reply::new(204));
        let began = tokio::time::Instant::now();
        forget_on_peers(&fixture.context, &fixture.http_site(), "/x").await;
        assert_eq!(began.elapsed(), Duration::from_millis(limits::PEER_PROBE_MILLISECONDS));
        let asked = fixture.origin.asked();
        assert_eq!(asked.len(), 3, "all nodes were told");
        assert!(asked.iter().all(|asked| asked.target == "/x" && asked.at == 0), "{asked:?}");
    });
}

#[test]
fn what_another_node_has_changed_is_forgotten_in_all_its_variants() {
    run(async {
        let peers = owners(&["e1"]);
        let fixture = Fixture::in_cluster_with(&peers, |site| {
            site.cache.vary = vec!["accept-language".to_owned(), "cookie".to_owned()];
        });
        let fields = [OF_NODE, &[("vary", "Accept-Language")]].concat();
        fixture.origin.handle(move |_| Reply::ok(&fields, b"body"));
        let clients = ["", "Accept-Language: fr\r\n", "Accept-Language: de\r\n", "Cookie: a=1\r\n"];
        for fields in clients {
            // An object of another node is kept from the second request on.
            fixture.get("GET /x", fields).await;
            fixture.get("GET /x", fields).await;
            assert_eq!(fixture.get("GET /x", fields).await.summary().1, "hit", "{fields}");
        }
        let site = fixture.http_site();
        let identity = format!("penstock-site: {}\r\n", site.sharing.as_ref().unwrap().identity);
        assert_eq!(fixture.respond_to_peer(&peers, "POST /x", &identity).await.status, 204);
        for fields in clients {
            assert_ne!(fixture.get("GET /x", fields).await.summary().1, "hit", "{fields}");
        }
    });
}

#[test]
fn a_response_waits_for_a_node_that_hangs_once_for_all_targets_that_it_has_changed() {
    run(async {
        let peers = owners(&["e1", "e2"]);
        let fixture = Fixture::in_cluster_with(&peers, |site| site.methods = vec!["POST".to_owned()]);
        let named = [("location", "/y"), ("content-location", "https://media.example/z")];
        fixture.origin.reply(Reply::new(204).with(&named));
        fixture.origin.handle(|_| Reply::new(204).head_after(&Gate::new()));
        let began = tokio::time::Instant::now();
        assert_eq!(fixture.get("POST /x", "").await.status, 204);
        assert_eq!(began.elapsed(), Duration::from_millis(limits::PEER_PROBE_MILLISECONDS));
        let mut told: Vec<_> = fixture.origin.asked().drain(1..).map(|asked| asked.target).collect();
        told.sort_unstable();
        assert_eq!(told, ["/x", "/x", "/y", "/y", "/z", "/z"]);
    });
}

#[test]
fn what_nodes_say_of_themselves_in_cdn_loop_is_not_the_word_of_a_client() {
    run(async {
        let peers = owners(&["e1", "e2"]);
        let fixture = Fixture::in_cluster(&peers);
        let site = fixture.http_site();
        let identity = &site.sharing.as_ref().unwrap().identity;
        let shield = |target: &str, loops: &str| {
            let fields =
                format!("penstock-site: {identity}\r\npenstock-hop: shield\r\nCDN-Loop: {loops}\r\n");
            (format!("GET {target}"), fields)
        };
        fixture.origin.handle(|_| Reply::new(404).with(&[("cache-control", "max-age=60")]));
        for (target, loops, requests) in [
            ("/a", "penstock; node=\"e1\"", 1),
            ("/b", "penstock; node=\"e2\", penstock; node=\"e1\"", 1),
            ("/c", "x, penstock; node=\"e1\"", 2),
            ("/d", "penstock; node=\"other\", penstock; node=\"e1\"", 2),
        ] {
            let before = fixture.origin.requests();
            for _ in 0..2 {
                let (line, fields) = shield(target, loops);
                assert_eq!(fixture.respond_to_peer(&peers, &line, &fields).await.status, 404);
            }
            assert_eq!(fixture.origin.requests() - before, requests, "{loops}");
        }
    });
}
