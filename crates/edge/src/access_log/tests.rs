//! Records and their lines.

use std::time::UNIX_EPOCH;

use penstock_config::LogFormat;
use serde_json::Value;

use super::*;

fn record(target: &[u8]) -> Record {
    let mut texts = Texts::with_space();
    let mut text = |text: &[u8]| texts.add(&String::from_utf8_lossy(text), 1024);
    let (host, method, target) = (text(b"video.example"), text(b"GET"), text(target));
    let (referer, user_agent) = (Some(text(b"https://video.example/")), Some(text(b"player/1.0")));
    let (range, site, route) =
        (Some(text(b"bytes=0-65535")), Some(text(b"video.example")), Some(text(b"/live/*")));
    Record {
        time: UNIX_EPOCH + Duration::from_millis(1_700_000_000_123),
        client: "[::ffff:192.0.2.7]:50123".parse().unwrap(),
        texts,
        host,
        method,
        target,
        status: 206,
        refusal: None,
        carried: None,
        player: None,
        body_bytes: 65_536,
        duration: Duration::from_micros(12_500),
        first_byte: Some(Duration::from_micros(250)),
        referer,
        user_agent,
        trace_id: None,
        range,
        protocol: "HTTP/1.1",
        tls: Some(HandshakeFacts {
            version: "TLSv1.3",
            cipher: "TLS_AES_128_GCM_SHA256",
            group: "X25519",
            resumed: true,
            certificate: "none",
        }),
        early_data: false,
        ja4: None,
        client_certificate: None,
        outlet: OutletKind::UserSpace,
        request_number: 3,
        stream: None,
        id: None,
        site,
        route,
        cache: Some("hit"),
        tier: Some("memory"),
        upstream: None,
        short: None,
        without_request: false,
    }
}

/// The record with another text.
fn with(mut record: Record, text: &str, place: fn(&mut Record, Text)) -> Record {
    let text = record.texts.add(text, 1024);
    place(&mut record, text);
    record
}

fn text_of(record: &Record) -> String {
    text_in(&LogFormat::Json(None), record)
}

fn text_in(format: &LogFormat, record: &Record) -> String {
    let lines = format::line(record, format);
    assert_eq!(lines.iter().filter(|byte| **byte == b'\n').count(), 1);
    String::from_utf8(lines).unwrap()
}

fn line_of(record: &Record) -> Value {
    serde_json::from_str(&text_of(record)).unwrap()
}

#[test]
fn the_signatures_of_signed_urls_stay_out_of_the_log() {
    let signed = "https://video.example/token=exp=9~path=%2F~hmac=5f6c/a.m3u8";
    let record = record(b"/a.ts?token=exp=9~path=/~hmac=5f6c");
    let line = line_of(&with(record, signed, |record, text| record.referer = Some(text)));
    assert_eq!(line["target"], "/a.ts?token=exp=9~path=/~hmac=hidden");
    assert_eq!(line["referer"], "https://video.example/token=exp=9~path=%2F~hmac=hidden/a.m3u8");
}

#[test]
fn a_record_is_one_line_of_json_with_all_fields() {
    let line = line_of(&record(b"/live/seg.m4s?t=1"));
    let expected = serde_json::json!({
        "time": "2023-11-14T22:13:20.123Z",
        "client_ip": "192.0.2.7",
        "client_port": 50123,
        "host": "video.example",
        "site": "video.example",
        "route": "/live/*",
        "method": "GET",
        "target": "/live/seg.m4s?t=1",
        "status": 206,
        "body_bytes": 65536,
        "duration_ms": 12.5,
        "ttfb_ms": 0.25,
        "referer": "https://video.example/",
        "user_agent": "player/1.0",
        "range": "bytes=0-65535",
        "protocol": "HTTP/1.1",
        "tls": {"version": "TLSv1.3", "cipher": "TLS_AES_128_GCM_SHA256", "group": "X25519", "resumed": true},
        "outlet": "user_space",
        "request_number": 3,
        "cache": "hit",
        "tier": "memory",
        "outcome": "complete",
    });
    assert_eq!(line, expected);
}

