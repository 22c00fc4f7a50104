//! What is counted, and how.

use penstock_config::{ClientTable, CountedMetrics, TitlePatterns};

use super::fixture::{Fixture, around};

#[test]
fn the_section_of_metrics_has_rates_titles_and_a_table_of_clients() {
    let fixture = Fixture::new();
    assert_eq!(fixture.read(&around("metrics:")).unwrap().metrics, CountedMetrics::default());
    std::fs::write(fixture.path().join("clients.txt"), "television Our Box/\n").unwrap();
    let text = "metrics: {rates: [750000, 250000, 750000], title_directories: 3, clients: clients.txt}";
    let read = fixture.read(&around(text)).unwrap().metrics;
    assert_eq!((read.rates, read.title_directories), (vec![250_000, 750_000], 3));
    assert_eq!(read.clients, ClientTable::read(&fixture.path().join("clients.txt")).unwrap());
    assert_ne!(read.clients, ClientTable::default());
}

#[test]
fn the_patterns_of_titles_are_those_of_the_route_the_site_or_all_sites() {
    let fixture = Fixture::new();
    let site = "sites:\n  - hosts: [a.test]\n    origin: {directory: DIR}\n    title_patterns: [\"/vod/{title}/*\", \"/{tenant}/live/{title}/*\"]\n    \
                routes:\n      - {path: /raw/*, title_patterns: []}\n      - {path: /vod/*, compress: false}\n  \
                - {hosts: [b.test], origin: {directory: DIR}}";
    let text = format!(
        "listeners: [{{address: 127.0.0.1:8080}}]\n{site}\nmetrics: {{title_patterns: [\"/{{title}}/*\"]}}"
    )
    .replace("DIR", &fixture.path().display().to_string());
    let config = fixture.read(&text).unwrap();
    assert_eq!(config.metrics.title_patterns.title("/film/720p/1.m4s"), Some("film"));
    assert_eq!(config.metrics.title_patterns.title("/film.mp4"), None);
    let own = config.sites[0].settings.title_patterns.clone().unwrap();
    for (path, title) in [
        ("/vod/film/720p/1.m4s", Some("film")),
        ("/vod/film/", Some("film")),
        ("/vod/film", None),
        ("/vod//1.m4s", None),
        ("/acme/live/news/1.m4s", Some("news")),
        ("/acme/vod/film/1.m4s", None),
    ] {
        assert_eq!(own.title(path), title, "{path}");
    }
    let of_routes: Vec<_> =
        config.sites[0].routes.iter().map(|route| route.settings.title_patterns.clone()).collect();
    assert_eq!(of_routes, [Some(TitlePatterns::default()), Some(own)]);
    assert_eq!(config.sites[1].settings.title_patterns, None);
}

#[test]
fn a_wrong_section_of_metrics_is_told_what_to_write() {
    let fixture = Fixture::new();
    std::fs::write(fixture.path().join("clients.txt"), "radio a\n").unwrap();
    for (keys, fault) in [
        (
            "title_directories: 0",
            "title_directories: 0 is out of range; write a number from 1 to 8".to_owned(),
        ),
        ("rates: [1, 2, 3, 4, 5, 6, 7, 8, 9]", "rates: there are 9 of them; write at most 8".to_owned()),
        (
            "title_patterns: [\"/vod/*\"]",
            "title_patterns: `/vod/*` has no segment {title}; write a path such as /vod/{title}/*".to_owned(),
        ),
        (
            "title_patterns: [\"/vod/{title\"]",
            "title_patterns: `/vod/{title` has a `{` without a `}`; write {name} for a segment".to_owned(),
        ),
        (
            "title_patterns: [\"/{title}\", \"/{title}\", \"/{title}\", \"/{title}\", \"/{title}\", \"/{title}\", \"/{title}\", \"/{title}\", \"/{title}\"]",
            "title_patterns: there are 9 of them; write at most 8".to_owned(),
        ),
        (
            "clients: clients.txt",
            "clients: DIR/clients.txt line 1: `radio` is no kind; write one of browser, phone, television, tool, other; write \
             a file with a kind and a part of User-Agent in each line"
                .to_owned(),
        ),
    ] {
        let faults = fixture.faults(&around(&format!("metrics: {{{keys}}}")));
        assert_eq!(faults, [format!("edge.yaml:3: {fault}")], "{keys}");
    }
}
