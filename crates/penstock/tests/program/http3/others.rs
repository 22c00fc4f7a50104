//! Clients of other authors: curl_cffi (ngtcp2 and nghttp3), quic-go, and `penstock load`'s congestion controls against the server.

use penstock_testkit::{Setup, Tool, until};
use serde_json::Value;

use super::{PYTHON, QUIC_GO, has_quic_go, setup};

/// Arguments: the authority, and URLs. Prints status, version of HTTP and SHA-256 of each response.
const CURL: &str = "
import sys, hashlib
from curl_cffi import CurlHttpVersion, requests
session = requests.Session(http_version=CurlHttpVersion.V3ONLY, verify=sys.argv[1])
for url in sys.argv[2:]:
    response = session.get(url, timeout=50)
    print(response.status_code, response.http_version, hashlib.sha256(response.content).hexdigest())
";

#[test]
fn curl_over_ngtcp2_gets_what_is_in_the_file() {
    let has_curl = std::path::Path::new(PYTHON).exists()
        && Tool::new(PYTHON).args(["-c", "import curl_cffi"]).run().code == 0;
    if !has_curl {
        penstock_testkit::not_tested("needs Python with curl_cffi; scripts/install-needs test installs it");
        return;
    }
    let server = setup().start();
    let file = server.file("clip.mp4", 5_000_000);
    let digits: String = boring::sha::sha256(&file.all()).iter().map(|byte| format!("{byte:02x}")).collect();
    let tool = Tool::new(PYTHON).args(["-c", CURL]).arg(server.certificates().authority());
    let urls = ["/clip.mp4", "/none", "/clip.mp4"].map(|path| server.url(path));
    let text = tool.args(urls).run().ok().text();
    let lines: Vec<&str> = text.lines().collect();
    let whole = format!("200 30 {digits}");
    assert_eq!((lines.len(), lines[0], lines[2]), (3, whole.as_str(), whole.as_str()), "{text}");
    assert!(lines[1].starts_with("404 30 "), "{text}");
    server.counted("penstock_http_connections_total", &["version=\"h3\""], 1.0);
}

/// It probes the path from its new port first (RFC 9000 §8.2), and takes another connection id there.
#[test]
fn a_client_of_quic_go_goes_to_another_port_in_the_middle_of_a_response_and_gets_the_rest() {
    if !has_quic_go() {
        return;
    }
    let server = setup().workers(3).start();
    let file = server.file("clip.mp4", 8_000_000);
    let came = server.directory().join("came");
    let client =
        Tool::new(QUIC_GO).arg("move").arg(server.certificates().authority()).arg(server.https().to_string());
    let client = client.args(["/clip.mp4", "3000000"]).arg(&came);
    assert_eq!(client.run().ok().text(), "200\n");
    file.assert_range(0..file.len, &std::fs::read(&came).unwrap());
    server.counted("penstock_http_connections_total", &["version=\"h3\""], 1.0);
    let counted = || server.metrics().sum("penstock_quic_migrations_total", &[]);
    until("the migrations", || (counted() >= 1.0).then_some(()));
}

#[test]
fn bodies_are_whole_with_each_congestion_control() {
    for control in ["cubic", "reno", "bbr"] {
        let listener = format!("tls: true, protocols: [h1, h2, h3], congestion_control: {control}");
        if !penstock_testkit::has_congestion_control(control) {
            continue; // The TCP socket beside needs it.
        }
        let server = Setup::new().listeners(&[&listener, ""]).start();
        let file = server.file("clip.mp4", 20_000_000);
        let digits: String =
            boring::sha::sha256(&file.all()).iter().map(|byte| format!("{byte:02x}")).collect();
        let tool =
            Tool::penstock().args(["load", "download", "--quiet", "--json", "--protocol", "h3", "--ca"]);
        let tool = tool.arg(server.certificates().authority()).args(["--requests", "4", "--streams", "2"]);
        let tool = tool.args(["--sha256", &digits, &server.url("/clip.mp4")]);
        let report: Value = serde_json::from_slice(&tool.run().ok().stdout).unwrap();
        assert_eq!((&report["errors_total"], &report["bytes"]), (&0.into(), &80_000_000.into()), "{control}");
    }
}
