//! What `check` and `doctor` say of HTTP/3: records for DNS, buffers, and whether the port answers.

use penstock_testkit::Tool;
use rustix::process::Signal;
use serde_json::Value;

use super::setup;

const SITES: &str = "- hosts: [video.example, \"*.example.org\", 192.0.2.1]\n  origin: {directory: root}\n\
                     - hosts: [other.example]\n  listeners: [other]\n  origin: {directory: root}";

#[test]
fn check_shows_the_records_to_publish() {
    let listeners = [
        "address: \"127.0.0.1:443\", tls: true",
        "address: \"127.0.0.1:8443\", name: other, tls: true, protocols: [h2, h3]",
        "address: \"127.0.0.1:9443\", tls: true, protocols: [h1, h2]",
    ];
    let server = setup().start();
    let (directory, ech) = (server.directory(), server.directory().join("ech"));
    let made = Tool::penstock().args(["ech", "new", "--public-name", "video.example"]).arg(&ech).run().ok();
    let line = made.text();
    let (_, key) = line.trim_end().split_once(" ech=").unwrap();
    let tls =
        format!("{}\nech: {{directory: {}}}", penstock_testkit::Certificates::yaml(&["ec"]), ech.display());
    let file = directory.join("published.yaml");
    let yaml = setup().listeners(&listeners).tls(&tls).sites(SITES).yaml("127.0.0.1:9444");
    std::fs::write(&file, yaml).unwrap();
    let records = [
        "*.example.org. HTTPS 1 . alpn=h3,h2 ech=KEY",
        "_8443._https.other.example. HTTPS 1 other.example. alpn=h3,h2 no-default-alpn port=8443 ech=KEY",
        "_8443._https.video.example. HTTPS 1 video.example. alpn=h3,h2 no-default-alpn port=8443",
        "video.example. HTTPS 1 . alpn=h3,h2",
    ]
    .map(|record| record.replace("KEY", key));
    let check = || Tool::penstock().args(["check", "-c"]).arg(&file);
    let text = check().run().ok().text();
    assert!(text.ends_with(&format!("(RFC 9460):\n{}\n", records.join("\n"))), "{text}");
    let document: Value = serde_json::from_slice(&check().arg("--json").run().ok().stdout).unwrap();
    assert_eq!(document["https_records"], serde_json::json!(records));
}

#[test]
fn doctor_finds_out_whether_the_port_answers_and_what_the_kernel_gives() {
    let server = setup().start();
    let file = server.directory().join("penstock.yaml");
    let doctor = || {
        let tool = Tool::penstock().args(["doctor", "--quick", "--json", "-c"]).arg(&file);
        let document: Value = serde_json::from_slice(&tool.run().ok().stdout).unwrap();
        document["findings"].as_array().unwrap().clone()
    };
    let named = |findings: &[Value], name: &str| {
        let found = findings.iter().find(|one| one["name"] == name);
        found.unwrap_or_else(|| panic!("{name} in {findings:?}")).clone()
    };
    let found = doctor();
    let port = named(&found, "http3");
    assert_eq!((&port["value"], &port["verdict"]), (&"answers on this machine".into(), &"ok".into()));
    assert!(named(&found, "net.core.rmem_max")["value"].as_str().unwrap().ends_with("HTTP/3 asks for 4 MiB"));
    assert!(named(&found, "net.core.wmem_max")["value"].as_str().unwrap().ends_with("HTTP/3 asks for 4 MiB"));
    named(&found, "udp_segmentation");
    server.signal(Signal::TERM);
    server.wait();
    let stopped = named(&doctor(), "http3");
    assert_eq!((&stopped["value"], &stopped["verdict"]), (&"no server runs there".into(), &"ok".into()));
}
