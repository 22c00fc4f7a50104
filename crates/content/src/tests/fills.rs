//! Fills: bodies that break off, change, stall or do not fit, and the readers that follow them.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use penstock_config::{HttpOrigin, Origin, limits};
use penstock_http::OriginUrl;
use penstock_origin::http::OriginError;

use super::fixture::{Fixture, SLICE, content, read, run, site};
use super::scripted::{Gate, OriginRequest, Reply};
use crate::fault::{BodyError, FillFault};
use crate::response::Body;

const FRESH: &[(&str, &str)] = &[("cache-control", "max-age=60"), ("etag", "\"a\"")];

/// Slices of an object that does not fit into the tier.
const LONG: usize = 100;

/// Range and condition of a request.
type Part<'a> = (Option<(u64, u64)>, Option<&'a str>);

/// Range and condition of each request.
fn ranges(asked: &[OriginRequest]) -> Vec<Part<'_>> {
    asked.iter().map(|asked| (asked.range, asked.known.as_ref().map(|(_, value)| value.as_str()))).collect()
}

#[test]
fn a_body_that_breaks_off_goes_on_at_the_byte_that_is_missing() {
    for cut in [1, 1000, SLICE - 1] {
        run(async move {
            let fixture = Fixture::cached();
            let whole = content(SLICE, 0);
            fixture.origin.reply(Reply::ok(FRESH, &whole).cut_after(cut, OriginError::CutShort));
            let body = whole.clone();
            fixture.origin.handle(move |asked| Reply::part_of(&body, FRESH, asked));
            let answer = fixture.get("GET /x", "").await;
            assert!(answer.body == whole && answer.fault.is_none(), "cut after {cut} bytes");
            let asked = fixture.origin.asked();
            let last = SLICE as u64 - 1;
            assert_eq!(
                ranges(&asked),
                [(Some((0, last)), None), (Some((cut as u64, last)), Some("\"a\""))],
                "cut after {cut} bytes"
            );
        });
    }
}

#[test]
fn progress_gives_a_fill_all_its_attempts_again_and_none_bounds_them_with_growing_waits() {
    run(async {
        let fixture = Fixture::cached();
        let whole = content(1000, 0);
        let body = whole.clone();
        fixture.origin.handle(move |asked| {
            let reply = Reply::part_of(&body, FRESH, asked);
            let (first, last) = asked.range.unwrap();
            if last.min(999) == first {
                reply
            } else {
                reply.cut_after(100.min(usize::try_from(1000 - first).unwrap() - 1), OriginError::CutShort)
            }
        });
        let answer = fixture.get("GET /x", "").await;
        assert!(answer.body == whole && answer.fault.is_none(), "a hundred bytes at a time");
        assert!(fixture.origin.requests() >= 10);
    });
    run(async {
        let fixture = Fixture::cached();
        fixture.origin.reply(Reply::ok(FRESH, &content(1000, 0)).cut_after(500, OriginError::CutShort));
        fixture.origin.handle(|_| Reply::failure(OriginError::Unreachable));
        let answer = fixture.get("GET /x", "").await;
        assert_eq!(answer.body, content(1000, 0)[..500]);
        let unreachable = FillFault::Origin(OriginError::Unreachable);
        assert_eq!(answer.fault, Some(BodyError::Gone(Some(unreachable))));
        let asked = fixture.origin.asked();
        assert!((3..=12).contains(&asked.len()), "{asked:?}");
        let waits: Vec<_> = asked.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
        assert!(waits[..3].is_sorted_by(|one, next| one < next), "{waits:?}");
    });
}

#[test]
fn without_a_strong_validator_a_body_never_has_bytes_of_two_responses() {
    let cases: [&[(&str, &str)]; 3] = [
        &[("cache-control", "max-age=60")],
        &[("cache-control", "max-age=60"), ("etag", "W/\"a\"")],
        &[("cache-control", "max-age=60"), ("last-modified", "Fri, 01 Jan 2100 00:00:00 GMT")],
    ];
    for (fields, was_sent) in cases.into_iter().flat_map(|fields| [(fields, false), (fields, true)]) {
        run(async move {
            let fixture = Fixture::cached();
            let (old, new) = (content(1000, 0), content(1000, 1));
            let gate = Gate::new();
            let cut = Reply::ok(fields, &old[..500]).announcing(1000).wait(&gate);
            fixture.origin.reply(cut.then_fail(OriginError::CutShort));
            let whole = new.clone();
            fixture.origin.handle(move |asked| Reply::part_of(&whole, fields, asked));
            let answer = if was_sent {
                let response = fixture.open("GET /x", "").await;
                gate.open();
                read(&fixture.context, response).await
            } else {
                gate.open();
                fixture.get("GET /x", "").await
            };
            if was_sent {
                assert!(answer.body == old[..500], "{fields:?}: {} bytes", answer.body.len());
                assert!(matches!(answer.fault, Some(BodyError::Gone(_))), "{fields:?}: {:?}", answer.fault);
                assert_eq!(fixture.origin.requests(), 1, "{fields:?}");
            } else {
                assert!(answer.body == new && answer.fault.is_none(), "{fields:?}: no byte was sent");
            }
            let next = fixture.get("GET /x", "").await;
            assert!(next.body == new && next.status == 200, "{fields:?}: {}", next.status);
        });
    }
}