/// A record in which every field applies but `request_id` and `tls.ja4`.
fn full_record() -> Record {
    let said = Cmcd { session: Some("a".into()), content: Some("b".into()), ..Cmcd::default() };
    let carried =
        Carried { delivery_rate: Some(1_250_000), round_trip: Duration::from_millis(20), sent: (1000, 5) };
    let upstream = Upstream {
        url: "http://192.0.2.9:8080".to_owned(),
        is_node: false,
        connect: Some(Duration::from_micros(300)),
        first_byte: Some(Duration::from_millis(4)),
        whole: Some(Duration::from_millis(9)),
    };
    let record = Record {
        upstream: Some(Box::new(upstream)),
        early_data: true,
        refusal: Some("expired"),
        carried: Some(carried),
        player: Some(Box::new(said)),
        stream: Some(4),
        ..record(b"/")
    };
    with(record, "a", |record, text| record.client_certificate = Some(text))
}

#[test]
fn the_configuration_knows_every_field() {
    let record =
        with(full_record(), "4bf92f3577b34da6a3ce929d0e0e4736", |record, text| record.trace_id = Some(text));
    let line = line_of(&record);
    let names = line.as_object().unwrap().iter().flat_map(|(name, value)| match value {
        Value::Object(part) => part.keys().map(|inner| format!("{name}.{inner}")).collect(),
        _ => vec![name.clone()],
    });
    let mut names: Vec<String> = names.chain(["request_id".into(), "tls.ja4".into()]).collect();
    let mut known = LogFormat::FIELDS.to_vec();
    names.sort();
    known.sort_unstable();
    assert_eq!(names, known);
}

#[test]
fn a_line_has_the_fields_that_were_asked_for() {
    let record = with(full_record(), "a\tb\nc\"\\", |record, text| record.user_agent = Some(text));
    let names = vec!["status", "tls.version", "rtt_ms", "cmcd_session"];
    let json = text_in(&LogFormat::Json(Some(names)), &record);
    let expected = serde_json::json!({"status": 206, "tls": {"version": "TLSv1.3"}, "rtt_ms": 20.0, "cmcd_session": "a"});
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), expected);
    let names = vec!["time", "user_agent", "tls.cipher", "status", "retransmitted_ratio", "request_id"];
    let line = text_in(&LogFormat::Fields(names), &Record { id: None, ..record });
    assert_eq!(
        line,
        "2023-11-14T22:13:20.123Z\ta\\x09b\\x0Ac\\x22\\x5C\tTLS_AES_128_GCM_SHA256\t206\t0.005\t-\n"
    );
}

#[test]
fn the_combined_format_is_that_of_other_servers_and_no_client_can_end_a_value() {
    let plain = text_in(&LogFormat::Combined, &record(b"/a.ts?x=1"));
    assert_eq!(
        plain,
        "192.0.2.7 - - [14/Nov/2023:22:13:20 +0000] \"GET /a.ts?x=1 HTTP/1.1\" 206 65536 \
         \"https://video.example/\" \"player/1.0\"\n"
    );
    let hostile = Record { referer: None, ..record(b"/?hmac=5f") };
    let hostile = with(hostile, "\"\\\n\u{fffd}", |record, text| record.user_agent = Some(text));
    let line = text_in(&LogFormat::Combined, &hostile);
    assert!(line.ends_with(" 206 65536 \"-\" \"\\x22\\x5C\\x0A\u{fffd}\"\n"), "{line}");
    assert!(line.contains("/?hmac=hidden "), "{line}");
}

#[test]
fn docs_access_log_md_names_every_field() {
    let page = include_str!("../../../../docs/access-log.md");
    let line = line_of(&full_record());
    let fields = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let parts = ["tls", "upstream"].map(|part| fields(&line[part])).concat();
    for field in fields(&line).into_iter().chain(parts) {
        let forms = [format!("`{field}`"), format!("`tls.{field}`"), format!("`upstream.{field}`")];
        let named = forms.iter().any(|name| page.contains(name));
        assert!(named, "docs/access-log.md does not explain {field}");
    }
    for reason in ShortReason::ALL {
        assert!(page.contains(&format!("`{}`", reason.label())), "docs/access-log.md: {reason:?}");
    }
}

