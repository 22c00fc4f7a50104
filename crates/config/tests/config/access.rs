//! Who may use a site, and how much.

use std::fs::{self, Permissions};
use std::num::NonZeroU64;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use penstock_config::{Bounds, ClientKind, Pace, PaceRate, RequestRate};

use crate::fixture::Fixture;

fn site(lines: &str) -> String {
    format!("listeners: [{{address: 127.0.0.1:80}}]\nsites:\n- origin: {{directory: video}}\n  {lines}\n")
}

const HASH: &str = "$2y$04$AIrXZjz8y39BrFE1T0k7fOEXEL1ehRJDyYSIiUTDJ5MBvlmWoT0Ce";

#[test]
fn networks_come_from_the_list_and_from_files() {
    let fixture = Fixture::new();
    fs::write(fixture.path().join("bad.txt"), "# spammers\n192.0.2.0/24\n2001:db8:1::/48\n").unwrap();
    let config = fixture
        .read(&site("access: {allow: [203.0.113.0/24, \"::1\"], deny: [203.0.113.9, bad.txt]}"))
        .unwrap();
    let access = &config.sites[0].settings.access;
    let has = |address: &str| {
        let address = address.parse().unwrap();
        let deny = &access.deny;
        let denied =
            deny.networks.contains(address) || deny.files.iter().any(|(_, all)| all.contains(address));
        (access.allow.as_ref().unwrap().networks.contains(address), denied)
    };
    assert_eq!(
        (has("203.0.113.1"), has("::1"), has("203.0.113.9")),
        ((true, false), (true, false), (true, true))
    );
    assert_eq!((has("192.0.2.200"), has("2001:db8:1::9")), ((false, true), (false, true)));
    assert_eq!(access.deny.files[0].0, fixture.path().join("bad.txt"));
}

#[test]
fn rates_and_bounds_are_those_of_one_client_and_of_all() {
    let fixture = Fixture::new();
    let lines = "limits: {client: network, requests: 50/s, connections: 7, bandwidth: 2MiB, all: {requests: {rate: 6000/m, burst: 9}}}";
    let limits = fixture.read(&site(lines)).unwrap().sites[0].settings.limits;
    let rate =
        |milliseconds, burst| Some(RequestRate { interval: Duration::from_millis(milliseconds), burst });
    assert_eq!(limits.client, ClientKind::Network);
    assert_eq!(
        limits.each,
        Bounds { requests: rate(20, 50), connections: Some(7), bandwidth: NonZeroU64::new(2 << 20) }
    );
    assert_eq!(limits.all, Bounds { requests: rate(10, 9), ..Bounds::default() });
}

#[test]
fn a_pace_is_in_bytes_or_a_multiple_of_the_bitrate() {
    let fixture = Fixture::new();
    for (lines, rate) in [
        ("pace: {rate: 512KiB}", PaceRate::Bytes(NonZeroU64::new(512 * 1024).unwrap())),
        ("pace: {rate: 1.5x}", PaceRate::Bitrate(NonZeroU64::new(1500).unwrap())),
        ("pace: {rate: 100x}", PaceRate::Bitrate(NonZeroU64::new(100_000).unwrap())),
        ("pace: {rate: 1.125x}", PaceRate::Bitrate(NonZeroU64::new(1125).unwrap())),
    ] {
        let pace = fixture.read(&site(lines)).unwrap().sites[0].settings.pace;
        assert_eq!(pace, Some(Pace { after: 0, rate }), "{lines}");
    }
}

