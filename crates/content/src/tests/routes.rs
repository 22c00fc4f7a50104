//! Which route answers a request, and that no route gives away the bytes of another.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use penstock_config::{Config, RouteMatcher, SigningKey, Site, TokenRules};
use penstock_http::{HeadLimits, Request};
use penstock_sys::traffic::Secret;

use super::fixture::{Fixture, run};
use super::scripted::Reply;
use crate::site::RouteMatchers;
use crate::site::tokens::makers::{encode, sign};
use penstock_cache::purge::{PurgeOrder, PurgeTarget};

const LIMITS: HeadLimits = HeadLimits { head_bytes: 16384, fields: 100, target_bytes: 8192 };

/// The sites of a configuration, without prefetching.
pub(super) fn sites_of(sites: &str) -> Vec<Site> {
    let text = format!("listeners: [{{address: 127.0.0.1:80}}]\nsites:\n{sites}\n");
    match Config::from_text(&text, Path::new("/nowhere/edge.yaml")) {
        Ok(config) => config.sites,
        Err(faults) => panic!("{faults:?}\n{text}"),
    }
}

/// An origin that answers with its own name and the target that it was asked for.
pub(super) fn naming(sites: &[Site]) -> Fixture {
    let fixture = Fixture::of_sites(sites);
    fixture.origin.handle(|asked| {
        let server = asked.origin.trim_start_matches("http://192.0.2.").trim_end_matches('/');
        let body = format!("{} {}", server.split(':').next().unwrap(), asked.target);
        Reply::ok(&[("cache-control", "max-age=60"), ("content-type", "text/plain")], body.as_bytes())
    });
    fixture
}

