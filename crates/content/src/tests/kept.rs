//! What the cache keeps for later requests and for the next process, and what it must not keep.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, UNIX_EPOCH};

use penstock_config::SiteSettings;
use penstock_origin::http::OriginError;
use tokio::time::advance;

use super::fixture::{Fixture, http_origin, run, site};
use super::scripted::{FieldList, Gate, Reply};
use crate::nodes::{PurgeOrder, PurgeTarget};

const FRESH: FieldList<'static> = &[("cache-control", "max-age=60"), ("etag", "\"a\"")];
const SHORT: FieldList<'static> = &[("cache-control", "max-age=10"), ("etag", "\"a\"")];
const VARYING: FieldList<'static> =
    &[("cache-control", "max-age=60"), ("etag", "\"a\""), ("vary", "Accept-Language")];
const FRENCH: &str = "Accept-Language: fr\r\n";
const GERMAN: &str = "Accept-Language: de\r\n";

fn vary_by_language(site: &mut SiteSettings) {
    site.cache.vary = vec!["accept-language".to_owned()];
}

fn hit(body: &str) -> (u16, &'static str, String) {
    (200, "hit", body.to_owned())
}

#[test]
fn the_first_variant_of_a_target_is_there_after_a_restart() {
    run(async {
        let fixture = Fixture::with(vary_by_language);
        fixture.origin.reply(Reply::ok(VARYING, b"french"));
        fixture.get("GET /x", FRENCH).await;
        let fixture = fixture.restarted(site(http_origin(), vary_by_language));
        fixture.origin.reply(Reply::ok(VARYING, b"german"));
        assert_eq!(fixture.get("GET /x", GERMAN).await.summary().2, "german", "the names are known again");
        assert_eq!(fixture.get("GET /x", FRENCH).await.summary(), hit("french"));
        assert_eq!(fixture.origin.requests(), 2);
    });
}

#[test]
fn a_variant_that_was_replaced_does_not_return_after_a_restart() {
    run(async {
        let fixture = Fixture::with(vary_by_language);
        for (fields, body) in [(GERMAN, b"german"), (FRENCH, b"before")] {
            fixture.origin.reply(Reply::ok(VARYING, body));
            fixture.get("GET /x", fields).await;
        }
        let fixture = fixture.restarted(site(http_origin(), vary_by_language));
        // The first response for the target in this process.
        fixture.origin.reply(Reply::ok(VARYING, b"after"));
        assert_eq!(fixture.get("GET /x", FRENCH).await.summary().2, "after");
        let fixture = fixture.restarted(site(http_origin(), vary_by_language));
        fixture.origin.reply(Reply::ok(VARYING, b"german"));
        fixture.get("GET /x", GERMAN).await;
        assert_eq!(fixture.get("GET /x", FRENCH).await.summary(), hit("after"));
    });
}

#[test]
fn a_304_for_one_client_changes_nothing_for_the_others_and_ends_the_stored_object() {
    for field in [("set-cookie", "session=0"), ("cache-control", "private"), ("cache-control", "no-store")] {
        run(async move {
            let fixture = Fixture::cached();
            fixture.origin.reply(Reply::ok(SHORT, b"body"));
            fixture.get("GET /x", "").await;
            advance(Duration::from_secs(11)).await;
            let gate = Gate::new();
            fixture.origin.reply(Reply::new(304).with(&[field]).head_after(&gate));
            let number = Cell::new(0);
            fixture.origin.handle(move |asked| {
                assert_eq!(asked.known, None, "the version of the condition has gone");
                number.set(number.get() + 1);
                Reply::ok(FRESH, b"body").with(&[("set-cookie", &format!("session={}", number.get()))])
            });
            let clients = [(); 2].map(|()| fixture.spawn("GET /x", ""));
            fixture.origin.wait_for_requests(2).await;
            tokio::task::yield_now().await;
            gate.open();
            let mut cookies = Vec::new();
            for client in clients {
                let answer = client.await.unwrap();
                assert_eq!(answer.summary(), (200, "uncacheable", "body".to_owned()), "{field:?}");
                cookies.push(answer.field("set-cookie"));
            }
            cookies.sort_unstable();
            assert_eq!(cookies, ["session=1", "session=2"], "{field:?}: each has its own");
            assert_eq!(fixture.store.index.objects(), 0, "{field:?}");
            fixture.origin.reply(Reply::ok(FRESH, b"next"));
            fixture.get("GET /x", "").await;
            let next = fixture.get("GET /x", "").await;
            assert_eq!((next.summary(), next.field("set-cookie")), (hit("next"), String::new()), "{field:?}");
        });
    }
}

