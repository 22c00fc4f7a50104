//! Lookup: hits, misses, waiters, stale objects, purges and evictions.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use penstock_origin::http::OriginError;
use tokio::time::advance;

use super::fixture::{Fixture, SLICE, content, run};
use super::scripted::{FieldList, Gate, Reply};
use crate::cache_status::CacheStatus;
use crate::nodes::{PurgeOrder, PurgeTarget};

const FRESH: &[(&str, &str)] = &[("cache-control", "max-age=60"), ("etag", "\"a\"")];

async fn seconds(number: u64) {
    advance(Duration::from_secs(number)).await;
}

#[test]
fn requests_for_one_object_are_one_request_to_the_origin() {
    run(async {
        let fixture = Fixture::cached();
        let gate = Gate::new();
        fixture.origin.reply(Reply::ok(FRESH, b"hello").head_after(&gate));
        let first = fixture.spawn("GET /x", "");
        fixture.origin.wait_for_requests(1).await;
        let others: Vec<_> = (0..100).map(|_| fixture.spawn("GET /x", "")).collect();
        tokio::task::yield_now().await;
        gate.open();
        assert_eq!(first.await.unwrap().summary(), (200, "miss", "hello".to_owned()));
        for other in others {
            assert_eq!(other.await.unwrap().summary(), (200, "collapsed", "hello".to_owned()));
        }
        assert_eq!(fixture.get("GET /x", "").await.summary(), (200, "hit", "hello".to_owned()));
        assert_eq!(fixture.origin.requests(), 1);
    });
}

#[test]
fn without_coalescing_each_request_asks_the_origin_until_an_object_is_known() {
    for (fields, status) in [(FRESH, "hit"), (&[("cache-control", "private")], "uncacheable")] {
        run(async move {
            let fixture = Fixture::with(|site| site.cache.coalescing = false);
            let (gate, body) = (Gate::new(), content(2 * SLICE + 5, 0));
            let held = Reply::ok(fields, &body).head_after(&gate);
            fixture.origin.reply(held);
            let first = fixture.spawn("GET /x", "");
            fixture.origin.wait_for_requests(1).await;
            for number in 2..5 {
                let body = content(2 * SLICE + 5, number);
                fixture.origin.reply(Reply::ok(fields, &body));
                let answer = fixture.get("GET /x", "").await;
                assert_eq!((answer.status, answer.body == body), (200, true), "{number}");
                assert!(answer.field("cache-status").contains("fwd=uri-miss"), "{number}");
                assert!(!answer.field("cache-status").contains("stored"), "{number}");
                assert_eq!(fixture.origin.requests(), number);
            }
            gate.open();
            assert_eq!(first.await.unwrap().body, body);
            fixture.origin.reply(Reply::ok(fields, &body));
            let later = fixture.get("GET /x", "").await;
            assert_eq!((later.summary().1, later.body == body), (status, true));
        });
    }
}

#[test]
fn without_coalescing_an_object_that_has_expired_is_validated_once() {
    run(async {
        let fixture = Fixture::with(|site| site.cache.coalescing = false);
        fixture.origin.reply(Reply::ok(FRESH, b"hello"));
        fixture.get("GET /x", "").await;
        seconds(61).await;
        let gate = Gate::new();
        fixture.origin.reply(Reply::new(304).with(FRESH).head_after(&gate));
        let first = fixture.spawn("GET /x", "");
        fixture.origin.wait_for_requests(2).await;
        let second = fixture.spawn("GET /x", "");
        tokio::task::yield_now().await;
        gate.open();
        for answer in [first, second] {
            assert_eq!(answer.await.unwrap().summary(), (200, "revalidated", "hello".to_owned()));
        }
        assert_eq!(fixture.origin.requests(), 2);
    });
}

