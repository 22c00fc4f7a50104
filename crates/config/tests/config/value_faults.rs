//! Faults of values: units, ranges, addresses, hosts, files, certificates.

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use penstock_config::{Config, Environment};

use crate::fixture::{Fixture, around};

#[test]
fn wrong_units_and_ranges_name_the_key() {
    let fixture = Fixture::new();
    for (lines, fault) in [
        ("limits: {head_bytes: 16k}", "head_bytes: `k` is not a unit of size; write 16KiB"),
        (
            "limits: {head_deadline: 10}",
            "head_deadline: `10` is a time without a unit; write 10s for seconds or 10ms for milliseconds",
        ),
        ("limits: {idle_timeout: 5min}", "idle_timeout: `min` is not a unit of time; write 5m"),
        (
            "limits: {head_deadline: 12h}",
            "head_deadline: 12h is out of range; write a time from 100ms to 10m",
        ),
        ("limits: {head_bytes: 4GiB}", "head_bytes: 4GiB is out of range; write a size from 1KiB to 1MiB"),
        ("limits: {connections: 0}", "connections: 0 is out of range; write a number from 1 to 4294967295"),
        (
            "limits: {connections: -5}",
            "connections: `-5` is not a whole number; write a number from 1 to 4294967295",
        ),
        (
            "limits: {handshake_rate: often}",
            "handshake_rate: `often` is not a whole number; write a number from 0 to 4294967295",
        ),
        (
            "admin: {address: \"unix:\"}",
            "address: `unix:` is not the path of a socket; write at most 107 bytes, such as unix:/run/penstock/admin.sock",
        ),
        ("admin: {mode: \"0777\"}", "mode: `0777` is no mode; write 0600, or 0660 for the group too"),
        ("limits: {head_fields: 129}", "head_fields: 129 is out of range; write a number from 1 to 128"),
        (
            "limits: {target_bytes: 16KiB}",
            "target_bytes (16384) must be less than head_bytes (16384); write a smaller target_bytes or a larger \
             head_bytes",
        ),
        ("affinity: yes", "affinity: `yes` is neither true nor false; write true"),
        ("affinity: off", "affinity: `off` is neither true nor false; write false"),
        ("affinity: maybe", "affinity: `maybe` is neither true nor false; write true or false"),
        ("workers: two", "workers: `two` is not a number of workers; write auto or a number from 1 to 1024"),
        (
            "workers: 1025",
            "workers: `1025` is not a number of workers; write auto or a number from 1 to 1024",
        ),
    ] {
        assert_eq!(fixture.faults(&around(lines)), [format!("edge.yaml:3: {fault}")], "{lines}");
    }
}

#[test]
fn http_3_needs_a_version_that_names_it_and_knows_no_proxy_header() {
    let fixture = Fixture::new();
    for (listener, fault) in [
        ("protocols: [h3]", "protocols: h3 alone is found by no client; write [h1, h2, h3]"),
        (
            "protocols: [h1, h3], proxy_protocol: true",
            "protocols: h3 has no PROXY header; leave out h3, or proxy_protocol",
        ),
    ] {
        let text = format!(
            "listeners: [{{address: 127.0.0.1:8443, tls: true, {listener}}}]\n\
             tls: {{certificates: [{{chain: ec.crt, key: ec.key}}]}}\n\
             sites: [{{origin: {{directory: video}}}}]\n"
        );
        assert_eq!(fixture.faults(&text), [format!("edge.yaml:1: {fault}")], "{listener}");
    }
    let old = "listeners: [{address: 127.0.0.1:8443, tls: true, protocols: [h1, h3]}]\n\
               tls: {certificates: [{chain: ec.crt, key: ec.key}], versions: [\"1.2\"]}\n\
               sites: [{origin: {directory: video}}]\n";
    let fault = "edge.yaml:1: protocols: h3 needs TLS 1.3; add \"1.3\" to tls.versions, or leave h3 out";
    assert_eq!(fixture.faults(old), [fault]);
}

