use super::{BodyFraming, HttpVersion, Method, PathFault, Request, ValidatedHead, head_length};
use crate::range::{Ranges, select};
use crate::{HeadLimits, Rejection, Status};

mod properties;

const LIMITS: HeadLimits = HeadLimits { head_bytes: 16 << 10, fields: 100, target_bytes: 8 << 10 };

/// Finds the end of a head and parses it, as the edge does.
fn judge<'h>(bytes: &'h [u8], limits: &HeadLimits) -> Result<Request<'h>, Rejection> {
    let length = head_length(bytes, 0, limits)?.expect("the test's bytes hold a whole head");
    Request::parse(&bytes[..length], limits)
}

fn accepted(head: &str) -> Request<'_> {
    judge(head.as_bytes(), &LIMITS).unwrap_or_else(|rejection| panic!("{head:?}: {rejection}"))
}

#[track_caller]
fn check_refused(head: impl AsRef<[u8]>, status: Status, reason: &str) {
    let head = head.as_ref();
    let rejection = judge(head, &LIMITS).expect_err(&String::from_utf8_lossy(head));
    assert_eq!((rejection.status, rejection.reason), (status, reason), "{}", String::from_utf8_lossy(head));
}

/// A request with these field lines besides Host.
fn with_fields(fields: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

fn with_target(method: &str, target: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

#[test]
fn a_browsers_request_is_read_whole() {
    let head = "GET /live/seg%201.m4s?token=a/b?c HTTP/1.1\r\nHost: Video.Example:8443\r\n\
                Connection: keep-alive\r\nUser-Agent: Browser/1.0 (X; Y)\r\nAccept: */*\r\n\
                Origin: https://player.example\r\nReferer: https://player.example/watch\r\n\
                Accept-Encoding: gzip, deflate, br\r\nRange: bytes=0-1023\r\nIf-Range: \"1\"\r\n\
                If-Match: \"2\"\r\nIf-None-Match: \"3\"\r\n\
                If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
                If-Unmodified-Since: Sun, 06 Nov 1994 08:49:38 GMT\r\n\r\n";
    let request = accepted(head);
    assert_eq!(request.method(), Method::Get);
    assert_eq!(request.version(), HttpVersion::Http11);
    assert_eq!(request.host(), "Video.Example");
    assert_eq!(request.file_path().unwrap().as_bytes(), b"live/seg 1.m4s");
    assert_eq!(request.raw_path(), "/live/seg%201.m4s");
    assert_eq!(request.query(), Some("token=a/b?c"));
    assert_eq!(request.raw_target(), "/live/seg%201.m4s?token=a/b?c");
    assert_eq!(request.body(), BodyFraming::None);
    assert!(request.keep_alive() && !request.expect_continue() && !request.is_server_wide());
    assert_eq!(request.user_agent(), Some("Browser/1.0 (X; Y)"));
    assert_eq!(request.origin(), Some("https://player.example"));
    assert_eq!(request.referer(), Some("https://player.example/watch"));
    assert_eq!(request.accept_encoding(), Some("gzip, deflate, br"));
    assert_eq!(request.range(), Some("bytes=0-1023"));
    assert_eq!(request.if_range(), Some("\"1\""));
    assert_eq!(request.if_match(), Some("\"2\""));
    assert_eq!(request.if_none_match(), Some("\"3\""));
    assert_eq!(request.if_modified_since(), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
    assert_eq!(request.if_unmodified_since(), Some("Sun, 06 Nov 1994 08:49:38 GMT"));
}

#[test]
fn absent_fields_are_none() {
    let request = accepted("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(request.known, super::known::KnownFields::default());
    assert_eq!(request.version(), HttpVersion::Http10);
    assert_eq!(request.host(), "");
    assert_eq!(request.fields().count(), 0);
}

#[test]
fn fields_come_as_they_were_sent() {
    let head = "GET / HTTP/1.1\r\nhOsT:a\r\nX-A: \t one:two \t\r\nX-Empty:\r\nx-a:\u{e9}\r\n\r\n";
    let request = accepted(head);
    let fields: Vec<_> = request.fields().collect();
    assert_eq!(
        fields,
        [("X-A", &b"one:two"[..]), ("X-Empty", b""), ("x-a", "\u{e9}".as_bytes())],
        "the authority replaces Host"
    );
    assert_eq!(request.values("X-a").collect::<Vec<_>>(), [&b"one:two"[..], "\u{e9}".as_bytes()]);
    assert_eq!(request.host(), "a");
}

#[test]
fn names_of_methods_are_case_sensitive() {
    for (name, method) in [
        ("GET", Method::Get),
        ("HEAD", Method::Head),
        ("OPTIONS", Method::Options),
        ("POST", Method::Other("POST")),
        ("get", Method::Other("get")),
        ("M-SEARCH", Method::Other("M-SEARCH")),
        ("!#$%&'*+-.^_`|~", Method::Other("!#$%&'*+-.^_`|~")),
    ] {
        let head = with_target(name, "/");
        let request = accepted(&head);
        assert_eq!(request.method(), method);
        assert_eq!(request.method().name(), name);
    }
    check_refused(with_target(&"A".repeat(33), "/"), Status::NotImplemented, "method_too_long");
}

#[test]
fn a_request_has_one_authority() {
    for (head, authority, host) in [
        ("GET http://b.example:81/ HTTP/1.1\r\nHost: a.example\r\n\r\n", "b.example:81", "b.example"),
        ("GET / HTTP/1.1\r\nHost: A.example.:8443\r\n\r\n", "A.example.:8443", "A.example"),
        ("GET / HTTP/1.0\r\n\r\n", "", ""),
    ] {
        let request = accepted(head);
        assert_eq!((request.authority(), request.host()), (authority, host), "{head}");
    }
}

#[test]
fn all_forms_of_targets_are_understood() {
    for (method, target, host, path, query) in [
        ("GET", "/", "a", "/", None),
        ("GET", "/?", "a", "/", Some("")),
        ("GET", "/a?b", "a", "/a", Some("b")),
        ("GET", "http://b.example/x?y", "b.example", "/x", Some("y")),
        ("GET", "HTTPS://B.example:443/", "B.example", "/", None),
        ("GET", "http://b.example", "b.example", "/", None),
        ("GET", "http://b.example?y", "b.example", "/", Some("y")),
        ("GET", "http://[::1]:80/x", "[::1]", "/x", None),
        ("GET", "/http://b.example/", "a", "/http://b.example/", None),
        ("OPTIONS", "*", "a", "*", None),
        ("OPTIONS", "http://b.example", "b.example", "*", None),
        ("OPTIONS", "http://b.example/", "b.example", "/", None),
        ("OPTIONS", "/x", "a", "/x", None),
        ("CONNECT", "b.example:443", "b.example", "b.example:443", None),
    ] {
        let head = with_target(method, target);
        let request = accepted(&head);
        assert_eq!((request.host(), request.raw_path(), request.query()), (host, path, query), "{target}");
        assert_eq!(request.raw_target(), target);
        assert_eq!(request.is_server_wide(), path == "*", "{target}");
        assert_eq!(request.file_path() == Err(PathFault::NotAPath), !path.starts_with('/'), "{target}");
    }
}

#[test]
fn malformed_targets_are_400() {
    for (method, target, reason) in [
        ("GET", "*", "target_form"),
        ("GET", "a", "target_form"),
        ("GET", "b.example:443", "target_form"),
        ("GET", "http:/b.example/", "target_form"),
        ("GET", "?a", "target_form"),
        ("GET", "ftp://b.example/", "target_scheme"),
        ("GET", "file:///etc/passwd", "target_scheme"),
        ("GET", "http:///etc/passwd", "target_authority"),
        ("GET", "http://", "target_authority"),
        ("GET", "http://user@b.example/", "target_authority"),
        ("GET", "http://b.example:x/", "target_authority"),
        ("GET", "http://b,c/", "target_authority"),
        ("GET", "/a#b", "target_fragment"),
        ("GET", "/?a#b", "target_fragment"),
        ("CONNECT", "/", "target_authority"),
        ("CONNECT", ":443", "target_authority"),
    ] {
        check_refused(with_target(method, target), Status::BadRequest, reason);
    }
}

#[test]
fn a_path_that_no_file_can_have_is_still_a_request() {
    for (target, fault) in [
        ("/../etc/passwd", PathFault::DotSegment),
        ("/a/%2e%2e/b", PathFault::DotSegment),
        ("/a//b", PathFault::EmptySegment),
        ("/a\\b", PathFault::Backslash),
        ("/a%5Cb", PathFault::Backslash),
        ("/a%00", PathFault::Nul),
        ("/a%2Fb", PathFault::EncodedSlash),
        ("/a%zz", PathFault::PercentEncoding),
        ("http://b.example/../x", PathFault::DotSegment),
    ] {
        let head = with_target("GET", target);
        let request = accepted(&head);
        assert_eq!(request.file_path(), Err(fault), "{target}");
        assert!(request.keep_alive(), "{target}");
    }
    // The query belongs to no path.
    assert!(accepted(&with_target("GET", "/a?../%00//\\")).file_path().is_ok());
}

#[test]
fn a_plain_path_is_borrowed_from_the_head() {
    let head = with_target("GET", "/live/seg1.m4s");
    let request = accepted(&head);
    let path = request.file_path().unwrap();
    let path = path.as_bytes().as_ptr_range();
    let head = head.as_bytes().as_ptr_range();
    assert!(head.start < path.start && path.end < head.end);
}

#[test]
fn hosts_must_be_one_and_sound() {
    check_refused("GET / HTTP/1.1\r\n\r\n", Status::BadRequest, "no_host");
    check_refused("GET http://b/ HTTP/1.1\r\n\r\n", Status::BadRequest, "no_host");
    for (head, reason) in [
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "repeated_host"),
        ("GET / HTTP/1.0\r\nHost: a\r\nhost: b\r\n\r\n", "repeated_host"),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "host"),
        ("GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", "host"),
        ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "host"),
        ("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", "host"),
        ("GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", "host"),
        ("GET / HTTP/1.1\r\nHost: \u{e9}\r\n\r\n", "host"),
        ("GET / HTTP/1.0\r\nHost: a_b:99999\r\n\r\n", "host"),
        // It must be sound even where the target's host wins.
        ("GET http://b/ HTTP/1.1\r\nHost: a b\r\n\r\n", "host"),
    ] {
        check_refused(head, Status::BadRequest, reason);
    }
    check_refused(b"GET / HTTP/1.1\r\nHost: a\xff\r\n\r\n", Status::BadRequest, "host");
    assert_eq!(accepted("GET / HTTP/1.1\r\nHost:\r\n\r\n").host(), "");
    assert_eq!(accepted("GET http://b/ HTTP/1.0\r\n\r\n").host(), "b");
}

#[test]
fn bodies_are_delimited_without_doubt() {
    for (fields, body) in [
        ("", BodyFraming::None),
        ("Content-Length: 0\r\n", BodyFraming::None),
        ("Content-Length: 5\r\n", BodyFraming::Length(5)),
        ("content-length:\t007 \r\n", BodyFraming::Length(7)),
        ("Content-Length: 18446744073709551614\r\n", BodyFraming::Length(u64::MAX - 1)),
        ("Transfer-Encoding: chunked\r\n", BodyFraming::Chunked),
        ("transfer-encoding:  Chunked \r\n", BodyFraming::Chunked),
    ] {
        let head = with_fields(fields);
        assert_eq!(accepted(&head).body(), body, "{fields}");
    }
}

#[test]
fn doubtful_framing_is_refused_and_closes() {
    let bad = Status::BadRequest;
    for (fields, status, reason) in [
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", bad, "content_length_and_transfer_encoding"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", bad, "content_length_and_transfer_encoding"),
        ("Content-Length: 5\r\nContent-Length: 5\r\n", bad, "repeated_content_length"),
        ("Content-Length: 5\r\nContent-Length: 6\r\n", bad, "repeated_content_length"),
        ("Content-Length: 5, 5\r\n", bad, "content_length"),
        ("Content-Length:\r\n", bad, "content_length"),
        ("Content-Length: -1\r\n", bad, "content_length"),
        ("Content-Length: +5\r\n", bad, "content_length"),
        ("Content-Length: 5 5\r\n", bad, "content_length"),
        ("Content-Length: 0x5\r\n", bad, "content_length"),
        ("Content-Length: 5.0\r\n", bad, "content_length"),
        ("Content-Length: 18446744073709551616\r\n", bad, "content_length"),
        ("Content-Length: 99999999999999999999999\r\n", bad, "content_length"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", bad, "repeated_transfer_encoding"),
        ("Transfer-Encoding: gzip\r\n", Status::NotImplemented, "unknown_transfer_encoding"),
        ("Transfer-Encoding: gzip, chunked\r\n", Status::NotImplemented, "unknown_transfer_encoding"),
        ("Transfer-Encoding: chunked, identity\r\n", Status::NotImplemented, "unknown_transfer_encoding"),
        ("Transfer-Encoding: xchunked\r\n", Status::NotImplemented, "unknown_transfer_encoding"),
        ("Transfer-Encoding: \"chunked\"\r\n", Status::NotImplemented, "unknown_transfer_encoding"),
        ("Transfer-Encoding:\r\n", Status::NotImplemented, "unknown_transfer_encoding"),
        ("Transfer-Encoding : chunked\r\n", bad, "space_before_colon"),
        ("Transfer-Encoding:\u{b}chunked\r\n", bad, "control_character"),
    ] {
        let head = with_fields(fields);
        check_refused(&head, status, reason);
        assert!(judge(head.as_bytes(), &LIMITS).unwrap_err().close, "{fields}");
    }
    check_refused(
        "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        bad,
        "transfer_encoding_in_http_10",
    );
}

#[test]
fn bytes_that_two_programs_could_read_differently_are_400() {
    for (head, reason) in [
        ("GET / HTTP/1.1\nHost: a\n\n", "bare_lf"),
        ("GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", "bare_lf"),
        ("GET / HTTP/1.1\r\nHost: a\r\n\n", "bare_lf"),
        ("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "bare_lf"),
        ("GET / HTTP/1.1\rHost: a\r\n\r\n", "bare_cr"),
        ("GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n", "bare_cr"),
        ("GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", "bare_cr"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX\rY: z\r\n\r\n", "bare_cr"),
        ("\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", "bare_cr"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n", "obs_fold"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\tz\r\n\r\n", "obs_fold"),
        ("GET / HTTP/1.1\r\n Host: a\r\n\r\n", "obs_fold"),
        ("GET / HTTP/1.1\r\nHost: a\r\n \r\n\r\n", "obs_fold"),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", "space_before_colon"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX\t: y\r\n\r\n", "space_before_colon"),
        ("GET / HTTP/1.1\r\nHost: a\0\r\n\r\n", "nul"),
        ("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", "nul"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX\0: y\r\n\r\n", "nul"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: \u{1}\r\n\r\n", "control_character"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: \u{7f}\r\n\r\n", "control_character"),
        ("GET /\u{1b} HTTP/1.1\r\nHost: a\r\n\r\n", "control_character"),
        ("GET /\u{7f} HTTP/1.1\r\nHost: a\r\n\r\n", "control_character"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX(y): z\r\n\r\n", "field_name"),
        ("GET / HTTP/1.1\r\nHost: a\r\n: z\r\n\r\n", "field_name"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", "field_name"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX\u{e9}: z\r\n\r\n", "field_name"),
        ("GET /\r\n\r\n", "request_line"),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "request_line"),
        ("GET /  HTTP/1.1\r\nHost: a\r\n\r\n", "request_line"),
        ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", "request_line"),
        ("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", "request_line"),
        ("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", "request_line"),
        ("GET\r\n\r\n", "request_line"),
        ("G(T / HTTP/1.1\r\nHost: a\r\n\r\n", "request_line"),
        ("GET / http/1.1\r\nHost: a\r\n\r\n", "request_line"),
        ("GET / HTTP/1.10\r\nHost: a\r\n\r\n", "request_line"),
        ("GET / HTTP/11\r\nHost: a\r\n\r\n", "request_line"),
        ("GET / \r\nHost: a\r\n\r\n", "request_line"),
        ("HTTP/1.1 200 OK\r\n\r\n", "request_line"),
    ] {
        check_refused(head, Status::BadRequest, reason);
        // The parser does not lean on `head_length` having been asked first.
        let rejection = Request::parse(head.as_bytes(), &LIMITS).unwrap_err();
        assert_eq!(rejection, Rejection::malformed(reason), "{head:?}");
    }
    check_refused(b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n", Status::BadRequest, "request_line");
}

#[test]
fn a_forbidden_byte_is_found_wherever_it_stands() {
    // Long enough for every width of vector instructions.
    for at in 0..100 {
        for byte in (0..=0x1f).chain([0x7f]).filter(|byte| *byte != b'\t') {
            let mut value = [b'v'; 100];
            value[at] = byte;
            let head = [b"GET / HTTP/1.1\r\nHost: a\r\nX: ", &value[..], b"\r\n\r\n"].concat();
            assert!(judge(&head, &LIMITS).is_err(), "{byte:#x} in a value at {at}");
            let head = [b"GET /", &value[..], b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
            assert!(judge(&head, &LIMITS).is_err(), "{byte:#x} in a target at {at}");
            let head = [b"GET / HTTP/1.1\r\nHost: a\r\n", &value[..], b": v\r\n\r\n"].concat();
            assert!(judge(&head, &LIMITS).is_err(), "{byte:#x} in a name at {at}");
        }
    }
}

#[test]
fn other_versions_are_505() {
    for version in ["HTTP/2.0", "HTTP/3.0", "HTTP/0.9", "HTTP/1.2"] {
        check_refused(
            format!("GET / {version}\r\nHost: a\r\n\r\n"),
            Status::VersionNotSupported,
            "version_not_supported",
        );
    }
    check_refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Status::VersionNotSupported, "version_not_supported");
}

#[test]
fn input_that_cannot_be_a_request_is_refused_at_its_first_byte() {
    for (bytes, reason) in [
        (&b"\x16\x03\x01\x02\x00\x01"[..], "tls_on_plain_port"),
        (b"\r\n\x16", "tls_on_plain_port"),
        (b"\0", "not_http"),
        (b" GET / HTTP/1.1\r\n", "not_http"),
        (b"{\"json\":1}", "not_http"),
        (b"\x80\x80", "not_http"),
    ] {
        assert_eq!(head_length(bytes, 0, &LIMITS), Err(Rejection::malformed(reason)), "{bytes:?}");
    }
}

#[test]
fn a_few_empty_lines_before_the_request_are_forgiven() {
    for count in 0..=4 {
        let empty = "\r\n".repeat(count);
        let head = format!("{empty}{}", with_fields(""));
        let length = head_length(head.as_bytes(), 0, &LIMITS).unwrap().unwrap();
        assert_eq!(length, head.len());
        assert!(Request::parse(head.as_bytes(), &LIMITS).is_ok());
        assert_eq!(head_length(empty.as_bytes(), 0, &LIMITS), Ok(None));
    }
    let flood = "\r\n".repeat(5);
    assert_eq!(head_length(flood.as_bytes(), 0, &LIMITS), Err(Rejection::malformed("empty_lines")));
}

#[test]
fn the_next_request_in_the_buffer_is_left_alone() {
    let first = with_fields("");
    let both = format!("{first}GET /next HTTP/1.1\r\n");
    assert_eq!(head_length(both.as_bytes(), 0, &LIMITS), Ok(Some(first.len())));
    // Nor may it be handed to the parser along with the first.
    let rejection = Request::parse(both.as_bytes(), &LIMITS).unwrap_err();
    assert_eq!(rejection, Rejection::malformed("incomplete_head"));
    for end in 0..first.len() {
        assert!(Request::parse(&first.as_bytes()[..end], &LIMITS).is_err(), "{end} bytes");
    }
}

#[test]
fn sixteen_kibibytes_of_head_are_read_and_one_byte_more_is_431() {
    let head_of =
        |bytes: usize| with_fields(&format!("X: {}\r\n", "x".repeat(bytes - with_fields("X: \r\n").len())));
    assert!(judge(head_of(LIMITS.head_bytes).as_bytes(), &LIMITS).is_ok());
    check_refused(head_of(LIMITS.head_bytes + 1), Status::RequestHeaderFieldsTooLarge, "head_too_large");
    // No need to wait for an end that cannot come in time.
    let endless = &head_of(2 * LIMITS.head_bytes)[..LIMITS.head_bytes];
    check_refused(endless, Status::RequestHeaderFieldsTooLarge, "head_too_large");
    let rejection = Request::parse(head_of(LIMITS.head_bytes + 1).as_bytes(), &LIMITS).unwrap_err();
    assert_eq!(rejection.status, Status::RequestHeaderFieldsTooLarge);
}

#[test]
fn a_hundred_fields_are_read_and_one_more_is_431() {
    let head_of = |fields: usize| with_fields(&"X: y\r\n".repeat(fields - 1));
    assert_eq!(accepted(&head_of(100)).fields().count(), 99, "and Host");
    check_refused(head_of(101), Status::RequestHeaderFieldsTooLarge, "too_many_fields");
    // A caller cannot allow more than the table on the stack holds.
    let generous = HeadLimits { fields: usize::MAX, ..LIMITS };
    assert!(judge(head_of(HeadLimits::FIELDS_CEILING).as_bytes(), &generous).is_ok());
    assert!(judge(head_of(HeadLimits::FIELDS_CEILING + 1).as_bytes(), &generous).is_err());
}

#[test]
fn eight_kibibytes_of_target_are_read_and_one_byte_more_is_414() {
    let head_of = |bytes: usize| with_target("GET", &format!("/{}", "x".repeat(bytes - 1)));
    assert_eq!(accepted(&head_of(LIMITS.target_bytes)).raw_target().len(), LIMITS.target_bytes);
    check_refused(head_of(LIMITS.target_bytes + 1), Status::UriTooLong, "target_too_long");
    check_refused(head_of(2 * LIMITS.target_bytes), Status::UriTooLong, "request_line_too_long");
    // The whole head over its limit, but because of its first line, which the status names.
    check_refused(head_of(3 * LIMITS.target_bytes), Status::UriTooLong, "request_line_too_long");
    let no_line_yet = "GET /".to_owned() + &"x".repeat(LIMITS.target_bytes + 100);
    check_refused(no_line_yet, Status::UriTooLong, "request_line_too_long");
}

#[test]
fn connections_persist_as_the_version_says() {
    for (version, fields, keep_alive) in [
        ("HTTP/1.1", "", true),
        ("HTTP/1.1", "Connection: close\r\n", false),
        ("HTTP/1.1", "Connection: Close\r\n", false),
        ("HTTP/1.1", "Connection: keep-alive, close\r\n", false),
        ("HTTP/1.1", "Connection: keep-alive\r\nConnection: x,\tclose ,y\r\n", false),
        ("HTTP/1.1", "Connection: closed\r\n", true),
        ("HTTP/1.1", "Connection: upgrade\r\n", true),
        ("HTTP/1.0", "", false),
        ("HTTP/1.0", "Connection: Keep-Alive\r\n", true),
        ("HTTP/1.0", "Connection: keep-alive, close\r\n", false),
    ] {
        let head = format!("GET / {version}\r\nHost: a\r\n{fields}\r\n");
        assert_eq!(accepted(&head).keep_alive(), keep_alive, "{version} {fields}");
    }
}

#[test]
fn only_a_client_with_a_body_waits_for_continue() {
    for (version, fields, expects) in [
        ("HTTP/1.1", "Expect: 100-continue\r\nContent-Length: 5\r\n", true),
        ("HTTP/1.1", "Expect: 100-Continue\r\nTransfer-Encoding: chunked\r\n", true),
        ("HTTP/1.1", "Expect: 100-continue\r\n", false),
        ("HTTP/1.0", "Expect: 100-continue\r\nContent-Length: 5\r\n", false),
        ("HTTP/1.0", "Expect: tea\r\n", false),
    ] {
        let head = format!("PUT / {version}\r\nHost: a\r\n{fields}\r\n");
        assert_eq!(accepted(&head).expect_continue(), expects, "{version} {fields}");
    }
    for fields in
        ["Expect: tea\r\n", "Expect: 100-continue, tea\r\n", "Expect: tea\r\nExpect: 100-continue\r\n"]
    {
        assert!(accepted(&with_fields(fields)).has_unknown_expectation(), "{fields}");
    }
}

#[test]
fn fields_without_a_list_that_are_repeated_match_nothing() {
    let twice = |name: &str| with_fields(&format!("{name}: bytes=0-1\r\n{name}: bytes=0-1\r\n{name}: x\r\n"));
    assert_eq!(accepted(&twice("Range")).range(), Some(""));
    assert_eq!(accepted(&twice("If-Range")).if_range(), Some(""));
    assert_eq!(accepted(&twice("If-Modified-Since")).if_modified_since(), Some(""));
    assert_eq!(accepted(&twice("if-unmodified-since")).if_unmodified_since(), Some(""));
    assert_eq!(select(accepted(&twice("range")).range(), 100, 9), Ranges::Whole);
    // Lists may be spread over lines, and fields that are only logged may repeat.
    let lists = with_fields("If-Match: \"1\"\r\nIf-Match: \"2\"\r\nUser-Agent: a\r\nUser-Agent: b\r\n");
    assert_eq!(accepted(&lists).if_match(), Some("\"1\""));
    assert_eq!(accepted(&lists).user_agent(), Some("a"));
}

#[test]
fn a_value_that_is_not_utf_8_is_present_and_matches_nothing() {
    let head = b"GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\xff\r\nUser-Agent: \xe9\r\n\r\n";
    let request = judge(head, &LIMITS).unwrap();
    assert_eq!(request.range(), Some(""));
    assert_eq!(request.user_agent(), Some(""));
    assert_eq!(request.values("user-agent").next(), Some(&b"\xe9"[..]));
}

#[test]
fn aliases_of_a_target_become_one() {
    for target in ["/film.mp4?v=1", "/%66ilm.mp4?v=1", "/fi%6Cm%2emp4?%76=%31"] {
        let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let request = judge(head.as_bytes(), &LIMITS).unwrap();
        assert_eq!((request.raw_path(), request.query()), ("/film.mp4", Some("v=1")), "{target}");
        assert_eq!(request.raw_target(), target);
    }
}

#[test]
fn characters_that_no_target_may_have_are_encoded_at_the_door() {
    for byte in ["<", ">", "\"", "`", "\\", "^", "{", "}", "|", "\u{e9}"] {
        let head = format!("GET /a{byte}b?c{byte}d HTTP/1.1\r\nHost: a\r\n\r\n");
        let request = judge(head.as_bytes(), &LIMITS).unwrap();
        let encoded: String = byte.bytes().map(|byte| format!("%{byte:02X}")).collect();
        assert_eq!(request.raw_path(), format!("/a{encoded}b"));
        assert_eq!(request.query(), Some(&*format!("c{encoded}d")));
    }
}

/// The head of a request over HTTP/2 that has the same parts as an HTTP/1.1 head.
fn validated(head: &str) -> ValidatedHead<'_> {
    let (line, lines) = head.split_once("\r\n").unwrap();
    let mut parts = line.split(' ');
    let (method, path) = (parts.next().unwrap(), parts.next());
    let authority = lines.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let (version, lines) = (HttpVersion::Http2, lines.as_bytes());
    ValidatedHead { version, method, authority, path, lines, body: BodyFraming::None }
}

#[test]
fn a_validated_head_is_the_same_request_as_its_lines() {
    let head = "GET /a%62c/x.mp4?b=1 HTTP/1.1\r\nhost: Example.com:8443\r\nrange: bytes=0-9\r\nif-match: \"1\"\r\n\
                accept-encoding: gzip\r\nuser-agent: a b\r\nearly-data: 1\r\n";
    let request = Request::from_validated(&validated(head), &LIMITS).unwrap();
    let whole = format!("{head}\r\n");
    let same = judge(whole.as_bytes(), &LIMITS).unwrap();
    assert_eq!(request.version(), HttpVersion::Http2);
    assert!(request.keep_alive() && request.came_early());
    assert_eq!(
        (request.host(), request.raw_path(), request.query()),
        (same.host(), same.raw_path(), same.query())
    );
    assert_eq!((request.file_path(), request.raw_target()), (same.file_path(), same.raw_target()));
    assert_eq!((request.range(), request.if_match()), (same.range(), same.if_match()));
    assert!(request.fields().eq(same.fields()));
}

#[test]
fn a_validated_head_that_is_no_request_is_refused_without_closing() {
    let of = |method, authority, path, lines| {
        let body = BodyFraming::Length(1);
        let head = ValidatedHead { version: HttpVersion::Http3, method, authority, path, lines, body };
        Request::from_validated(&head, &LIMITS)
    };
    let long = "/".repeat(9000);
    for (refused, status) in [
        (of("GET", "a/b", Some("/"), b""), Status::BadRequest),
        (of("GET", "a", Some("*"), b""), Status::BadRequest),
        (of("GET", "a", Some("http://b/"), b""), Status::BadRequest),
        (of("GET", "a", Some(&long), b""), Status::UriTooLong),
    ] {
        let rejection = refused.unwrap_err();
        assert_eq!((rejection.status, rejection.close), (status, false));
    }
    assert!(of("POST", "a", Some("/"), b"expect: 100-continue\r\n").unwrap().expect_continue());
    assert!(of("CONNECT", "a:443", None, b"").unwrap().file_path().is_err());
    assert!(of("OPTIONS", "a", Some("*"), b"").unwrap().is_server_wide());
}