#[test]
fn a_part_without_a_strong_validator_is_asked_for_whole() {
    for etag in ["W/\"a\"", ""] {
        run(async move {
            let fixture = Fixture::cached();
            let whole = content(3 * SLICE, 0);
            let body = whole.clone();
            fixture.origin.handle(move |asked| {
                let fields: &[(&str, &str)] = if etag.is_empty() { &[] } else { &[("etag", etag)] };
                Reply::part_of(&body, fields, asked).with(&[("cache-control", "max-age=60")])
            });
            let answer = fixture.get("GET /x", "").await;
            assert!(answer.body == whole && answer.fault.is_none(), "{etag}: {} bytes", answer.body.len());
            let asked = fixture.origin.asked();
            assert_eq!(asked.len(), 2, "{asked:?}");
            assert_eq!(asked[1].range, None, "{asked:?}");
        });
    }
}

#[test]
fn an_object_that_changes_between_its_slices_is_served_in_its_new_version_if_no_byte_was_sent() {
    run(async {
        let fixture = Fixture::cached();
        let (old, new) = (content(3 * SLICE, 0), content(3 * SLICE, 1));
        let body = old.clone();
        fixture.origin.reply({
            let asked = OriginRequest { range: Some((0, SLICE as u64 - 1)), ..OriginRequest::default() };
            Reply::part_of(&body, FRESH, &asked)
        });
        let first = fixture.get("GET /x", "Range: bytes=0-9\r\n").await;
        assert_eq!(first.body, old[..10]);
        let body = new.clone();
        let fields = [("cache-control", "max-age=60"), ("etag", "\"b\"")];
        fixture.origin.handle(move |asked| Reply::part_of(&body, &fields, asked));
        // No byte of the second slice was sent.
        let range = format!("Range: bytes={SLICE}-{}\r\n", SLICE + 9);
        let second = fixture.get("GET /x", &range).await;
        assert_eq!((second.status, second.field("etag").as_str()), (206, "\"b\""));
        assert_eq!(second.body, new[SLICE..SLICE + 10]);
        let whole = fixture.get("GET /x", "").await;
        assert!(whole.body == new && whole.fault.is_none());
    });
    run(async {
        let fixture = Fixture::cached();
        let (old, new) = (content(3 * SLICE, 0), content(3 * SLICE, 1));
        let body = old.clone();
        let asked = OriginRequest { range: Some((0, SLICE as u64 - 1)), ..OriginRequest::default() };
        fixture.origin.reply(Reply::part_of(&body, FRESH, &asked));
        let fields = [("cache-control", "max-age=60"), ("etag", "\"b\"")];
        fixture.origin.handle(move |asked| Reply::part_of(&new, &fields, asked));
        let answer = fixture.get("GET /x", "").await;
        assert!(answer.body == old[..SLICE], "{} bytes of one version", answer.body.len());
        assert_eq!(answer.fault, Some(BodyError::Gone(Some(FillFault::Changed))));
    });
}

#[test]
fn each_reader_is_told_the_fault_of_the_fill_that_it_followed() {
    run(async {
        let fixture = Fixture::cached();
        let whole = content(2 * SLICE, 0);
        let body = whole.clone();
        fixture.origin.handle(move |asked| match asked.range {
            Some((0, _)) => Reply::part_of(&body, FRESH, asked),
            _ => Reply::failure(OriginError::Timeout),
        });
        let answer = fixture.get("GET /x", "").await;
        assert!(answer.body == whole[..SLICE]);
        let timeout = FillFault::Origin(OriginError::Timeout);
        assert_eq!(answer.fault, Some(BodyError::Gone(Some(timeout))));
        let range = format!("Range: bytes={SLICE}-\r\n");
        let late = fixture.get("GET /x", &range).await;
        assert_eq!(late.status, 504, "no byte was sent");
        assert!(late.field("cache-status").ends_with("detail=timeout"), "{}", late.field("cache-status"));
        let first = fixture.get("GET /x", "Range: bytes=0-9\r\n").await;
        assert_eq!((first.status, first.fault), (206, None), "the first slice has no fault");
    });
}

