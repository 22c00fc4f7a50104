//! Responses: what a site refuses, and one table of conditions and ranges for files and cached objects alike.

use std::fs;

use penstock_config::{Cors, CorsOrigins, EarlyRequests, HostPattern, Origin, Site};

use penstock_origin::http::OriginError;

use super::fixture::{Fixture, OriginAnswer, SLICE, content, http_origin, read, run, run_with_files, site};
use super::scripted::{Gate, Reply};
use crate::response::ContentLength;

const MODIFIED: &str = "Sat, 21 Nov 2026 20:04:16 GMT";

fn file_site() -> Fixture {
    Fixture::of(|directory| {
        fs::write(directory.join("movie.mp4"), content(1000, 0)).unwrap();
        site(Origin::Directory(directory.to_owned()), |_| {})
    })
}

fn cached_site() -> Fixture {
    let fixture = Fixture::cached();
    fixture.origin.handle(|asked| {
        let fields = [
            ("etag", "\"one\""),
            ("last-modified", MODIFIED),
            ("content-type", "video/mp4"),
            ("cache-control", "max-age=60"),
        ];
        Reply::part_of(&content(1000, 0), &fields, asked)
    });
    fixture
}

/// A request and the response that both kinds of representation give: fields with `ETAG` and `DATE` for the validators.
struct Case {
    line: &'static str,
    fields: &'static str,
    status: u16,
    content_range: &'static str,
    body: Vec<u8>,
}

fn case(
    line: &'static str,
    fields: &'static str,
    status: u16,
    content_range: &'static str,
    range: std::ops::Range<usize>,
) -> Case {
    Case { line, fields, status, content_range, body: content(1000, 0)[range].to_vec() }
}

fn cases() -> Vec<Case> {
    const GET: &str = "GET /movie.mp4";
    const HEAD: &str = "HEAD /movie.mp4";
    let future = "Tue, 01 Jan 2030 00:00:00 GMT";
    assert!(httpdate::parse_http_date(future).is_ok());
    let mut cases = vec![
        case(GET, "", 200, "", 0..1000),
        case(HEAD, "", 200, "", 0..0),
        case(HEAD, "Range: bytes=0-9\r\n", 200, "", 0..0),
        case(GET, "Range: bytes=0-0\r\n", 206, "bytes 0-0/1000", 0..1),
        case(GET, "Range: bytes=10-19\r\n", 206, "bytes 10-19/1000", 10..20),
        case(GET, "Range: bytes=990-\r\n", 206, "bytes 990-999/1000", 990..1000),
        case(GET, "Range: bytes=-10\r\n", 206, "bytes 990-999/1000", 990..1000),
        case(GET, "Range: bytes=-5000\r\n", 206, "bytes 0-999/1000", 0..1000),
        case(GET, "Range: bytes=900-5000\r\n", 206, "bytes 900-999/1000", 900..1000),
        case(GET, "Range: lines=1-2\r\n", 200, "", 0..1000),
        case(GET, "Range: bytes=9-1\r\n", 200, "", 0..1000),
        case(GET, "If-Match: ETAG\r\n", 200, "", 0..1000),
        case(GET, "If-Match: *\r\n", 200, "", 0..1000),
        case(GET, "If-None-Match: ETAG\r\n", 304, "", 0..0),
        case(GET, "If-None-Match: \"a\", W/ETAG\r\n", 304, "", 0..0),
        case(GET, "If-None-Match: *\r\n", 304, "", 0..0),
        case(HEAD, "If-None-Match: ETAG\r\n", 304, "", 0..0),
        case(GET, "If-None-Match: \"other\"\r\n", 200, "", 0..1000),
        case(GET, "If-Modified-Since: DATE\r\n", 304, "", 0..0),
        case(GET, "If-Modified-Since: DATE\r\nIf-None-Match: \"other\"\r\n", 200, "", 0..1000),
        case(GET, "If-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT\r\n", 200, "", 0..1000),
        case(GET, "If-Unmodified-Since: DATE\r\n", 200, "", 0..1000),
        case(GET, "If-None-Match: ETAG\r\nRange: bytes=0-9\r\n", 304, "", 0..0),
        case(GET, "If-Range: ETAG\r\nRange: bytes=0-9\r\n", 206, "bytes 0-9/1000", 0..10),
        case(GET, "If-Range: \"other\"\r\nRange: bytes=0-9\r\n", 200, "", 0..1000),
        case(GET, "If-Range: W/ETAG\r\nRange: bytes=0-9\r\n", 200, "", 0..1000),
    ];
    for (fields, status, content_range) in [
        ("Range: bytes=1000-\r\n", 416, "bytes */1000"),
        ("Range: bytes=-0\r\n", 416, "bytes */1000"),
        ("If-Match: \"other\"\r\n", 412, ""),
        ("If-Match: W/ETAG\r\n", 412, ""),
        ("If-Unmodified-Since: Sat, 01 Jan 2000 00:00:00 GMT\r\n", 412, ""),
    ] {
        cases.push(case(GET, fields, status, content_range, 0..0));
    }
    cases
}

