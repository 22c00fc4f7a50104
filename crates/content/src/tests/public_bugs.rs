//! Ranges of objects that other servers were reported to answer wrongly.

use std::time::Duration;

use penstock_origin::http::OriginError;
use tokio::time::advance;

use super::fixture::{Fixture, SLICE, content, run};
use super::scripted::{FieldList, Reply};

const SHORT: FieldList<'static> = &[("cache-control", "max-age=1"), ("etag", "\"a\"")];
const OTHER: FieldList<'static> = &[("cache-control", "max-age=1"), ("etag", "\"b\"")];

async fn became_stale(fixture: &Fixture, first: Reply) {
    fixture.origin.reply(first);
    fixture.get("GET /x", "").await;
    advance(Duration::from_secs(2)).await;
}

#[test]
fn a_range_of_a_stale_object_is_one_of_what_its_origin_has_now() {
    let (old, new) = (content(64_097, 0), content(40_000, 1));
    for (range, status, label, part) in [
        ("0-64096", 206, "bytes 0-39999/40000", 0..40_000),
        ("50000-", 416, "bytes */40000", 0..0),
        ("-10", 206, "bytes 39990-39999/40000", 39_990..40_000),
    ] {
        let (old, new) = (old.clone(), new.clone());
        run(async move {
            let fixture = Fixture::cached();
            became_stale(&fixture, Reply::ok(SHORT, &old)).await;
            let now = new.clone();
            fixture.origin.handle(move |asked| Reply::part_of(&now, OTHER, asked));
            let answer = fixture.get("GET /x", &format!("Range: bytes={range}\r\n")).await;
            assert_eq!((answer.status, answer.field("content-range").as_str()), (status, label), "{range}");
            assert!(status == 416 || answer.body == new[part], "{range}");
        });
    }
}

#[test]
fn a_range_of_a_stale_object_that_is_gone_has_the_status_and_body_of_its_origin() {
    for (reply, status) in [
        (Reply::new(404).bytes(b"it is gone"), 404),
        (Reply::new(503).bytes(b"it is gone"), 503),
        (Reply::failure(OriginError::Timeout), 504),
    ] {
        run(async move {
            let fixture = Fixture::cached();
            became_stale(&fixture, Reply::ok(SHORT, &content(64_097, 0))).await;
            fixture.origin.handle(move |_| reply.clone());
            let answer = fixture.get("GET /x", "Range: bytes=50000-\r\n").await;
            assert_eq!((answer.status, answer.field("content-range").as_str()), (status, ""));
            assert!(status == 504 || answer.body == b"it is gone", "{} bytes", answer.body.len());
        });
    }
}

#[test]
fn a_confirmed_object_that_came_without_a_length_has_ranges_of_its_whole() {
    run(async {
        let fixture = Fixture::cached();
        let whole = content(1 << 20, 0);
        became_stale(&fixture, Reply::ok(SHORT, &whole).unannounced()).await;
        let confirming = [("cache-control", "max-age=60"), ("etag", "\"a\"")];
        fixture.origin.reply(Reply::new(304).with(&confirming));
        for (range, label, part) in [
            ("1000-1999", "bytes 1000-1999/1048576", 1000..2000),
            ("-1", "bytes 1048575-1048575/1048576", (1 << 20) - 1..1 << 20),
            ("1048576-", "bytes */1048576", 0..0),
        ] {
            let answer = fixture.get("GET /x", &format!("Range: bytes={range}\r\n")).await;
            assert_eq!(answer.field("content-range"), label);
            assert!(answer.status == 416 || answer.body == whole[part], "{range}");
        }
        assert_eq!(fixture.origin.requests(), 2, "the object and its validation");
    });
}

#[test]
fn a_range_of_which_a_part_is_cached_and_the_rest_refused_never_looks_whole() {
    let refusals = [
        Reply::new(403).bytes(b"no"),
        Reply::new(404).bytes(b"no"),
        Reply::new(500).bytes(b"no"),
        Reply::ok(&[("content-type", "text/html")], b"<p>error"),
    ];
    let ranges = [(100, SLICE + 100), (100, 3 * SLICE + 6)];
    for (refusal, range) in refusals.iter().flat_map(|refusal| ranges.map(|range| (refusal.clone(), range))) {
        run(async move {
            let (fixture, whole) = (Fixture::cached(), content(3 * SLICE + 7, 0));
            let (fresh, object) = ([("cache-control", "max-age=60"), ("etag", "\"a\"")], whole.clone());
            fixture.origin.handle(move |asked| match asked.range {
                Some((0, _)) => Reply::part_of(&object, &fresh, asked),
                _ => refusal.clone(),
            });
            let first = fixture.get("GET /x", "Range: bytes=0-99\r\n").await;
            assert!((first.status, &*first.body) == (206, &whole[..100]));
            let fields = format!("Range: bytes={}-{}\r\n", range.0, range.1);
            let answer = fixture.get("GET /x", &fields).await;
            if answer.status == 206 {
                assert!(answer.fault.is_some(), "{range:?}: the cut is seen");
                assert!(whole[range.0..=range.1].starts_with(&answer.body), "{range:?}");
            } else {
                assert!(answer.field("content-range").is_empty(), "{range:?}: {}", answer.status);
            }
        });
    }
}

#[test]
fn a_last_slice_that_its_origin_refuses_past_the_end_never_looks_whole() {
    for length in [10, SLICE, SLICE + 1, 3 * SLICE + 7] {
        run(async move {
            let fixture = Fixture::cached();
            let (whole, object) = (content(length, 0), content(length, 0));
            let fresh = [("cache-control", "max-age=60"), ("etag", "\"a\"")];
            fixture.origin.handle(move |asked| match asked.range {
                Some((_, last)) if last >= object.len() as u64 => {
                    Reply::new(416).with(&[("content-range", &format!("bytes */{}", object.len()))])
                }
                _ => Reply::part_of(&object, &fresh, asked),
            });
            for _ in 0..2 {
                let answer = fixture.get("GET /x", "").await;
                assert_eq!((answer.status, answer.fault), (200, None), "{length} bytes");
                assert!(answer.body == whole, "{} of {length} bytes", answer.body.len());
            }
        });
    }
}
