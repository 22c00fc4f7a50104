//! What a site does for players.

use std::time::Duration;

use penstock_config::{CmcdRules, Pathway};

use crate::fixture::Fixture;

/// A site with these lines behind its origin, from line 3, and a cluster.
fn site(lines: &str) -> String {
    format!(
        "listeners: [{{address: 127.0.0.1:8080}}]\nsites: [{{origin: {{http: [\"http://192.0.2.1\"]}},\n{lines}}}]\n\
         cluster: {{self: edge1, nodes: [{{name: edge1, address: \"127.0.0.1:1\"}}, {{name: edge2, address: \"127.0.0.1:2\"}}]}}\n"
    )
}

#[test]
fn nothing_is_done_for_players_unless_a_site_says_so_and_a_route_has_its_own() {
    let fixture = Fixture::new();
    let config = fixture.read(&site("routes: [{path: /a}]")).unwrap();
    let players = &config.sites[0].settings.players;
    assert_eq!(*players, config.sites[0].routes[0].settings.players);
    assert_eq!((players.cmcd, players.cmsd, &players.steering), (CmcdRules::default(), false, &None));
    let config = fixture.read(&site(
        "cmcd: {prefetch: true}, cmsd: true,\n\
         steering: {hls: /hls.json, ttl: 10s, pathways: [{id: A, nodes: [Edge1, edge2]}, {id: b}]},\n\
         routes: [{path: /a, cmcd: {to_origin: true}, cmsd: false, steering: {dash: /d.json}}]",
    ));
    let config = config.unwrap();
    let (site, route) = (&config.sites[0].settings.players, &config.sites[0].routes[0].settings.players);
    assert_eq!(site.cmcd, CmcdRules { prefetch: true, to_origin: false });
    assert_eq!(route.cmcd, CmcdRules { prefetch: true, to_origin: true });
    assert_eq!((site.cmsd, route.cmsd), (true, false));
    let (of_site, of_route) = (site.steering.as_ref().unwrap(), route.steering.as_ref().unwrap());
    assert!(of_site.is_at("/hls.json") && !of_site.is_at("/d.json") && of_route.is_at("/d.json"));
    assert_eq!((of_site.ttl, of_route.ttl), (Duration::from_secs(10), Duration::from_secs(60)));
    let pathway = |id: &str, nodes: &[&str]| Pathway {
        id: id.to_owned(),
        nodes: nodes.iter().map(|name| (*name).to_owned()).collect(),
    };
    assert_eq!(of_site.pathways, [pathway("A", &["edge1", "edge2"]), pathway("b", &[])]);
    assert_eq!(of_route.pathways, [], "the nodes of the cluster");
}

#[test]
fn faults_of_keys_for_players_say_what_to_write_instead() {
    let fixture = Fixture::new();
    for (lines, fault) in [
        (
            "steering: {ttl: 5s}",
            "3: steering: it has no path; add hls: /steering.json, dash: /steering.json or both",
        ),
        (
            "steering: {hls: steering.json}",
            "3: hls: `steering.json` is not a path; write a path of letters and digits, such as /steering.json",
        ),
        (
            "steering: {dash: \"/a/../b\"}",
            "3: dash: `/a/../b` is not a path; write a path of letters and digits, such as /steering.json",
        ),
        ("steering: {hls: /s, ttl: 0s}", "3: ttl: 0s is out of range; write a time from 1s to 1d"),
        ("steering: {hls: /s, pathways: []}", "3: pathways: there are 0; write at least one and at most 64"),
        ("steering: {hls: /s, pathways: [{nodes: [edge1]}]}", "3: pathways: this one has no id; add id: A"),
        (
            "steering: {hls: /s, pathways: [{id: a b}]}",
            "3: id: `a b` cannot be a pathway ID; write letters, digits, `-`, `.` and `_`",
        ),
        (
            "steering: {hls: /s, pathways: [{id: a}, {id: a}]}",
            "3: id: a is a pathway already; remove one of them",
        ),
        (
            "steering: {hls: /s, pathways: [{id: a, nodes: [edge3]}]}",
            "3: nodes: the cluster has no node `edge3`; write edge1",
        ),
        (
            "cache: {vary: [CMCD-Session]}",
            "3: vary: CMCD-Session differs with each request, and selects nothing; remove it; cmcd: {to_origin: true} has the origin told",
        ),
        (
            "routes: [{path: /a, origin: {directory: video}, cmcd: {prefetch: true}}]",
            "3: prefetch: there is no cache here; remove it: only objects of a cached HTTP origin are fetched ahead",
        ),
        (
            "routes: [{path: /a, origin: {directory: video}, cmcd: {to_origin: true}}]",
            "3: to_origin: this origin takes neither queries nor fields of clients; remove it",
        ),
    ] {
        assert_eq!(fixture.faults(&site(lines)), [format!("edge.yaml:{fault}")], "{lines}");
    }
    let alone = "listeners: [{address: 127.0.0.1:8080}]\nsites: [{origin: {directory: video}, steering: {hls: /s}}]\n";
    let fault = "edge.yaml:2: steering: there are no pathways, and no cluster; add pathways: [{id: A}, {id: B}], the preferred one first";
    assert_eq!(fixture.faults(alone), [fault]);
}