#[test]
fn protocols_are_told_how_to_be_written() {
    let fixture = Fixture::new();
    for (protocols, fault) in [
        ("[]", "protocols: the list is empty; write [h1, h2]"),
        ("[h1, h1]", "protocols: h1 is listed twice; keep one of them"),
        ("[http/1.1]", "protocols: `http/1.1` is unknown; write h1"),
        ("[h1, h2c]", "protocols: `h2c` is unknown; write h2"),
        ("[h1, h4]", "protocols: `h4` is unknown; write h1, h2 or h3"),
        ("[h1, http/3]", "protocols: `http/3` is unknown; write h3"),
        ("[h1, h3]", "protocols: h3 needs TLS; write tls: true, or leave h3 out"),
    ] {
        let text = format!(
            "listeners: [{{address: 127.0.0.1:8080, protocols: {protocols}}}]\nsites: [{{origin: {{directory: video}}}}]\n"
        );
        assert_eq!(fixture.faults(&text), [format!("edge.yaml:1: {fault}")], "{protocols}");
    }
}

#[test]
fn addresses_are_told_how_to_be_written() {
    let fixture = Fixture::new();
    for (address, instead) in [
        ("443", "write 0.0.0.0:443"),
        (":443", "write 0.0.0.0:443 or \"[::]:443\""),
        ("\"*:443\"", "write 0.0.0.0:443 or \"[::]:443\""),
        ("localhost:8443", "write 127.0.0.1:8443 or \"[::1]:8443\""),
        ("192.0.2.1", "write 192.0.2.1:443"),
        ("\"::1\"", "write \"[::1]:443\""),
        ("example.com:443", "write an IP address and a port, such as 0.0.0.0:443 or \"[::]:443\""),
        ("192.0.2.1:70000", "write an IP address and a port, such as 0.0.0.0:443 or \"[::]:443\""),
    ] {
        let text = format!("listeners:\n- address: {address}\nsites: [{{origin: {{directory: video}}}}]\n");
        let bare = address.trim_matches('"');
        let wanted = format!("edge.yaml:2: address: `{bare}` is not an IP address with a port; {instead}");
        assert_eq!(fixture.faults(&text), [wanted], "{address}");
    }
}

#[test]
fn an_address_can_be_used_once() {
    let text = "\
listeners:
  - address: 0.0.0.0:443
  - address: 127.0.0.1:443
  - address: 0.0.0.0:443
  - address: 127.0.0.1:0
  - address: 127.0.0.1:0
sites: [{origin: {directory: video}}]
admin: {address: 127.0.0.1:443}
";
    assert_eq!(
        Fixture::new().faults(text),
        [
            "edge.yaml:3: address: 127.0.0.1:443 overlaps with 0.0.0.0:443 on line 2, and the system gives a port once; \
             write another port, or in place of 0.0.0.0:443 each address that is to have it",
            "edge.yaml:4: address: 0.0.0.0:443 is already used on line 2; write another port or remove one of them",
            "edge.yaml:8: admin.address: 127.0.0.1:443 is already used on line 3; write another port or remove \
             one of them",
        ]
    );
}

#[test]
fn an_address_of_every_interface_overlaps_with_each_of_its_family_and_port() {
    let of = |address: &str, admin: &str| {
        format!(
            "listeners: [{{address: \"{address}\"}}]\nsites: [{{origin: {{directory: video}}}}]\n\
             admin: {{address: \"{admin}\"}}\n"
        )
    };
    let fixture = Fixture::new();
    for (address, admin) in
        [("127.0.0.1:443", "0.0.0.0:443"), ("0.0.0.0:443", "127.0.0.1:443"), ("[::]:443", "[::1]:443")]
    {
        let faults = fixture.faults(&of(address, admin));
        let wanted = format!("edge.yaml:3: admin.address: {admin} overlaps with {address} on line 1");
        assert!(faults.len() == 1 && faults[0].starts_with(&wanted), "{faults:?}");
    }
    for (address, admin) in [
        ("0.0.0.0:443", "[::1]:443"),
        ("0.0.0.0:443", "127.0.0.1:80"),
        ("0.0.0.0:0", "127.0.0.1:0"),
        ("127.0.0.2:443", "127.0.0.1:443"),
    ] {
        assert!(fixture.read(&of(address, admin)).is_ok(), "{address} {admin}");
    }
    // The system refuses these when they are opened.
    let mapped = |line: u32, key: &str| {
        format!(
            "edge.yaml:{line}: {key}: [::ffff:127.0.0.1]:80 is an address of IPv4 in the form of IPv6, which cannot be opened; \
             write 127.0.0.1:80"
        )
    };
    assert_eq!(
        fixture.faults(&of("[::ffff:127.0.0.1]:80", "[::ffff:127.0.0.1]:80")),
        [mapped(1, "address"), mapped(3, "admin.address")]
    );
}

