//! Faults of structure: keys, sections, lists, YAML itself.

use penstock_config::Config;

use crate::fixture::{Fixture, around};

#[test]
fn an_empty_file_lacks_a_listener_and_a_site() {
    assert_eq!(
        Fixture::new().faults(""),
        [
            "edge.yaml: there is no listener; write listeners: [{address: 0.0.0.0:443, tls: true}]",
            "edge.yaml: there is no site; write sites: [{hosts: [\"*\"], origin: {directory: /srv/video}}]",
        ]
    );
}

#[test]
fn a_misspelt_key_comes_before_what_it_makes_missing() {
    let text = "lisseners: [{address: 127.0.0.1:80}]\nsites: [{origin: {directory: video}}]\n";
    assert_eq!(
        Fixture::new().faults(text),
        [
            "edge.yaml:1: unknown key `lisseners`; write `listeners`",
            "edge.yaml: there is no listener; write listeners: [{address: 0.0.0.0:443, tls: true}]",
        ]
    );
}

#[test]
fn empty_lists_of_listeners_and_sites_are_faults_with_their_lines() {
    assert_eq!(
        Fixture::new().faults("listeners: []\nsites: []\n"),
        [
            "edge.yaml:1: there is no listener; write listeners: [{address: 0.0.0.0:443, tls: true}]",
            "edge.yaml:2: there is no site; write sites: [{hosts: [\"*\"], origin: {directory: /srv/video}}]",
        ]
    );
}

#[test]
fn all_faults_are_found_at_once_in_order_of_lines() {
    let text = "workers: 0\nlisteners:\n  - addres: 127.0.0.1:80\n    backlog: many\nsites:\n  - hosts: []\n";
    assert_eq!(
        Fixture::new().faults(text),
        [
            "edge.yaml:1: workers: `0` is not a number of workers; write auto or a number from 1 to 1024",
            "edge.yaml:3: unknown key `addres`; write `address`",
            "edge.yaml:3: this listener has no address; add address: 0.0.0.0:443",
            "edge.yaml:4: backlog: `many` is not a whole number; write a number from 1 to 1048576",
            "edge.yaml:6: this site has no origin; add origin: {directory: /srv/video} or \
             origin: {http: [\"http://192.0.2.5:8080\"]}",
            "edge.yaml:6: hosts: the list is empty; write [\"*\"] for every host",
        ]
    );
}

#[test]
fn an_unknown_key_is_told_the_nearest_known_one() {
    let fixture = Fixture::new();
    for (lines, fault) in [
        ("worker: 2", "edge.yaml:3: unknown key `worker`; write `workers`"),
        ("Workers: 2", "edge.yaml:3: unknown key `Workers`; write `workers`"),
        ("tls: {cipher: {}}", "edge.yaml:3: unknown key `cipher`; write `ciphers`"),
        ("tls: {key-log: keys.txt}", "edge.yaml:3: unknown key `key-log`; write `key_log`"),
        ("limits:\n  head_dedline: 5s", "edge.yaml:4: unknown key `head_dedline`; write `head_deadline`"),
        ("limits:\n  haed_bytes: 8KiB", "edge.yaml:4: unknown key `haed_bytes`; write `head_bytes`"),
    ] {
        assert_eq!(fixture.faults(&around(lines)), [fault], "{lines}");
    }
}

#[test]
fn a_key_in_the_wrong_section_is_told_its_home() {
    let fixture = Fixture::new();
    for (lines, fault) in [
        ("chacha20: never", "edge.yaml:3: unknown key `chacha20`; it belongs to `tls.ciphers`"),
        ("tls: {send_buffer: 1MiB}", "edge.yaml:3: unknown key `send_buffer`; it belongs to `listeners`"),
        ("limits: {workers: 1}", "edge.yaml:3: unknown key `workers`; it belongs to the top level"),
        ("index: a.html", "edge.yaml:3: unknown key `index`; it belongs to `sites` or `sites.routes`"),
        (
            "directory: /srv",
            "edge.yaml:3: unknown key `directory`; it belongs to `tls.certificates` or `tls.acme` or \
             `tls.tickets` or `tls.ech` or `sites.origin` or `cache.memory` or `cache.disk` or `log.qlog`",
        ),
    ] {
        assert_eq!(fixture.faults(&around(lines)), [fault], "{lines}");
    }
}