const SITE: &str = "
- origin: {http: [\"http://192.0.2.1\"]}
  routes:
  - {path: /live/*, origin: {http: [\"http://192.0.2.2\"]}}
  - {path: \"*.mp4\", origin: {http: [\"http://192.0.2.3\"]}}
  - {path: \"/{channel}/index.m3u8\", origin: {http: [\"http://192.0.2.4\"]}}
  - {path: /exact, origin: {http: [\"http://192.0.2.5\"]}}
";

#[test]
fn the_path_that_selects_a_route_is_the_one_that_its_origin_is_asked_for() {
    run(async {
        let fixture = naming(&sites_of(SITE));
        for (sent, answer) in [
            ("/live/a", "2 /live/a"),
            ("/%6Cive/%61", "2 /live/a"),
            ("/x/../live/a", "2 /live/a"),
            ("/live/../x", "1 /x"),
            ("/live/%2e%2e/b", "1 /b"),
            ("/live//a", "2 /live//a"),
            ("//live/a", "1 //live/a"),
            ("/a//b", "1 /a//b"),
            ("/live%2Fa", "1 /live%2Fa"),
            ("/live/a%2Fb", "2 /live/a%2Fb"),
            ("/LIVE/a", "1 /LIVE/a"),
            ("/live", "1 /live"),
            ("/live/b.mp4", "2 /live/b.mp4"),
            ("/b.mp4?c=d", "3 /b.mp4?c=d"),
            ("/b.mp4/", "1 /b.mp4/"),
            ("/one/index.m3u8", "4 /one/index.m3u8"),
            ("/one/two/index.m3u8", "1 /one/two/index.m3u8"),
            ("/exact", "5 /exact"),
            ("/exact/", "1 /exact/"),
            ("/%65xact?a", "5 /exact?a"),
        ] {
            let found = fixture.get(&format!("GET {sent}"), "").await;
            assert_eq!(
                (found.status, String::from_utf8(found.body).unwrap()),
                (200, answer.to_owned()),
                "{sent}"
            );
        }
        let before = fixture.origin.requests();
        for ambiguous in
            ["/live/..%2Fx", "/live/..%5Cx", "/live/%252e%252e/x", "/live/..;a%2Fx", "/a%2F.%2Fb"]
        {
            assert_eq!(fixture.get(&format!("GET {ambiguous}"), "").await.status, 404, "{ambiguous}");
        }
        assert_eq!(fixture.origin.requests(), before);
    });
}

#[test]
fn all_conditions_of_a_route_have_to_hold() {
    let sites = sites_of(
        "
- origin: {http: [\"http://192.0.2.1\"]}
  methods: [POST]
  routes:
  - {when: {methods: [POST]}, origin: {http: [\"http://192.0.2.2\"]}}
  - {when: {methods: [GET], query: [a=1, b]}, origin: {http: [\"http://192.0.2.3\"]}}
  - {path: /x, when: {headers: [X-Device=tv, \"!Cookie\"]}, origin: {http: [\"http://192.0.2.4\"]}}
",
    );
    run(async {
        let fixture = naming(&sites);
        for (line, fields, server) in [
            ("GET /x", "", "1"),
            ("POST /x", "", "2"),
            ("GET /x?a=1&b", "", "3"),
            ("GET /x?b=2&a=0&a=1", "", "3"),
            ("GET /x?a=1", "", "1"),
            ("GET /x?a=11&b", "", "1"),
            ("GET /x", "x-device: tv\r\n", "4"),
            ("GET /y", "x-device: tv\r\n", "1"),
            ("GET /x", "x-device: phone\r\n", "1"),
            ("GET /x", "x-device: phone\r\nX-Device: tv\r\n", "4"),
            ("GET /x", "x-device: tv\r\ncookie: a\r\n", "1"),
        ] {
            let body = String::from_utf8(fixture.get(line, fields).await.body).unwrap();
            assert_eq!(body.split(' ').next(), Some(server), "{line} {fields}");
        }
        let head = fixture.get("HEAD /x?a=1&b", "").await;
        assert_eq!(
            head.cache_status.map(|status| status.label()),
            Some("hit"),
            "HEAD takes the route of GET"
        );
    });
}

/// Numbers that look random and are the same in each run.
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::try_from((self.next() >> 24) % end as u64).unwrap()
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

#[test]
fn the_first_of_a_thousand_routes_is_found_as_by_comparing_all() {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let piece = ["a", "b", "ab", "live", ".mp4", "x"];
    let patterns: Vec<String> = (0..1000)
        .map(|_| {
            let (one, two, three) = (numbers.one(&piece), numbers.one(&piece), numbers.one(&piece));
            match numbers.below(6) {
                0 => format!("/{one}/{two}"),
                1 => format!("/{one}/{two}/*"),
                2 => format!("*{one}{two}"),
                3 => format!("/{one}/*{two}{three}"),
                4 => format!("/{{name}}/{two}"),
                _ => format!("/{one}/{{name}}/{two}/{three}"),
            }
        })
        .collect();
    let matcher = |text: &String| RouteMatcher {
        path: penstock_config::pattern::PathPattern::parse(text).unwrap(),
        methods: Vec::new(),
        query: Vec::new(),
        headers: Vec::new(),
    };
    let matchers: Vec<RouteMatcher> = patterns.iter().map(matcher).collect();
    let compiled = RouteMatchers::new(matchers.clone());
    let mut hits = 0;
    for _ in 0..4000 {
        let path: String = (0..=numbers.below(4)).map(|_| format!("/{}", numbers.one(&piece))).collect();
        let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        let request = Request::parse(head.as_bytes(), &LIMITS).unwrap();
        let wanted = matchers.iter().position(|one| one.path.matches(&path));
        assert_eq!(compiled.find(&request, request.raw_path()), Ok(wanted), "{path}");
        hits += usize::from(wanted.is_some());
    }
    assert!((1000..4000).contains(&hits), "{hits} paths have a route");
}

/// A key and what it signs.
fn signing() -> (Arc<SigningKey>, TokenRules) {
    let secret = Secret::new(b"0123456789abcdef".to_vec());
    let key = Arc::new(SigningKey::new("a", secret));
    let rules = TokenRules::signed_urls(vec![Arc::clone(&key)], "token", None);
    (key, rules)
}

#[test]
fn no_sequence_of_rules_gives_away_what_another_route_protects() {
    let mut numbers = Numbers(0x0123_4567_89ab_cdef);
    let (key, signed) = signing();
    for round in 0..60 {
        // Routes with any origin and rewrite; half of the servers need a token.
        let mut text = String::from("\n- origin: {http: [\"http://192.0.2.1\"]}\n  routes:\n");
        for place in 0..1 + numbers.below(6) {
            let path = numbers.one(&["/a/*", "/b/*", "/a/b/*", "*.ts", "/{x}/c", "/{x}/b/*"]);
            let path = if place % 2 == 0 { path.replace('*', &format!("*{place}")) } else { path.to_owned() };
            let server = 1 + numbers.below(4);
            let to =
                numbers.one(&["", ", rewrite: \"/b/x\"", ", rewrite: \"{path}\"", ", rewrite: /a/b/3.ts"]);
            text +=
                &format!("  - {{path: \"{path}\", origin: {{http: [\"http://192.0.2.{server}\"]}}{to}}}\n");
        }
        let config = format!("listeners: [{{address: 127.0.0.1:80}}]\nsites:{text}");
        // Of routes that no request reaches the configuration says so.
        let Ok(config) = Config::from_text(&config, Path::new("/nowhere/edge.yaml")) else { continue };
        let mut sites = config.sites;
        let protects = |server: usize| server > 2;
        let server_of = |settings: &penstock_config::SiteSettings| match &settings.origin {
            penstock_config::Origin::Http(http) => {
                let url = http.targets[0].url.to_string();
                url.trim_start_matches("http://192.0.2.")[..1].parse::<usize>().unwrap()
            }
            _ => 0,
        };
        for route in &mut sites[0].routes {
            if protects(server_of(&route.settings)) {
                route.settings.tokens = Some(signed.clone());
            }
        }
        let key = Arc::clone(&key);
        let mut numbers = Numbers(numbers.next());
        run(async move {
            let fixture = naming(&sites);
            for _ in 0..60 {
                let pieces =
                    (0..=numbers.below(3)).map(|_| numbers.one(&["a", "b", "c", "x", "3.ts", "0", "b2"]));
                let path: String = pieces.map(|piece| format!("/{piece}")).collect();
                let route = sites[0].routes.iter().find(|route| route.matcher.path.matches(&path));
                let settings = route.map_or(&sites[0].settings, |route| &route.settings);
                let target = match &settings.rewrite {
                    Some(rewrite) if rewrite.to.written() == "{path}" => path.clone(),
                    Some(rewrite) => rewrite.to.written().to_owned(),
                    None => path.clone(),
                };
                let of = server_of(settings);
                let allowed = numbers.one(&["/a/", "/b/", "/", "/x/"]);
                let token = sign(&key, allowed, UNIX_EPOCH + Duration::from_secs(1 << 40)).unwrap();
                let sends_token = numbers.below(2) == 0;
                let query = if sends_token { format!("?token={}", encode(&token)) } else { String::new() };
                let answer = fixture.get(&format!("GET {path}{query}"), "").await;
                let body = String::from_utf8(answer.body).unwrap();
                let admitted = !protects(of) || sends_token && path.starts_with(allowed);
                if admitted {
                    let asked = if protects(of) { String::new() } else { query };
                    assert_eq!(body, format!("{of} {target}{asked}"), "{round}: {path}\n{text}");
                } else {
                    assert_eq!(
                        (answer.status, body.as_str()),
                        (403, "403 Forbidden\n"),
                        "{round}: {path}\n{text}"
                    );
                }
            }
        });
    }
}

#[test]
fn routes_that_end_in_one_object_share_it_and_others_do_not() {
    let sites = sites_of(
        "
- origin: {http: [\"http://192.0.2.1\"]}
  routes:
  - {path: /old/*, rewrite: \"/new/{rest}\"}
  - {path: /other/*, rewrite: \"/new/{rest}\", origin: {http: [\"http://192.0.2.2\"]}}
  - {path: /moved/*, rewrite: \"/new/{rest}\", origin: {http: [\"http://192.0.2.1\"], follow_redirects: 1}}
",
    );
    run(async {
        let fixture = naming(&sites);
        for (path, summary) in [
            ("/new/x?a=b", (200, "miss", "1 /new/x?a=b")),
            ("/old/x?a=b", (200, "hit", "1 /new/x?a=b")),
            ("/other/x?a=b", (200, "miss", "2 /new/x?a=b")),
            ("/moved/x?a=b", (200, "miss", "1 /new/x?a=b")),
        ] {
            let (status, label, body) = fixture.get(&format!("GET {path}"), "").await.summary();
            assert_eq!((status, label, body.as_str()), summary, "{path}");
        }
        let of_host = |target| PurgeOrder { target, soft: false };
        let purges = [
            PurgeTarget::Url("https://a.example/old/x?a=b".to_owned()),
            PurgeTarget::Prefix("https://a.example/old/".to_owned()),
            PurgeTarget::Prefix("https://a.example/o".to_owned()),
        ];
        for what in purges {
            let purged = fixture.store.purge(&of_host(what.clone()), &fixture.sites).unwrap();
            assert!(purged.objects >= 1, "{what:?}");
            assert_eq!(fixture.get("GET /new/x?a=b", "").await.summary().1, "miss", "{what:?}");
        }
    });
}