#[test]
fn a_name_that_no_object_of_the_origin_has_is_not_found_and_nothing_is_stored() {
    run(async {
        let fixture = Fixture::cached();
        for line in ["GET /", "HEAD /", "GET /"] {
            fixture.origin.reply(Reply::failure(OriginError::Unsendable));
            let answer = fixture.get(line, "").await;
            assert_eq!((answer.status, answer.summary().1), (404, "miss"), "{line}");
            assert!(answer.field("cache-status").ends_with("detail=unsendable"), "{line}");
        }
        assert_eq!(fixture.origin.requests(), 3, "each one is a fetch of its own");
        fixture.origin.reply(Reply::ok(FRESH, b"hello"));
        assert_eq!(fixture.get("GET /", "").await.summary(), (200, "miss", "hello".to_owned()));
    });
}

#[test]
fn a_fetch_goes_on_when_the_client_that_began_it_leaves() {
    run(async {
        let fixture = Fixture::cached();
        let gate = Gate::new();
        fixture.origin.reply(Reply::ok(FRESH, b"hello").head_after(&gate));
        let first = fixture.spawn("GET /x", "");
        fixture.origin.wait_for_requests(1).await;
        let second = fixture.spawn("GET /x", "");
        tokio::task::yield_now().await;
        first.abort();
        assert!(first.await.is_err_and(|error| error.is_cancelled()));
        gate.open();
        assert_eq!(second.await.unwrap().summary(), (200, "collapsed", "hello".to_owned()));
        assert_eq!(fixture.origin.requests(), 1);
    });
}

#[test]
fn more_waiters_than_one_fill_may_have_are_refused() {
    run(async {
        let fixture = Fixture::cached();
        fixture.context.waiters_per_fill.set(3);
        let gate = Gate::new();
        fixture.origin.reply(Reply::ok(FRESH, b"hello").head_after(&gate));
        let waiters: Vec<_> = (0..8).map(|_| fixture.spawn("GET /x", "")).collect();
        fixture.origin.wait_for_requests(1).await;
        tokio::task::yield_now().await;
        gate.open();
        let mut statuses = Vec::new();
        for waiter in waiters {
            let answer = waiter.await.unwrap();
            if answer.status == 503 {
                assert_eq!(answer.field("retry-after"), "1");
            }
            statuses.push(answer.status);
        }
        let served = statuses.iter().filter(|status| **status == 200).count();
        assert!((1..=4).contains(&served), "{statuses:?}");
        assert!(statuses.iter().all(|status| matches!(status, 200 | 503)), "{statuses:?}");
        assert_eq!(fixture.origin.requests(), 1);
    });
}

#[test]
fn a_failed_fetch_is_shared_by_its_waiters_and_not_kept() {
    for (error, status) in
        [(OriginError::Unreachable, 502), (OriginError::Timeout, 504), (OriginError::Busy, 503)]
    {
        run(async move {
            let fixture = Fixture::cached();
            let gate = Gate::new();
            fixture.origin.reply(Reply::failure(error).head_after(&gate));
            let waiters: Vec<_> = (0..3).map(|_| fixture.spawn("GET /x", "")).collect();
            fixture.origin.wait_for_requests(1).await;
            tokio::task::yield_now().await;
            gate.open();
            for waiter in waiters {
                let answer = waiter.await.unwrap();
                assert_eq!(answer.status, status);
                let detail = format!("detail={}", error.label());
                assert!(answer.field("cache-status").ends_with(&detail), "{}", answer.field("cache-status"));
            }
            assert_eq!(fixture.origin.requests(), 1);
            fixture.origin.reply(Reply::ok(FRESH, b"hello"));
            assert_eq!(fixture.get("GET /x", "").await.summary(), (200, "miss", "hello".to_owned()));
        });
    }
}