#[test]
fn faults_of_access_and_limits_are_reported() {
    let fixture = Fixture::new();
    let write = |name: &str, text: &str| {
        fs::write(fixture.path().join(name), text).unwrap();
        fs::set_permissions(fixture.path().join(name), Permissions::from_mode(0o600)).unwrap();
    };
    write("bad.txt", "192.0.2.1\nhello\n");
    write("plain.users", "anna:secret\n");
    for (lines, fault) in [
        (
            "access: {deny: [192.0.2.0/40]}",
            "deny: DIR/192.0.2.0/40 cannot be read (No such file or directory (os error 2)); write a network such as \
             192.0.2.0/24, or a file with one a line",
        ),
        (
            "limits: {client: subject, requests: 5/s}",
            "client: no token has a subject here; add access: {jwt: {keys: FILE}}, or write address",
        ),
        ("limits: {bandwidth: 10}", "bandwidth: 10 is out of range; write a size from 1KiB to 1TiB"),
        (
            "access: {deny: [bad.txt]}",
            "deny: DIR/bad.txt line 2 is no address or network: `hello`; write a network such as 192.0.2.0/24, or a file \
             with one a line",
        ),
        (
            "access: {referers: [\"https://a.example\"]}",
            "referers: `https://a.example` is not a host; write such as player.example.com, *.example.com or none",
        ),
        ("access: {countries: {deny: [XX]}}", "countries: it has no file; add file: GeoLite2-Country.mmdb"),
        ("access: {basic: {}}", "basic: it has no file; add file: users.htpasswd"),
        (
            "access: {basic: {file: plain.users}}",
            "file: DIR/plain.users has in line 1 a hash that is neither bcrypt (htpasswd -B) nor argon2; write a file that \
             htpasswd -B or argon2 made",
        ),
        ("access: {jwt: {}}", "jwt: it has no keys; add keys: keys.json"),
        (
            "access: {jwt: {keys: plain.users}}",
            "keys: DIR/plain.users has neither a JWKS nor a public key in PEM; write a JWKS (RFC 7517), or a public key in PEM",
        ),
        ("pace: {after: 1MiB}", "pace: it has no rate; add rate: 2MiB, in bytes per second, or 1.5x"),
        (
            "pace: {rate: 0.5x}",
            "rate: 0.5x is no multiple of the bitrate; write one from 1.0x to 100x, such as 1.5x",
        ),
        (
            "pace: {rate: 1.5.1x}",
            "rate: 1.5.1x is no multiple of the bitrate; write one from 1.0x to 100x, such as 1.5x",
        ),
        ("pace: {rate: 100}", "rate: 100 is out of range; write a size from 1KiB to 1TiB"),
        ("limits: {client: user}", "client: `user` is unknown; write address, network or subject"),
        (
            "limits: {requests: 50}",
            "requests: `50` is not a rate; write one such as 50/s, 100/m or 1000/h, up to 1000000/s",
        ),
        ("limits: {requests: {burst: 5}}", "requests: it has no rate; add rate: 50/s"),
        ("limits: {connections: 0}", "connections: 0 is out of range; write a number from 1 to 10000000"),
    ] {
        assert_eq!(fixture.faults(&site(lines)), [format!("edge.yaml:4: {fault}")], "{lines}");
    }
}

#[test]
fn a_file_of_secrets_is_private_and_a_site_has_passwords_or_tokens() {
    let fixture = Fixture::new();
    let keys = fixture.path().join("keys.json");
    let secret = "A".repeat(43);
    fs::write(&keys, format!("{{\"keys\": [{{\"kty\": \"oct\", \"k\": \"{secret}\"}}]}}")).unwrap();
    fs::set_permissions(&keys, Permissions::from_mode(0o644)).unwrap();
    let config = fixture.read(&site("access: {jwt: {keys: keys.json}}")).unwrap();
    assert_eq!(
        fixture.shown(&config.warnings),
        ["edge.yaml:4: keys: DIR/keys.json may be read by every user of this machine; run chmod 600 on it"]
    );
    let jwt = config.sites[0].settings.access.jwt.as_ref().unwrap();
    assert_eq!((jwt.claims.leeway.as_secs(), &jwt.claims.issuer, &jwt.cookie), (30, &None, &None));
    assert!(!format!("{config:?}").contains("0, 0, 0"), "secrets stay out of texts");
    assert_eq!(
        fixture.faults(&site("access: {jwt: {keys: keys.json, leeway: 1h}}")),
        ["edge.yaml:4: leeway: 1h is out of range; write a time from 0 to 10m"]
    );
    fs::write(fixture.path().join("users"), format!("anna:{HASH}\n")).unwrap();
    assert_eq!(
        fixture.faults(&site("access: {jwt: {keys: keys.json}, basic: {file: users}}")),
        [
            "edge.yaml:4: jwt: basic reads the field Authorization as well; write one of them; a route may have the other"
        ]
    );
}

#[test]
fn codes_of_countries_and_their_database_are_checked() {
    let faults = Fixture::new().faults(&site("access: {countries: {file: ec.crt, deny: [XX, Germany]}}"));
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(
        faults.iter().any(|fault| fault.contains("deny: `Germany` is no code of a country")),
        "{faults:?}"
    );
    assert!(faults.iter().any(|fault| fault.contains("ec.crt is no database of MaxMind")), "{faults:?}");
}

#[test]
fn an_empty_list_and_an_open_file_of_passwords_are_warned_of() {
    let fixture = Fixture::new();
    let users = fixture.path().join("users");
    fs::write(&users, format!("anna:{HASH}\n")).unwrap();
    fs::set_permissions(&users, Permissions::from_mode(0o644)).unwrap();
    let config = fixture.read(&site("access: {allow: [], basic: {file: users}}")).unwrap();
    assert_eq!(
        fixture.shown(&config.warnings),
        [
            "edge.yaml:4: allow: the list is empty, so no client may use the site; add a network",
            "edge.yaml:4: file: DIR/users may be read by every user of this machine; run chmod 600 on it",
        ]
    );
    let basic = config.sites[0].settings.access.basic.as_ref().unwrap();
    assert_eq!((basic.accounts.hash_of("anna"), basic.realm.as_str()), (Some(HASH), "Restricted"));
    assert!(!format!("{config:?}").contains(HASH));
}
