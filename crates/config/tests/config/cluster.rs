//! Clusters: what the section means, and its faults.

use penstock_config::Origin;

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
    let Origin::Http(origin) = &config.sites[0].origin else { panic!("an HTTP origin") };
    assert!(origin.peers);
    assert_eq!(origin.shield, [2]);
    let config = fixture.read(&with(NODES, "peers: false")).unwrap();
    let Origin::Http(origin) = &config.sites[0].origin else { panic!("an HTTP origin") };
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
fn faults_of_a_cluster_say_what_to_write() {
    let fixture = Fixture::new();
    let edge1 = "{name: edge1, address: 127.0.0.1:8443}";
    for (cluster, fault) in [
        (
            "self: edge1, nodes: []".to_owned(),
            "cluster: there are no nodes; add nodes: [{name: edge1, address: 192.0.2.1:8443}] with all servers",
        ),
        (format!("nodes: [{edge1}]"), "self: this server has no name; add self: NAME, one of nodes"),
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
            "ca: DIR/text.pem is not a PEM file of certificates; write a PEM file with the authorities that sign \
             the certificates of nodes",
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
