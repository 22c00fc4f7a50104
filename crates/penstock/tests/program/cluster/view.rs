//! One node shows how all of them are doing.

use penstock_testkit::origin::Origin;
use penstock_testkit::{Client, Server, until};
use serde_json::Value;

use super::Cluster;
use super::strangers::ask_as;

/// The entry of a node in `/status.json` of a server.
fn node(server: &Server, name: &str) -> Value {
    let mut client = Client::connect(server.admin());
    client.ask("/status.json");
    let status: Value = serde_json::from_str(client.response().unwrap().text()).unwrap();
    let nodes = status["cluster"].as_array().unwrap();
    nodes.iter().find(|node| node["name"] == name).unwrap().clone()
}

#[test]
fn one_node_shows_the_numbers_and_problems_of_all() {
    let origin = Origin::answering("200 OK", "Cache-Control: max-age=600\r\n", "body");
    let cluster = Cluster::start(
        super::Plan::new(&[1, 1]),
        &format!(
            "{}\n- {{hosts: [dead.test], origin: {{http: [\"http://127.0.0.1:1\"]}}}}",
            origin.sites_with("peers: true")
        ),
    );
    let (here, there) = (&cluster.servers[0], &cluster.servers[1]);
    let mut client = Client::plain(there);
    for _ in 0..20 {
        client.request("GET /x HTTP/1.1\r\nHost: dead.test\r\n\r\n");
    }
    let seen = until("the summary of the other node", || {
        client.get("/film");
        let seen = node(here, "edge2");
        let summary = &seen["summary"];
        let works = summary["requests_per_second"].as_f64()? > 0.0
            && summary["sent_bytes_per_second"].as_f64()? > 0.0;
        let problems = summary["problems"].as_array()?;
        let is_out = |problem: &Value| {
            problem["what"].as_str().is_some_and(|what| what.contains("127.0.0.1:1 is out"))
        };
        (works && problems.iter().any(is_out)).then_some(seen)
    });
    assert_eq!(seen["summary"]["version"], env!("CARGO_PKG_VERSION"), "{seen}");
    let own = until("the summary of this node", || {
        let own = node(here, "edge1");
        own["summary"]["connections"].is_number().then_some(own)
    });
    assert_eq!(own["self"], true, "{own}");
}

#[test]
fn a_line_names_the_node_that_gave_the_object_and_its_own_line_the_origin() {
    let origin = Origin::answering("200 OK", "ETag: \"v1\"\r\nCache-Control: max-age=600\r\n", "body");
    let cluster = Cluster::of(2, &origin);
    let (here, there) = (&cluster.servers[0], &cluster.servers[1]);
    let mut client = Client::plain(here);
    let mut number = 0;
    let line = until("an object of the other node", || {
        number += 1;
        let target = format!("/film/{number}");
        client.get(&target);
        let line = here.logged(&target);
        (line["tier"] == "peer").then_some(line)
    });
    let other = cluster.plan.address(1);
    assert_eq!(line["upstream"]["url"], format!("https://{other}"), "{line}");
    assert!(line["upstream"]["ttfb_ms"].is_number() && line["cache"] == "miss", "{line}");
    let target = line["target"].as_str().unwrap();
    let again = Client::plain(there).get(target);
    assert_eq!(again.text(), "body");
    let tier = until("the line of a client there", || {
        there
            .access_log()
            .into_iter()
            .filter(|line| line["target"] == target)
            .find(|line| line["cache"] == "hit")
    });
    assert_eq!(tier["tier"], "memory", "{tier}");
}

#[test]
fn a_node_that_is_gone_has_no_numbers_and_no_client_can_ask_for_them() {
    let origin = Origin::answering("200 OK", "Cache-Control: max-age=600\r\n", "from the origin");
    let mut cluster = Cluster::of(2, &origin);
    until("a summary", || node(&cluster.servers[0], "edge2")["summary"].is_object().then_some(()));
    let own = &cluster.plan.certificates;
    let told = ask_as(&cluster, "/summary", Some((own, "edge2")));
    assert!(told.contains("sent_bytes_per_second"), "{told}");
    assert!(!ask_as(&cluster, "/summary", None).contains("HTTP/1.1"));
    // On a listener of clients it is a path like any other.
    assert_eq!(Client::plain(&cluster.servers[0]).get("/summary").text(), "from the origin");
    drop(cluster.servers.pop());
    until("the numbers to be gone", || node(&cluster.servers[0], "edge2")["summary"].is_null().then_some(()));
}