#[test]
fn a_cookie_of_a_304_that_came_in_the_background_reaches_no_client() {
    run(async {
        let fixture = Fixture::cached();
        let fields = [("cache-control", "max-age=10, stale-while-revalidate=60"), ("etag", "\"a\"")];
        fixture.origin.reply(Reply::ok(&fields, b"body"));
        fixture.get("GET /x", "").await;
        advance(Duration::from_secs(11)).await;
        fixture.origin.reply(Reply::new(304).with(&[("set-cookie", "session=0")]));
        assert_eq!(fixture.get("GET /x", "").await.summary().1, "stale");
        fixture.origin.wait_for_requests(2).await;
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert_eq!(fixture.store.index.objects(), 0);
        fixture.origin.reply(Reply::ok(FRESH, b"next"));
        let next = fixture.get("GET /x", "").await;
        assert_eq!((next.summary().2.as_str(), next.field("set-cookie").as_str()), ("next", ""));
        assert_eq!(fixture.origin.requests(), 3);
    });
}

#[test]
fn an_empty_object_is_fetched_whole_from_an_origin_that_has_no_range_of_it() {
    run(async {
        let fixture = Fixture::cached();
        fixture.origin.handle(|asked| match asked.range {
            Some(_) => Reply::new(416).with(&[("content-range", "bytes */0")]),
            None => Reply::ok(FRESH, b""),
        });
        assert_eq!(fixture.get("GET /x", "").await.summary(), (200, "miss", String::new()));
        assert_eq!(fixture.get("GET /x", "").await.summary(), hit(""));
        assert_eq!(fixture.get("GET /x", "Range: bytes=0-9\r\n").await.status, 416);
        assert_eq!(fixture.origin.requests(), 2);
    });
}

/// The reply that is under way while the target is changed: to a first request, or to a validation.
#[test]
fn a_response_from_before_a_change_is_not_kept() {
    for validates in [false, true] {
        run(async move {
            let fixture = Fixture::with(|site| site.methods = vec!["POST".to_owned()]);
            let gate = Gate::new();
            let before = if validates {
                fixture.origin.reply(Reply::ok(SHORT, b"before"));
                fixture.get("GET /x", "").await;
                advance(Duration::from_secs(11)).await;
                Reply::new(304)
            } else {
                Reply::ok(FRESH, b"before")
            };
            let requests = fixture.origin.requests();
            fixture.origin.reply(before.head_after(&gate));
            let first = fixture.spawn("GET /x", "");
            fixture.origin.wait_for_requests(requests + 1).await;
            let waiting = fixture.spawn("GET /x", "");
            tokio::task::yield_now().await;
            fixture.origin.reply(Reply::new(204));
            assert_eq!(fixture.get("POST /x", "").await.status, 204);
            fixture.origin.reply(Reply::ok(FRESH, b"after"));
            let next = fixture.get("GET /x", "").await;
            assert_eq!(next.summary().2, "after", "validates: {validates}");
            gate.open();
            for client in [first, waiting] {
                assert_eq!(client.await.unwrap().summary().2, "before", "it had asked before the change");
            }
            assert_eq!(fixture.get("GET /x", "").await.summary(), hit("after"), "validates: {validates}");
        });
    }
}

#[test]
fn a_first_variant_from_before_a_change_is_not_kept() {
    run(async {
        let fixture = Fixture::with(|site| {
            vary_by_language(site);
            site.methods = vec!["POST".to_owned()];
        });
        let gate = Gate::new();
        fixture.origin.reply(Reply::ok(VARYING, b"before").head_after(&gate));
        let first = fixture.spawn("GET /x", FRENCH);
        fixture.origin.wait_for_requests(1).await;
        fixture.origin.reply(Reply::new(204));
        fixture.get("POST /x", "").await;
        gate.open();
        assert_eq!(first.await.unwrap().summary().2, "before");
        assert_eq!(fixture.store.index.objects(), 0);
        // The next process does not know of the change.
        let fixture = fixture.restarted(site(http_origin(), vary_by_language));
        fixture.origin.reply(Reply::ok(VARYING, b"after"));
        assert_eq!(fixture.get("GET /x", FRENCH).await.summary().2, "after");
    });
}