async fn check_cases(fixture: &Fixture) {
    let whole = fixture.get("GET /movie.mp4", "").await;
    let (etag, date) = (whole.field("etag"), whole.field("last-modified"));
    for Case { line, fields, status, content_range, body } in cases() {
        let sent = fields.replace("ETAG", &etag).replace("DATE", &date);
        let answer = fixture.get(line, &sent).await;
        let what = format!("{line} with {sent:?}");
        assert_eq!(answer.status, status, "{what}");
        assert_eq!(answer.field("content-range"), content_range, "{what}");
        if status < 400 {
            assert_eq!(answer.body, body, "{what}");
            assert_eq!(answer.field("etag"), etag, "{what}");
        }
        let length = match (line, status) {
            (_, 304) => ContentLength::None,
            (line, 200) if line.starts_with("HEAD") => ContentLength::Known(1000),
            _ => ContentLength::Known(answer.body.len() as u64),
        };
        assert_eq!(answer.length, length, "{what}");
        assert!(answer.fault.is_none(), "{what}");
    }
    check_multipart(&fixture.get("GET /movie.mp4", "Range: bytes=0-1,500-509, -1\r\n").await);
}

/// The status of a response to a range on the condition of Last-Modified.
async fn if_range_by_date(fixture: &Fixture) -> u16 {
    let date = fixture.get("GET /movie.mp4", "").await.field("last-modified");
    let fields = format!("If-Range: {date}\r\nRange: bytes=0-9\r\n");
    fixture.get("GET /movie.mp4", &fields).await.status
}

fn check_multipart(answer: &OriginAnswer) {
    let kind = answer.field("content-type");
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").expect("a multipart type");
    let whole = content(1000, 0);
    let mut expected = Vec::new();
    for (index, (range, named)) in
        [(0..2, "0-1"), (500..510, "500-509"), (999..1000, "999-999")].iter().enumerate()
    {
        let line_end = if index == 0 { "" } else { "\r\n" };
        let head = format!(
            "{line_end}--{boundary}\r\nContent-Type: video/mp4\r\nContent-Range: bytes {named}/1000\r\n\r\n"
        );
        expected.extend_from_slice(head.as_bytes());
        expected.extend_from_slice(&whole[range.clone()]);
    }
    expected.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    assert_eq!(answer.status, 206);
    assert_eq!(String::from_utf8_lossy(&answer.body), String::from_utf8_lossy(&expected));
    assert_eq!(answer.length, ContentLength::Known(expected.len() as u64));
}

#[test]
fn conditions_and_ranges_select_the_same_parts_of_a_file() {
    run_with_files(async {
        let fixture = file_site();
        check_cases(&fixture).await;
        assert_eq!(if_range_by_date(&fixture).await, 200, "it may have changed twice within that second");
    });
}

#[test]
fn conditions_and_ranges_select_the_same_parts_of_a_cached_object() {
    run(async {
        let fixture = cached_site();
        check_cases(&fixture).await;
        assert_eq!(if_range_by_date(&fixture).await, 206);
        assert_eq!(fixture.origin.requests(), 1, "all but the first are hits");
    });
}

#[test]
fn a_request_that_a_site_does_not_answer_gets_its_status() {
    run(async {
        let fixture = Fixture::with(|site| site.early_data = EarlyRequests::Refuse);
        let hosts = vec![HostPattern::Exact("other.example".to_owned())];
        let other = Fixture::of_sites(&[Site { hosts, ..site(http_origin(), |_| {}) }]);
        let early = read(&fixture.context, fixture.open_as("GET /x", "", true).await).await;
        assert_eq!(early.status, 425);
        assert_eq!(other.get("GET /x", "").await.status, 421);
        let refused = fixture.get("DELETE /x", "").await;
        assert_eq!((refused.status, refused.field("allow").as_str()), (405, "GET, HEAD, OPTIONS"));
        assert_eq!(fixture.get("GET /a%00b", "").await.status, 404, "no file can have that name");
        assert_eq!(fixture.origin.requests() + other.origin.requests(), 0);
    });
}

