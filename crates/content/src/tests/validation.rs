//! What a 304 may confirm, and what a date proves.

use std::time::{Duration, SystemTime};

use penstock_config::SiteSettings;
use tokio::task::yield_now;
use tokio::time::advance;

use super::fixture::{Fixture, SLICE, content, http_origin, run, site};
use super::scripted::{FieldList, Gate, OriginRequest, Reply};
use crate::nodes::{PurgeOrder, PurgeTarget};

const SHORT: FieldList<'static> = &[("cache-control", "max-age=10"), ("etag", "\"a\"")];
const FRESH: FieldList<'static> = &[("cache-control", "max-age=60"), ("etag", "\"a\"")];
const ENGLISH: &str = "Accept-Language: en\r\n";
const GERMAN: &str = "Accept-Language: de\r\n";

fn vary_by_language(site: &mut SiteSettings) {
    site.cache.vary = vec!["accept-language".to_owned()];
}

#[test]
fn a_304_that_begins_to_vary_selects_from_then_on_and_after_a_restart() {
    run(async {
        let fixture = Fixture::with(vary_by_language);
        fixture.origin.reply(Reply::ok(SHORT, b"english"));
        fixture.get("GET /x", ENGLISH).await;
        advance(Duration::from_secs(11)).await;
        fixture.origin.reply(Reply::new(304).with(FRESH).with(&[("vary", "Accept-Language")]));
        let language = |asked: &OriginRequest| match asked.field("accept-language") {
            "de" => &b"german"[..],
            _ => b"english",
        };
        fixture
            .origin
            .handle(move |asked| Reply::ok(FRESH, language(asked)).with(&[("vary", "Accept-Language")]));
        for (fields, body) in [(ENGLISH, "english"), (GERMAN, "german"), (ENGLISH, "english")] {
            assert_eq!(fixture.get("GET /x", fields).await.summary().2, body);
        }
        let fixture = fixture.restarted(site(http_origin(), vary_by_language));
        for (fields, body) in [(GERMAN, "german"), (ENGLISH, "english")] {
            assert_eq!(fixture.get("GET /x", fields).await.summary().2, body, "after a restart");
        }
    });
}

/// The answer to the first request after the stored response is stale, if it is validated with `not_modified`.
async fn validated(stored: FieldList<'_>, not_modified: Reply) -> (u16, &'static str, String) {
    let fixture = Fixture::cached();
    fixture.origin.reply(Reply::ok(stored, b"old"));
    fixture.get("GET /x", "").await;
    advance(Duration::from_secs(11)).await;
    fixture.origin.reply(not_modified);
    fixture.origin.handle(|asked| {
        assert_eq!(asked.known, None, "asked again without the condition");
        Reply::ok(&[("cache-control", "max-age=60"), ("etag", "\"b\"")], b"new")
    });
    let answer = fixture.get("GET /x", "").await;
    let then = fixture.get("GET /x", "").await;
    assert_eq!((then.summary().1, &then.body), ("hit", &answer.body));
    answer.summary()
}