#[test]
fn a_response_that_may_not_be_shared_is_fetched_by_each_waiter() {
    run(async {
        let fixture = Fixture::cached();
        let gate = Gate::new();
        let private = |body: &[u8]| Reply::ok(&[("cache-control", "private")], body);
        fixture.origin.reply(private(b"0").head_after(&gate));
        (1..5).for_each(|number: u8| fixture.origin.reply(private(&[b'0' + number])));
        let waiters: Vec<_> = (0..5).map(|_| fixture.spawn("GET /x", "")).collect();
        fixture.origin.wait_for_requests(1).await;
        tokio::task::yield_now().await;
        gate.open();
        let mut bodies = Vec::new();
        for waiter in waiters {
            let (status, label, body) = waiter.await.unwrap().summary();
            assert_eq!((status, label), (200, "uncacheable"));
            bodies.push(body);
        }
        bodies.sort_unstable();
        assert_eq!(bodies, ["0", "1", "2", "3", "4"], "each has its own");
        assert_eq!(fixture.store.index.objects(), 0);
    });
}

/// An expired object and what becomes of it: the origin's reply, then the summary.
#[test]
fn a_stale_object_is_renewed_replaced_or_stands_in_for_an_error() {
    type Expected = (u16, &'static str, &'static str);
    type Case = (&'static str, fn() -> Reply, Expected);
    let cases: [Case; 7] = [
        ("", || Reply::new(304), (200, "revalidated", "old")),
        ("", || Reply::ok(FRESH, b"new"), (200, "revalidated", "new")),
        ("", || Reply::failure(OriginError::Timeout), (504, "miss", "")),
        ("", || Reply::new(500).bytes(b"broken"), (500, "revalidated", "broken")),
        (", stale-if-error=60", || Reply::failure(OriginError::Timeout), (200, "stale_if_error", "old")),
        (", stale-if-error=60", || Reply::new(503).bytes(b"broken"), (200, "stale_if_error", "old")),
        (", stale-if-error=60", || Reply::new(404).bytes(b"gone"), (404, "revalidated", "gone")),
    ];
    for (number, (more, reply, (status, label, body))) in cases.into_iter().enumerate() {
        run(async move {
            let fixture = Fixture::cached();
            let control = format!("max-age=10{more}");
            fixture.origin.reply(Reply::ok(&[("cache-control", &control), ("etag", "\"a\"")], b"old"));
            fixture.get("GET /x", "").await;
            seconds(11).await;
            fixture.origin.reply(reply());
            let answer = fixture.get("GET /x", "").await;
            assert_eq!((answer.status, answer.summary().1), (status, label), "case {number}");
            if status != 504 {
                assert_eq!(answer.summary().2, body, "case {number}");
            }
            let asked = fixture.origin.asked();
            assert_eq!(asked.len(), 2, "case {number}");
            assert_eq!(asked[1].known, Some(("if-none-match", "\"a\"".to_owned())), "case {number}");
        });
    }
}

#[test]
fn a_stale_object_is_used_while_one_fetch_renews_it() {
    run(async {
        let fixture = Fixture::cached();
        let fields = [("cache-control", "max-age=10, stale-while-revalidate=60"), ("etag", "\"a\"")];
        fixture.origin.reply(Reply::ok(&fields, b"old"));
        fixture.get("GET /x", "").await;
        seconds(11).await;
        let gate = Gate::new();
        fixture.origin.reply(Reply::ok(&fields, b"new").head_after(&gate));
        for _ in 0..3 {
            assert_eq!(fixture.get("GET /x", "").await.summary(), (200, "stale", "old".to_owned()));
        }
        fixture.origin.wait_for_requests(2).await;
        gate.open();
        while fixture.get("GET /x", "").await.summary() != (200, "hit", "new".to_owned()) {
            tokio::task::yield_now().await;
        }
        assert_eq!(fixture.origin.requests(), 2);
    });
}

#[test]
fn a_304_changes_the_fields_of_the_object_and_its_freshness() {
    let cases: [(FieldList<'_>, &str, u64); 3] = [
        (&[("x-version", "2")], "max-age=10", 10),
        (&[("x-version", "2"), ("cache-control", "max-age=100")], "max-age=100", 100),
        (&[("x-version", "2"), ("cache-control", "max-age=20"), ("content-length", "0")], "max-age=20", 20),
    ];
    for (fields, control, fresh) in cases {
        run(async move {
            let fixture = Fixture::cached();
            let first =
                [("cache-control", "max-age=10"), ("etag", "\"a\""), ("x-version", "1"), ("x-other", "kept")];
            fixture.origin.reply(Reply::ok(&first, b"body"));
            fixture.get("GET /x", "").await;
            seconds(11).await;
            fixture.origin.reply(Reply::new(304).with(fields));
            let renewed = fixture.get("GET /x", "").await;
            assert_eq!(renewed.summary(), (200, "revalidated", "body".to_owned()));
            seconds(fresh - 1).await;
            let hit = fixture.get("GET /x", "").await;
            assert_eq!(hit.summary(), (200, "hit", "body".to_owned()), "{control}");
            for (name, value) in [("x-version", "2"), ("x-other", "kept"), ("cache-control", control)] {
                assert_eq!(
                    (renewed.field(name).as_str(), hit.field(name).as_str()),
                    (value, value),
                    "{name}"
                );
            }
            seconds(2).await;
            fixture.origin.reply(Reply::new(304));
            assert_eq!(fixture.get("GET /x", "").await.summary().1, "revalidated", "{control}");
        });
    }
}

#[test]
fn waiters_for_a_revalidation_are_answered_with_its_result() {
    run(async {
        let fixture = Fixture::cached();
        fixture.origin.reply(Reply::ok(&[("cache-control", "max-age=10"), ("etag", "\"a\"")], b"body"));
        fixture.get("GET /x", "").await;
        seconds(11).await;
        let gate = Gate::new();
        fixture.origin.reply(Reply::new(304).head_after(&gate));
        let waiters: Vec<_> = (0..10).map(|_| fixture.spawn("GET /x", "")).collect();
        fixture.origin.wait_for_requests(2).await;
        tokio::task::yield_now().await;
        gate.open();
        for waiter in waiters {
            assert_eq!(waiter.await.unwrap().summary(), (200, "revalidated", "body".to_owned()));
        }
        assert_eq!(fixture.origin.requests(), 2);
    });
}

/// When a purge comes, and how many requests the origin then has had after one more lookup.
#[test]
fn a_purge_hits_what_was_asked_for_before_it() {
    for soft in [false, true] {
        run(async move {
            let fixture = Fixture::cached();
            let order = PurgeOrder { target: PurgeTarget::Url("/x".to_owned()), soft };
            let gate = Gate::new();
            fixture.origin.reply(Reply::ok(FRESH, b"before").head_after(&gate));
            let reader = fixture.spawn("GET /x", "");
            fixture.origin.wait_for_requests(1).await;
            fixture.store.purge(&order, &fixture.sites).unwrap();
            gate.open();
            assert_eq!(reader.await.unwrap().summary().2, "before", "it had begun before the purge");
            fixture.origin.reply(Reply::ok(FRESH, b"after"));
            let next = fixture.get("GET /x", "").await;
            assert_eq!(next.summary().2, "after", "soft: {soft}");
            assert_eq!(fixture.get("GET /x", "").await.summary(), (200, "hit", "after".to_owned()));
            fixture.store.purge(&order, &fixture.sites).unwrap();
            fixture.origin.reply(Reply::ok(FRESH, b"last"));
            assert_eq!(fixture.get("GET /x", "").await.summary().2, "last", "soft: {soft}");
        });
    }
}

#[test]
fn waiters_are_answered_though_a_purge_comes_during_each_fetch() {
    run(async {
        let fixture = Fixture::cached();
        let (store, sites) = (Arc::clone(&fixture.store), Arc::clone(&fixture.sites));
        let gate = Gate::new();
        let held = gate.clone();
        fixture.origin.handle(move |_| {
            let order = PurgeOrder { target: PurgeTarget::Everything, soft: false };
            store.purge(&order, &sites).unwrap();
            Reply::ok(FRESH, b"body").head_after(&held)
        });
        let mut readers = Vec::new();
        for _ in 0..30 {
            readers.push(fixture.spawn("GET /x", ""));
            tokio::task::yield_now().await;
            advance(Duration::from_millis(1)).await;
        }
        gate.open();
        for reader in readers {
            assert_eq!(reader.await.unwrap().status, 200);
        }
        // The second fetch began after all of them had come, so its object is new enough for each.
        assert_eq!(fixture.origin.requests(), 2);
    });
}

#[test]
fn what_a_soft_purge_made_stale_is_stale_from_the_moment_of_the_context() {
    run(async {
        let fixture = Fixture::cached();
        let fields = [("cache-control", "max-age=600, stale-while-revalidate=30"), ("etag", "\"a\"")];
        fixture.origin.reply(Reply::ok(&fields, b"body"));
        fixture.get("GET /x", "").await;
        seconds(60).await;
        let order = PurgeOrder { target: PurgeTarget::Url("/x".to_owned()), soft: true };
        fixture.store.purge_at(&order, &fixture.sites, fixture.context.moment()).unwrap();
        fixture.origin.reply(Reply::new(304));
        let answer = fixture.get("GET /x", "").await;
        assert_eq!(answer.summary(), (200, "stale", "body".to_owned()));
        assert_eq!(answer.field("age"), "60");
    });
}

#[test]
fn an_object_whose_slices_were_evicted_is_filled_again_without_a_new_head() {
    run(async {
        let fixture = Fixture::cached();
        let body = content(SLICE, 1);
        fixture.origin.handle(move |asked| {
            Reply::part_of(&body, &[("cache-control", "max-age=3600"), ("etag", "\"a\"")], asked)
        });
        let first = fixture.get("GET /first", "").await;
        // Twice the tier.
        for number in 0..128 {
            fixture.get(&format!("GET /{number}"), "").await;
        }
        let before = fixture.origin.requests();
        let again = fixture.get("GET /first", "").await;
        assert!(again.body == first.body && again.body == content(SLICE, 1), "{} bytes", again.body.len());
        assert_eq!(fixture.origin.requests(), before + 1);
    });
}

#[test]
fn an_object_that_lost_slices_and_cannot_be_fetched_in_parts_is_fetched_whole() {
    for validator in [("etag", "\"a\""), ("etag", "W/\"a\""), ("x-none", "")] {
        run(async {
            let fixture = Fixture::cached();
            let body = content(4 * SLICE, 1);
            let whole = body.clone();
            fixture.origin.handle(move |asked| {
                let fields = [("cache-control", "max-age=3600"), validator];
                if asked.target.ends_with("/film") && validator.1.starts_with('"') {
                    return Reply::part_of(&whole, &fields, asked);
                }
                let body = if asked.target.ends_with("/film") { &whole[..] } else { &whole[..SLICE] };
                Reply::ok(&fields, body)
            });
            assert_eq!(fixture.get("GET /film", "").await.body, body);
            // The first slice becomes popular, the others are evicted.
            for _ in 0..4 {
                assert_eq!(fixture.get("GET /film", "Range: bytes=0-99\r\n").await.status, 206);
            }
            for number in 0..128 {
                fixture.get(&format!("GET /{number}"), "").await;
            }
            let again = fixture.get("GET /film", "").await;
            assert!(again.body == body, "{validator:?}: {} bytes, {:?}", again.body.len(), again.fault);
            let part = fixture.get("GET /film", "Range: bytes=0-99\r\n").await;
            assert_eq!((part.status, part.cache_status), (206, Some(CacheStatus::Hit)), "{validator:?}");
        });
    }
}

#[test]
fn a_crowd_that_waits_for_a_revalidation_gets_the_expired_object_only_if_that_may_be_sent() {
    let cases = [
        ("max-age=10", false),
        ("max-age=10, stale-if-error=60", true),
        ("max-age=10, stale-if-error=60, must-revalidate", false),
        ("no-cache", false),
    ];
    for (control, may_be_sent) in cases {
        run(async move {
            let fixture = Fixture::cached();
            fixture.context.waiters_per_fill.set(2);
            fixture.origin.reply(Reply::ok(&[("cache-control", control), ("etag", "\"a\"")], b"old"));
            fixture.get("GET /x", "").await;
            seconds(11).await;
            let gate = Gate::new();
            fixture.origin.reply(Reply::new(304).head_after(&gate));
            let waiters: Vec<_> = (0..8).map(|_| fixture.spawn("GET /x", "")).collect();
            fixture.origin.wait_for_requests(2).await;
            tokio::task::yield_now().await;
            let (mut refused, mut waiting) = (Vec::new(), Vec::new());
            for waiter in waiters {
                if waiter.is_finished() { refused.push(waiter) } else { waiting.push(waiter) }
            }
            assert!(!refused.is_empty() && !waiting.is_empty(), "{control}");
            for waiter in refused {
                let (status, label, body) = waiter.await.unwrap().summary();
                let expected = if may_be_sent { (200, "stale") } else { (503, "") };
                assert_eq!((status, label), expected, "{control}");
                assert_eq!(body == "old", may_be_sent, "{control}: {body}");
            }
            gate.open();
            for waiter in waiting {
                assert_eq!(waiter.await.unwrap().summary(), (200, "revalidated", "old".to_owned()));
            }
        });
    }
}

#[test]
fn a_crowd_that_waits_for_a_revalidation_is_refused_after_a_soft_purge() {
    run(async {
        let fixture = Fixture::cached();
        fixture.context.waiters_per_fill.set(2);
        fixture.origin.reply(Reply::ok(FRESH, b"old"));
        fixture.get("GET /x", "").await;
        let order = PurgeOrder { target: PurgeTarget::Url("/x".to_owned()), soft: true };
        fixture.store.purge_at(&order, &fixture.sites, fixture.context.moment()).unwrap();
        let gate = Gate::new();
        fixture.origin.reply(Reply::new(304).head_after(&gate));
        let waiters: Vec<_> = (0..8).map(|_| fixture.spawn("GET /x", "")).collect();
        fixture.origin.wait_for_requests(2).await;
        tokio::task::yield_now().await;
        gate.open();
        let mut refused = 0;
        for waiter in waiters {
            let (status, label, _) = waiter.await.unwrap().summary();
            assert!(matches!((status, label), (200, "revalidated") | (503, "")), "{status} {label}");
            refused += usize::from(status == 503);
        }
        assert!(refused > 0);
    });
}

#[test]
fn a_network_that_waits_in_great_numbers_leaves_places_to_others() {
    // The fetch, or the fill of a body, is what all wait for.
    for is_head_late in [true, false] {
        run(async move {
            let fixture = Fixture::cached();
            fixture.context.waiters_per_fill.set(40);
            let gate = Gate::new();
            let reply = Reply::ok(FRESH, b"");
            let reply = if is_head_late { reply.head_after(&gate) } else { reply.wait(&gate) };
            fixture.origin.reply(reply.bytes(b"hello"));
            let from = |network: u8, number: u8| {
                fixture.spawn_from(Ipv4Addr::new(198, 51, network, number), "GET /x", "", false)
            };
            let crowd: Vec<_> = (0..200).map(|number| from(1, number)).collect();
            fixture.origin.wait_for_requests(1).await;
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            let others: Vec<_> = (0..8).map(|number| from(2, number)).collect();
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            gate.open();
            let mut served = 0;
            for client in crowd {
                let status = client.await.unwrap().status;
                assert!(matches!(status, 200 | 503), "{status}");
                served += usize::from(status == 200);
            }
            assert!((10..=22).contains(&served), "{served} of the crowd");
            for client in others {
                assert_eq!(client.await.unwrap().summary().2, "hello", "late head: {is_head_late}");
            }
            assert_eq!(fixture.origin.requests(), 1);
        });
    }
}
