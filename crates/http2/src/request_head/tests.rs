use super::*;
use crate::limits::Http2Limits;
use crate::priority::PriorityParameters;

fn build(lines: &str) -> Result<(RequestHead, PriorityParameters), HeadFault> {
    let limits = Http2Limits::default();
    let mut builder = HeadBuilder::new(FieldSection::Head, &limits);
    for line in lines.lines() {
        // The first colon of a pseudo-header field belongs to its name.
        let colon = line[1..].find(':').unwrap() + 1;
        let (name, value) = line.as_bytes().split_at(colon);
        builder.field(name, &value[1..]);
    }
    builder.into_head()
}

const START: &str = ":method:GET\n:scheme:https\n:path:/a?b\n";

#[test]
fn a_head_has_its_parts_and_lines() {
    let (head, priority) = build(
        ":method:PUT\n:authority:a.example:8443\n:scheme:https\n:path:/a?b\naccept:*/*\ncookie:a=1\nx:\n\
         host:A.example:8443\ncookie:b=2\ncontent-length:12\npriority:u=1\npriority:i\ncookie:c=3\nte:trailers",
    )
    .unwrap();
    assert_eq!((head.method(), head.scheme(), head.path()), ("PUT", "https", Some("/a?b")));
    assert_eq!((head.authority(), head.content_length()), ("a.example:8443", Some(12)));
    assert_eq!(
        str::from_utf8(head.lines()).unwrap(),
        "host: a.example:8443\r\naccept: */*\r\nx: \r\ncontent-length: 12\r\npriority: u=1\r\npriority: i\r\n\
         te: trailers\r\ncookie: a=1; b=2; c=3\r\n"
    );
    assert_eq!(priority, PriorityParameters { urgency: Some(1), incremental: true });
    let fields: Vec<_> = head.fields().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    assert_eq!((fields.len(), &*fields[1].0, &*fields[1].1), (8, &b"accept"[..], &b"*/*"[..]));
    assert_eq!(fields[2], (b"x".to_vec(), vec![]));
}

#[test]
fn host_takes_the_place_of_a_missing_authority() {
    for lines in ["accept:*/*\nhost:b.example", "host:b.example\naccept:*/*"] {
        let (head, _) = build(&format!("{START}{lines}")).unwrap();
        assert_eq!(head.authority(), "b.example");
        assert_eq!(head.fields().filter(|(name, _)| *name == b"host").count(), 1);
    }
    let (head, _) = build(&format!("{START}:authority:\nhost:b.example")).unwrap();
    assert_eq!(head.authority(), "b.example");
    let (head, _) = build(&format!("{START}:authority:c.example")).unwrap();
    assert_eq!(head.lines(), b"host: c.example\r\n");
}

#[test]
fn connect_and_options_have_their_own_forms() {
    let (head, _) = build(":method:CONNECT\n:authority:a.example:443").unwrap();
    assert_eq!((head.path(), head.scheme(), head.authority()), (None, "", "a.example:443"));
    let (head, _) = build(":method:OPTIONS\n:scheme:https\n:path:*\n:authority:a").unwrap();
    assert_eq!(head.path(), Some("*"));
}

#[test]
fn host_agrees_with_an_authority_that_differs_in_case_or_in_the_default_port() {
    for (scheme, authority, host) in [
        ("https", "a.example", "A.example:443"),
        ("https", "a.example:443", "a.example"),
        ("https", "a.example:", "a.example"),
        ("http", "a.example", "a.example:80"),
        ("https", "[::1]", "[::1]:443"),
        ("https", "a.example:8443", "A.EXAMPLE:8443"),
    ] {
        let lines = format!(":method:GET\n:scheme:{scheme}\n:path:/\n:authority:{authority}\nhost:{host}");
        let (head, _) = build(&lines).unwrap();
        assert_eq!(head.authority(), authority, "{host}");
        assert_eq!(head.lines(), format!("host: {authority}\r\n").as_bytes(), "{host}");
    }
}

