//! Where a request for bytes goes in a cluster.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_config::{Config, limits};

use crate::peers::{Peers, Route, Step};
use crate::requester::{Hop, Requester};

const CLIENT: Requester = Requester::Client(IpAddr::V4(Ipv4Addr::LOCALHOST));

/// Four nodes, of which the first is this one and the last owns nothing.
fn peers(now: Instant) -> Arc<Peers> {
    let text = "listeners: [{address: 127.0.0.1:80}]\nsites: [{origin: {http: [\"http://a\"]}}]\n\
        cluster: {self: e0, nodes: [{name: e0, address: 127.0.0.1:1}, {name: e1, address: 127.0.0.1:2}, \
        {name: e2, address: 127.0.0.1:3}, {name: e3, address: 127.0.0.1:4, weight: 0}]}\n";
    let config = Config::from_text(text, Path::new("/nowhere/edge.yaml")).unwrap();
    Peers::open(&config.cluster.unwrap(), None, now)
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

#[test]
fn a_client_is_served_by_the_owner_or_the_substitutes_in_front_of_this_node() {
    let now = Instant::now();
    let peers = peers(now);
    let owned = |place| Step::Peer(place, Hop::Owner);
    for (rank, expected) in [
        (["e1", "e2", "e0"], vec![owned(1), owned(2), Step::Origin]),
        (["e1", "e0", "e2"], vec![owned(1), Step::Origin]),
        (["e0", "e1", "e2"], vec![Step::Origin]),
    ] {
        let route = route_ranked(&peers, rank);
        assert_eq!(peers.steps(route, CLIENT, &[], later(now)), expected, "{rank:?}");
        let of_peer = Requester::Peer(Hop::Owner);
        assert_eq!(peers.steps(route, of_peer, &[], later(now)), [Step::Origin], "no third node");
    }
}

#[test]
fn a_node_that_is_out_is_passed_over() {
    let now = Instant::now();
    let peers = peers(now);
    peers.node(1).origin().take_out(0, "a test");
    let route = route_ranked(&peers, ["e1", "e2", "e0"]);
    assert_eq!(peers.steps(route, CLIENT, &[], later(now)), [Step::Peer(2, Hop::Owner), Step::Origin]);
    peers.node(2).origin().take_out(0, "a test");
    assert_eq!(peers.steps(route, CLIENT, &[], later(now)), [Step::Origin]);
}

#[test]
fn an_owner_that_is_new_asks_its_substitute_first_and_not_for_ever() {
    let now = Instant::now();
    let peers = peers(now);
    let route = route_ranked(&peers, ["e0", "e2", "e1"]);
    for requester in [CLIENT, Requester::Peer(Hop::Owner)] {
        assert_eq!(peers.steps(route, requester, &[], now), [Step::Peer(2, Hop::Held), Step::Origin]);
        assert_eq!(peers.steps(route, requester, &[], later(now)), [Step::Origin]);
    }
    peers.note_purge(now);
    assert_eq!(peers.steps(route, CLIENT, &[], now), [Step::Origin], "the substitute may not have purged");
    let other = route_ranked(&peers, ["e2", "e0", "e1"]);
    assert_eq!(peers.steps(other, Requester::Peer(Hop::Owner), &[], now), [Step::Origin], "not the owner");
}

#[test]
fn misses_go_through_the_shield_and_those_of_the_shield_do_not() {
    let now = Instant::now();
    let peers = peers(now);
    let route = route_ranked(&peers, ["e0", "e1", "e2"]);
    let through = [Step::Peer(3, Hop::Shield), Step::Origin];
    assert_eq!(peers.steps(route, CLIENT, &[3], later(now)), through);
    assert_eq!(peers.steps(route, Requester::Peer(Hop::Owner), &[3], later(now)), through);
    assert_eq!(peers.steps(route, CLIENT, &[0, 3], later(now)), [Step::Origin], "this node is one");
    for hop in [Hop::Shield, Hop::Held] {
        assert_eq!(peers.steps(route, Requester::Peer(hop), &[3], now), [Step::Origin]);
    }
}

#[test]
fn an_owner_that_has_too_much_to_do_sheds_to_the_next() {
    let now = Instant::now();
    let peers = peers(now);
    let route = route_ranked(&peers, ["e1", "e2", "e0"]);
    peers.node(1).set_load(limits::PEER_LOAD_ALWAYS);
    assert_eq!(peers.steps(route, CLIENT, &[], later(now))[0], Step::Peer(1, Hop::Owner));
    peers.node(1).set_load(10 * limits::PEER_LOAD_ALWAYS);
    assert_eq!(peers.steps(route, CLIENT, &[], later(now))[0], Step::Peer(2, Hop::Owner));
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
