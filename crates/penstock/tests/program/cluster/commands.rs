//! `penstock cluster` and `penstock check`.

use penstock_testkit::Tool;
use penstock_testkit::origin::{Origin, field};
use penstock_testkit::{Client, Finished, Server};

use super::Cluster;

fn command(server: &Server, arguments: &[&str]) -> Finished {
    let file = server.directory().join("penstock.yaml");
    Tool::penstock().args(["cluster"]).args(arguments).arg("-c").arg(file).run()
}

#[test]
fn locate_names_the_node_that_asks_the_origin() {
    let origin = Origin::answering("200 OK", "ETag: \"v1\"\r\nCache-Control: max-age=600\r\n", "body");
    let cluster = Cluster::of(3, &origin);
    let mut asked_by_owner = 0;
    for number in 0..12 {
        let path = format!("/film/{number}?a=b");
        let url = format!("https://video.example{path}");
        let said = command(&cluster.servers[number % 3], &["locate", &url]).ok().text();
        let named = |line: usize, role: &str| said.lines().nth(line).unwrap().strip_suffix(role).unwrap();
        let (owner, substitute) = (named(0, "  owner"), named(1, "  substitute 1"));
        assert_eq!(said.lines().count(), 3, "{said}");
        assert_eq!(Client::plain(&cluster.servers[(number + 1) % 3]).get(&path).text(), "body");
        let asked = origin.asked().pop().unwrap();
        let passed = field(&asked, "cdn-loop").unwrap();
        let is_from = |node: &str| passed.ends_with(&format!("node=\"{node}\""));
        // On a busy machine an owner may be too slow, and its substitute asks.
        assert!(is_from(owner) || is_from(substitute), "{passed}, {said}");
        asked_by_owner += usize::from(is_from(owner));
    }
    assert!(asked_by_owner >= 9, "{asked_by_owner} of 12");
    let said = command(&cluster.servers[0], &["locate", "/film"]).exits_with(2);
    assert!(said.stderr.contains("write the whole URL"), "{}", said.stderr);
}

#[test]
fn status_shows_each_node_and_fails_while_one_is_out() {
    let origin = Origin::answering("200 OK", "", "body");
    let mut cluster = Cluster::of(2, &origin);
    let said = command(&cluster.servers[0], &["status"]).ok().text();
    assert!(said.contains("edge1  weight 1") && said.contains("this node"), "{said}");
    assert!(said.lines().any(|line| line.starts_with("edge2") && line.ends_with("up")), "{said}");
    drop(cluster.servers.pop());
    penstock_testkit::until("the node to be out", || {
        let said = command(&cluster.servers[0], &["status"]);
        (said.code == 1 && said.stderr.contains("edge2 is out")).then_some(())
    });
    let json = command(&cluster.servers[0], &["status", "--json"]).text();
    let nodes: serde_json::Value = serde_json::from_str(json.trim()).unwrap();
    assert_eq!((&nodes[0]["self"], &nodes[1]["up"]), (&true.into(), &false.into()), "{json}");
}
