//! A memory tier whose slices are held by readers that take nothing.

use std::time::Duration;

use penstock_config::limits;
use penstock_origin::http::OriginError;
use tokio::time::sleep;

use super::fixture::{Fixture, SLICE, content, read, run};
use super::scripted::{FieldList, Reply};
use crate::fault::{BodyError, FillFault};
use crate::response::{Body, Response};

const STRONG: FieldList<'_> = &[("cache-control", "max-age=60"), ("etag", "\"a\"")];
const NO_VALIDATOR: FieldList<'_> = &[("cache-control", "max-age=60")];

/// An origin with an object of this many slices at each path, and a tier with no space, which the responses hold.
async fn full(fields: FieldList<'static>, slices: usize) -> (Fixture, Vec<Response>) {
    let fixture = Fixture::cached();
    fixture.origin.handle(move |asked| {
        let held = asked.target.starts_with("/held");
        let (fields, length) = if held { (STRONG, SLICE) } else { (fields, slices * SLICE + 7) };
        Reply::part_of(&content(length, 0), fields, asked)
    });
    let mut held = Vec::new();
    while fixture.store.tier().counters().refusals == 0 {
        held.push(fixture.open(&format!("GET /held/{}", held.len()), "").await);
    }
    assert!(held.len() > 32, "{} responses are held", held.len());
    (fixture, held)
}

#[test]
fn without_space_a_body_comes_past_the_cache() {
    for fields in [STRONG, NO_VALIDATOR] {
        run(async move {
            let (fixture, held) = full(fields, 5).await;
            let whole = content(5 * SLICE + 7, 0);
            let answer = fixture.get("GET /x", "").await;
            assert_eq!((answer.status, answer.fault), (200, None), "{}", answer.field("cache-status"));
            assert!(answer.body == whole, "{fields:?}: {} bytes", answer.body.len());
            let part = fixture.get("GET /y", &format!("Range: bytes=10-{}\r\n", 2 * SLICE)).await;
            let expected = if fields == STRONG { &whole[10..=2 * SLICE] } else { &whole[..] };
            assert!(part.body == expected && part.fault.is_none(), "{fields:?}: {}", part.status);
            let unannounced = Reply::ok(fields, &whole).unannounced();
            fixture.origin.reply(unannounced);
            let answer = fixture.get("GET /z", "").await;
            assert!(answer.body == whole && answer.fault.is_none(), "{fields:?}: {:?}", answer.fault);
            drop(held);
            let before = fixture.store.tier().counters().slices;
            let answer = fixture.get("GET /x", "").await;
            assert!(answer.body == whole, "there is space again");
            assert!(fixture.store.tier().counters().slices >= before + 6, "and it is in the cache");
        });
    }
}

#[test]
fn a_body_past_the_cache_goes_on_after_a_fault_and_never_in_another_version() {
    run(async {
        let (fixture, _held) = full(STRONG, 5).await;
        let response = fixture.open("GET /x", "").await;
        fixture.origin.reply(Reply::failure(OriginError::Unreachable));
        fixture
            .origin
            .reply(Reply::ok(STRONG, b"half").announcing(5 * SLICE + 7).then_fail(OriginError::CutShort));
        let answer = read(&fixture.context, response).await;
        assert!(answer.body == content(5 * SLICE + 7, 0) && answer.fault.is_none(), "{:?}", answer.fault);
    });
    run(async {
        let (fixture, _held) = full(STRONG, 5).await;
        let response = fixture.open("GET /x", "").await;
        let changed: FieldList<'_> = &[("cache-control", "max-age=60"), ("etag", "\"b\"")];
        fixture.origin.handle(move |asked| Reply::part_of(&content(5 * SLICE + 7, 1), changed, asked));
        let answer = read(&fixture.context, response).await;
        assert!(content(5 * SLICE + 7, 0).starts_with(&answer.body), "bytes of one version");
        assert_eq!(answer.fault, Some(BodyError::Gone(Some(FillFault::Changed))));
    });
}

