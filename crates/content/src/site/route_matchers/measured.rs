//! What the route of a request costs among 1,000, by the form of their paths. With optimisation:
//! `cargo test --release -p penstock-content --lib measured -- --ignored --nocapture`.

use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;

use penstock_config::RouteMatcher;
use penstock_config::pattern::PathPattern;

use super::RouteMatchers;

const ROUTES: usize = 1_000;

/// Requests of each round.
const ROUND: usize = 10_000;

/// Rounds, of which the fastest counts.
const ROUNDS: usize = 5;

/// The path of a route by its number, and that of a request that it answers.
type Form = (&'static str, fn(usize) -> (String, String));

const FORMS: [Form; 5] = [
    ("one path", |number| {
        (format!("/vod/film-{number:04}/index.m3u8"), format!("/vod/film-{number:04}/index.m3u8"))
    }),
    ("a beginning", |number| {
        (format!("/vod/film-{number:04}/*"), format!("/vod/film-{number:04}/720p/segment-00042.m4s"))
    }),
    ("an end", |number| {
        (format!("*/stream-{number:04}.m3u8"), format!("/live/channel/stream-{number:04}.m3u8"))
    }),
    ("a name between", |number| {
        (format!("/{{channel}}/{number:04}/*.ts"), format!("/channel-7/{number:04}/segment-00042.ts"))
    }),
    ("all of these", |number| match number % 4 {
        0 => (format!("/vod/film-{number:04}/index.m3u8"), format!("/vod/film-{number:04}/index.m3u8")),
        1 => (format!("/live/{number:04}/*"), format!("/live/{number:04}/720p/segment-00042.m4s")),
        2 => (format!("*-{number:04}.mp4"), format!("/archive/2026/film-{number:04}.mp4")),
        _ => (format!("/api/{{name}}/{number:04}"), format!("/api/some-name/{number:04}")),
    }),
];

/// The routes of a form, and a path for each of them.
fn routes(form: fn(usize) -> (String, String)) -> (RouteMatchers, Vec<String>) {
    let (patterns, paths): (Vec<_>, Vec<_>) = (0..ROUTES).map(form).unzip();
    let matcher = |pattern: String| RouteMatcher {
        path: PathPattern::parse(&pattern).expect("a pattern"),
        methods: Vec::new(),
        query: Vec::new(),
        headers: Vec::new(),
    };
    (RouteMatchers::new(patterns.into_iter().map(matcher).collect()), paths)
}

#[test]
fn each_of_a_thousand_routes_answers_its_path() {
    for (name, form) in FORMS {
        let (routes, paths) = routes(form);
        for (number, path) in paths.iter().enumerate() {
            assert_eq!(routes.first(path, |_| true), Some(number), "{name}: {path}");
        }
        assert_eq!(routes.first("/nothing/of/that/kind", |_| true), None, "{name}");
    }
}

#[test]
#[ignore = "a measurement"]
fn the_time_of_a_route_among_a_thousand() {
    let mut shown = String::new();
    for (name, form) in FORMS {
        let (routes, paths) = routes(form);
        let round = || {
            let begun = Instant::now();
            let found = paths
                .iter()
                .cycle()
                .take(ROUND)
                .filter(|path| routes.first(black_box(path), |_| true).is_some());
            assert_eq!(found.count(), ROUND, "{name}");
            begun.elapsed()
        };
        let best = (0..ROUNDS).map(|_| round()).min().unwrap_or_default();
        let nanoseconds = best.as_nanos() / ROUND as u128;
        writeln!(shown, "{name:>15}: {nanoseconds} ns").expect("text has space");
    }
    eprintln!("a route of {ROUTES}:\n{shown}");
}
