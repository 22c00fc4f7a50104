//! Heads that are malformed, too large, or ask for what there is not.

use penstock_testkit::{Client, until};

use super::cases::{NEXT, Way, closes, connect, get, get_path, play, server, stays, unharmed};

#[test]
fn a_length_in_doubt_is_400_and_ends_the_connection() {
    let both = "content_length_and_transfer_encoding";
    let mut cases = vec![
        closes(get("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400, both),
        closes(get("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), 400, both),
        closes(get("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n"), 400, both),
        closes(get("Content-Length: 5\r\nTransfer-Encoding: identity\r\n"), 400, both),
        closes(get("Content-Length: 5\r\nContent-Length: 5\r\n"), 400, "repeated_content_length"),
        closes(get("Content-Length: 5\r\ncontent-length: 6\r\n"), 400, "repeated_content_length"),
        closes(
            get("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
            400,
            "repeated_transfer_encoding",
        ),
        closes(
            "POST /next.txt HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
            "transfer_encoding_in_http_10",
        ),
    ];
    for length in [
        "5, 5",
        "5,",
        "+5",
        "-5",
        "5.0",
        "0x5",
        "5 5",
        "",
        "five",
        "18446744073709551616",
        "5;q=1",
        "\u{665}",
        "\"5\"",
    ] {
        cases.push(closes(get(&format!("Content-Length: {length}\r\n")), 400, "content_length"));
    }
    for coding in
        ["gzip", "chunked, chunked", "gzip, chunked", "xchunked", "identity", "chunked;q=1", ",chunked", ""]
    {
        let request = get(&format!("Transfer-Encoding: {coding}\r\n"));
        cases.push(closes(request, 501, "unknown_transfer_encoding"));
    }
    play(&server(), &cases);
}

#[test]
fn a_malformed_head_is_400_and_ends_the_connection() {
    let mut cases = vec![
        closes(get("X: a\r\n b\r\n"), 400, "obs_fold"),
        closes(get("X: a\r\n\tb\r\n"), 400, "obs_fold"),
        closes("GET / HTTP/1.1\r\n X: a\r\nHost: localhost\r\n\r\n", 400, "obs_fold"),
        closes(get("X : a\r\n"), 400, "space_before_colon"),
        closes(get("X\t: a\r\n"), 400, "space_before_colon"),
        closes(get("X: a\rb\r\n"), 400, "bare_cr"),
        closes(get("X: a\r\r\n"), 400, "bare_cr"),
        closes("GET /\r HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "bare_cr"),
        closes("\rGET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "bare_cr"),
        closes(get("X: a\nY: b\r\n"), 400, "bare_lf"),
        closes("GET / HTTP/1.1\nHost: localhost\n\n", 400, "bare_lf"),
        closes("GET / HTTP/1.1\r\nHost: localhost\r\n\n", 400, "bare_lf"),
        closes("\nGET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "bare_lf"),
        closes(get("X: a\0b\r\n"), 400, "nul"),
        closes(get("X\0: a\r\n"), 400, "nul"),
        closes("GET /\0 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "nul"),
        closes(get("X: a\x01b\r\n"), 400, "control_character"),
        closes(get("X: a\x1bb\r\n"), 400, "control_character"),
        closes(get("X: a\x7f\r\n"), 400, "control_character"),
        closes(get("X: a\x0bb\r\n"), 400, "control_character"),
        closes("GET /\x08 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "control_character"),
        closes(get("X\r\n"), 400, "field_name"),
        closes(get(": a\r\n"), 400, "field_name"),
        closes(get("X[]: a\r\n"), 400, "field_name"),
        closes(get("X\u{e9}: a\r\n"), 400, "field_name"),
        closes("\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "empty_lines"),
        closes("(GET) / HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "not_http"),
        closes(" GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "not_http"),
        closes(b"\xff\xfe\xfd\r\n\r\n", 400, "not_http"),
    ];
    for line in [
        "GET /next.txt",
        "GET",
        "GET /next.txt ",
        "GET  /next.txt HTTP/1.1",
        "GET /next.txt  HTTP/1.1",
        "GET /next.txt HTTP/1.1 ",
        "GET /next.txt HTTP/1.1 more",
        "GET /next .txt HTTP/1.1",
        "GET\t/next.txt\tHTTP/1.1",
        "GET /next.txt http/1.1",
        "GET /next.txt HTTP/1",
        "GET /next.txt HTTP/1.10",
        "GET /next.txt HTTP/+1.1",
        "GET /next.txt HTTPS/1.1",
        "GET: /next.txt HTTP/1.1",
    ] {
        cases.push(closes(format!("{line}\r\nHost: localhost\r\n\r\n"), 400, "request_line"));
    }
    play(&server(), &cases);
}

#[test]
fn a_request_must_name_its_host_once_and_clearly() {
    let mut cases = vec![
        closes("GET /next.txt HTTP/1.1\r\n\r\n", 400, "no_host"),
        closes("GET http://localhost/next.txt HTTP/1.1\r\n\r\n", 400, "no_host"),
        closes(get("Host: localhost\r\n"), 400, "repeated_host"),
        closes(get("HOST: other.example\r\n"), 400, "repeated_host"),
    ];
    for host in
        ["a b", "a/b", "user@localhost", "a,b", "[::1", "[zz]", "localhost:port", "localhost:1:2", "\u{e9}"]
    {
        let request = format!("GET /next.txt HTTP/1.1\r\nHost: {host}\r\n\r\n");
        cases.push(closes(request, 400, "host"));
    }
    for (target, reason) in [
        ("next.txt", "target_form"),
        ("*", "target_form"),
        ("?x", "target_form"),
        ("localhost:80", "target_form"),
        ("http:/next.txt", "target_form"),
        ("ftp://localhost/next.txt", "target_scheme"),
        ("http:///next.txt", "target_authority"),
        ("http://user@localhost/next.txt", "target_authority"),
        ("http://local host/", "request_line"),
        ("/next.txt#top", "target_fragment"),
        ("#", "target_fragment"),
    ] {
        cases.push(closes(get_path(target), 400, reason));
    }
    cases.push(closes("CONNECT / HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "target_authority"));
    play(&server(), &cases);
}

#[test]
fn a_head_over_a_limit_is_431_or_414_and_one_at_the_limit_is_answered() {
    const HEAD: usize = 16 * 1024;
    const TARGET: usize = 8 * 1024;
    let server = server();
    let fields = |count: usize| get(&"X: a\r\n".repeat(count - 1));
    let head = |length: usize| {
        let filler = length - get("X: \r\n").len();
        get(&format!("X: {}\r\n", "a".repeat(filler)))
    };
    let target = |length: usize| {
        let query = "q".repeat(length - "/next.txt?".len());
        get_path(&format!("/next.txt?{query}"))
    };
    assert_eq!(head(HEAD).len(), HEAD);
    play(
        &server,
        &[
            stays(fields(100), 200, ""),
            closes(fields(101), 431, "too_many_fields"),
            closes(get(&"X: a\r\n".repeat(2000)), 431, "too_many_fields"),
            stays(head(HEAD), 200, ""),
            closes(head(HEAD + 1), 431, "head_too_large"),
            closes(head(4 * HEAD), 431, "head_too_large"),
            stays(target(TARGET), 200, ""),
            closes(target(TARGET + 1), 414, "target_too_long"),
            // Longer than any request line may be: the server does not wait for its end.
            closes(target(TARGET + 100), 414, "request_line_too_long"),
            closes(target(2 * HEAD), 414, "request_line_too_long"),
            closes("A".repeat(2 * HEAD), 414, "request_line_too_long"),
            closes(
                format!("{} / HTTP/1.1\r\nHost: localhost\r\n\r\n", "M".repeat(33)),
                501,
                "method_too_long",
            ),
        ],
    );
}

#[test]
fn another_protocol_version_is_505_and_ends_the_connection() {
    let versions = ["HTTP/0.9", "HTTP/1.2", "HTTP/2.0", "HTTP/3.0", "HTTP/9.9"];
    let request = |version| format!("GET /next.txt {version}\r\nHost: localhost\r\n\r\n");
    let mut cases = Vec::from(versions.map(|version| closes(request(version), 505, "version_not_supported")));
    cases.push(closes("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "version_not_supported"));
    play(&server(), &cases);
}

#[test]
fn an_unknown_method_is_405_with_what_is_allowed_and_keeps_the_connection() {
    let server = server();
    let methods =
        ["POST", "PUT", "DELETE", "PATCH", "TRACE", "get", "Get", "GETS", "PROPFIND", "!#$%&'*+-.^_`|~"];
    let request = |method| format!("{method} /next.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut cases = Vec::from(methods.map(|method| stays(request(method), 405, "")));
    cases.push(stays("CONNECT localhost:443 HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, ""));
    cases.push(stays("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello", 405, ""));
    play(&server, &cases);
    let response = Client::plain(&server).request(request("DELETE"));
    assert_eq!(response.field("Allow"), Some("GET, HEAD, OPTIONS"));
    until("the requests to be counted", || {
        (server.metrics().sum("penstock_requests_total", &["status=\"4xx\"", "method=\"other\""]) > 0.0)
            .then_some(())
    });
}

#[test]
fn a_fault_that_leaves_the_framing_alone_keeps_the_connection() {
    let body = "Content-Length: 5\r\n\r\nhello";
    let tea = "Expect: tea\r\n";
    // With a body behind it, the client may not send it at all, and it would be taken for a request.
    let request = format!("POST / HTTP/1.1\r\nHost: localhost\r\n{tea}{body}");
    let cases = [stays(get(tea), 417, "unknown_expectation"), closes(request, 417, "unknown_expectation")];
    play(&server(), &cases);
}

#[test]
fn a_refusal_to_head_has_no_body_that_could_be_taken_for_the_next_response() {
    let server = server();
    for (lines, status) in [("Expect: tea\r\n", 417), ("Host: localhost\r\n", 400), ("X : a\r\n", 400)] {
        for way in [Way::Plain, Way::Tls] {
            let mut client = connect(&server, way);
            client.send(format!("HEAD /next.txt HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n{NEXT}"));
            let refusal = client.response_to_head().unwrap();
            assert_eq!(refusal.status, status, "{lines}");
            if refusal.field("Connection") == Some("close") {
                // The client knows that nothing behind it is a response, and that NEXT was not answered.
                assert!(!client.rest().unwrap().ends_with(b"next\n"), "{lines}");
            } else {
                assert_eq!(client.response().unwrap().text(), "next\n", "{lines}");
            }
        }
    }
    unharmed(&server);
}

#[test]
fn a_refusal_is_tiny_plain_and_says_nothing_of_what_was_sent() {
    let server = server();
    let shown = Client::plain(&server).request("GET /<script> HTTP/1.1\r\nHost: a b\r\n\r\n");
    assert_eq!((shown.status, shown.text()), (400, "400 Bad Request\n"));
    assert_eq!(shown.field("Content-Type"), Some("text/plain; charset=utf-8"));
    assert_eq!(Client::plain(&server).get("/<script>").text(), "404 Not Found\n");
}