#[test]
fn socket_options_have_ranges() {
    let text = "\
listeners:
  - address: 127.0.0.1:80
    send_buffer: 4M
    receive_buffer: 2GiB
    unsent_low_water: much
    congestion_control: BBR v3
    fast_open: -1
    defer_accept: 10m
    backlog: 0
    proxy_protocol: v2
    health: /up?x
sites: [{origin: {directory: video}}]
";
    assert_eq!(
        Fixture::new().faults(text),
        [
            "edge.yaml:3: send_buffer: `M` is not a unit of size; write 4MiB",
            "edge.yaml:4: receive_buffer: 2GiB is out of range; write a size from 0 to 1GiB",
            "edge.yaml:5: unsent_low_water: `much` is not a size; write a whole number with KiB, MiB or GiB, such as \
             64KiB",
            "edge.yaml:6: congestion_control: `BBR v3` is no name of an algorithm; write one of \
             net.ipv4.tcp_available_congestion_control, such as bbr",
            "edge.yaml:7: fast_open: `-1` is not a whole number; write a number from 0 to 1048576",
            "edge.yaml:8: defer_accept: 10m is out of range; write a time from 0 to 5m",
            "edge.yaml:9: backlog: 0 is out of range; write a number from 1 to 1048576",
            "edge.yaml:10: proxy_protocol: `v2` is neither true nor false; write true or false",
            "edge.yaml:11: health: `/up?x` is not a path; write a path such as /healthz",
        ]
    );
}

#[test]
fn a_tls_listener_needs_a_certificate() {
    let text = "listeners:\n- {address: 127.0.0.1:443, tls: true}\nsites: [{origin: {directory: video}}]\n";
    let fault = "edge.yaml:2: tls: this listener needs a certificate and there is none; add tls: {certificates: \
                 [{chain: FILE, key: FILE}]} or tls: {acme: {agree_to_terms: true}}, or write tls: false";
    assert_eq!(Fixture::new().faults(text), [fault]);
}

#[test]
fn certificates_and_keys_must_be_there_and_belong_together() {
    let fixture = Fixture::new();
    for (certificate, fault) in [
        ("{key: ec.key}", "this certificate has no chain; add chain: FILE.pem"),
        ("{chain: ec.crt}", "this certificate has no key; add key: FILE.pem"),
        (
            "{chain: none.crt, key: ec.key}",
            "chain: DIR/none.crt does not exist; write the path of a PEM file with the certificate",
        ),
        (
            "{chain: ec.crt, key: none.key}",
            "key: DIR/none.key does not exist; write the path of a PEM file with the private key",
        ),
        (
            "{chain: video, key: ec.key}",
            "chain: DIR/video is a directory; write the path of a PEM file with the certificate",
        ),
        (
            "{chain: ec.crt, key: ec.crt/key}",
            "key: DIR/ec.crt/key cannot be read (Not a directory (os error 20)); write the path of a PEM file with \
             the private key",
        ),
        (
            "{chain: /dev/zero, key: ec.key}",
            "chain: /dev/zero is not a regular file; write the path of a PEM file",
        ),
        (
            "{chain: ec.crt, key: huge.pem}",
            "key: DIR/huge.pem is larger than 1MiB; write the path of a PEM file",
        ),
        (
            "{chain: text.pem, key: ec.key}",
            "chain: DIR/text.pem holds no certificate; write a PEM file with -----BEGIN CERTIFICATE-----",
        ),
        (
            "{chain: broken.crt, key: ec.key}",
            "chain: DIR/broken.crt holds a broken certificate; write a PEM file: the certificate, then its \
             intermediates",
        ),
        (
            "{chain: ec.crt, key: text.pem}",
            "key: DIR/text.pem is not a private key in PEM without a password; write a PEM file with -----BEGIN \
             PRIVATE KEY-----",
        ),
        (
            "{chain: ec.crt, key: other.key}",
            "key: DIR/other.key does not belong to the certificate in DIR/ec.crt; write the key this certificate \
             was issued for",
        ),
    ] {
        let text = around(&format!("tls: {{certificates: [{certificate}]}}"));
        assert_eq!(fixture.faults(&text), [format!("edge.yaml:3: {fault}")], "{certificate}");
    }
}

#[test]
fn only_one_certificate_of_each_kind_of_key_can_be_the_default() {
    let lines = "tls:\n  certificates:\n    - {chain: ec.crt, key: ec.key, default: true}\n    \
                 - {chain: other.crt, key: other.key, default: true}";
    assert_eq!(
        Fixture::new().faults(&around(lines)),
        [
            "edge.yaml:6: default: the certificate on line 5 is already the default for ecdsa keys; keep one of them; without any, \
          the first of each kind of key answers"
        ]
    );
}

