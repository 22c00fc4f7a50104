//! Bodies for one client, which do not enter the cache.

use std::time::Duration;

use penstock_config::limits;
use penstock_origin::http::OriginError;

use super::fixture::{Fixture, content, read, run};
use super::scripted::{Gate, Reply};
use crate::fault::{BodyError, FillFault};

const PRIVATE: &[(&str, &str)] =
    &[("cache-control", "private"), ("etag", "\"a\""), ("content-type", "video/mp4")];

#[test]
fn a_body_for_one_client_goes_on_where_it_broke_off() {
    for cut in [0, 1, 700, 999] {
        run(async move {
            let fixture = Fixture::cached();
            let whole = content(1000, 0);
            fixture.origin.reply(Reply::ok(PRIVATE, &whole).cut_after(cut, OriginError::CutShort));
            let body = whole.clone();
            fixture.origin.handle(move |asked| Reply::part_of(&body, PRIVATE, asked));
            let answer = fixture.get("GET /x", "").await;
            assert!(
                answer.body == whole && answer.fault.is_none(),
                "cut after {cut} bytes: {} {:?} {}",
                answer.status,
                answer.fault,
                answer.field("cache-status")
            );
            let asked = fixture.origin.asked();
            assert_eq!(asked.len(), 2, "{asked:?}");
            assert_eq!(asked[1].range, Some((cut as u64, 999)));
            assert_eq!(asked[1].known, Some(("if-range", "\"a\"".to_owned())));
            assert_eq!(fixture.store.tier().counters().slices, 0, "no byte is in the cache");
        });
    }
}

#[test]
fn attempts_without_progress_are_bounded_and_wait_longer_each_time() {
    run(async {
        let fixture = Fixture::cached();
        fixture.origin.reply(Reply::ok(PRIVATE, &content(1000, 0)).cut_after(500, OriginError::CutShort));
        fixture.origin.handle(|_| Reply::failure(OriginError::Unreachable));
        let answer = fixture.get("GET /x", "").await;
        assert!(answer.body == content(500, 0), "{} bytes", answer.body.len());
        let unreachable = FillFault::Origin(OriginError::Unreachable);
        assert_eq!(answer.fault, Some(BodyError::Gone(Some(unreachable))));
        let asked = fixture.origin.asked();
        assert_eq!(asked.len(), 1 + limits::ORIGIN_ATTEMPTS, "{asked:?}");
        let waits: Vec<_> = asked.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
        assert!(waits.is_sorted_by(|one, next| one < next), "{waits:?}");
    });
}

#[test]
fn a_body_for_one_client_never_has_bytes_of_two_versions() {
    run(async {
        let fixture = Fixture::cached();
        let gate = Gate::new();
        let half = Reply::ok(PRIVATE, &content(500, 0)).announcing(1000).wait(&gate);
        fixture.origin.reply(half.then_fail(OriginError::CutShort));
        let changed = [("cache-control", "private"), ("etag", "\"b\"")];
        fixture.origin.handle(move |asked| Reply::part_of(&content(1000, 1), &changed, asked));
        let response = fixture.open("GET /x", "").await;
        gate.open();
        let answer = read(&fixture.context, response).await;
        assert!(answer.body == content(500, 0), "{} bytes", answer.body.len());
        assert_eq!(answer.fault, Some(BodyError::Gone(Some(FillFault::Changed))));
    });
}

#[test]
fn a_client_that_reads_nothing_holds_its_origin_back() {
    run(async {
        let fixture = Fixture::cached();
        let piece = content(16 * 1024, 0);
        let mut reply = Reply::ok(PRIVATE, &[]);
        for _ in 0..200 {
            reply = reply.bytes(&piece);
        }
        // Reached when all pieces have been taken.
        let end = Gate::new();
        end.open();
        fixture.origin.reply(reply.wait(&end));
        let response = fixture.open("GET /x", "").await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(end.is_in_use(), "more than {} bytes wait for the client", limits::RELAY_BYTES);
        let answer = read(&fixture.context, response).await;
        assert!(answer.body.len() == 200 * piece.len() && answer.fault.is_none());
    });
}

#[test]
fn a_client_that_leaves_ends_the_fetch_of_its_body() {
    run(async {
        let fixture = Fixture::cached();
        let gate = Gate::new();
        fixture.origin.reply(Reply::ok(PRIVATE, b"first ").announcing(100).wait(&gate));
        let response = fixture.open("GET /x", "").await;
        assert!(gate.is_in_use());
        drop(response);
        while gate.is_in_use() {
            tokio::task::yield_now().await;
        }
        assert_eq!(fixture.origin.requests(), 1);
    });
}
