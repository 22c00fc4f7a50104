//! Bodies of requests that need none, and requests hidden in them.

use penstock_testkit::Client;

use super::cases::{NEXT, closes, get, play, server, stays, unharmed};

#[test]
fn a_small_body_is_skipped_and_the_connection_lives_on() {
    let chunked = |body: &str| get_with_body("Transfer-Encoding: chunked\r\n", body);
    let sized = |body: &str| get_with_body(&format!("Content-Length: {}\r\n", body.len()), body);
    play(
        &server(),
        &[
            stays(sized("hello"), 200, ""),
            stays(sized(&"x".repeat(64 * 1024)), 200, ""),
            stays(get("Content-Length: 0\r\n"), 200, ""),
            stays(get("Content-Length: 000\r\n"), 200, ""),
            stays(chunked("0\r\n\r\n"), 200, ""),
            stays(chunked("5\r\nhello\r\n0\r\n\r\n"), 200, ""),
            stays(chunked("5;name=value;q=\"x\"\r\nhello\r\n00\r\nTrailer: x\r\nOther: y\r\n\r\n"), 200, ""),
            stays(chunked(&format!("F000\r\n{}\r\n0\r\n\r\n", "x".repeat(0xf000))), 200, ""),
            // The body looks like requests and is none.
            stays(sized("GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"), 200, ""),
            stays(chunked(&format!("{:x}\r\n{NEXT}\r\n0\r\n\r\n", NEXT.len())), 200, ""),
            stays(get_with_body("Transfer-Encoding:\tChunked \r\n", "0\r\n\r\n"), 200, ""),
        ],
    );
}

#[test]
fn a_body_that_is_too_long_or_malformed_ends_the_connection() {
    let chunked = |body: &str| get_with_body("Transfer-Encoding: chunked\r\n", body);
    let sized = |length: &str, body: &str| get_with_body(&format!("Content-Length: {length}\r\n"), body);
    let mut cases = vec![
        closes(sized("65537", &"x".repeat(65_537)), 413, "body_too_large"),
        closes(sized("18446744073709551614", "x"), 413, "body_too_large"),
        closes(chunked(&format!("10001\r\n{}\r\n0\r\n\r\n", "x".repeat(0x10001))), 413, "body_too_large"),
        closes(chunked("FFFFFFFFFFFFFFFF\r\n"), 413, "body_too_large"),
        closes(chunked(&"1\r\nx\r\n".repeat(20_000)), 413, "body_too_large"),
        closes(chunked(&format!("5;{}\r\n", "x".repeat(1100))), 400, "chunk_line_too_long"),
        closes(chunked(&format!("0\r\n{}\r\n\r\n", "x".repeat(1100))), 400, "chunk_line_too_long"),
        closes(chunked("5\r\nhello world\r\n"), 400, "chunk_line_end"),
        closes(chunked("5\nhello\n0\n\n"), 400, "chunk_size"),
        closes(chunked("5\r\nhello\n0\r\n\r\n"), 400, "chunk_line_end"),
        closes(chunked("5;a\nb\r\nhello\r\n0\r\n\r\n"), 400, "chunk_control_character"),
        closes(chunked("0\r\nTrailer: \0\r\n\r\n"), 400, "chunk_control_character"),
        // The answer to Expect comes first, so the body may or may not follow: the next bytes are ambiguous.
        closes(get_with_body("Content-Length: 5\r\nExpect: 100-continue\r\n", "hello"), 200, ""),
    ];
    for size in ["", "g", "0x5", "-1", "+5", " 5", "5 ", "11111111111111111", ";"] {
        cases.push(closes(chunked(&format!("{size}\r\nhello\r\n0\r\n\r\n")), 400, "chunk_size"));
    }
    play(&server(), &cases);
}

/// Two servers that disagree about where a request ends: the one behind would answer what the one in front took
/// for a body. Whatever ours thinks of the first request, it must not answer the hidden one.
#[test]
fn a_smuggled_request_is_never_answered() {
    let server = server();
    server.write("hidden.txt", "hidden\n");
    let hidden = "GET /hidden.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let in_chunk = format!("{:x}\r\n{hidden}\r\n0\r\n\r\n", hidden.len());
    let encodings = [
        "Transfer-Encoding: chunked",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding:\x0bchunked",
        "Transfer-Encoding: \"chunked\"",
        " Transfer-Encoding: chunked",
        "X: y\n Transfer-Encoding: chunked",
        "X: y\rTransfer-Encoding: chunked",
        "X: y\nTransfer-Encoding: chunked",
        "Transfer-Encoding\n: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
        "Transfer\u{2d}Encoding: chunked",
        "Transfer_Encoding: chunked\r\nTransfer-Encoding: \u{a0}chunked",
    ];
    for encoding in encodings {
        for length in [format!("Content-Length: {}", in_chunk.len()), "Content-Length: 4".to_owned()] {
            for lines in [format!("{length}\r\n{encoding}\r\n"), format!("{encoding}\r\n{length}\r\n")] {
                let mut client = Client::plain(&server);
                client.send(format!(
                    "POST /next.txt HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n{in_chunk}{NEXT}"
                ));
                let first = client.response().unwrap();
                assert!(matches!(first.status, 400 | 501), "{lines:?}: {}", first.head);
                client.assert_closed();
            }
        }
    }
    let lengths = [
        ("Content-Length: 6\r\nContent-Length: 5\r\n", "12345G"),
        ("Content-Length: 0\r\nContent-Length: 51\r\n", hidden),
        ("Content-Length: 0, 51\r\n", hidden),
        ("Content-Length : 51\r\n", hidden),
        ("Content-Length: 51\r\n \r\n", hidden),
        ("Content\0-Length: 51\r\n", hidden),
    ];
    for (lines, body) in lengths {
        let mut client = Client::plain(&server);
        client.send(format!("GET /next.txt HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n{body}{NEXT}"));
        assert_eq!(client.response().unwrap().status, 400, "{lines:?}");
        client.assert_closed();
    }
    unharmed(&server);
    let answered: Vec<_> =
        server.access_log().into_iter().filter(|line| line["target"] == "/hidden.txt").collect();
    assert!(answered.is_empty(), "{answered:?}");
}

fn get_with_body(lines: &str, body: &str) -> Vec<u8> {
    [get(lines), body.into()].concat()
}