#[test]
fn a_preflight_is_answered_with_the_sites_methods() {
    run(async {
        let fixture = Fixture::with(|site| site.headers.cors = Some(Cors::same("*")));
        let options = fixture.get("OPTIONS /x", "").await;
        assert_eq!((options.status, options.field("allow").as_str()), (204, "GET, HEAD, OPTIONS"));
        assert_eq!(options.length, ContentLength::None);
        assert_eq!(options.field("access-control-allow-origin"), "*");
        assert_eq!(options.field("access-control-allow-methods"), "GET, HEAD, OPTIONS");
        assert!(options.field("access-control-allow-headers").contains("CMCD-Session"));
        assert_eq!(fixture.origin.requests(), 0);
    });
}

#[test]
fn options_of_a_site_without_cors_are_a_question_for_its_origin_and_change_nothing() {
    run(async {
        let fixture = Fixture::cached();
        fixture.origin.reply(Reply::ok(&[("cache-control", "max-age=60")], b"kept"));
        assert_eq!(fixture.get("GET /x", "").await.body, b"kept");
        let allowed = [("access-control-allow-origin", "https://a.example"), ("access-control-max-age", "9")];
        fixture.origin.reply(Reply::new(204).with(&allowed));
        let preflight = fixture.get("OPTIONS /x", "Origin: https://a.example\r\n").await;
        assert_eq!((preflight.status, preflight.field("access-control-max-age").as_str()), (204, "9"));
        assert_eq!(preflight.field("access-control-allow-origin"), "https://a.example");
        assert_eq!(fixture.origin.asked()[1].method, "OPTIONS");
        assert_eq!(fixture.get("GET /x", "").await.summary(), (200, "hit", "kept".to_owned()));
    });
}

#[test]
fn the_cors_and_hsts_fields_of_an_origin_are_kept_unless_the_site_has_its_own() {
    run(async {
        let fields = [
            ("cache-control", "max-age=60"),
            ("access-control-allow-origin", "https://a.example"),
            ("access-control-expose-headers", "x-id"),
            ("strict-transport-security", "max-age=1"),
            ("alt-svc", "h3=\":443\""),
        ];
        let names =
            ["access-control-allow-origin", "access-control-expose-headers", "strict-transport-security"];
        let fixture = Fixture::cached();
        fixture.origin.reply(Reply::ok(&fields, b"kept"));
        for _ in 0..3 {
            let answer = fixture.get("GET /x", "").await;
            let kept = names.map(|name| answer.field(name));
            assert_eq!(kept, ["https://a.example", "x-id", "max-age=1"], "{:?}", answer.cache_status);
            assert_eq!(answer.field("alt-svc"), "", "it names the addresses of the origin");
        }
        let fixture = Fixture::with(|site| site.headers.cors = Some(Cors::same("*")));
        fixture.origin.reply(Reply::ok(&fields, b"kept"));
        for _ in 0..3 {
            let answer = fixture.get("GET /x", "").await;
            assert_eq!(answer.field(names[0]), "*");
            assert_eq!(
                answer.field(names[1]),
                "Content-Length, Content-Range, Date, ETag, Age, Cache-Status, CMSD-Static, CMSD-Dynamic"
            );
        }
    });
}

#[test]
fn an_origin_that_varies_by_origin_is_asked_for_each_page() {
    run(async {
        let fixture = Fixture::cached();
        fixture.origin.handle(|asked| {
            let origin = asked.field("origin");
            let fields = [
                ("cache-control", "max-age=60"),
                ("vary", "Origin"),
                ("access-control-allow-origin", if origin.is_empty() { "none" } else { origin }),
            ];
            Reply::ok(&fields, b"film")
        });
        let pages = ["", "Origin: https://a.example\r\n", "Origin: https://b.example\r\n"];
        let allowed = ["none", "https://a.example", "https://b.example"];
        for label in ["miss", "hit", "hit"] {
            for (page, allowed) in pages.iter().zip(allowed) {
                let answer = fixture.get("GET /x", page).await;
                assert_eq!(answer.field("access-control-allow-origin"), allowed);
                assert_eq!(answer.summary(), (200, label, "film".to_owned()), "{page}");
            }
        }
        assert_eq!(fixture.origin.requests(), 3);
    });
}

