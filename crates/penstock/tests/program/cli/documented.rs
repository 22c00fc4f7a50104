//! Commands of the documentation, run as they stand there.

use std::path::Path;

use penstock_testkit::{Tool, unused_address};

use super::program::{run, stderr, stdout};

/// The first block of shell commands behind a text of a page.
fn commands<'p>(page: &'p str, behind: &str) -> &'p str {
    let (_, rest) = page.split_once(behind).unwrap_or_else(|| panic!("the page has no {behind:?}"));
    let (_, block) = rest.split_once("```sh\n").expect("a block of commands");
    block.split_once("```").expect("its end").0
}

/// Runs commands in a directory; `penstock` is the program under test. Returns what they print.
fn bash(commands: &str, directory: &Path) -> String {
    let program = Path::new(penstock_testkit::program()).parent().unwrap().display();
    let script = format!("set -euo pipefail\nPATH={program}:$PATH\n{commands}");
    Tool::new("bash").args(["-c", &script]).directory(directory).run().ok().text()
}

#[test]
fn the_certificates_of_a_cluster_are_for_both_sides_and_for_the_names_of_its_nodes() {
    let page = include_str!("../../../../../docs/cluster.md");
    let directory = tempfile::tempdir().unwrap();
    bash(commands(page, "certificate for each node"), directory.path());
    for node in ["edge1.example.com", "edge2.example.com", "edge3.example.com"] {
        for purpose in ["sslserver", "sslclient"] {
            let chain = format!("{node}.pem");
            let arguments = ["verify", "-CAfile", "cluster.pem", "-purpose", purpose, &chain];
            Tool::new("openssl").args(arguments).directory(directory.path()).run().ok();
        }
        let file = directory.path().join("edge.yaml");
        let text = format!(
            "workers: 1\nlisteners: [{{address: 127.0.0.1:80}}]\n\
             sites: [{{origin: {{http: [\"http://192.0.2.1\"], peers: true}}}}]\n\
             cluster:\n  self: {node}\n  nodes:\n  - {{name: edge1.example.com, address: \"192.0.2.1:8443\"}}\n  \
             - {{name: edge2.example.com, address: \"192.0.2.2:8443\"}}\n  \
             - {{name: edge3.example.com, address: \"192.0.2.3:8443\"}}\n  \
             ca: cluster.pem\n  chain: {node}.pem\n  key: {node}.key\n"
        );
        std::fs::write(&file, text).unwrap();
        let output = run(&["check", "-c", file.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).contains("a cluster of edge1.example.com, edge2"), "{}", stdout(&output));
        assert!(!stderr(&output).contains("cluster"), "{}", stderr(&output));
    }
}

#[test]
fn the_demonstration_of_keyservers_ends_with_the_body_of_its_file() {
    let page = include_str!("../../../../../docs/keyserver.md");
    let directory = tempfile::tempdir().unwrap();
    let mut script = commands(page, "## Try it on one machine").to_owned();
    for port in ["2407", "9601", "8443", "9600"] {
        script = script.replace(port, &unused_address().port().to_string());
    }
    let said = bash(&script, directory.path());
    assert!(said.ends_with("hello\n"), "{said}");
}

#[test]
fn a_key_is_made_ready_for_a_hardware_module() {
    let page = include_str!("../../../../../docs/keyserver.md");
    let line =
        commands(page, "To try it with SoftHSM").lines().find(|line| line.starts_with("openssl pkcs8"));
    let directory = tempfile::tempdir().unwrap();
    let script = format!("openssl ecparam -name prime256v1 -genkey -noout -out video.key\n{}", line.unwrap());
    bash(&script, directory.path());
    let made = std::fs::read_to_string(directory.path().join("video.p8")).unwrap();
    assert!(made.starts_with("-----BEGIN PRIVATE KEY-----"), "{made}");
}
