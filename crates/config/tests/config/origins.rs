//! The servers of an origin, how one is chosen, and what they are shown and may say.

use penstock_config::{Balance, HttpOrigin, Origin};

use crate::fixture::Fixture;

/// A plain listener and a site whose origin has these keys.
fn with(origin: &str) -> String {
    format!("listeners: [{{address: 127.0.0.1:8080}}]\nsites: [{{origin: {{{origin}}}}}]\n")
}

fn read(fixture: &Fixture, keys: &str) -> HttpOrigin {
    let config = fixture.read(&with(keys));
    let config = config.unwrap_or_else(|faults| panic!("{keys}: {:?}", fixture.shown(&faults)));
    let Origin::Http(origin) = &config.sites[0].settings.origin else { panic!("an HTTP origin") };
    HttpOrigin::clone(origin)
}

#[test]
fn backups_come_last_and_sockets_are_servers() {
    let fixture = Fixture::new();
    let keys = "http: [{url: \"http://192.0.2.1\", backup: true}, \"http://192.0.2.2\", \
                {url: \"unix:/run/app.sock:/vod\", weight: 2, backup: false}], balance: least_connections";
    let origin = read(&fixture, keys);
    let shown: Vec<_> = origin
        .targets
        .iter()
        .map(|server| (server.url.to_string(), server.weight, server.is_backup))
        .collect();
    assert_eq!(
        shown,
        [
            ("http://192.0.2.2".to_owned(), 1, false),
            ("unix:/run/app.sock:/vod".to_owned(), 2, false),
            ("http://192.0.2.1".to_owned(), 1, true),
        ]
    );
    assert_eq!(origin.balance, Balance::LeastConnections);
    assert_eq!(read(&fixture, "http: [\"unix:/a\"]").balance, Balance::RoundRobin);
}

#[test]
fn servers_are_shown_a_certificate_and_fields_are_hidden() {
    let fixture = Fixture::new();
    let keys =
        "http: [\"https://192.0.2.1\"], ca: other.crt, chain: ec.crt, key: ec.key, hide: [Set-Cookie, x-a]";
    let origin = read(&fixture, keys);
    assert!(origin.identity.is_some());
    assert_eq!(origin.hide, ["set-cookie", "x-a"]);
    assert!(read(&fixture, "http: [\"http://192.0.2.1\"]").identity.is_none());
}

#[test]
fn faults_of_servers_say_what_to_write() {
    let fixture = Fixture::new();
    let http = "http: [\"http://192.0.2.5\"]";
    for (keys, fault) in [
        (
            "http: [{url: \"http://a\", backup: true}]".to_owned(),
            "http: every server is a backup; remove backup: true from at least one",
        ),
        (
            "http: [\"unix:app.sock\"]".to_owned(),
            "http: `unix:app.sock` is not the path of a Unix socket; write unix:/run/app.sock, or \
             unix:/run/app.sock:/path, with at most 107 bytes",
        ),
        (
            format!("{http}, balance: ip_hash"),
            "balance: `ip_hash` is unknown; write round_robin or least_connections, or spread: {by: url} to hash URLs",
        ),
        (
            format!("{http}, chain: ec.crt, key: ec.key"),
            "chain: none of these servers speaks https; remove chain and key, or write https://",
        ),
        (
            format!("{http}, key: ec.key"),
            "key: the certificate for these servers has no chain; add chain: FILE.pem",
        ),
        (
            format!("{http}, hide: [Vary]"),
            "hide: Vary says how the response is read or stored; remove it from the list",
        ),
        (
            format!("{http}, hide: [\"a b\"]"),
            "hide: `a b` cannot be the name of a field; write a name such as Authorization",
        ),
        (
            "directory: video, hide: [X-A]".to_owned(),
            "hide: a directory has none; remove it, or write http: [...]",
        ),
    ] {
        assert_eq!(fixture.faults(&with(&keys)), [format!("edge.yaml:2: {fault}")], "{keys}");
    }
}