#[test]
fn a_body_that_only_the_end_of_its_connection_ends_is_delivered_and_not_stored() {
    run(async {
        let fixture = Fixture::cached();
        for _ in 0..2 {
            fixture.origin.reply(Reply::ok(FRESH, b"hello").close_delimited());
        }
        for _ in 0..2 {
            let answer = fixture.get("GET /x", "").await;
            assert_eq!(answer.summary(), (200, "miss", "hello".to_owned()));
            let status = answer.field("cache-status");
            assert_eq!(status, "penstock; fwd=uri-miss; fwd-status=200; detail=close-delimited");
        }
        assert_eq!(fixture.origin.requests(), 2);
    });
}

#[test]
fn a_body_without_length_that_breaks_off_is_cut_short_and_forgotten() {
    run(async {
        let fixture = Fixture::cached();
        let gate = Gate::new();
        let reply = Reply::ok(FRESH, b"half").unannounced().wait(&gate);
        fixture.origin.reply(reply.then_fail(OriginError::CutShort));
        let response = fixture.open("GET /x", "").await;
        gate.open();
        let answer = read(&fixture.context, response).await;
        assert_eq!(answer.body, b"half");
        assert_eq!(answer.fault, Some(BodyError::Gone(Some(FillFault::Origin(OriginError::CutShort)))));
        fixture.origin.reply(Reply::ok(FRESH, b"all"));
        assert_eq!(fixture.get("GET /x", "").await.summary(), (200, "miss", "all".to_owned()));
    });
}

#[test]
fn readers_are_woken_for_each_piece_and_see_the_bytes_that_came() {
    run(async {
        let fixture = Fixture::cached();
        let (first, second) = (Gate::new(), Gate::new());
        let reply = Reply::ok(FRESH, b"one ").wait(&first).bytes(b"two ").wait(&second).bytes(b"three");
        fixture.origin.reply(reply);
        let Body::Stream(_, stream) = fixture.open("GET /x", "").await.body else {
            panic!("a body is coming")
        };
        let (chunk, mut stream) = *stream;
        assert_eq!(chunk.length, 4);
        for (gate, length) in [(&first, 4), (&second, 5)] {
            gate.open();
            let chunk = stream.next(&fixture.context).await.unwrap().unwrap();
            assert_eq!(chunk.length, length);
        }
        assert!(stream.next(&fixture.context).await.unwrap().is_none());
    });
}

#[test]
fn a_fill_stops_behind_its_last_reader_and_goes_on_for_the_next() {
    const SLICES: usize = 40;
    run(async {
        let fixture = Fixture::cached();
        let whole = content(SLICES * SLICE, 0);
        // The origin ignores Range: one response has all slices.
        let mut reply = Reply::ok(FRESH, &[]);
        for slice in whole.chunks(SLICE) {
            reply = reply.bytes(slice);
        }
        fixture.origin.reply(reply);
        drop(fixture.open("GET /x", "").await);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let filled = fixture.store.tier().counters().slices;
        assert!((1..=20).contains(&filled), "{filled} slices were filled for no reader");
        let body = whole.clone();
        fixture.origin.handle(move |asked| Reply::part_of(&body, FRESH, asked));
        let answer = fixture.get("GET /x", "").await;
        assert!(answer.body == whole, "{} bytes, {:?}", answer.body.len(), answer.fault);
    });
}

#[test]
fn a_fill_waits_for_a_slow_reader_while_the_cache_is_full() {
    for (pause, requests) in [(limits::FILL_STALLED_MILLISECONDS - 1000, 1), (60_000, 2)] {
        run(async move {
            let fixture = Fixture::cached();
            let whole = content(LONG * SLICE, 0);
            let mut reply = Reply::ok(FRESH, &[]);
            for slice in whole.chunks(SLICE) {
                reply = reply.bytes(slice);
            }
            fixture.origin.reply(reply);
            let body = whole.clone();
            fixture.origin.handle(move |asked| Reply::part_of(&body, FRESH, asked).steps_of(SLICE));
            let response = fixture.open("GET /x", "").await;
            // The reader has the first slice; more slices than the tier has come behind it.
            tokio::time::sleep(Duration::from_millis(pause)).await;
            let answer = read(&fixture.context, response).await;
            assert!(answer.body == whole, "{} bytes, {:?}", answer.body.len(), answer.fault);
            let asked = fixture.origin.asked();
            assert!(asked.len() >= requests && (requests > 1 || asked.len() == 1), "{pause} ms: {asked:?}");
        });
    }
}

