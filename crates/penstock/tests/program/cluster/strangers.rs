//! The listener of the nodes believes nodes only, and what clients send is not believed.

use penstock_testkit::origin::{Origin, field};
use penstock_testkit::{Certificates, Client, Tool};
use rcgen::KeyPair;

use super::Cluster;

const FIELDS: &str = "ETag: \"v1\"\r\nCache-Control: max-age=600\r\n";

/// What a client with this certificate gets from the listener of the first node.
pub(super) fn ask_as(cluster: &Cluster, path: &str, certificate: Option<(&Certificates, &str)>) -> String {
    let address = cluster.plan.address(0).to_string();
    let mut tool = Tool::new("openssl").args(["s_client", "-quiet", "-connect", &address]);
    if let Some((certificates, name)) = certificate {
        tool = tool.arg("-cert").arg(certificates.path(&format!("{name}.crt")));
        tool = tool.arg("-key").arg(certificates.path(&format!("{name}.key")));
    }
    let request = format!("GET {path} HTTP/1.1\r\nHost: edge1\r\nConnection: close\r\n\r\n");
    tool.run_with_input(request.as_bytes()).text()
}

#[test]
fn the_listener_of_the_nodes_takes_certificates_of_the_clusters_authority_only() {
    let origin = Origin::answering("200 OK", FIELDS, "body");
    let cluster = Cluster::of(2, &origin);
    let directory = tempfile::tempdir().unwrap();
    let strange = Certificates::make(directory.path());
    strange.leaf("edge2", &["edge2"], &KeyPair::generate().unwrap());
    let known = ask_as(&cluster, "/alive", Some((&cluster.plan.certificates, "edge2")));
    assert!(known.contains("HTTP/1.1 204 "), "{known}");
    for stranger in [None, Some((&strange, "edge2"))] {
        let refused = ask_as(&cluster, "/alive", stranger);
        assert!(!refused.contains("HTTP/1.1"), "{refused}");
    }
}

#[test]
fn clients_cannot_speak_as_nodes() {
    let origin = Origin::answering("200 OK", FIELDS, "body");
    let cluster = Cluster::of(2, &origin);
    let fields = "penstock-site: 00\r\npenstock-hop: owner\r\npenstock-purge: everything\r\n";
    for server in &cluster.servers {
        assert_eq!(Client::plain(server).get_with("/film", fields).text(), "body");
        let posted = format!("POST /alive HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: 0\r\n\r\n");
        // Forwarded to the origin, like any other POST.
        assert_eq!(Client::plain(server).request(posted).text(), "body");
        let again = Client::plain(server).get("/film");
        assert!(again.field("Cache-Status").unwrap().contains("penstock; "), "{}", again.head);
    }
    let gets = origin.asked().into_iter().filter(|head| head.starts_with("GET /film"));
    assert_eq!(gets.count(), 1, "nothing was purged");
    let first = origin.asked().into_iter().find(|head| head.starts_with("GET /film")).unwrap();
    assert_eq!(field(&first, "penstock-hop"), None);
}

#[test]
fn what_an_origin_says_as_a_node_is_neither_believed_nor_sent_on() {
    let fields = "Cache-Control: no-store\r\nPenstock-Freshness: fresh=600000, age=0, swr=0, sie=0\r\n";
    let origin = Origin::answering("200 OK", fields, "body");
    let cluster = Cluster::of(2, &origin);
    for _ in 0..2 {
        for server in &cluster.servers {
            let response = Client::plain(server).get("/film");
            assert_eq!(response.text(), "body");
            assert_eq!(response.field("Penstock-Freshness"), None);
        }
    }
    assert_eq!(origin.asked().len(), 4, "nothing is kept");
}
