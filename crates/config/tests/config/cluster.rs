//! Clusters: what the section means, and its faults.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use penstock_config::{ClusterSource, Origin};

use crate::fixture::Fixture;

/// A plain listener, a cluster with these keys, and a site whose origin has these.
fn with(cluster: &str, origin: &str) -> String {
    format!(
        "listeners: [{{address: 127.0.0.1:8080}}]\ncluster: {{{cluster}}}\n\
         sites: [{{origin: {{http: [\"http://192.0.2.5\"], {origin}}}}}]\n"
    )
}

const NODES: &str = "self: edge1, nodes: [{name: edge1, address: 127.0.0.1:8443}, \
    {name: edge2, address: 127.0.0.2:8443, weight: 3}, {name: far, address: 127.0.0.3:8443, weight: 0}]";

#[test]
fn a_cluster_names_its_nodes_and_sites_say_whether_they_share() {
    let fixture = Fixture::new();
    let config = fixture.read(&with(NODES, "peers: true, shield: [far]")).unwrap();
    let cluster = config.cluster.unwrap();
    assert_eq!((cluster.own, cluster.nodes[cluster.own].name.as_str()), (0, "edge1"));
    let nodes: Vec<_> = cluster
        .nodes
        .iter()
        .map(|node| (node.name.as_str(), node.address.to_string(), node.weight))
        .collect();
    let expected =
        [("edge1", "127.0.0.1:8443", 1), ("edge2", "127.0.0.2:8443", 3), ("far", "127.0.0.3:8443", 0)];
    assert_eq!(nodes, expected.map(|(name, address, weight)| (name, address.to_owned(), weight)));
    assert!(cluster.tls.is_none() && !cluster.listener.tls);
    assert_eq!(cluster.listener.address.to_string(), "127.0.0.1:8443");
    let Origin::Http(origin) = &config.sites[0].settings.origin else { panic!("an HTTP origin") };
    assert!(origin.peers);
    assert_eq!(origin.shield, ["far"]);
    let config = fixture.read(&with(NODES, "peers: false")).unwrap();
    let Origin::Http(origin) = &config.sites[0].settings.origin else { panic!("an HTTP origin") };
    assert!(!origin.peers && config.warnings.is_empty());
}

#[test]
fn nodes_with_certificates_speak_tls() {
    let fixture = Fixture::new();
    let nodes = "self: ec.example.com, nodes: [{name: ec.example.com, address: 192.0.2.1:8443}]";
    let files = "ca: other.crt, chain: ec.crt, key: ec.key";
    let config = fixture.read(&with(&format!("{nodes}, {files}"), "peers: true")).unwrap();
    let cluster = config.cluster.unwrap();
    assert!(cluster.tls.is_some() && cluster.listener.tls);
    let plain = fixture.read(&with(nodes, "peers: true")).unwrap();
    assert_eq!(
        fixture.shown(&plain.warnings),
        [
            "edge.yaml:2: cluster: without ca every machine that reaches 192.0.2.1:8443 can fill and purge the cache; \
          add ca, chain and key, or keep the nodes in a network of their own"
        ]
    );
}

#[test]
fn the_nodes_of_a_cluster_may_come_from_a_store_or_from_dns() {
    let fixture = Fixture::new();
    let own = "address: 127.0.0.1:8443";
    let resolver = "127.0.0.1:53".parse().unwrap();
    let dns = |name: &str, resolver| ClusterSource::Dns { name: name.to_owned(), resolver };
    for (keys, name, weight, source) in [
        ("self: 127.0.0.1, dns: Nodes.example.com.", "127.0.0.1", 0, dns("nodes.example.com", None)),
        (
            "self: e1.example.com, dns: _penstock._tcp.example.com, resolver: 127.0.0.1:53",
            "e1.example.com",
            0,
            dns("_penstock._tcp.example.com", Some(resolver)),
        ),
    ] {
        let text = with(&format!("{keys}, {own}"), "peers: true, shield: [any]");
        let cluster = fixture.read(&text).unwrap().cluster.unwrap();
        assert_eq!((cluster.own, cluster.nodes.len(), &cluster.source), (0, 1, &source), "{keys}");
        assert_eq!((cluster.nodes[0].name.as_str(), cluster.nodes[0].weight), (name, weight), "{keys}");
        assert_eq!(cluster.listener.address.to_string(), "127.0.0.1:8443");
    }
    let secret = fixture.path().join("fleet.key");
    fs::write(&secret, "s".repeat(64)).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let fleet = "fleet: {valkey: \"redis://127.0.0.1:6379\", secret: fleet.key}\n";
    let keys = format!("self: e1, valkey: true, weight: 3, {own}");
    let cluster = fixture.read(&(with(&keys, "peers: true") + fleet)).unwrap().cluster.unwrap();
    assert_eq!((cluster.source, cluster.nodes[0].weight), (ClusterSource::Fleet, 3));
    for (keys, fault) in [
        (
            "self: e1, valkey: true, address: 127.0.0.1:8443",
            "valkey: valkey needs a store; add fleet: {valkey: \"redis://127.0.0.1:6379\", secret: fleet.key} to the file",
        ),
        ("self: 127.0.0.1, dns: nodes.example", "address: this node has none; add address: 192.0.2.1:8443"),
        ("dns: nodes.example, address: 127.0.0.1:8443", "self: this server has no name; add self: NAME"),
        (
            "self: e1, dns: nodes.example, address: 127.0.0.1:8443",
            "self: `e1` is not the address of this node; write 127.0.0.1: nodes have no other name in A records",
        ),
        (
            "self: 127.0.0.1, dns: a..b, address: 127.0.0.1:8443",
            "dns: `a..b` is not a name; write one such as nodes.example.com or _penstock._tcp.example.com",
        ),
        (
            "self: 127.0.0.1, dns: nodes.example, address: 127.0.0.1:8443, resolver: 127.0.0.1:53",
            "resolver: only SRV records are asked for there; write dns: _SERVICE._tcp.NAME, or remove it",
        ),
        (
            "self: 127.0.0.1, dns: nodes.example, address: 127.0.0.1:8443, weight: 2",
            "weight: DNS says it; write it into the SRV records, and remove it here",
        ),
        (
            "self: 127.0.0.1, dns: nodes.example, address: 127.0.0.1:8443, nodes: []",
            "nodes: the nodes come from dns already; keep one of both",
        ),
        (
            "self: edge1, nodes: [{name: edge1, address: 127.0.0.1:8443}], weight: 2",
            "weight: the entry of this node in nodes has it; remove it, or write valkey: true or dns: NAME instead of nodes",
        ),
    ] {
        assert_eq!(
            fixture.faults(&with(keys, "connections: 9")),
            [format!("edge.yaml:2: {fault}")],
            "{keys}"
        );
    }
}