#[test]
fn a_key_that_resembles_nothing_is_told_what_there_is() {
    assert_eq!(
        Fixture::new().faults(&around("log: {colour: red}")),
        ["edge.yaml:3: unknown key `colour`; write one of: access, ja4, qlog"]
    );
    assert_eq!(
        Fixture::new().faults(&around("log: {format: combined}")),
        ["edge.yaml:3: unknown key `format`; it belongs to `sites.tokens` or `log.access`"]
    );
}

#[test]
fn keys_inside_an_unknown_key_are_not_checked() {
    let text = around("nginx:\n  worker_processes: [1, {a: b}]\n  x: *");
    // The lone star is a fault of YAML itself, wherever it stands; without it only the key remains.
    assert_eq!(
        Fixture::new().faults(&text.replace("*", "y")),
        [
            "edge.yaml:3: unknown key `nginx`; write one of: include, workers, affinity, user, listeners, tls, sites, cache, \
          cluster, fleet, admin, log, metrics, limits"
        ]
    );
}

#[test]
fn faults_of_http_origins_say_what_to_write() {
    let fixture = Fixture::new();
    for (site, fault) in [
        (
            "origin: {http: [\"192.0.2.5:8080\"]}",
            "http: `192.0.2.5:8080` does not begin with http:// or https://; write http://192.0.2.5:8080",
        ),
        (
            "origin: {http: [\"ftp://origin\"]}",
            "http: `ftp://origin` does not begin with http:// or https://; write a URL such as \
             http://192.0.2.5:8080 or https://origin.example.com/vod",
        ),
        ("origin: {http: [{weight: 2}]}", "http: this server has no url; add url: http://192.0.2.5:8080"),
        (
            "origin: {http: [{url: \"http://a\", weight: 0}]}",
            "weight: 0 is out of range; write a number from 1 to 1000",
        ),
        (
            "origin: {directory: video, retries: 1}",
            "retries: a directory has none; remove it, or write http: [...]",
        ),
        (
            "origin: {http: [\"http://a\"], ca: ec.crt}",
            "ca: none of these servers speaks https; remove it, or write https://",
        ),
        (
            "origin: {http: [\"https://a\"], ca: text.pem}",
            "ca: DIR/text.pem holds no certificate; write a PEM file with -----BEGIN CERTIFICATE-----",
        ),
        (
            "origin: {http: [\"http://a\"], host: \"a b\"}",
            "host: `a b` is not a host name; write a name such as origin.example.com",
        ),
        (
            "origin: {http: [\"http://a\"], timeouts: {connect: 1h}}",
            "connect: 1h is out of range; write a time from 10ms to 10m",
        ),
        (
            "origin: {http: [\"http://a\"], health: {interval: 5s}}",
            "interval: there are no checks without a path; add path: /healthz, or remove it",
        ),
        (
            "origin: {http: [\"http://a\"], health: {path: healthz}}",
            "path: `healthz` is not a path; write a path such as /healthz",
        ),
        ("origin: {http: [\"http://a\"], health: {pat: /x}}", "unknown key `pat`; write `path`"),
        ("origin: {http: []}", "http: the list is empty; write [\"http://192.0.2.5:8080\"]"),
        ("origin: {http: [\"http://a\", \"http://a\"]}", "http: http://a is listed twice; keep one of them"),
        (
            "origin: {directory: video, http: [\"http://a\"]}",
            "http: this origin has a directory already; keep one of them, or make two sites",
        ),
        (
            "{origin: {directory: video}, cache: {default_ttl: 60s}}",
            "cache: files of a directory are not cached, the system keeps them in memory by itself; remove it, \
             or write origin: {http: [...]}",
        ),
        (
            "{origin: {http: [\"http://a\"]}, cache: {default_ttl: 2 years}}",
            "default_ttl: `years` is not a unit of time; write ms, s, m, h or d, such as 2s",
        ),
    ] {
        let text = format!("listeners: [{{address: 127.0.0.1:0}}]\nsites:\n  - {site}\n");
        assert_eq!(fixture.faults(&text), [format!("edge.yaml:3: {fault}")], "{site}");
    }
}

