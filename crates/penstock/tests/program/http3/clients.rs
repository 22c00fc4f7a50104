//! Requests and responses.

use penstock_testkit::{Content, Tool};

use super::{fetch, has_client, setup};

#[test]
fn files_heads_ranges_and_errors_come_as_over_tcp() {
    if !has_client() {
        return;
    }
    let server = setup().start();
    let file = server.file("clip.mp4", 5_000_000);
    server.write("small.txt", "hello");
    let requests = ["GET /clip.mp4", "GET /small.txt", "GET /none", "POST /small.txt"];
    let exchange = fetch(&server, "", &requests);
    let [clip, small, none, post] = &exchange.responses[..] else { panic!("four responses") };
    assert_eq!((&*clip.status, clip.fields["content-length"].as_str()), ("200", Some("5000000")));
    file.assert_range(0..file.len, &clip.content);
    assert_eq!(clip.fields["server"], "penstock");
    assert!(clip.fields["date"].is_string() && clip.fields["etag"].is_string());
    assert_eq!((&*small.status, &*small.content), ("200", &b"hello"[..]));
    assert_eq!((&*none.status, &*post.status), ("404", "405"));

    let logged = server.logged("/clip.mp4");
    assert_eq!((&logged["protocol"], &logged["outlet"]), (&"h3".into(), &"quic".into()));
    assert_eq!((&logged["tls"]["version"], logged["status"].as_u64()), (&"TLSv1.3".into(), Some(200)));
    server.counted("penstock_http_connections_total", &["version=\"h3\""], 1.0);
    server.counted("penstock_http_requests_total", &["version=\"h3\""], 4.0);
    server.counted("penstock_http3_streams", &[], 0.0);
    server.counted("penstock_quic_connection_ends_total", &["reason=\"closed_by_client\""], 1.0);
    let metrics = server.metrics();
    assert!(metrics.sum("penstock_sent_bytes_total", &["outlet=\"quic\""]) > 5_000_000.0);
    assert!(metrics.sum("penstock_quic_packets_sent_total", &[]) > 3000.0);
}

#[test]
fn many_requests_at_once_are_answered_on_one_connection() {
    if !has_client() {
        return;
    }
    let server = setup().start();
    let files: Vec<Content> =
        (0..60).map(|number| server.file(&format!("{number}.m4s"), 10_000 + 4000 * number)).collect();
    let requests: Vec<String> = (0..60).map(|number| format!("GET /{number}.m4s")).collect();
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    let exchange = fetch(&server, "at_once", &requests);
    for (file, response) in files.iter().zip(&exchange.responses) {
        assert_eq!(response.status, "200");
        file.assert_range(0..file.len, &response.content);
    }
    server.counted("penstock_http_connections_total", &["version=\"h3\""], 1.0);
}

#[test]
fn cached_objects_and_uploads_pass_through() {
    if !has_client() {
        return;
    }
    let origin = crate::cached::passing::echo();
    let (_memory, server) = crate::http2::before(&origin, setup());
    let sent = Content::new(7, 2_000_000);
    let file = server.directory().join("sent");
    std::fs::write(&file, sent.all()).unwrap();
    let upload = format!("POST /echo {}", file.display());
    let exchange = fetch(&server, "", &[&upload, "GET /echo"]);
    assert_eq!(exchange.responses[0].status, "200");
    sent.assert_range(0..sent.len, &exchange.responses[0].content);
}

#[test]
fn a_body_that_has_not_its_content_length_is_reset_and_reaches_no_origin_whole() {
    if !has_client() {
        return;
    }
    let origin = crate::cached::passing::echo();
    let (_memory, server) = crate::http2::before(&origin, setup());
    let file = server.directory().join("sent");
    std::fs::write(&file, "hello").unwrap();
    let upload = format!("POST /echo {}", file.display());
    for (length, status) in [("5", "200"), ("4", "none"), ("6", "none")] {
        let exchange = fetch(&server, &format!("length={length}"), &[&upload]);
        assert_eq!(exchange.responses[0].status, status, "{length}");
        let reset = (status == "none").then_some(0x10e);
        assert_eq!(exchange.responses[0].fields["reset"].as_u64(), reset, "{length}");
    }
    let exchange = fetch(&server, "length=5", &["POST /echo"]);
    assert_eq!(exchange.responses[0].fields["reset"], 0x10e);
    server.counted("penstock_http3_resets_total", &["cause=\"content_length\""], 3.0);
}

#[test]
fn responses_over_tcp_name_the_port_of_http_3() {
    let server = setup().start();
    server.write("small.txt", "hello");
    let expected = format!("alt-svc: h3=\":{}\"; ma=86400\r\n", server.https().port());
    for version in ["--http1.1", "--http2"] {
        let curl = Tool::curl(&server).args([version, "--head", &server.url("/small.txt")]);
        let head = curl.run().ok().text().to_ascii_lowercase();
        assert!(head.contains(&expected), "{version}: {head}");
    }
    let head = Tool::curl(&server).args(["--head", &server.plain_url("/small.txt")]).run().ok().text();
    assert!(!head.to_ascii_lowercase().contains("alt-svc"), "{head}");
}

#[test]
fn a_client_that_stops_a_response_is_logged_and_its_connection_goes_on() {
    if !has_client() {
        return;
    }
    let server = setup().start();
    server.file("long.mp4", 30_000_000);
    server.write("small.txt", "hello");
    let exchange = fetch(&server, "stop=100000", &["GET /long.mp4", "GET /small.txt"]);
    assert_eq!(&*exchange.responses[1].content, b"hello");
    let logged = server.logged("/long.mp4");
    assert_eq!(logged["outcome"], "client_closed");
    assert!(logged["body_bytes"].as_u64().unwrap() < 30_000_000);
    server.counted("penstock_http3_resets_total", &["cause=\"client\""], 1.0);
}
