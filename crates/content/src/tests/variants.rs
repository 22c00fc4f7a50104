//! Responses that vary by fields of the request.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use penstock_config::signing::secret_of_file;
use penstock_config::{
    CachePolicy, FieldRules, HostPattern, HttpOrigin, SigningKey, Site, SiteSettings, TokenRules,
};
use penstock_http::OriginUrl;
use penstock_http::query::Counting;

use super::fixture::{Fixture, http_origin, open_head, read, run, site};
use super::scripted::{Gate, OriginRequest, Reply};
use crate::nodes::{PurgeOrder, PurgeTarget};
use crate::site::HttpSite;
use crate::site::tokens::makers::{encode, sign};

fn vary_by_language(site: &mut SiteSettings) {
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

/// An origin with a playlist of segments, whose body is the language that they were asked for in.
fn segments(asked: &OriginRequest) -> Reply {
    if asked.target.ends_with(".m3u8") {
        let names = ["one", "two", "three", "four"].map(|name| format!("#EXTINF:4,\n{name}.ts\n"));
        let text = format!("#EXTM3U\n#EXT-X-TARGETDURATION:4\n{}#EXT-X-ENDLIST\n", names.concat());
        let fields = [("cache-control", "max-age=60"), ("content-type", "application/vnd.apple.mpegurl")];
        return Reply::ok(&fields, text.as_bytes());
    }
    Reply::ok(VARYING, asked.field("accept-language").as_bytes())
}

#[test]
fn a_prefetched_segment_is_the_variant_of_the_client_that_caused_it() {
    run(async {
        let fixture = Fixture::with(|site| {
            vary_by_language(site);
            site.cache.prefetch = 2;
        });
        fixture.origin.handle(segments);
        fixture.get("GET /vod.m3u8", GERMAN).await;
        // The second client asks when it is known that the segments vary.
        for (round, (fields, language)) in [(GERMAN, "de"), (FRENCH, "fr")].into_iter().enumerate() {
            let first = fixture.get("GET /one.ts", fields).await;
            assert_eq!(first.summary(), (200, "miss", language.to_owned()));
            fixture.origin.wait_for_requests(1 + 3 * (round + 1)).await;
            let asked = fixture.origin.asked();
            let last: Vec<_> = asked[asked.len() - 2..]
                .iter()
                .map(|asked| (&*asked.target, asked.field("accept-language")))
                .collect();
            assert_eq!(last, [("/two.ts", language), ("/three.ts", language)]);
        }
        for (fields, language) in [(GERMAN, "de"), (FRENCH, "fr")] {
            for target in ["/two.ts", "/three.ts"] {
                let found = fixture.get(&format!("GET {target}"), fields).await;
                assert_eq!(found.summary(), (200, "hit", language.to_owned()), "{target}");
            }
        }
        let english = fixture.get("GET /two.ts", "Accept-Language: en\r\n").await;
        assert_eq!(english.summary(), (200, "miss", "en".to_owned()));
    });
}

#[test]
fn nothing_is_prefetched_for_a_request_with_personal_fields() {
    for name in ["cookie", "authorization"] {
        run(async move {
            let fixture = Fixture::with(|site| {
                site.cache.vary = vec![name.to_owned(), "accept-language".to_owned()];
                site.cache.prefetch = 1;
            });
            fixture.origin.handle(segments);
            let fields = format!("{name}: a=1\r\n{GERMAN}");
            for target in ["/vod.m3u8", "/one.ts"] {
                assert_eq!(fixture.get(&format!("GET {target}"), &fields).await.status, 200);
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(fixture.origin.requests(), 2, "{name}");
            fixture.get("GET /one.ts", GERMAN).await;
            fixture.origin.wait_for_requests(4).await;
            let asked = fixture.origin.asked();
            let prefetched = (&*asked[3].target, asked[3].field("accept-language"), asked[3].field(name));
            assert_eq!(prefetched, ("/two.ts", "de", ""));
        });
    }
}

fn vary_and_post(site: &mut SiteSettings) {
    site.cache.vary = vec!["accept-language".to_owned(), "cookie".to_owned()];
    site.methods = vec!["POST".to_owned()];
}

/// Requests that select different variants.
const CLIENTS: [&str; 5] =
    ["", FRENCH, GERMAN, "Cookie: user=1\r\n", "Cookie: user=2\r\nAccept-Language: de\r\n"];

#[test]
fn a_method_that_changes_a_target_changes_all_its_variants() {
    // The target itself, and one that the response names.
    for (changed, location) in [("/x", None), ("/other", Some("/x"))] {
        run(async move {
            let fixture = Fixture::with(vary_and_post);
            for body in [b"old", b"new"] {
                fixture.origin.handle(move |_| Reply::ok(VARYING, body));
                let label = |fields| {
                    let fixture = &fixture;
                    async move { fixture.get("GET /x", fields).await.summary() }
                };
                for fields in CLIENTS {
                    let text = String::from_utf8_lossy(body).into_owned();
                    assert_eq!(label(fields).await, (200, "miss", text.clone()), "{fields}");
                    assert_eq!(label(fields).await, (200, "hit", text), "{fields}");
                }
                let fields: Vec<_> = location.iter().map(|location| ("location", *location)).collect();
                fixture.origin.reply(Reply::new(204).with(&fields));
                assert_eq!(fixture.get(&format!("POST {changed}"), "").await.status, 204);
            }
        });
    }
}

#[test]
fn after_a_restart_no_variant_from_before_a_change_is_restored() {
    run(async {
        let fixture = Fixture::with(vary_and_post);
        fixture.origin.handle(|_| Reply::ok(VARYING, b"old"));
        for fields in CLIENTS {
            fixture.get("GET /x", fields).await;
        }
        fixture.origin.reply(Reply::new(204));
        fixture.get("POST /x", CLIENTS[3]).await;
        let fixture = fixture.restarted(site(http_origin(), vary_and_post));
        fixture.origin.handle(|_| Reply::ok(VARYING, b"new"));
        // The last one is another user's, and its key is not known.
        for fields in &CLIENTS[..4] {
            assert_eq!(fixture.get("GET /x", fields).await.summary().2, "new", "{fields}");
        }
    });
}

#[test]
fn a_method_that_fails_changes_nothing() {
    run(async {
        let fixture = Fixture::with(vary_and_post);
        fixture.origin.handle(|_| Reply::ok(VARYING, b"old"));
        for fields in CLIENTS {
            fixture.get("GET /x", fields).await;
        }
        fixture.origin.reply(Reply::new(403));
        assert_eq!(fixture.get("POST /x", "").await.status, 403);
        for fields in CLIENTS {
            assert_eq!(fixture.get("GET /x", fields).await.summary().1, "hit", "{fields}");
        }
    });
}

#[test]
fn a_fetch_that_began_before_a_change_is_for_clients_that_asked_before_it() {
    for vary in [vary_and_post, |site: &mut SiteSettings| site.methods = vec!["POST".to_owned()]] {
        run(async move {
            let fixture = Fixture::with(vary);
            let gate = Gate::new();
            fixture.origin.reply(Reply::ok(VARYING, b"old").head_after(&gate));
            let before = fixture.spawn("GET /x", FRENCH);
            fixture.origin.wait_for_requests(1).await;
            fixture.origin.reply(Reply::new(204));
            fixture.get("POST /x", "").await;
            fixture.origin.handle(|_| Reply::ok(VARYING, b"new"));
            let after = fixture.spawn("GET /x", FRENCH);
            tokio::task::yield_now().await;
            gate.open();
            assert_eq!(before.await.unwrap().summary().2, "old");
            assert_eq!(after.await.unwrap().summary().2, "new");
            assert_eq!(fixture.get("GET /x", FRENCH).await.summary(), (200, "hit", "new".to_owned()));
            assert_eq!(fixture.origin.requests(), 3);
        });
    }
}

#[test]
fn a_change_of_one_target_leaves_the_others_and_purges_in_force() {
    run(async {
        let fixture = Fixture::with(vary_and_post);
        fixture.origin.handle(|_| Reply::ok(VARYING, b"body"));
        let label = |target: &'static str| {
            let fixture = &fixture;
            async move { fixture.get(target, GERMAN).await.summary().1 }
        };
        for target in ["GET /x", "GET /y", "GET /x?y"] {
            assert_eq!(label(target).await, "miss");
        }
        // A purge is stamped later than now, so that all of this happens in its second.
        let order = PurgeOrder { target: PurgeTarget::Url("/x?y".to_owned()), soft: false };
        for _ in 0..3 {
            fixture.store.purge_at(&order, &fixture.sites, fixture.context.moment()).unwrap();
            fixture.origin.reply(Reply::new(204));
            fixture.get("POST /x", "").await;
            assert_eq!(label("GET /y").await, "hit");
            for target in ["GET /x", "GET /x?y"] {
                assert_eq!(label(target).await, "miss", "{target}");
                assert_eq!(label(target).await, "hit", "{target}");
            }
        }
    });
}

#[test]
fn the_cookie_of_a_signed_url_reaches_neither_origin_nor_key() {
    run(async {
        let secret = secret_of_file(b"a secret of a key\n".to_vec()).unwrap();
        let key = Arc::new(SigningKey::new("one", secret));
        let rules = TokenRules::signed_urls(vec![Arc::clone(&key)], "token", Some("pass"));
        let fixture = Fixture::with(|site| {
            site.cache.vary = vec!["cookie".to_owned()];
            site.tokens = Some(rules);
        });
        let fields = [("cache-control", "max-age=60"), ("vary", "Cookie")];
        fixture.origin.handle(move |asked| Reply::ok(&fields, asked.field("cookie").as_bytes()));
        let mut statuses = Vec::new();
        for (seconds, more, body) in
            [(100, "", ""), (200, "", ""), (100, "; user=1", "user=1"), (300, "; user=1", "user=1")]
        {
            let token = sign(&key, "/", SystemTime::now() + Duration::from_secs(seconds)).unwrap();
            let fields = format!("Cookie: pass={}{more}\r\n", encode(&token));
            let answer = fixture.get("GET /x", &fields).await;
            assert_eq!((answer.status, answer.summary().2.as_str()), (200, body));
            statuses.push(answer.summary().1);
        }
        assert_eq!(statuses, ["miss", "hit", "miss", "hit"]);
        assert!(fixture.origin.asked().iter().all(|asked| !asked.field("cookie").contains("pass")));
    });
}

#[test]
fn bytes_that_came_in_the_clear_are_not_for_a_site_whose_origin_is_tls() {
    let name = |urls: &[&str]| {
        let targets = urls.iter().map(|url| (OriginUrl::parse(url).unwrap(), 1)).collect();
        let origin = HttpOrigin::new(targets);
        HttpSite::new(
            &origin,
            &CachePolicy::default(),
            &[],
            [].into_iter(),
            None,
            &FieldRules::default(),
            ("", &[]),
        )
        .name
        .clone()
    };
    let (clear, tls) = (name(&["http://origin/a"]), name(&["https://origin/a"]));
    assert_ne!(clear, tls);
    assert_eq!(name(&["https://origin/a", "http://other/a"]), clear);
    assert_eq!(name(&["https://origin/a", "https://other/a"]), tls);
    assert_ne!(name(&["http://origin:81/a"]), clear);
}

#[test]
fn a_query_that_does_not_count_has_no_directives_but_those_of_playlists() {
    run(async {
        let fixture = Fixture::with(|site| site.cache.query.counting = Counting::Nothing);
        fixture.origin.handle(|_| Reply::ok(&[("cache-control", "max-age=60")], b"body"));
        for query in ["", "?_HLS_x=1", "?_HLS_msn=1", "?_HLS_msn=2&_HLS_skip=YES", "?_HLS_push=3"] {
            assert_eq!(fixture.get(&format!("GET /film.mp4{query}"), "").await.status, 200);
        }
        let asked = fixture.origin.asked();
        assert_eq!((asked.len(), asked[0].target.as_str()), (1, "/film.mp4"));
    });
}

#[test]
fn sites_that_ask_the_same_servers_with_other_fields_share_no_objects() {
    run(async {
        let sites = ["plain.example", "media.example"].map(|host| {
            let site = site(http_origin(), |site| {
                if host == "media.example" {
                    vary_by_language(site);
                }
            });
            Site { hosts: vec![HostPattern::Exact(host.to_owned())], ..site }
        });
        let fixture = Fixture::of_sites(&sites);
        fixture.origin.handle(|asked| Reply::ok(VARYING, asked.field("accept-language").as_bytes()));
        let plain = "GET /x HTTP/1.1\r\nHost: plain.example\r\nAccept-Language: fr\r\n\r\n";
        let response = open_head(&fixture.context, &fixture.sites, plain, false).await;
        assert_eq!(read(&fixture.context, response).await.summary(), (200, "miss", String::new()));
        assert_eq!(fixture.get("GET /x", FRENCH).await.summary(), (200, "miss", "fr".to_owned()));
    });
}
