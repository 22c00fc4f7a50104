//! The cost of a hit: its allocations, and the locks that it does not take.

use std::fs;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use penstock_config::Origin;
use penstock_egress::Part;

use super::fixture::{Fixture, SLICE, allocations_of_response, content, run, run_with_files, site};
use super::scripted::Reply;
use crate::response::Body;

const FRESH: &[(&str, &str)] =
    &[("cache-control", "max-age=60"), ("etag", "\"a\""), ("content-type", "video/mp4")];

/// Head, and the stream with its parts.
const ALLOCATIONS_OF_A_CACHED_HIT: u64 = 2;
/// Its head: a small object is sent from a copy of its bytes, without a stream.
const ALLOCATIONS_OF_A_SMALL_HIT: u64 = 1;
/// Its head.
const ALLOCATIONS_OF_A_FILE: u64 = 1;
/// More than is copied.
const LARGE: usize = 5000;

/// The most allocations of one of many equal requests.
async fn allocations_of(fixture: &Fixture, line: &str) -> u64 {
    // The first requests fill the cache, and make counters and the thread's list of protected pointers.
    for _ in 0..3 {
        assert_eq!(fixture.get(line, "").await.status, 200);
    }
    let mut most = 0;
    for _ in 0..100 {
        drop(fixture.open(line, "").await);
        most = most.max(allocations_of_response());
    }
    most
}

#[test]
fn a_cached_hit_allocates_its_head_and_its_stream_only() {
    for prefetch in [0, 1] {
        run(async move {
            let fixture = Fixture::with(|site| site.cache.prefetch = prefetch);
            for (target, bytes, most) in
                [("/x", LARGE, ALLOCATIONS_OF_A_CACHED_HIT), ("/y", 1000, ALLOCATIONS_OF_A_SMALL_HIT)]
            {
                fixture.origin.reply(Reply::ok(FRESH, &content(bytes, 0)));
                let allocated = allocations_of(&fixture, &format!("GET {target}")).await;
                assert!((1..=most).contains(&allocated), "{allocated} allocations for {bytes} bytes");
            }
            assert_eq!(fixture.origin.requests(), 2);
        });
    }
}

/// The bytes of a small object are copied at its second request: all requests, before and after, for all or a part of
/// it, get the same ones, as long as the object is in the cache.
#[test]
fn a_small_object_has_the_same_bytes_from_its_copy() {
    run(async {
        let fixture = Fixture::cached();
        let bytes = content(4096, 3);
        fixture.origin.reply(Reply::ok(FRESH, &bytes));
        for turn in 0..5 {
            assert_eq!(fixture.get("GET /x", "").await.body, bytes, "{turn}");
            let part = fixture.get("GET /x", "Range: bytes=10-19\r\n").await;
            assert_eq!((part.status, &*part.body), (206, &bytes[10..20]), "{turn}");
            assert_eq!(fixture.get("HEAD /x", "").await.body, b"", "{turn}");
        }
        assert!(matches!(fixture.open("GET /x", "").await.body, Body::Part(Part::Shared(_))));
        assert_eq!(fixture.origin.requests(), 1);
        // It is requested as often as it is sent: what nothing asks for is evicted instead of it.
        let filler = content(SLICE, 9);
        for number in 0..200 {
            fixture.origin.reply(Reply::ok(FRESH, &filler));
            assert_eq!(fixture.get("GET /x", "").await.body, bytes);
            assert_eq!(fixture.get(&format!("GET /{number}"), "").await.body, filler);
        }
        assert_eq!(fixture.origin.requests(), 201);
    });
}

#[test]
fn a_file_allocates_its_head_only() {
    run_with_files(async {
        let fixture = Fixture::of(|directory| {
            fs::write(directory.join("movie.mp4"), content(1000, 0)).unwrap();
            site(Origin::Directory(directory.to_owned()), |_| {})
        });
        let allocated = allocations_of(&fixture, "GET /movie.mp4").await;
        assert!((1..=ALLOCATIONS_OF_A_FILE).contains(&allocated), "{allocated} allocations");
    });
}