#[test]
fn a_part_that_ends_early_is_taken_and_the_rest_is_asked_for() {
    // Bytes of a part at most, and of the object.
    for (most, length) in [(1000, SLICE), (SLICE / 2 + 1, 3 * SLICE + 7), (SLICE, 5 * SLICE)] {
        run(async move {
            let fixture = Fixture::cached();
            let whole = content(length, 0);
            let body = whole.clone();
            fixture.origin.handle(move |asked| {
                let range = asked.range.map(|(first, last)| (first, last.min(first + most as u64 - 1)));
                Reply::part_of(&body, FRESH, &OriginRequest { range, ..asked.clone() })
            });
            let answer = fixture.get("GET /x", "").await;
            assert_eq!((answer.status, answer.fault), (200, None), "{}", answer.field("cache-status"));
            assert!(answer.body == whole, "{most} of {length}");
            let part = fixture.get("GET /y", &format!("Range: bytes=10-{}\r\n", length - 5)).await;
            assert!(part.body == whole[10..=length - 5], "{most} of {length}");
            assert_eq!(fixture.get("GET /x", "").await.summary().1, "hit");
            let requests = u64::try_from(fixture.origin.requests()).unwrap();
            assert!(requests <= 2 * (length as u64).div_ceil(most as u64) + 8, "{requests} requests");
        });
    }
}

#[test]
fn a_part_without_the_bytes_that_it_announces_ends_after_some_attempts() {
    for fields in [FRESH, &[("cache-control", "no-store"), ("etag", "\"a\"")]] {
        run(async move {
            let fixture = Fixture::cached();
            let whole = content(5 * SLICE, 0);
            fixture.origin.handle(move |asked| {
                let (first, _) = asked.range.unwrap();
                match first {
                    0 => Reply::part_of(&whole, fields, asked),
                    _ => Reply::new(206)
                        .with(fields)
                        .with(&[("content-range", &format!("bytes {first}-{first}/{}", whole.len()))])
                        .unannounced(),
                }
            });
            let answer = fixture.get("GET /x", "").await;
            let fault = Some(BodyError::Gone(Some(FillFault::Origin(OriginError::CutShort))));
            assert_eq!(answer.fault, fault);
            assert!(fixture.origin.requests() < 40, "{} requests", fixture.origin.requests());
        });
    }
}

/// A site with two servers.
fn two_servers() -> Fixture {
    Fixture::of(|_| {
        let urls = ["http://192.0.2.1", "http://192.0.2.2"];
        let targets = urls.map(|url| (OriginUrl::parse(url).unwrap(), 1)).to_vec();
        site(Origin::Http(Box::new(HttpOrigin::new(targets))), |_| {})
    })
}

#[test]
fn seeks_of_an_object_whose_servers_have_different_tags_take_it_from_one_of_them() {
    run(async {
        const SLICES: usize = 40;
        let fixture = two_servers();
        let whole = content(SLICES * SLICE, 0);
        let body = whole.clone();
        let sent = Rc::new(Cell::new(0));
        let counted = Rc::clone(&sent);
        fixture.origin.handle(move |asked| {
            let tag = format!("\"{}\"", asked.server);
            let reply = Reply::part_of(&body, &[("cache-control", "max-age=60"), ("etag", &tag)], asked);
            counted.set(counted.get() + reply.length_announced());
            reply
        });
        let seeks: Vec<_> = (0..20)
            .map(|seek| 2 * seek * SLICE + 5..2 * (seek + 1) * SLICE)
            .map(|seek| {
                let fields = format!("Range: bytes={}-{}\r\n", seek.start, seek.end - 1);
                (fixture.spawn("GET /x", &fields), seek)
            })
            .collect();
        for (client, seek) in seeks {
            let answer = client.await.unwrap();
            assert_eq!((answer.status, answer.fault), (206, None), "{seek:?}");
            assert!(answer.body == whole[seek.clone()], "{seek:?}");
        }
        let answer = fixture.get("GET /x", "").await;
        assert!(answer.body == whole && answer.fault.is_none(), "the first viewer of the film");
        assert!(sent.get() <= 2 * whole.len() as u64, "{} of {} bytes", sent.get(), whole.len());
        tokio::time::advance(Duration::from_secs(61)).await;
        fixture.origin.reply(Reply::new(304));
        fixture.get("GET /x", "").await;
        let asked = fixture.origin.asked();
        assert_eq!(asked[asked.len() - 1].server, asked[0].server, "its tag is known there");
    });
}