#[test]
fn a_certificate_that_has_expired_or_will_soon_is_a_warning() {
    let fixture = Fixture::new();
    let text = around("tls: {certificates: [{chain: old.crt, key: old.key}]}");
    let at = |days: u64| {
        let now = UNIX_EPOCH + Duration::from_secs(days * 86_400 + 3600);
        fixture.shown(&Config::from_text_in(&text, &fixture.file(), &Environment::at(now)).unwrap().warnings)
    };
    // 18262 days after 1970 begins 2020.
    assert_eq!(at(18_247), Vec::<String>::new());
    let soon = "edge.yaml:3: chain: the certificate in DIR/old.crt expires in 13 days; \
                renew it: clients will refuse it then";
    assert_eq!(at(18_248), [soon]);
    assert_eq!(
        at(18_262),
        ["edge.yaml:3: chain: the certificate in DIR/old.crt expired today; renew it: clients refuse it"]
    );
    assert_eq!(
        at(18_272),
        [
            "edge.yaml:3: chain: the certificate in DIR/old.crt expired 10 days ago; renew it: clients refuse it"
        ]
    );
}

#[test]
fn a_key_log_is_a_warning() {
    let fixture = Fixture::new();
    let config = fixture.read(&around("tls: {key_log: keys.txt}")).unwrap();
    assert_eq!(
        fixture.shown(&config.warnings),
        ["edge.yaml:3: key_log: a reader of DIR/keys.txt can decrypt all traffic; remove it after debugging"]
    );
}