#[test]
fn faults_of_the_cache_say_what_to_write() {
    let fixture = Fixture::new();
    for (lines, fault) in [
        ("cache: {slice: 100000}", "slice: 100000 is not a multiple of 4KiB; write 100KiB"),
        ("cache: {slice: 1KiB}", "slice: 1KiB is out of range; write a size from 64KiB to 16MiB"),
        (
            "cache: {slice: 1MiB, memory: {size: 1MiB}}",
            "size: 1MiB is out of range; write a size from 16MiB to 4TiB",
        ),
    ] {
        assert_eq!(fixture.faults(&around(lines)), [format!("edge.yaml:3: {fault}")], "{lines}");
    }
}

#[test]
fn a_fault_of_yaml_is_the_only_fault_and_has_its_line() {
    let fixture = Fixture::new();
    for (lines, fault) in [
        (
            "workers: 1\nworkers: 2",
            "edge.yaml:4: `workers` is written twice in this section; keep one of them",
        ),
        (
            "tls: {versions: 1.3}",
            "edge.yaml:3: versions: a list belongs here; write [first, second], or a line `- item` for each",
        ),
        (
            "tls: quick",
            "edge.yaml:3: tls: a section of keys belongs here; write a line `key: value` for each, indented alike",
        ),
        (
            "workers: [1]",
            "edge.yaml:3: workers: a single value belongs here; write a word, a number or a quoted text",
        ),
        (
            "tls:\n  versions:\n  # both\n  - [1.2]",
            "edge.yaml:6: versions: a single value belongs here; write a word, a number or a quoted text",
        ),
        ("tls: {groups: [~]}", "edge.yaml:3: a value is missing here; write one or remove the item"),
        (
            "---\nworkers: 1",
            "edge.yaml:4: a second document begins here; remove `---` and what follows, or merge it",
        ),
        (
            "tls: {groups: [}",
            "edge.yaml:3: this is not valid YAML: mismatched bracket '[' closed by '}'; close each [ and { , and \
             separate items with commas",
        ),
        (
            "log:\n  access: a\n bad: b",
            "edge.yaml:5: this is not valid YAML: while parsing a block mapping, did not find expected key; check the \
             indentation of this line and of the one before it: keys of one section start in one column",
        ),
        (
            "tls:\n  groups:\n    a: b",
            "edge.yaml:5: groups: a list belongs here; write [first, second], or a line `- item` for each",
        ),
        (
            "log:\n\taccess: a",
            "edge.yaml:4: this is not valid YAML: tabs disallowed within this context (block indentation); \
             indent with spaces: YAML does not allow tabs",
        ),
    ] {
        assert_eq!(fixture.faults(&around(lines)), [fault], "{lines}");
    }
}

#[test]
fn nesting_is_bounded_before_the_stack_is() {
    let fixture = Fixture::new();
    let brackets = format!("sites: {}{}\n", "[".repeat(3000), "]".repeat(3000));
    let faults = fixture.faults(&brackets);
    assert!(
        faults.len() == 1 && faults[0].ends_with("brackets or indentation that are too many"),
        "{faults:?}"
    );
}

