//! Interim responses of origins (RFC 9110 §15.2, RFC 8297) on their way to clients.

use penstock_testkit::origin::{Origin, answer, write};
use penstock_testkit::{Client, Gate, Tool};

use super::Edge;

const HINTS: &str = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n\
    HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nConnection: x-own\r\nx-own: 1\r\n\
    Content-Length: 5\r\n\r\n";

/// An origin that sends interim responses, and then waits with the final one.
fn hinting(gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::start(move |_, _, stream| {
        let is_sent = write(stream, HINTS);
        is_sent && gate.pass() && answer(stream, "200 OK", "Cache-Control: max-age=600\r\n", b"whole")
    })
}

/// The sites that ask an origin: with the cache, and without it.
fn sites(origin: &Origin) -> [String; 2] {
    [origin.sites(), format!("- origin: {{http: [\"{}\"], cache: off}}", origin.url())]
}

#[test]
fn an_http1_client_gets_hints_before_the_origin_has_answered() {
    let gate = Gate::closed();
    let origin = hinting(&gate);
    for sites in sites(&origin) {
        let edge = Edge::before(&sites);
        let mut client = Client::plain(&edge.server);
        client.ask("/a");
        let processing = client.response_to_head().unwrap();
        assert_eq!((processing.status, processing.field("link")), (102, None));
        let hints = client.response_to_head().unwrap();
        assert_eq!((hints.status, hints.field("link")), (103, Some("</a.css>; rel=preload")));
        assert_eq!((hints.field("x-own"), hints.field("content-length")), (None, None));
        gate.let_one_pass();
        let last = client.response().unwrap();
        assert_eq!((last.status, last.text(), last.field("link")), (200, "whole", None));
        // The connection goes on.
        gate.let_one_pass();
        if !sites.contains("off") {
            assert_eq!(client.get("/a").status, 200, "the stored response has no interim ones");
        }
    }
}

#[test]
fn an_http2_client_gets_hints_and_an_http_1_0_client_gets_none() {
    let gate = Gate::closed();
    gate.open();
    let origin = hinting(&gate);
    for sites in sites(&origin) {
        let edge = Edge::before(&sites);
        let heads = |version: &str| {
            let url = edge.server.url(&format!("/{}", version.trim_start_matches('-')));
            Tool::curl(&edge.server).args(["-i", version]).arg(url).run().ok().text().to_lowercase()
        };
        let sent = heads("--http2");
        assert!(sent.contains("http/2 103"), "{sent}");
        assert!(sent.contains("link: </a.css>; rel=preload") && !sent.contains("x-own"), "{sent}");
        assert!(sent.contains("http/2 102") && !sent.contains(" 100"), "{sent}");
        assert!(sent.ends_with("whole"), "{sent}");
        let sent = heads("--http1.0");
        assert!(sent.starts_with("http/1.1 200") && sent.ends_with("whole"), "{sent}");
    }
}