#[test]
fn a_variant_of_a_response_replaces_one_that_was_asked_for_later_only_if_that_is_not_fresh() {
    for (seconds, expected) in [(9, "later"), (11, "sooner")] {
        run(async move {
            const FRENCH_TV: &str = "Accept-Language: fr\r\nX-Device: tv\r\n";
            let fixture = Fixture::with(|site| {
                site.cache.vary = vec!["accept-language".to_owned(), "x-device".to_owned()];
            });
            fixture.origin.reply(Reply::ok(VARYING, b"english"));
            fixture.get("GET /x", "Accept-Language: en\r\n").await;
            let both = [("vary", "X-Device")];
            let gate = Gate::new();
            fixture.origin.reply(Reply::ok(VARYING, b"sooner").with(&both).head_after(&gate));
            let sooner = fixture.spawn("GET /x", FRENCH_TV);
            fixture.origin.wait_for_requests(2).await;
            fixture.origin.reply(Reply::ok(VARYING, b"german").with(&both));
            fixture.get("GET /x", GERMAN).await;
            advance(Duration::from_secs(1)).await;
            fixture.origin.reply(Reply::ok(SHORT, b"later").with(&[VARYING[2]]).with(&both));
            assert_eq!(fixture.get("GET /x", FRENCH_TV).await.summary().2, "later");
            advance(Duration::from_secs(seconds)).await;
            gate.open();
            assert_eq!(sooner.await.unwrap().summary().2, "sooner");
            assert_eq!(fixture.get("GET /x", FRENCH_TV).await.summary(), hit(expected));
        });
    }
}

#[test]
fn a_stale_object_whose_304_is_for_one_client_replaces_the_error_of_the_second_request() {
    let may_be_stale = [("cache-control", "max-age=10, stale-if-error=60"), ("etag", "\"a\"")];
    let failures = [Reply::failure(OriginError::Unreachable), Reply::new(503)];
    let cases = [(&may_be_stale[..], true), (SHORT, false)];
    for (failure, (fields, is_usable)) in failures.iter().flat_map(|reply| cases.map(|case| (reply, case))) {
        run(async move {
            let fixture = Fixture::cached();
            fixture.origin.reply(Reply::ok(fields, b"body"));
            fixture.get("GET /x", "").await;
            advance(Duration::from_secs(11)).await;
            // The second round shows that the object is still there.
            for round in 0..2 {
                let gate = Gate::new();
                fixture.origin.reply(Reply::new(304).with(&[("set-cookie", "session=0")]).head_after(&gate));
                fixture.origin.reply(failure.clone());
                let requests = fixture.origin.requests();
                let clients = [(); 2].map(|()| fixture.spawn("GET /x", ""));
                fixture.origin.wait_for_requests(requests + 1).await;
                tokio::task::yield_now().await;
                gate.open();
                for client in clients {
                    let answer = client.await.unwrap();
                    assert_eq!(answer.field("set-cookie"), "", "{round}");
                    match is_usable {
                        true => assert_eq!((answer.status, &*answer.body), (200, &b"body"[..]), "{round}"),
                        false => assert!(matches!(answer.status, 502 | 503), "{}", answer.status),
                    }
                }
                assert_eq!(fixture.store.index.objects(), usize::from(is_usable), "{round}");
                if !is_usable {
                    return;
                }
            }
        });
    }
}

/// When the purge comes: before the first request for the object, after it, or not at all.
#[test]
fn a_purge_affects_an_object_of_a_process_whose_clock_was_ahead() {
    for (is_first, is_purged) in [(true, true), (false, true), (false, false)] {
        run(async move {
            let fixture = Fixture::cached();
            fixture.origin.reply(Reply::ok(FRESH, b"old"));
            fixture.get("GET /x", "").await;
            let mut kept = None;
            fixture.store.index.for_each(|object| kept = Some(Arc::clone(object)));
            let object = kept.unwrap();
            let ahead = fixture.context.clock.wall() + Duration::from_secs(3600);
            let ahead = u64::try_from(ahead.duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap();
            object.metadata().judged.store(ahead, Ordering::Relaxed);
            fixture.store.index.insert_kept(&object, |_| true);
            drop(object);
            let fixture = fixture.restarted(site(http_origin(), |_| {}));
            if !is_first {
                assert_eq!(fixture.get("GET /x", "").await.summary(), hit("old"));
            }
            if is_purged {
                let order = PurgeOrder { target: PurgeTarget::Url("/x".to_owned()), soft: false };
                fixture.store.purge_at(&order, &fixture.sites, fixture.context.moment()).unwrap();
            }
            fixture.origin.reply(Reply::ok(FRESH, b"new"));
            let expected = if is_purged { "new" } else { "old" };
            assert_eq!(fixture.get("GET /x", "").await.summary().2, expected, "before a request: {is_first}");
        });
    }
}