#[test]
fn faults_of_a_cluster_say_what_to_write() {
    let fixture = Fixture::new();
    let edge1 = "{name: edge1, address: 127.0.0.1:8443}";
    for (cluster, fault) in [
        (
            "self: edge1, nodes: []".to_owned(),
            "cluster: there are no nodes; add nodes: [{name: edge1, address: 192.0.2.1:8443}] with all servers",
        ),
        (
            format!("nodes: [{edge1}]"),
            "self: the host name `here` is not one of nodes; add self: NAME, one of nodes",
        ),
        (
            format!("self: edge9, nodes: [{edge1}]"),
            "self: `edge9` is not one of nodes; write the name of this server as nodes has it",
        ),
        (
            format!("self: edge1, nodes: [{edge1}, {{name: edge1, address: 127.0.0.1:8444}}]"),
            "name: edge1 is already defined on line 2; give each node a name of its own",
        ),
        (
            format!("self: edge1, nodes: [{edge1}, {{name: edge2, address: 127.0.0.1:8443}}]"),
            "address: 127.0.0.1:8443 is already defined on line 2; give each node an address of its own",
        ),
        (
            format!("self: edge1, nodes: [{edge1}, {{name: Edge 2, address: 127.0.0.1:8444}}]"),
            "name: `Edge 2` is not a name of a node; write up to 64 lowercase letters, digits, - and ., such as \
             edge1.example.com",
        ),
        (
            format!("self: edge1, nodes: [{edge1}, {{name: edge2}}]"),
            "this node has no address; write {name: edge1, address: 192.0.2.1:8443}",
        ),
        (
            format!("self: edge1, nodes: [{edge1}, {{name: edge2, address: \"0.0.0.0:8443\"}}]"),
            "address: other nodes cannot reach 0.0.0.0:8443; write the IP address of the node and a port",
        ),
        (
            "self: edge1, nodes: [{name: edge1, address: 127.0.0.1:8443, weight: 0}]".to_owned(),
            "nodes: no node owns anything; give at least one a weight above 0",
        ),
        (
            "self: edge1, nodes: [{name: edge1, address: 127.0.0.1:8080}]".to_owned(),
            "cluster.nodes.address: 127.0.0.1:8080 is already used on line 1; write another port or remove one of them",
        ),
        (
            format!("self: edge1, nodes: [{edge1}], chain: ec.crt"),
            "chain: without ca the nodes speak plain HTTP; add ca: FILE.pem, or remove it",
        ),
        (
            format!("self: edge1, nodes: [{edge1}], ca: text.pem, chain: ec.crt, key: ec.key"),
            "ca: DIR/text.pem holds no certificate; write a PEM file with -----BEGIN CERTIFICATE-----",
        ),
        (
            format!("self: edge1, nodes: [{edge1}], ca: other.crt, chain: ec.crt, key: ec.key"),
            "chain: the certificate is not for the name `edge1`, by which the other nodes ask for it; issue it with \
             the DNS name edge1",
        ),
    ] {
        let faults = fixture.faults(&with(&cluster, "connections: 9"));
        assert_eq!(faults, [format!("edge.yaml:2: {fault}")], "{cluster}");
    }
}

#[test]
fn faults_of_sites_that_share_say_what_to_write() {
    let fixture = Fixture::new();
    for (origin, fault) in [
        ("peers: maybe", "peers: `maybe` is neither true nor false; write true or false"),
        (
            "peers: true, shield: [edge9]",
            "shield: `edge9` is not a node of the cluster; write a name that cluster.nodes has",
        ),
        ("peers: true, shield: [far, far]", "shield: far is listed twice; keep one of them"),
        ("shield: [far]", "shield: this site has no peers; add peers: true"),
    ] {
        assert_eq!(fixture.faults(&with(NODES, origin)), [format!("edge.yaml:3: {fault}")]);
    }
    let text = "listeners: [{address: 127.0.0.1:8080}]\nsites: [{origin: {http: [\"http://192.0.2.5\"], peers: true}}]\n";
    assert_eq!(
        fixture.faults(text),
        ["edge.yaml:2: peers: there is no cluster; add cluster: {self: NAME, nodes: [{name: NAME, address: \
          192.0.2.1:8443}]}"]
    );
    let text = "listeners: [{address: 127.0.0.1:8080}]\nsites: [{origin: {directory: video, peers: true}}]\n";
    assert_eq!(
        fixture.faults(text),
        ["edge.yaml:2: peers: a directory has none; remove it, or write http: [...]"]
    );
}
