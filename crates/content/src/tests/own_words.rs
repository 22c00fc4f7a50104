//! Words of one client in a fetch that others wait for: CDN-Loop, and the mark of early data.

use std::time::Duration;

use penstock_origin::http::OriginError;
use tokio::task::yield_now;
use tokio::time::advance;

use super::fixture::{Fixture, run};
use super::scripted::{FieldList, Gate, OriginRequest, Reply};

const FRESH: FieldList<'static> = &[("cache-control", "max-age=60"), ("etag", "\"a\"")];
/// Fields of a client's request, and whether it is early data.
type Words = (&'static str, bool);
const WORDS: [Words; 2] = [("CDN-Loop: x\r\n", false), ("", true)];

fn has_words(asked: &OriginRequest) -> bool {
    asked.early || asked.field("cdn-loop").starts_with('x')
}

/// An origin that answers requests with a client's words with `refusal`, and others with a body.
fn refusing(fixture: &Fixture, refusal: &Reply, gate: &Gate) {
    let (refusal, gate) = (refusal.clone(), gate.clone());
    fixture.origin.handle(move |asked| {
        let reply = if has_words(asked) { refusal.clone() } else { Reply::ok(FRESH, b"good") };
        reply.head_after(&gate)
    });
}

/// What an origin may answer because of such words.
fn refusals() -> Vec<Reply> {
    let with = |status: u16| Reply::new(status).with(&[("cache-control", "max-age=60")]).bytes(b"bad");
    let private = Reply::new(403).with(&[("cache-control", "no-store")]).bytes(b"bad");
    let moved = with(301).with(&[("location", "https://other.example/")]);
    let failed = Reply::failure(OriginError::CutShort);
    vec![with(403), with(404), with(508), with(502), moved, private, with(425), failed]
}

#[test]
fn an_answer_to_the_words_of_one_client_is_neither_shared_nor_stored() {
    for ((fields, early), refusal) in
        WORDS.into_iter().flat_map(|words| refusals().into_iter().map(move |refusal| (words, refusal)))
    {
        run(async move {
            let fixture = Fixture::cached();
            let gate = Gate::new();
            refusing(&fixture, &refusal, &gate);
            let first = fixture.spawn_as("GET /x", fields, early);
            fixture.origin.wait_for_requests(1).await;
            let others: Vec<_> = (0..20).map(|_| fixture.spawn("GET /x", "")).collect();
            yield_now().await;
            gate.open();
            assert_ne!(first.await.unwrap().status, 200, "the client of the words has its answer");
            for other in others {
                let answer = other.await.unwrap();
                assert_eq!((answer.status, answer.body.as_slice()), (200, &b"good"[..]), "{fields} {early}");
            }
            assert_eq!(fixture.origin.requests(), 2, "one request for all others");
            assert_eq!(fixture.get("GET /x", "").await.summary(), (200, "hit", "good".to_owned()));
        });
    }
}

#[test]
fn a_good_stale_object_is_not_replaced_by_the_answer_to_the_words_of_one_client() {
    for ((fields, early), refusal) in
        WORDS.into_iter().flat_map(|words| refusals().into_iter().map(move |refusal| (words, refusal)))
    {
        run(async move {
            let fixture = Fixture::cached();
            let gate = Gate::new();
            gate.open();
            let short = [("cache-control", "max-age=5, stale-if-error=600"), ("etag", "\"a\"")];
            fixture.origin.reply(Reply::ok(&short, b"good"));
            fixture.get("GET /x", "").await;
            advance(Duration::from_secs(6)).await;
            refusing(&fixture, &refusal, &gate);
            fixture.spawn_as("GET /x", fields, early).await.unwrap();
            fixture.origin.reply(Reply::new(304).with(FRESH));
            let answer = fixture.get("GET /x", "").await;
            assert_eq!(answer.summary(), (200, "revalidated", "good".to_owned()));
            assert_eq!(fixture.origin.asked()[2].known, Some(("if-none-match", "\"a\"".to_owned())));
        });
    }
}

#[test]
fn clients_with_the_same_words_share_their_answer_and_others_ask_once_without() {
    for (fields, early) in WORDS {
        run(async move {
            let fixture = Fixture::cached();
            let gate = Gate::new();
            refusing(&fixture, &Reply::new(404).bytes(b"bad"), &gate);
            let clients: Vec<_> = (0..20).map(|_| fixture.spawn_as("GET /x", fields, early)).collect();
            fixture.origin.wait_for_requests(1).await;
            let others: Vec<_> =
                (0..20).map(|number| fixture.spawn("GET /x", &format!("CDN-Loop: y{number}\r\n"))).collect();
            yield_now().await;
            gate.open();
            for client in clients {
                assert_eq!(client.await.unwrap().status, 404);
            }
            for other in others {
                assert_eq!(other.await.unwrap().status, 200);
            }
            assert_eq!(fixture.origin.requests(), 2);
        });
    }
}

#[test]
fn a_success_is_shared_whatever_the_words_of_its_client_are() {
    run(async {
        let fixture = Fixture::cached();
        fixture.origin.reply(Reply::ok(FRESH, b"good"));
        fixture.get("GET /x", "CDN-Loop: x\r\n").await;
        assert!(fixture.origin.asked()[0].field("cdn-loop").starts_with("x, penstock"));
        assert_eq!(fixture.get("GET /x", "").await.summary(), (200, "hit", "good".to_owned()));
    });
}

#[test]
fn a_refusal_because_of_a_forwarded_field_that_selects_nothing_is_for_clients_with_that_value() {
    const LANGUAGE: &str = "Accept-Language: fr\r\n";
    for vary in [&["user-agent"][..], &["accept-language", "user-agent"]] {
        run(async move {
            let fixture = Fixture::with(|site| {
                site.cache.vary = vary.iter().map(|name| (*name).to_owned()).collect();
            });
            let gate = Gate::new();
            let passing = gate.clone();
            fixture.origin.handle(move |asked| {
                let refused = Reply::new(403).with(&[("cache-control", "max-age=60")]);
                let good = Reply::ok(FRESH, asked.field("accept-language").as_bytes());
                let good = good.with(&[("vary", "Accept-Language")]);
                let reply = if asked.field("user-agent") == "evil" { refused } else { good };
                reply.head_after(&passing)
            });
            let evil = format!("User-Agent: evil\r\n{LANGUAGE}");
            let first: Vec<_> = (0..3).map(|_| fixture.spawn("GET /x", &evil)).collect();
            fixture.origin.wait_for_requests(1).await;
            let fields = |number: usize| format!("User-Agent: {number}\r\n{LANGUAGE}");
            let others: Vec<_> = (0..20).map(|number| fixture.spawn("GET /x", &fields(number))).collect();
            yield_now().await;
            gate.open();
            for client in first {
                assert_eq!(client.await.unwrap().status, 403);
            }
            for other in others {
                let language = if vary.len() == 2 { "fr" } else { "" };
                assert_eq!(other.await.unwrap().summary().2, language, "{vary:?}");
            }
            assert!(fixture.origin.requests() <= 3, "{} requests", fixture.origin.requests());
            assert_eq!(fixture.get("GET /x", &fields(99)).await.status, 200, "{vary:?}");
        });
    }
}

#[test]
fn what_a_status_says_of_a_target_is_shared_whatever_fields_are_forwarded() {
    run(async {
        let fixture = Fixture::with(|site| site.cache.vary = vec!["user-agent".to_owned()]);
        for status in [404, 301, 410] {
            fixture.origin.reply(Reply::new(status).with(&[("cache-control", "max-age=60")]));
            for agent in ["one", "two"] {
                let answer =
                    fixture.get(&format!("GET /{status}"), &format!("User-Agent: {agent}\r\n")).await;
                assert_eq!(answer.status, status);
            }
        }
        assert_eq!(fixture.origin.requests(), 3);
    });
}

#[test]
fn a_redirection_with_a_lifetime_is_stored_whatever_fields_are_forwarded_and_an_error_is_not() {
    run(async {
        let fixture = Fixture::with(|site| site.cache.vary = vec!["user-agent".to_owned()]);
        let get = |status: u16, agent: &'static str| {
            let line = format!("GET /{status}");
            let fixture = &fixture;
            async move { fixture.get(&line, &format!("User-Agent: {agent}\r\n")).await.summary() }
        };
        for status in [302, 303, 307] {
            fixture.origin.reply(Reply::new(status).with(&[("cache-control", "max-age=60")]).bytes(b"1"));
            assert_eq!(get(status, "one").await, (status, "miss", "1".to_owned()));
            assert_eq!(get(status, "two").await, (status, "hit", "1".to_owned()));
        }
        for status in [400, 403, 500, 503] {
            for agent in ["one", "two"] {
                fixture.origin.reply(Reply::new(status).with(&[("cache-control", "max-age=60")]));
                assert_eq!(get(status, agent).await.1, "miss", "{status}");
            }
        }
        // Without a lifetime, and with a mark that forwarded fields do not have.
        for status in [302, 307] {
            fixture.origin.reply(Reply::new(status).bytes(b"1"));
            fixture.origin.reply(Reply::new(status).bytes(b"2"));
            for (fields, body) in [("User-Agent: one\r\n", "1"), ("User-Agent: two\r\n", "2")] {
                assert_eq!(fixture.get(&format!("GET /none{status}"), fields).await.summary().2, body);
            }
            fixture.origin.reply(Reply::new(status).with(&[("cache-control", "max-age=60")]));
            fixture.get(&format!("GET /loop{status}"), "CDN-Loop: x\r\n").await;
            fixture.origin.reply(Reply::ok(FRESH, b"good"));
            assert_eq!(fixture.get(&format!("GET /loop{status}"), "").await.status, 200);
        }
    });
}