#[test]
fn a_reader_that_takes_nothing_gives_up_its_slice_when_others_need_it_and_finds_its_bytes_later() {
    run(async {
        let (fixture, held) = full(STRONG, 1).await;
        let mut streams = Vec::new();
        for response in held {
            let Body::Stream(_, stream) = response.body else { continue };
            let (chunk, mut rest) = *stream;
            let limit = Duration::from_millis(limits::CLIENT_HOLDS_MILLISECONDS);
            if tokio::time::timeout(limit, chunk.until_needed_by_others()).await.is_ok() {
                assert!(rest.go_back(chunk.length - 100), "a hundred bytes were sent");
                drop(chunk);
                streams.push(rest);
            }
        }
        assert!(streams.len() > 16, "{} were given up", streams.len());
        let answer = fixture.get("GET /x", "").await;
        assert_eq!((answer.status, answer.fault), (200, None));
        assert!(fixture.store.tier().counters().slices > 0);
        for mut rest in streams {
            let chunk = rest.next(&fixture.context).await.unwrap().unwrap();
            assert_eq!(chunk.length, SLICE as u64 - 100);
            let response = Response {
                body: Body::Stream(None, Box::new((chunk, rest))),
                ..fixture.open("HEAD /x", "").await
            };
            let read = read(&fixture.context, response).await;
            assert!(read.body == content(SLICE, 0)[100..], "the bytes behind");
        }
    });
}

#[test]
fn a_slice_that_is_still_kept_stays_with_a_reader_that_takes_nothing() {
    run(async {
        let fixture = Fixture::cached();
        fixture.origin.handle(|asked| Reply::part_of(&content(SLICE, 0), STRONG, asked));
        let Body::Stream(_, stream) = fixture.open("GET /x", "").await.body else { panic!("a body") };
        let waiting = stream.0.until_needed_by_others();
        assert!(tokio::time::timeout(Duration::from_secs(600), waiting).await.is_err());
    });
}

#[test]
fn readers_past_the_cache_share_their_memory_and_lose_it_if_they_take_nothing() {
    run(async {
        let (fixture, _held) = full(STRONG, 5).await;
        let mut slow = Vec::new();
        for number in 0..3 {
            let Body::Stream(_, stream) = fixture.open(&format!("GET /slow/{number}"), "").await.body else {
                panic!("a body")
            };
            slow.push(tokio::task::spawn_local(async move {
                stream.0.until_needed_by_others().await;
            }));
        }
        let free = || fixture.store.past_cache.available_permits() as u64;
        assert!(free() < limits::PAST_CACHE_PART_BYTES, "there is no memory for a fourth part");
        let answer = fixture.get("GET /x", "").await;
        assert!(answer.body == content(5 * SLICE + 7, 0), "{} {:?}", answer.status, answer.fault);
        sleep(Duration::from_millis(limits::CLIENT_HOLDS_MILLISECONDS)).await;
        assert!(slow.iter().all(tokio::task::JoinHandle::is_finished));
        // The last of the responses that hold the tier came past the cache too.
        assert_eq!(free(), fixture.store.past_cache_bytes() as u64 - SLICE as u64);
    });
}

#[test]
fn many_readers_of_one_object_without_space_all_go_past_the_cache() {
    run(async {
        let (fixture, _held) = full(STRONG, 100).await;
        let whole = content(100 * SLICE + 7, 0);
        let readers: Vec<_> = (0..20)
            .map(|reader| reader * 5 * SLICE + 3..(reader * 5 + 4) * SLICE)
            .map(|range| {
                let fields = format!("Range: bytes={}-{}\r\n", range.start, range.end - 1);
                (fixture.spawn("GET /x", &fields), range)
            })
            .collect();
        for (reader, range) in readers {
            let answer = reader.await.unwrap();
            assert_eq!((answer.status, answer.fault), (206, None), "{range:?}");
            assert!(answer.body == whole[range.clone()], "{range:?}: {} bytes", answer.body.len());
        }
    });
}