#[test]
fn a_304_about_another_version_does_not_confirm_the_stored_one() {
    const DATED: FieldList<'static> =
        &[("cache-control", "max-age=10"), ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT")];
    const WEAK: FieldList<'static> = &[("cache-control", "max-age=10"), ("etag", "W/\"a\"")];
    let (old, new) = (("revalidated", "old"), ("revalidated", "new"));
    for (stored, field, expected) in [
        (SHORT, ("etag", "\"a\""), old),
        (SHORT, ("etag", "W/\"a\""), old),
        (WEAK, ("etag", "\"a\""), old),
        (SHORT, ("x-other", "1"), old),
        (SHORT, ("etag", "\"b\""), new),
        (WEAK, ("etag", "W/\"b\""), new),
        (DATED, ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"), old),
        (DATED, ("last-modified", "Sun, 06 Nov 1994 08:49:36 GMT"), new),
    ] {
        run(async move {
            let not_modified = Reply::new(304).with(&[("cache-control", "max-age=60"), field]);
            let (status, label, body) = validated(stored, not_modified).await;
            assert_eq!((status, label, body.as_str()), (200, expected.0, expected.1), "{field:?}");
        });
    }
}

#[test]
fn a_412_to_the_condition_of_the_cache_is_asked_once_more_without_it() {
    run(async {
        let answer = validated(SHORT, Reply::new(412).bytes(b"failed")).await;
        assert_eq!((answer.0, answer.2.as_str()), (200, "new"));
    });
}

#[test]
fn a_slice_is_asked_for_without_a_condition_that_its_origin_does_not_know() {
    run(async {
        let fixture = Fixture::cached();
        let whole = content(3 * SLICE, 0);
        let body = whole.clone();
        fixture.origin.handle(move |asked| match &asked.known {
            Some(_) => Reply::new(412),
            None => Reply::part_of(&body, FRESH, asked),
        });
        let answer = fixture.get("GET /x", "Range: bytes=1-\r\n").await;
        assert!(answer.body == whole[1..] && answer.fault.is_none(), "{} {:?}", answer.status, answer.fault);
    });
}

#[test]
fn a_date_is_strong_by_the_date_of_its_response() {
    let text = |seconds: i64| {
        let now = SystemTime::now();
        let time = match u64::try_from(seconds) {
            Ok(seconds) => now + Duration::from_secs(seconds),
            Err(_) => now - Duration::from_secs(seconds.unsigned_abs()),
        };
        httpdate::fmt_http_date(time)
    };
    // Seconds of Last-Modified and Date from now, and whether the object may be fetched in parts.
    for (modified, date, is_strong) in [
        (-3600, Some(-3600), false),
        (-3600, Some(-3599), true),
        (-3600, None, true),
        (3600, Some(3601), true),
        (3600, Some(3600), false),
        (3600, None, false),
    ] {
        let (modified, date) = (text(modified), date.map(text));
        run(async move {
            let fixture = Fixture::cached();
            let whole = content(2 * SLICE, 0);
            let body = whole.clone();
            let (last, sent) = (modified.clone(), date.clone());
            fixture.origin.handle(move |asked| {
                let mut fields = vec![("cache-control", "max-age=60"), ("last-modified", last.as_str())];
                fields.extend(sent.as_deref().map(|date| ("date", date)));
                let reply = Reply::part_of(&body, &fields, &OriginRequest { known: None, ..asked.clone() });
                if asked.known.as_ref().is_some_and(|(_, known)| *known != last) {
                    Reply::new(500)
                } else {
                    reply
                }
            });
            let part = fixture.get("GET /x", "Range: bytes=0-9\r\n").await;
            assert_eq!(part.body, whole[..10]);
            let ranges: Vec<_> = fixture.origin.asked().iter().map(|asked| asked.range.is_some()).collect();
            let expected: &[bool] = if is_strong { &[true] } else { &[true, false] };
            assert_eq!(ranges, expected, "{modified} {date:?}");
            let fields = format!("Range: bytes=0-9\r\nIf-Range: {modified}\r\n");
            let answer = fixture.get("GET /x", &fields).await;
            assert_eq!(answer.status, if is_strong { 206 } else { 200 }, "{modified} {date:?}");
        });
    }
}

#[test]
fn a_date_that_was_not_strong_stays_so_after_a_304_and_a_restart() {
    run(async {
        let now = httpdate::fmt_http_date(SystemTime::now() - Duration::from_secs(60));
        let later = httpdate::fmt_http_date(SystemTime::now());
        let fields = [("cache-control", "max-age=10"), ("last-modified", now.as_str())];
        let fixture = Fixture::cached();
        fixture.origin.reply(Reply::ok(&fields, b"hello").with(&[("date", &now)]));
        fixture.get("GET /x", "").await;
        advance(Duration::from_secs(11)).await;
        let fresh = [("cache-control", "max-age=3600"), ("date", later.as_str())];
        fixture.origin.reply(Reply::new(304).with(&fresh));
        assert_eq!(fixture.get("GET /x", "").await.summary().1, "revalidated");
        let condition = format!("Range: bytes=0-1\r\nIf-Range: {now}\r\n");
        assert_eq!(fixture.get("GET /x", &condition).await.status, 200);
        let fixture = fixture.restarted(site(http_origin(), |_| {}));
        assert_eq!(fixture.get("GET /x", &condition).await.summary(), (200, "hit", "hello".to_owned()));
    });
}

#[test]
fn a_soft_purge_during_a_validation_is_not_lost() {
    for is_asked_for in [false, true] {
        run(async move {
            let fixture = Fixture::cached();
            fixture.origin.reply(Reply::ok(SHORT, b"old"));
            fixture.get("GET /x", "").await;
            advance(Duration::from_secs(11)).await;
            let gate = Gate::new();
            fixture.origin.reply(Reply::new(304).with(FRESH).head_after(&gate));
            let changed = [("cache-control", "max-age=60"), ("etag", "\"b\"")];
            fixture.origin.handle(move |_| Reply::ok(&changed, b"new"));
            let before = fixture.spawn("GET /x", "");
            fixture.origin.wait_for_requests(2).await;
            let order = PurgeOrder { target: PurgeTarget::Url("/x".to_owned()), soft: true };
            fixture.store.purge_at(&order, &fixture.sites, fixture.context.moment()).unwrap();
            // A request after the purge, which looks at the object while the validation is under way.
            let after = is_asked_for.then(|| fixture.spawn("GET /x", ""));
            yield_now().await;
            gate.open();
            assert_eq!(before.await.unwrap().summary().2, "old", "it came before the purge");
            if let Some(after) = after {
                assert_eq!(after.await.unwrap().summary().2, "new");
            }
            let next = fixture.get("GET /x", "").await;
            assert_eq!(next.summary().2, "new", "{is_asked_for}");
        });
    }
}