#[test]
fn malformed_heads_are_refused_with_their_reason() {
    let valid = ":method:GET\n:scheme:https\n:path:/\n:authority:a\n";
    for (lines, reason) in [
        (":scheme:https\n:path:/\n:authority:a", "missing_pseudo_field"),
        (":method:GET\n:path:/\n:authority:a", "missing_pseudo_field"),
        (":method:GET\n:scheme:https\n:authority:a", "missing_pseudo_field"),
        (START, "missing_authority"),
        (":method:GET\n:scheme:https\n:path:/\n:authority:", "missing_authority"),
        (":method:GET\n:scheme:https\n:path:a\n:authority:a", "path_form"),
        (":method:GET\n:scheme:https\n:path:*\n:authority:a", "path_form"),
        (":method:GET\n:scheme:https\n:path:\n:authority:a", "pseudo_field_value"),
        (":method:GET\n:scheme:https\n:path:/a b\n:authority:a", "pseudo_field_value"),
        (":method:\n:scheme:https\n:path:/\n:authority:a", "pseudo_field_value"),
        (":method:G(T\n:scheme:https\n:path:/\n:authority:a", "pseudo_field_value"),
        (":method:GET\n:scheme:1\n:path:/\n:authority:a", "pseudo_field_value"),
        (":method:GET\n:scheme:https\n:path:/\n:authority:user@a", "pseudo_field_value"),
        (":method:GET\n:scheme:https\n:path:/\n:authority:a/b", "pseudo_field_value"),
        (":method:GET\n:scheme:https\n:path:/\n:path:/\n:authority:a", "repeated_pseudo_field"),
        (":method:GET\n:authority:\n:authority:a", "repeated_pseudo_field"),
        (":method:GET\n:status:200", "unknown_pseudo_field"),
        (":method:GET\n:protocol:websocket", "unknown_pseudo_field"),
        (":method:GET\n:scheme:https\naccept:a\n:path:/\n:authority:a", "pseudo_field_after_field"),
        (":method:CONNECT\n:scheme:https\n:path:/\n:authority:a", "connect"),
        (":method:CONNECT\n:authority:", "connect"),
        (&format!("{valid}host:b"), "host_is_not_authority"),
        (&format!("{valid}host:a:80"), "host_is_not_authority"),
        (&format!("{valid}host:a:8443"), "host_is_not_authority"),
        (&format!("{valid}host:a:443:443"), "host_is_not_authority"),
        (&format!("{valid}host:a\nhost:a"), "repeated_host"),
        (&format!("{START}host:a\nhost:a"), "repeated_host"),
        (&format!("{START}host:u@a"), "host"),
        (&format!("{valid}content-length:-1"), "content_length"),
        (&format!("{valid}content-length:"), "content_length"),
        (&format!("{valid}content-length:1\ncontent-length:1"), "content_length"),
        (&format!("{valid}content-length:12345678901234567890"), "content_length"),
        (&format!("{valid}Accept:a"), "field_name"),
        (&format!("{valid}connection:close"), "connection_specific_field"),
        (&format!("{valid}x: a"), "field_value"),
    ] {
        assert_eq!(build(lines).unwrap_err(), HeadFault::Malformed(reason), "{lines}");
    }
}

#[test]
fn a_head_that_is_malformed_and_too_large_is_malformed() {
    let long = "x".repeat(40_000);
    let fault = build(&format!("{START}x:{long}\nUpper:a")).unwrap_err();
    assert_eq!(fault, HeadFault::Malformed("field_name"));
    let fault = build(&format!("{START}x:{long}\ny:{long}\nz:{long}\nz:{long}")).unwrap_err();
    assert_eq!(fault, HeadFault::Flood);
}

#[test]
fn what_is_too_large_is_not_kept() {
    let limits = Http2Limits::default();
    let mut builder = HeadBuilder::new(FieldSection::Head, &limits);
    let value = vec![b'x'; 4000];
    for _ in 0..100_000 {
        builder.field(b"x", &value);
    }
    assert_eq!(builder.into_head().unwrap_err(), HeadFault::Flood);
}
