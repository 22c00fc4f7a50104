//! Responses that vary by fields of the request.

use penstock_config::Site;

use super::fixture::{Fixture, http_origin, run, site};
use super::scripted::{Gate, Reply};

fn vary_by_language(site: &mut Site) {
    site.cache.vary = vec!["accept-language".to_owned()];
}

const VARYING: &[(&str, &str)] =
    &[("cache-control", "max-age=60"), ("etag", "\"a\""), ("vary", "Accept-Language")];
const FRENCH: &str = "Accept-Language: fr\r\n";
const GERMAN: &str = "Accept-Language: de\r\n";

#[test]
fn each_variant_is_an_object_and_the_first_one_is_not_for_all() {
    // The first request, the ones that wait behind it, and the bodies they get.
    let cases = [("", FRENCH), (FRENCH, ""), (FRENCH, GERMAN)];
    for (first, second) in cases {
        run(async move {
            let fixture = Fixture::with(vary_by_language);
            let gate = Gate::new();
            fixture.origin.reply(Reply::ok(VARYING, b"first").head_after(&gate));
            fixture.origin.reply(Reply::ok(VARYING, b"second"));
            let one = fixture.spawn("GET /x", first);
            fixture.origin.wait_for_requests(1).await;
            let others: Vec<_> = (0..3).map(|_| fixture.spawn("GET /x", second)).collect();
            let same = fixture.spawn("GET /x", first);
            tokio::task::yield_now().await;
            gate.open();
            assert_eq!(one.await.unwrap().summary().2, "first");
            assert_eq!(same.await.unwrap().summary().2, "first");
            for other in others {
                assert_eq!(other.await.unwrap().summary().2, "second", "{first:?} then {second:?}");
            }
            for (fields, body) in [(first, "first"), (second, "second")] {
                assert_eq!(fixture.get("GET /x", fields).await.summary(), (200, "hit", body.to_owned()));
            }
            assert_eq!(fixture.origin.requests(), 2, "{first:?} then {second:?}");
        });
    }
}

#[test]
fn after_a_restart_an_object_is_used_for_its_own_variant_only() {
    run(async {
        let fixture = Fixture::with(vary_by_language);
        fixture.origin.reply(Reply::ok(VARYING, b"french"));
        fixture.get("GET /x", FRENCH).await;
        let fixture = fixture.restarted(site(http_origin(), vary_by_language));
        fixture.origin.reply(Reply::ok(VARYING, b"german"));
        assert_eq!(fixture.get("GET /x", GERMAN).await.summary().2, "german");
        assert_eq!(fixture.get("GET /x", GERMAN).await.summary(), (200, "hit", "german".to_owned()));
        let requests = fixture.origin.requests();
        fixture.origin.reply(Reply::ok(VARYING, b"french"));
        assert_eq!(fixture.get("GET /x", FRENCH).await.summary().2, "french");
        assert!(fixture.origin.requests() <= requests + 1);
    });
}

#[test]
fn a_response_that_varies_by_anything_is_not_stored() {
    for vary in ["*", "Accept-Language, *", "Foo, *", "Foo"] {
        run(async move {
            let fixture = Fixture::with(vary_by_language);
            for body in [b"one", b"two"] {
                fixture.origin.reply(Reply::ok(&[("cache-control", "max-age=60"), ("vary", vary)], body));
            }
            fixture.get("GET /x", FRENCH).await;
            let expected = if vary == "Foo" { "one" } else { "two" };
            assert_eq!(fixture.get("GET /x", FRENCH).await.summary().2, expected, "Vary: {vary}");
        });
    }
}

#[test]
fn a_field_that_the_site_does_not_forward_selects_nothing() {
    run(async {
        let fixture = Fixture::cached();
        fixture.origin.reply(Reply::ok(VARYING, b"one"));
        fixture.get("GET /x", FRENCH).await;
        assert_eq!(fixture.get("GET /x", GERMAN).await.summary(), (200, "hit", "one".to_owned()));
    });
}
