use super::*;
use crate::http::fuzz::LIMITS;

fn read(text: &str) -> Result<Head, &'static str> {
    parse(text.as_bytes(), &Fetch::get("/"), &LIMITS)
}

fn delimiter(text: &str) -> Delimiter {
    read(text).unwrap_or_else(|fault| panic!("{text:?}: {fault}")).delimiter
}

#[test]
fn the_end_of_a_body_is_found_as_the_head_says() {
    let length = "HTTP/1.1 200 OK\r\nContent-Length: 42\r\n\r\n";
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n";
    assert_eq!(delimiter(length), Delimiter::Length(42));
    assert_eq!(delimiter(chunked), Delimiter::Chunked);
    assert_eq!(delimiter("HTTP/1.1 200\r\n\r\n"), Delimiter::Close);
    assert_eq!(delimiter("HTTP/1.1 204 No Content\r\n\r\n"), Delimiter::Length(0));
    assert_eq!(delimiter("HTTP/1.1 100 Continue\r\n\r\n"), Delimiter::Length(0));
    let same = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nContent-Length: 7\r\n\r\n";
    assert_eq!(delimiter(same), Delimiter::Length(7));
    let head = Fetch { method: Method::HEAD, ..Fetch::get("/") };
    let answer = parse(length.as_bytes(), &head, &LIMITS).unwrap();
    assert_eq!((answer.delimiter, answer.announced), (Delimiter::Length(0), Some(42)));
}

#[test]
fn a_connection_stays_open_as_the_version_and_the_head_say() {
    for (text, stays) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x, Close\r\n\r\n", false),
        ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", false),
        ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\n\r\n", false),
    ] {
        assert_eq!(read(text).unwrap().keeps_connection, stays, "{text:?}");
    }
}

#[test]
fn what_two_programs_could_read_differently_is_refused() {
    for text in [
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0x1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: 1\r\n  folded\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA : 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.1 2x0 OK\r\n\r\n",
        "ICY 200 OK\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\n\r\n",
        "HTTP/1.1 206 Partial Content\r\nContent-Length: 1\r\n\r\n",
    ] {
        assert!(read(text).is_err(), "{text:?}");
    }
    let many = "A: 1\r\n".repeat(LIMITS.head_fields + 1);
    assert!(read(&format!("HTTP/1.1 200 OK\r\n{many}\r\n")).is_err());
    let long = "A".repeat(LIMITS.head_bytes);
    assert!(read(&format!("HTTP/1.1 200 OK\r\nA: {long}\r\n\r\n")).is_err());
}

#[test]
fn answers_to_conditions_and_ranges_are_answers_if_there_were_any() {
    let mut asked = Fetch::get("/");
    assert!(asked.pass("if-none-match", b"\"v1\"") && asked.pass("range", b"bytes=0-0"));
    for text in
        ["HTTP/1.1 304 Not Modified\r\n\r\n", "HTTP/1.1 206 Partial Content\r\nContent-Length: 1\r\n\r\n"]
    {
        assert!(parse(text.as_bytes(), &asked, &LIMITS).is_ok(), "{text:?}");
    }
}

#[test]
fn the_end_of_a_head_is_found_wherever_the_bytes_are_cut() {
    let text = b"HTTP/1.1 200 OK\r\nA: 1\r\n\r\nbody\r\n\r\n";
    let end = text.len() - b"body\r\n\r\n".len();
    for cut in 0..=text.len() {
        let first = end_of_head(&text[..cut], 0);
        assert_eq!(first, (cut >= end).then_some(end), "{cut}");
        if first.is_none() {
            assert_eq!(end_of_head(text, cut), Some(end), "{cut}");
        }
    }
}
