//! Sites that relay without the cache: what their keys mean, and their faults.

use std::time::Duration;

use penstock_config::{Origin, SpreadBy, Uncached, Upgrades};

use crate::fixture::Fixture;

/// A plain listener and a site whose origin has these keys.
fn with(origin: &str) -> String {
    format!(
        "listeners: [{{address: 127.0.0.1:8080}}]\n\
         sites: [{{origin: {{http: [\"http://192.0.2.5\"], {origin}}}}}]\n"
    )
}

#[test]
fn a_site_without_cache_says_how_it_spreads_requests_and_names_clients() {
    let fixture = Fixture::new();
    for (keys, proxy_protocol, spread) in [
        ("connections: 9", None, None),
        ("cache: on", None, None),
        ("spread: {by: url}", None, Some(SpreadBy::Url)),
        ("cache: off", Some(false), None),
        ("cache: off, spread: {by: url}", Some(false), Some(SpreadBy::Url)),
        ("cache: off, spread: {by: path}, proxy_protocol: v2", Some(true), Some(SpreadBy::Path)),
        ("cache: off, spread: {by: host}, proxy_protocol: off", Some(false), Some(SpreadBy::Host)),
    ] {
        let config = fixture.read(&with(keys)).unwrap();
        let Origin::Http(origin) = &config.sites[0].settings.origin else { panic!("an HTTP origin") };
        let expected = proxy_protocol.map(|proxy_protocol| Uncached { proxy_protocol });
        assert_eq!((origin.uncached, origin.spread), (expected, spread), "{keys}");
    }
}

#[test]
fn faults_of_sites_without_cache_say_what_to_write() {
    let fixture = Fixture::new();
    for (keys, fault) in [
        ("cache: maybe", "cache: `maybe` is unknown; write on or off"),
        (
            "spread: {by: host}",
            "by: the servers of a site with a cache are asked for one host; write url or path, or add cache: off",
        ),
        (
            "proxy_protocol: v2",
            "proxy_protocol: the responses of this site are cached; add cache: off, or remove it",
        ),
        ("cache: off, proxy_protocol: v1", "proxy_protocol: `v1` is unknown; write v2 or off"),
        ("cache: off, spread: {by: moon}", "by: `moon` is unknown; write url, path or host"),
        ("cache: off, spread: {}", "spread: it does not say by what; add by: url"),
        (
            "cache: off, follow_redirects: 2",
            "follow_redirects: a site without cache has none; remove it, or remove cache: off",
        ),
    ] {
        assert_eq!(fixture.faults(&with(keys)), [format!("edge.yaml:2: {fault}")], "{keys}");
    }
    let text = "listeners: [{address: 127.0.0.1:8080}]\n\
                sites: [{origin: {http: [\"http://192.0.2.5\"], cache: off}, cache: {default_ttl: 1s}}]\n";
    assert_eq!(fixture.faults(text), ["edge.yaml:2: cache: this origin has cache: off; keep one of them"]);
}

#[test]
fn protocols_to_switch_to_are_names_without_regard_to_case_and_never_another_http() {
    let fixture = Fixture::new();
    let upgrades = |names: &[&str], seconds| {
        let protocols = names.iter().map(ToString::to_string).collect();
        Some(Upgrades { protocols, idle: Duration::from_secs(seconds) })
    };
    for (keys, expected) in [
        ("connections: 9", None),
        ("upgrades: []", None),
        ("upgrades: [WebSocket]", upgrades(&["websocket"], 300)),
        (
            "cache: off, upgrades: [websocket, IRC/6.9], upgrade_idle: 1h",
            upgrades(&["websocket", "irc/6.9"], 3600),
        ),
    ] {
        let config = fixture.read(&with(keys)).unwrap();
        let Origin::Http(origin) = &config.sites[0].settings.origin else { panic!("an HTTP origin") };
        assert_eq!(origin.upgrades, expected, "{keys}");
    }
    for (keys, fault) in [
        ("upgrades: [H2C]", "upgrades: `h2c` would carry requests past the rules of this server; remove it"),
        (
            "upgrades: [HTTP/2.0]",
            "upgrades: `http/2.0` would carry requests past the rules of this server; remove it",
        ),
        (
            "upgrades: [\"a b\"]",
            "upgrades: `a b` is not the name of a protocol; write a name such as websocket",
        ),
        ("upgrades: [websocket, WEBSOCKET]", "upgrades: `websocket` is listed twice; keep one of them"),
        (
            "upgrade_idle: 1h",
            "upgrade_idle: there are no upgrades, whose end it would set; add upgrades: [websocket], or remove it",
        ),
        (
            "upgrades: [], upgrade_idle: 1h",
            "upgrade_idle: there are no upgrades, whose end it would set; add upgrades: [websocket], or remove it",
        ),
    ] {
        assert_eq!(fixture.faults(&with(keys)), [format!("edge.yaml:2: {fault}")], "{keys}");
    }
}