/// The locks of misses and of unusual objects: variants (taken by a hit only if the site varies), changed targets (by the
/// first hit after a change), volatile objects (by a fetch), successors (by a prefetch).
#[test]
fn a_hit_takes_none_of_the_locks_of_this_crate() {
    const PATIENCE: Duration = Duration::from_secs(60);
    for prefetch in [0, 1] {
        run(async move {
            let fixture = Fixture::with(|site| site.cache.prefetch = prefetch);
            fixture.origin.reply(Reply::ok(FRESH, b"hello"));
            fixture.get("GET /x", "").await;
            let site = fixture.http_site();
            let http = &site;
            let store = &fixture.store;
            let held =
                (store.variants.hold(), store.invalidations.hold(), store.volatile.hold(), http.next.hold());
            let (sites, store) = (Arc::clone(&fixture.sites), Arc::clone(store));
            let (done, result) = channel();
            thread::spawn(move || {
                run(async {
                    let worker = Fixture::on_worker(sites, store);
                    let answer = worker.get("GET /x", "").await;
                    done.send((answer.summary(), worker.origin.requests())).unwrap();
                });
            });
            let answer = result.recv_timeout(PATIENCE).expect("the hit waits for a lock");
            assert_eq!(answer, ((200, "hit", "hello".to_owned()), 0));
            drop(held);
        });
    }
}

/// A head that is too long to be remembered is not made again with each request, which would be three allocations more.
#[test]
fn a_hit_with_a_long_head_allocates_no_more_than_its_head_needs() {
    run(async {
        let fixture = Fixture::cached();
        let long = "x".repeat(4000);
        fixture.origin.reply(Reply::ok(&[FRESH, &[("x-long", long.as_str())]].concat(), b"hello"));
        let allocated = allocations_of(&fixture, "GET /x").await;
        // The head outgrows the space of a usual one twice.
        assert!(allocated <= ALLOCATIONS_OF_A_CACHED_HIT + 2, "{allocated} allocations");
        assert_eq!(fixture.get("GET /x", "").await.field("x-long"), long);
    });
}

/// Field lines of a response, without Age.
async fn lines_of(fixture: &Fixture) -> String {
    let response = fixture.open("GET /x", "").await;
    let lines = String::from_utf8(response.head.fields.to_lines()).unwrap();
    lines.lines().filter(|line| !line.starts_with("Age:")).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_head_of_a_frequent_object_says_the_same_until_a_304_updates_it_or_another_version_comes() {
    run(async {
        let fixture = Fixture::cached();
        let old = [("date", "Sat, 21 Nov 2026 20:04:16 GMT"), ("x-note", "old")];
        fixture.origin.reply(Reply::ok(&[FRESH, &old].concat(), b"first"));
        fixture.get("GET /x", "").await;
        let first = lines_of(&fixture).await;
        assert!(first.contains("x-note: old") && first.contains("etag: \"a\"\n"), "{first}");
        for _ in 0..3 {
            assert_eq!(lines_of(&fixture).await, first);
            let conditional = fixture.get("GET /x", "If-None-Match: \"a\"\r\n").await;
            assert_eq!((conditional.status, conditional.field("date")), (304, old[0].1.to_owned()));
        }
        tokio::time::advance(Duration::from_secs(61)).await;
        fixture.origin.reply(Reply::new(304).with(&[("x-note", "new"), ("cache-control", "max-age=60")]));
        fixture.get("GET /x", "").await;
        for _ in 0..3 {
            let updated = lines_of(&fixture).await;
            assert!(updated.contains("x-note: new") && !updated.contains("old"), "{updated}");
        }
        let allocated = allocations_of(&fixture, "GET /x").await;
        assert_eq!(allocated, ALLOCATIONS_OF_A_SMALL_HIT, "the head with the update is remembered");
        tokio::time::advance(Duration::from_secs(61)).await;
        fixture.origin.reply(Reply::ok(&[FRESH, &[("etag", "\"b\"")]].concat(), b"second"));
        fixture.get("GET /x", "").await;
        for _ in 0..3 {
            assert!(!lines_of(&fixture).await.contains("x-note"));
            assert_eq!(fixture.get("GET /x", "").await.body, b"second");
        }
    });
}