#[test]
fn every_page_of_a_site_has_its_fields() {
    run(async {
        let fixture = Fixture::with(|site| {
            site.headers.cors = Some(Cors::same("*"));
            site.early_data = EarlyRequests::Refuse;
        });
        fixture.origin.handle(|_| Reply::failure(OriginError::Unreachable));
        let early = read(&fixture.context, fixture.open_as("GET /x", "", true).await).await;
        let expecting = fixture.get("GET /x", "Expect: magic\r\n").await;
        let refused = fixture.get("DELETE /x", "").await;
        let failed = fixture.get("GET /x", "").await;
        for (answer, status) in [(early, 425), (expecting, 417), (refused, 405), (failed, 502)] {
            assert_eq!((answer.status, answer.field("access-control-allow-origin").as_str()), (status, "*"));
        }
    });
}

#[test]
fn the_origin_of_a_page_is_sent_back_if_it_is_listed() {
    run(async {
        let fixture = Fixture::with(|site| {
            let origins =
                CorsOrigins::Listed(vec!["https://a.example".to_owned(), "https://b.example".to_owned()]);
            let allow = vec!["Authorization".to_owned()];
            site.headers.cors = Some(Cors { origins, credentials: true, allow, ..Cors::same("") });
        });
        for (origin, allowed) in [("https://b.example", "https://b.example"), ("https://c.example", "")] {
            let preflight = fixture.get("OPTIONS /x", &format!("Origin: {origin}\r\n")).await;
            assert_eq!(preflight.field("access-control-allow-origin"), allowed);
            assert_eq!(preflight.field("vary"), "Origin");
            let is_allowed = !allowed.is_empty();
            assert_eq!(preflight.field("access-control-allow-credentials") == "true", is_allowed);
            let fields = preflight.field("access-control-allow-headers");
            assert_eq!(fields.ends_with("CMCD-Status, Authorization"), is_allowed, "{fields}");
        }
        assert_eq!(fixture.origin.requests(), 0);
    });
}

#[test]
fn a_directory_redirects_to_its_slash_and_a_missing_file_is_not_found() {
    run_with_files(async {
        let fixture = Fixture::of(|directory| {
            fs::create_dir(directory.join("live")).unwrap();
            site(Origin::Directory(directory.to_owned()), |_| {})
        });
        let moved = fixture.get("GET /live?a=b", "").await;
        assert_eq!((moved.status, moved.field("location").as_str()), (301, "/live/?a=b"));
        assert_eq!(fixture.get("GET /nothing", "").await.status, 404);
        let head = fixture.get("HEAD /nothing", "").await;
        assert_eq!((head.status, head.body.len()), (404, 0));
    });
}

#[test]
fn a_hit_has_its_age_and_the_date_and_fields_of_its_origin() {
    run(async {
        let fixture = Fixture::cached();
        let fields =
            [("cache-control", "max-age=100"), ("age", "10"), ("date", MODIFIED), ("x-custom", "kept")];
        fixture.origin.reply(Reply::ok(&fields, b"hello"));
        let miss = fixture.get("GET /x", "").await;
        assert_eq!(miss.summary(), (200, "miss", "hello".to_owned()));
        assert!(
            miss.field("cache-status").contains("fwd=uri-miss; fwd-status=200; stored"),
            "{}",
            miss.field("cache-status")
        );
        tokio::time::advance(std::time::Duration::from_secs(5)).await;
        let hit = fixture.get("GET /x", "").await;
        assert_eq!(hit.summary(), (200, "hit", "hello".to_owned()));
        assert!(
            hit.field("cache-status").starts_with("penstock; hit; ttl="),
            "{}",
            hit.field("cache-status")
        );
        let ages: Vec<u64> = [&miss, &hit].map(|answer| answer.field("age").parse().unwrap()).into();
        assert_eq!(ages[1] - ages[0], 5);
        assert_eq!(hit.field("date"), MODIFIED);
        assert_eq!((hit.field("x-custom").as_str(), hit.field("via").as_str()), ("kept", "1.1 penstock"));
    });
}

#[test]
fn a_body_of_unknown_length_is_sent_as_it_comes_and_its_length_is_known_to_the_next() {
    run(async {
        let fixture = Fixture::cached();
        let gate = Gate::new();
        let fields = [("cache-control", "max-age=100"), ("etag", "\"a\"")];
        fixture.origin.reply(Reply::ok(&fields, b"first ").wait(&gate).bytes(b"second").unannounced());
        let response = fixture.open("GET /x", "").await;
        assert_eq!(response.body.length(), ContentLength::Unknown, "the head does not wait for the end");
        gate.open();
        assert_eq!(read(&fixture.context, response).await.body, b"first second");
        let hit = fixture.get("GET /x", "Range: bytes=-6\r\n").await;
        assert_eq!(hit.summary(), (206, "hit", "second".to_owned()));
        assert_eq!(hit.length, ContentLength::Known(6));
    });
}

