//! Ids of requests: whose id reaches whom.

use penstock_config::{Origin, RequestIds, SiteSettings, Uncached};
use penstock_origin::http::OriginError;

use super::fixture::{Fixture, OriginAnswer, http_origin, run, site};
use super::scripted::{Gate, Reply};

/// What an origin says, with the id of the request that it was asked by.
const FRESH: &[(&str, &str)] = &[("cache-control", "max-age=60"), ("x-request-id", "of-the-fetch")];

fn with(ids: RequestIds) -> impl FnOnce(&mut SiteSettings) {
    move |site| {
        site.request_id = ids;
        site.methods = vec!["POST".to_owned()];
    }
}

/// A site whose origin is asked without the cache.
fn relayed(ids: RequestIds) -> Fixture {
    let mut origin = http_origin();
    if let Origin::Http(origin) = &mut origin {
        origin.uncached = Some(Uncached::default());
    }
    Fixture::of(|_| site(origin, with(ids)))
}

fn id(answer: &OriginAnswer) -> String {
    answer.field("x-request-id")
}

fn is_generated(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|digit| digit.is_ascii_hexdigit())
}

#[test]
fn each_of_many_waiting_clients_gets_its_own_id_and_the_fetch_has_that_of_the_first() {
    run(async {
        let fixture = Fixture::with(with(RequestIds::Preserve));
        let gate = Gate::new();
        fixture.origin.reply(Reply::ok(FRESH, b"kept").head_after(&gate));
        let first = fixture.spawn("GET /x", "X-Request-Id: one\r\n");
        fixture.origin.wait_for_requests(1).await;
        let second = fixture.spawn("GET /x", "X-Request-Id: two\r\n");
        let third = fixture.spawn("GET /x", "X-Request-Id: not \"plain\"\r\n");
        tokio::task::yield_now().await;
        gate.open();
        let (first, second, third) = (first.await.unwrap(), second.await.unwrap(), third.await.unwrap());
        assert_eq!((id(&first).as_str(), id(&second).as_str()), ("one", "two"));
        assert!(is_generated(&id(&third)), "{}", id(&third));
        let hit = fixture.get("GET /x", "X-Request-Id: four\r\n").await;
        assert_eq!((id(&hit).as_str(), hit.summary().1), ("four", "hit"));
        let refused = fixture.get("GET /x", "X-Request-Id: five\r\nRange: bytes=9-\r\n").await;
        assert_eq!((refused.status, id(&refused).as_str()), (416, "five"));
        let asked = fixture.origin.asked();
        assert_eq!(asked.iter().map(|asked| asked.field("x-request-id")).collect::<Vec<_>>(), ["one"]);
    });
}

#[test]
fn an_id_of_a_client_counts_only_where_the_site_preserves_it() {
    for (ids, of_client) in
        [(RequestIds::Off, None), (RequestIds::Generate, Some(false)), (RequestIds::Preserve, Some(true))]
    {
        run(async move {
            // Without the cache, only requests with a body go through the scripted origin.
            for (fixture, lines) in
                [(Fixture::with(with(ids)), &["GET /x", "POST /x"][..]), (relayed(ids), &["POST /x"])]
            {
                for line in lines {
                    fixture.origin.reply(Reply::ok(FRESH, b"text"));
                    let answer = fixture.get(line, "X-Request-Id: mine\r\n").await;
                    let asked = fixture.origin.asked().pop().unwrap();
                    let sent: Vec<_> = asked.fields.get_all("x-request-id").iter().collect();
                    match of_client {
                        None => assert_eq!(id(&answer), "of-the-fetch", "{line}"),
                        Some(of_client) => {
                            assert_eq!(sent, [id(&answer).as_str()], "{line}");
                            assert_eq!(id(&answer) == "mine", of_client, "{line}");
                            assert!(of_client || is_generated(&id(&answer)), "{line}");
                        }
                    }
                }
            }
        });
    }
}

#[test]
fn pages_of_this_server_have_the_id_too() {
    run(async {
        let fixture = Fixture::with(with(RequestIds::Preserve));
        fixture.origin.handle(|_| Reply::failure(OriginError::Unreachable));
        for (line, status) in [("GET /x", 502), ("PUT /x", 405), ("GET /%00", 404)] {
            let answer = fixture.get(line, "X-Request-Id: mine\r\n").await;
            assert_eq!((answer.status, id(&answer).as_str()), (status, "mine"), "{line}");
        }
    });
}

#[test]
fn the_id_of_a_client_goes_through_another_node_to_the_origin() {
    run(async {
        let peers = super::steps::peers(std::time::Instant::now());
        let fixture = Fixture::in_cluster(&peers);
        let identity = fixture.http_site().sharing.as_ref().unwrap().identity.clone();
        for (id, passed) in [("mine", "mine"), ("not plain", "")] {
            fixture.origin.reply(Reply::ok(FRESH, b"text"));
            let fields =
                format!("penstock-site: {identity}\r\npenstock-hop: owner\r\nX-Request-Id: {id}\r\n");
            fixture.respond_to_peer(&peers, &format!("GET /{passed}"), &fields).await;
            assert_eq!(fixture.origin.asked().pop().unwrap().field("x-request-id"), passed);
        }
    });
}