#[test]
fn a_bare_star_is_told_to_be_quoted() {
    let fixture = Fixture::new();
    for (hosts, word) in
        [("[*]", "*"), ("[*.example.com, b]", "*.example.com"), ("\n  - a\n  - *.b.c # x", "*.b.c")]
    {
        let line = 2 + hosts.matches('\n').count();
        let text = format!("sites:\n- hosts: {hosts}\n");
        let wanted = format!(
            "edge.yaml:{line}: `{word}` has a meaning of its own in YAML; write it in quotes: \"{word}\""
        );
        assert_eq!(fixture.faults(&text), [wanted], "{hosts}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_one_fault_without_a_line() {
    let fixture = Fixture::new();
    let load = |name: &str| fixture.shown(&Config::load(&fixture.path().join(name)).unwrap_err());
    assert_eq!(
        load("none.yaml"),
        ["none.yaml: this file does not exist; write the path of a configuration file after -c"]
    );
    assert_eq!(
        load("video"),
        ["video: this is a directory; write the path of a configuration file after -c"]
    );
    std::fs::write(fixture.path().join("latin.yaml"), b"workers: \xe9\n").unwrap();
    assert_eq!(load("latin.yaml"), ["latin.yaml: this file is not text in UTF-8; save it in that encoding"]);
    std::fs::File::create(fixture.path().join("huge.yaml")).unwrap().set_len(1 << 30).unwrap();
    assert_eq!(
        load("huge.yaml"),
        ["huge.yaml: this file is larger than 4MiB; write the path of a configuration file after -c"]
    );
}

#[test]
fn aliases_that_multiply_are_refused_rather_than_expanded() {
    let mut text = String::from("a: &a [x,x,x,x,x,x,x,x,x]\n");
    for (name, before) in ('b'..='j').zip('a'..) {
        let items = vec![format!("*{before}"); 9].join(",");
        text += &format!("{name}: &{name} [{items}]\n");
    }
    let faults = Fixture::new().faults(&text);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].contains("budget"), "{faults:?}");
}

#[test]
fn certificates_of_clients_need_an_authority_and_a_known_mode() {
    let fixture = Fixture::new();
    let sign = "the authorities that sign clients";
    for (written, fault) in [
        (
            "{mode: optional}",
            format!("client_certificates: no authority is named; add ca: FILE.pem with {sign}"),
        ),
        ("{ca: no.pem}", format!("ca: DIR/no.pem does not exist; write the path of a PEM file with {sign}")),
        (
            "{ca: text.pem}",
            "ca: DIR/text.pem holds no certificate; write a PEM file with -----BEGIN CERTIFICATE-----"
                .to_owned(),
        ),
        (
            "{ca: broken.crt}",
            format!("ca: DIR/broken.crt holds a broken certificate; write a PEM file with {sign}"),
        ),
        (
            "{ca: ec.crt, crl: no.pem}",
            "crl: DIR/no.pem does not exist; write the path of a PEM file with lists of revoked certificates"
                .to_owned(),
        ),
        (
            "{ca: ec.crt, crl: ec.crt}",
            "crl: DIR/ec.crt holds no list of revoked certificates; write a PEM file with \
             -----BEGIN X509 CRL-----"
                .to_owned(),
        ),
        (
            "{ca: ec.crt, crl: broken.crl}",
            "crl: DIR/broken.crl holds a broken list; write a PEM file with lists of revoked certificates"
                .to_owned(),
        ),
        ("{ca: ec.crt, mode: require}", "mode: `require` is unknown; write optional or required".to_owned()),
    ] {
        let faults = fixture.faults(&around(&format!("tls: {{client_certificates: {written}}}")));
        assert_eq!(faults, [format!("edge.yaml:3: {fault}")], "{written}");
    }
    let read = |lines: &str| fixture.read(&around(lines)).unwrap().tls.client_certificates.is_some();
    assert!(read("tls: {client_certificates: {ca: ec.crt, mode: optional}}"));
    assert!(!read("tls: {}"));
}

#[test]
fn a_directory_of_certificates_has_no_chain_key_or_default_of_its_own_and_must_be_there() {
    let fixture = Fixture::new();
    for (entry, faults) in [
        (
            "{directory: nowhere}",
            vec!["directory: DIR/nowhere does not exist; make that directory or write the path of another"],
        ),
        (
            "{directory: video, key: ec.key}",
            vec!["key: a directory has none of its own; move it to an entry of its own, without directory"],
        ),
        (
            "{directory: video, default: true}",
            vec![
                "default: a directory has none of its own; move it to an entry of its own, without directory",
            ],
        ),
    ] {
        let faults: Vec<String> = faults.iter().map(|fault| format!("edge.yaml:3: {fault}")).collect();
        assert_eq!(fixture.faults(&around(&format!("tls: {{certificates: [{entry}]}}"))), faults, "{entry}");
    }
    // An empty one may be filled later.
    let text = around("tls: {certificates: [{directory: video}]}");
    let warnings = fixture.shown(&fixture.read(&text).unwrap().warnings);
    assert!(warnings[0].contains("directory: DIR/video holds no certificate"), "{warnings:?}");
}