#[test]
fn a_range_of_a_growing_body_waits_for_its_bytes_only() {
    run(async {
        let fixture = Fixture::cached();
        let gate = Gate::new();
        let fields = [("cache-control", "max-age=100"), ("etag", "\"a\"")];
        fixture.origin.reply(Reply::ok(&fields, b"first ").wait(&gate).bytes(b"second").unannounced());
        let reader = fixture.spawn("GET /x", "");
        fixture.origin.wait_for_requests(1).await;
        let part = fixture.get("GET /x", "Range: bytes=0-4\r\n").await;
        assert_eq!((part.status, part.field("content-range").as_str()), (206, "bytes 0-4/*"));
        assert_eq!(part.body, b"first");
        let end = fixture.spawn("GET /x", "Range: bytes=6-\r\n");
        tokio::task::yield_now().await;
        assert!(!end.is_finished(), "its end is not known yet");
        gate.open();
        let end = end.await.unwrap();
        assert_eq!(
            (end.field("content-range").as_str(), end.body.as_slice()),
            ("bytes 6-11/12", &b"second"[..])
        );
        assert_eq!(reader.await.unwrap().body, b"first second");
    });
}

#[test]
fn a_status_of_the_origin_without_content_has_none() {
    run(async {
        let fixture = Fixture::of(|_| site(http_origin(), |_| {}));
        fixture.origin.reply(Reply::new(204).with(&[("cache-control", "max-age=9")]));
        let answer = fixture.get("GET /x", "").await;
        assert_eq!((answer.status, answer.length), (204, ContentLength::None));
        fixture.origin.reply(Reply::new(404).with(&[("cache-control", "max-age=9")]).bytes(b"gone"));
        let range = fixture.get("GET /y", "Range: bytes=0-0\r\n").await;
        assert_eq!(range.summary(), (404, "miss", "gone".to_owned()), "ranges select parts of a 200 only");
    });
}

#[test]
fn a_long_beginning_of_a_growing_body_is_sent_as_it_comes() {
    for range in ["0-", &format!("0-{}", SLICE - 1), "0-999999"] {
        let range = range.to_owned();
        run(async move {
            let fixture = Fixture::cached();
            let gate = Gate::new();
            let fields = [("cache-control", "max-age=100"), ("etag", "\"a\"")];
            let reply = Reply::ok(&fields, b"first ").wait(&gate).bytes(b"second").unannounced();
            fixture.origin.reply(reply);
            let response = fixture.open("GET /x", &format!("Range: bytes={range}\r\n")).await;
            assert_eq!(
                (response.head.status, response.body.length()),
                (200, ContentLength::Unknown),
                "{range}"
            );
            gate.open();
            assert_eq!(read(&fixture.context, response).await.body, b"first second");
            let part = fixture.get("GET /x", &format!("Range: bytes={range}\r\n")).await;
            assert_eq!((part.status, part.body.as_slice()), (206, &b"first second"[..]), "{range}");
        });
    }
}

#[test]
fn the_content_range_of_a_whole_response_is_stored_and_sent_with_whole_responses_only() {
    run(async {
        let fixture = Fixture::cached();
        let fields = [("cache-control", "max-age=60"), ("etag", "\"a\""), ("content-range", "strange")];
        fixture.origin.reply(Reply::ok(&fields, b"0123456789"));
        // More often than it takes for the head to be remembered.
        for _ in 0..4 {
            let whole = fixture.get("GET /x", "").await;
            assert_eq!((whole.status, whole.field("content-range").as_str()), (200, "strange"));
            let part = fixture.get("GET /x", "Range: bytes=2-3\r\n").await;
            assert_eq!((part.status, part.field("content-range").as_str()), (206, "bytes 2-3/10"));
            let parts = fixture.get("GET /x", "Range: bytes=0-0,8-8\r\n").await;
            assert_eq!((parts.status, parts.field("content-range").as_str()), (206, ""));
            let known = fixture.get("GET /x", "If-None-Match: \"a\"\r\n").await;
            assert_eq!((known.status, known.field("content-range").as_str()), (304, ""));
        }
        assert_eq!(fixture.origin.requests(), 1);
    });
}