#[test]
fn fields_that_do_not_apply_are_omitted_and_a_short_response_has_its_reason() {
    let bare = Record {
        first_byte: None,
        referer: None,
        user_agent: None,
        trace_id: None,
        range: None,
        tls: None,
        ja4: None,
        client_certificate: None,
        outlet: OutletKind::Plain,
        short: Some(ShortReason::TooSlow),
        ..record(b"/")
    };
    let line = line_of(&bare);
    assert_eq!(line["outcome"], "too_slow");
    assert_eq!(line["outlet"], "plain");
    for absent in ["ttfb_ms", "referer", "user_agent", "range", "tls"] {
        assert!(line.get(absent).is_none(), "{absent}");
    }
}

#[test]
fn hostile_bytes_can_neither_end_a_line_nor_forge_a_field() {
    let hostile = b"/\n{\"status\":200}\r\"\\\x00\x1b[31m\xff\xc3\x28\x7f";
    let text = text_of(&record(hostile));
    assert!(!text.contains(['\r', '\0', '\x1b']));
    let line: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["status"], 206);
    assert_eq!(line["target"], String::from_utf8_lossy(hostile).as_ref());
}

#[test]
fn durations_keep_microseconds() {
    assert_eq!(fields::microseconds(Duration::from_nanos(12_345_678)), 12_346);
    assert_eq!(fields::microseconds(Duration::from_secs(3)), 3_000_000);
}

#[test]
fn signatures_are_hidden_encoded_or_not_and_when_cut() {
    let shown = |text: &str| unsigned(text).into_owned();
    let signature = "0123456789abcdefABCDEF";
    for (written, expected) in [
        ("/a?token=exp=1~key=k~path=/a~hmac=SIGNATURE", "/a?token=exp=1~key=k~path=/a~hmac=hidden"),
        ("/a?token=exp%3D1~hmac%3DSIGNATURE&b=1", "/a?token=exp%3D1~hmac%3Dhidden&b=1"),
        ("/a?token=exp%3d1%7ehmac%3dSIGNATURE", "/a?token=exp%3d1%7ehmac%3dhidden"),
        ("/t=~hmac=SIGNATURE/a?t=~hmac%3DSIGNATURE", "/t=~hmac=hidden/a?t=~hmac%3Dhidden"),
        ("/token=exp=1~hmac=0/b", "/token=exp=1~hmac=hidden/b"),
        ("/hmac=/hmac=", "/hmac=/hmac="),
        ("/hmac/abc?hmac", "/hmac/abc?hmac"),
    ] {
        assert_eq!(shown(&written.replace("SIGNATURE", signature)), expected);
    }
}

#[test]
fn text_is_cut_at_its_limit_between_characters() {
    let mut texts = Texts::default();
    for (text, limit, expected) in
        [("abcdef", 3, "abc"), ("ab", 3, "ab"), ("aé", 2, "a"), ("é", 1, ""), ("aé", 3, "aé")]
    {
        let added = texts.add(text, limit);
        assert_eq!(texts.get(added), expected);
    }
}

#[test]
fn addresses_are_those_of_the_standard_library() {
    let addresses = ["0.0.0.0", "1.20.255.100", "192.0.2.7", "::1", "2001:db8::", "::ffff:192.0.2.7"];
    for text in addresses.into_iter().chain(["2001:db8:1111:2222:3333:4444:5555:6666", "64:ff9b::192.0.2.33"])
    {
        let address: std::net::IpAddr = text.parse().unwrap();
        let record = Record { client: (address, 1).into(), ..record(b"/") };
        assert_eq!(line_of(&record)["client_ip"], address.to_canonical().to_string());
    }
}