#[test]
fn tls_words_are_told_what_there_is() {
    let fixture = Fixture::new();
    for (tls, fault) in [
        ("versions: [\"2\"]", "versions: `2` is not a version of TLS; write \"1.2\" or \"1.3\""),
        ("versions: []", "versions: the list is empty; write [\"1.2\", \"1.3\"]"),
        ("kernel: maybe", "kernel: `maybe` is unknown; write auto, on or off"),
        ("groups: [x25519]", "groups: `x25519` is unknown; write X25519"),
        ("groups: [secp256r1]", "groups: `secp256r1` is unknown; write P-256"),
        (
            "groups: [brainpool]",
            "groups: `brainpool` is unknown; write X25519MLKEM768, X25519, P-256 or P-384",
        ),
        ("hello_retry: never", "hello_retry: `never` is unknown; write needed or best"),
        ("groups: [P-256, P-256]", "groups: P-256 is listed twice; keep one of them"),
        ("groups: []", "groups: the list is empty; write [X25519MLKEM768, X25519, P-256] or remove the key"),
        ("ciphers: {chacha20: yes}", "chacha20: `yes` is unknown; write client, never or auto"),
        (
            "ciphers: {tls13: [TLS_AES_128_GCM_SHA265]}",
            "tls13: `TLS_AES_128_GCM_SHA265` is not a supported suite: those have forward secrecy and AES-GCM or \
             ChaCha20-Poly1305; write TLS_AES_128_GCM_SHA256",
        ),
        (
            "ciphers: {tls13: [quick]}",
            "tls13: `quick` is not a supported suite: those have forward secrecy and AES-GCM or ChaCha20-Poly1305; write one of: TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384, \
             TLS_CHACHA20_POLY1305_SHA256",
        ),
        (
            "ciphers: {tls12: [TLS_AES_128_GCM_SHA256]}",
            "tls12: TLS_AES_128_GCM_SHA256 is not a suite of this version; move it to tls13",
        ),
        (
            "ciphers: {tls12: [ECDHE-RSA-AES128-SHA256]}",
            "tls12: `ECDHE-RSA-AES128-SHA256` is not a supported suite: those have forward secrecy and AES-GCM or \
             ChaCha20-Poly1305; write ECDHE-RSA-AES128-GCM-SHA256",
        ),
        (
            "ciphers: {tls12: [TLS_RSA_WITH_AES_128_GCM_SHA256]}",
            "tls12: `TLS_RSA_WITH_AES_128_GCM_SHA256` is not a supported suite: those have forward secrecy and AES-GCM or \
             ChaCha20-Poly1305; write TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        ),
        (
            "ciphers: {tls12: [ECDHE-RSA-AES128-GCM-SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]}",
            "tls12: TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is listed twice; keep one of them",
        ),
        (
            "ciphers: {tls12: []}",
            "tls12: the list is empty; remove the key; to leave a version of TLS out, write tls.versions",
        ),
        (
            "early_data: {max_bytes: 16KiB}",
            "max_bytes: the TLS library ends connections with more than 14336 bytes; write 14KiB or less",
        ),
        ("early_data: {max_bytes: 0}", "max_bytes: 0 takes no early data; remove early_data to turn it off"),
        ("early_data: {anti_replay: yes}", "anti_replay: `yes` is neither true nor false; write true"),
        (
            "session_cache: shared",
            "session_cache: `shared` is unknown; write internal, none or {valkey: true}",
        ),
        ("tickets: {rotate: 0}", "rotate: 0 is out of range; write a time from 1s to 7d"),
        ("tickets: {keep: 0}", "keep: 0 is out of range; write a number from 1 to 64"),
        (
            "tickets: {rotate: 3d}",
            "rotate times keep is more than 7 days, the longest a ticket may live (RFC 8446 section 4.6.1); rotate \
             more often or keep fewer keys",
        ),
    ] {
        let text = around(&format!("tls: {{{tls}}}"));
        assert_eq!(fixture.faults(&text), [format!("edge.yaml:3: {fault}")], "{tls}");
    }
}

#[test]
fn directories_must_be_directories() {
    let fixture = Fixture::new();
    for (directory, fault) in [
        ("nowhere", "DIR/nowhere does not exist; make that directory or write the path of another"),
        ("ec.crt", "DIR/ec.crt is not a directory; write the path of a directory"),
        (
            "/nowhere/at/all",
            "/nowhere/at/all does not exist; make that directory or write the path of another",
        ),
    ] {
        let text =
            format!("listeners: [{{address: 127.0.0.1:80}}]\nsites:\n- origin: {{directory: {directory}}}\n");
        assert_eq!(fixture.faults(&text), [format!("edge.yaml:3: directory: {fault}")]);
    }
}

#[test]
fn files_to_be_written_need_their_directory() {
    let fixture = Fixture::new();
    for (lines, fault) in [
        (
            "log: {access: logs/access.jsonl}",
            "access: DIR/logs does not exist; make that directory or write another file",
        ),
        ("log: {access: video}", "access: DIR/video is a directory; write the name of a file"),
        (
            "log: {access: ec.crt/access.jsonl}",
            "access: DIR/ec.crt is not a directory; make that directory or write another file",
        ),
    ] {
        assert_eq!(fixture.faults(&around(lines)), [format!("edge.yaml:3: {fault}")], "{lines}");
    }
}

#[test]
fn hosts_are_told_how_to_be_written() {
    let fixture = Fixture::new();
    let long = "a".repeat(64);
    for (host, fault) in [
        ("https://a.example.com/x", "is a URL; write a.example.com"),
        ("a.example.com:443", "has a port; write a.example.com: a site answers on every listener"),
        ("*example.com", "has a `*` inside; write *.example.com for one label, or \"*\" for all"),
        ("a.*.com", "has a `*` inside; write *.example.com for one label, or \"*\" for all"),
        ("bücher.example", "is not in ASCII; write the form that begins with xn--"),
        ("a..b", "is not a host name; write a name such as video.example.com"),
        ("a b", "is not a host name; write a name such as video.example.com"),
        ("", "is not a host name; write a name such as video.example.com"),
        ("*.", "has a `*` inside; write *.example.com for one label, or \"*\" for all"),
        ("*..a", "is not a host name; write a name such as video.example.com"),
        (&long, "is not a host name; write a name such as video.example.com"),
    ] {
        let text = format!(
            "listeners: [{{address: 127.0.0.1:80}}]\nsites:\n- {{origin: {{directory: video}}, hosts: [\"{host}\"]}}\n"
        );
        assert_eq!(fixture.faults(&text), [format!("edge.yaml:3: hosts: `{host}` {fault}")]);
    }
}

#[test]
fn a_host_belongs_to_one_site() {
    let text = "\
listeners: [{address: 127.0.0.1:80}]
sites:
  - {hosts: [a.example.com, \"*.example.com\"], origin: {directory: video}}
  - {hosts: [A.Example.COM.], origin: {directory: video}}
  - {origin: {directory: video}}
  - {hosts: [\"*\"], origin: {directory: video}}
";
    assert_eq!(
        Fixture::new().faults(text),
        [
            "edge.yaml:4: hosts: `A.Example.COM.` is already defined on line 3; remove one of them or write another host",
            "edge.yaml:6: hosts: `*` is already defined on line 5; remove one of them or write another host",
        ]
    );
}

#[test]
fn headers_and_index_are_checked() {
    let fixture = Fixture::new();
    for (site, fault) in [
        (
            "headers: {hsts: forever}",
            "hsts: `forever` is not a time; write a whole number with ms, s, m, h or d, \
          such as 30s",
        ),
        ("headers: {hsts: 9999d}", "hsts: 9999d is out of range; write a time from 0 to 3650d"),
        ("headers: {hsts: {preload: false}}", "hsts: it has no max_age; add max_age: 180d"),
        (
            "headers: {hsts: {max_age: 1d, sub: 1d}}",
            "unknown key `sub`; write one of: max_age, include_subdomains, preload",
        ),
        (
            "headers: {hsts: {max_age: 180d, include_subdomains: true, preload: true}}",
            "preload: browsers build in only sites with include_subdomains and a max_age of a year; write \
             {max_age: 365d, include_subdomains: true, preload: true}, or remove preload",
        ),
        (
            "headers: {cors: example.com}",
            "cors: `example.com` is not an origin; write \"*\" or an origin such as https://player.example.com",
        ),
        (
            "headers: {cors: \"https://a.example.com/\"}",
            "cors: `https://a.example.com/` is not an origin; write https://a.example.com",
        ),
        (
            "headers: {cors: \"https://a\\r\\nX: y\"}",
            "cors: `https://a\\r\\nX: y` is not an origin; write \"*\" or an origin such as \
             https://player.example.com",
        ),
        ("cors: {credentials: true}", "cors: it has no origins; add origins: [https://player.example.com]"),
        (
            "cors: {origins: [\"*\"], credentials: true}",
            "credentials: browsers do not send them to a site that allows all origins; name the origins, or \
             remove credentials",
        ),
        (
            "cors: {origins: [\"*\", \"https://a.example\"]}",
            "origins: `*` is every origin; remove the others or `*`",
        ),
        (
            "cors: {origins: [a.example]}",
            "origins: `a.example` is not an origin; write \"*\" or an origin such as https://player.example.com",
        ),
        (
            "cors: {origins: [\"*\"], allow: [\"a b\"]}",
            "allow: `a b` cannot be the name of a field; write a name such as Authorization",
        ),
        (
            "cors: {origins: [\"*\"]}, headers: {cors: \"*\"}",
            "cors: the site has a section cors as well; keep one of them",
        ),
        ("dot_files: yes", "dot_files: `yes` is unknown; write allow or deny"),
        ("compress: off", "compress: `off` is neither true nor false; write false"),
        ("early_data: on", "early_data: `on` is unknown; write allow or refuse"),
        (
            "index: a/b.html",
            "index: `a/b.html` is not a plain file name; write a name without slashes, such as index.html",
        ),
        (
            "index: \"..\"",
            "index: `..` is not a plain file name; write a name without slashes, such as index.html",
        ),
    ] {
        let text = format!(
            "listeners: [{{address: 127.0.0.1:80}}]\nsites:\n- {{origin: {{directory: video}}, {site}}}\n"
        );
        assert_eq!(fixture.faults(&text), [format!("edge.yaml:3: {fault}")], "{site}");
    }
}

#[test]
fn a_directory_that_is_not_there_cannot_be_served() {
    let fault =
        Config::for_directory(Path::new("/nowhere/at/all"), &[([127, 0, 0, 1], 0).into()], None).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "--root: /nowhere/at/all does not exist; make that directory or write the path of another"
    );
}

#[test]
fn certificate_compression_is_checked() {
    let fixture = Fixture::new();
    for (list, faults) in [
        ("[brotil]", vec!["certificate_compression: `brotil` is unknown; write brotli"]),
        (
            "[gzip, x]",
            vec![
                "certificate_compression: `gzip` is unknown; write brotli, zstd or zlib, or an empty list",
                "certificate_compression: `x` is unknown; write brotli, zstd or zlib, or an empty list",
            ],
        ),
        ("[zlib, zlib]", vec!["certificate_compression: zlib is listed twice; keep one of them"]),
        ("[zstd, zlib, brotli]", vec![]),
        ("[]", vec![]),
    ] {
        let text = around(&format!("tls: {{certificate_compression: {list}}}"));
        let shown = fixture.read(&text).map_or_else(|faults| fixture.shown(&faults), |_| Vec::new());
        let wanted: Vec<String> = faults.iter().map(|fault| format!("edge.yaml:3: {fault}")).collect();
        assert_eq!(shown, wanted, "{list}");
    }
}
