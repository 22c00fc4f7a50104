//! The meaning of right configurations.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::Path;
use std::thread;
use std::time::Duration;

use penstock_config::{
    AdminAddress, Config, Cors, CorsOrigins, EarlyData, EarlyRequests, HandshakeRateLimit, Headers,
    HostPattern, Hsts, KernelTls, Limits, Origin, OriginServer, SessionCache, Tickets, Tls, limits,
};
use penstock_sys::socket::Binding;
use penstock_tls::certificate::Certificate;
use penstock_tls::tickets::TicketPolicy;
use penstock_tls::{ChaCha20, DefaultFor, Group, HttpVersions};

use crate::fixture::{Fixture, around};

#[test]
fn the_least_configuration_has_all_defaults() {
    let fixture = Fixture::new();
    let config = fixture.read(&around("")).unwrap();
    assert_eq!(config.workers, thread::available_parallelism().unwrap());
    assert!(config.affinity);
    let [listener] = &config.listeners[..] else { panic!("one listener: {config:?}") };
    assert_eq!(listener.address, "127.0.0.1:8080".parse().unwrap());
    assert!(!listener.tls && !listener.proxy_protocol);
    assert_eq!(listener.protocols, HttpVersions::H1);
    assert_eq!(listener.socket.binding, Binding::Present);
    assert_eq!(listener.socket.send_buffer, None);
    assert_eq!(listener.socket.receive_buffer, None);
    assert_eq!(listener.socket.unsent_low_water, Some(limits::UNSENT_LOW_WATER_BYTES));
    assert_eq!(listener.socket.congestion_control, None);
    assert_eq!(listener.socket.fast_open, 0);
    assert_eq!(listener.socket.defer_accept, Duration::ZERO);
    assert_eq!(listener.socket.backlog, limits::BACKLOG);
    let [site] = &config.sites[..] else { panic!("one site: {config:?}") };
    assert_eq!(site.hosts, [HostPattern::Any]);
    assert_eq!(site.settings.origin, Origin::Directory(fixture.path().join("video")));
    assert_eq!(site.settings.early_data, EarlyRequests::Allow);
    assert_eq!(site.settings.index, "index.html");
    assert_eq!(site.settings.headers, Headers::default());
    assert_eq!(config.admin, None);
    assert_eq!(config.log.access, None);
    assert_eq!(config.limits, Limits::default());
    assert_eq!(config.tls.certificates.len(), 0);
    assert_eq!(config.warnings, []);
}

#[test]
fn listeners_with_tls_speak_all_versions_and_plain_ones_the_first() {
    let fixture = Fixture::new();
    for (tls, protocols, expected) in [
        ("true", "", HttpVersions::ALL),
        ("true", "proxy_protocol: true, ", HttpVersions::H1_AND_H2),
        ("false", "", HttpVersions::H1),
        ("true", "protocols: [h1], ", HttpVersions::H1),
        ("false", "protocols: [h2, h1], ", HttpVersions::H1_AND_H2),
        ("true", "protocols: [h1, h3], ", HttpVersions { h1: true, h2: false, h3: true }),
        ("true", "protocols: [h1, h2], ", HttpVersions::H1_AND_H2),
        ("true", "protocols: [h1, h2, h3], ", HttpVersions::ALL),
    ] {
        let text = format!(
            "listeners: [{{address: 127.0.0.1:8443, {protocols}tls: {tls}}}]\n\
             tls: {{certificates: [{{chain: ec.crt, key: ec.key}}]}}\n\
             sites: [{{origin: {{directory: video}}}}]\n"
        );
        assert_eq!(fixture.read(&text).unwrap().listeners[0].protocols, expected, "{text}");
    }
}

#[test]
fn a_listener_without_tls_1_3_speaks_no_http3() {
    for (versions, expected) in
        [("[\"1.2\"]", HttpVersions::H1_AND_H2), ("[\"1.2\", \"1.3\"]", HttpVersions::ALL)]
    {
        let text = format!(
            "listeners: [{{address: 127.0.0.1:8443, tls: true}}]\n\
             tls: {{versions: {versions}, certificates: [{{chain: ec.crt, key: ec.key}}]}}\n\
             sites: [{{origin: {{directory: video}}}}]\n"
        );
        assert_eq!(Fixture::new().read(&text).unwrap().listeners[0].protocols, expected, "{versions}");
    }
}

#[test]
fn every_key_of_a_listener_arrives() {
    let text = "\
workers: 3
affinity: false
listeners:
  - address: \"[::1]:8443\"
    tls: true
    protocols: [h2]
    freebind: true
    send_buffer: 4MiB
    receive_buffer: 64KiB
    unsent_low_water: 0
    congestion_control: bbr
    fast_open: 256
    defer_accept: 5s
    backlog: 128
    proxy_protocol: true
    health: /up.txt
tls:
  certificates: [{chain: ec.crt, key: ec.key}]
sites: [{origin: {directory: video}}]
admin: {}
log: {access: access.jsonl}
";
    let fixture = Fixture::new();
    let config = fixture.read(text).unwrap();
    assert_eq!(config.workers, NonZeroUsize::new(3).unwrap());
    assert!(!config.affinity);
    let listener = &config.listeners[0];
    assert_eq!(listener.address, "[::1]:8443".parse().unwrap());
    assert!(listener.tls && listener.proxy_protocol);
    assert_eq!(listener.health.as_deref(), Some("/up.txt"));
    assert_eq!(listener.protocols, HttpVersions { h1: false, h2: true, h3: false });
    assert_eq!(listener.socket.binding, Binding::Free);
    assert_eq!(listener.socket.send_buffer, Some(4 * 1024 * 1024));
    assert_eq!(listener.socket.receive_buffer, Some(64 * 1024));
    assert_eq!(listener.socket.unsent_low_water, None);
    assert_eq!(listener.socket.congestion_control.as_deref(), Some("bbr"));
    assert_eq!(listener.socket.fast_open, 256);
    assert_eq!(listener.socket.defer_accept, Duration::from_secs(5));
    assert_eq!(listener.socket.backlog, 128);
    assert_eq!(config.admin.unwrap().address, "127.0.0.1:9600".parse().unwrap());
    assert_eq!(config.log.access, Some(penstock_config::AccessLog::of(fixture.path().join("access.jsonl"))));
}

#[test]
fn every_key_of_tls_arrives() {
    let lines = "\
tls:
  certificates:
    - {chain: ec.crt, key: ec.key}
    - {chain: other.crt, key: other.key, default: true}
  versions: [\"1.3\"]
  kernel: off
  groups: [P-256, X25519]
  ciphers:
    chacha20: never
    tls13: [TLS_AES_256_GCM_SHA384, tls_aes_128_gcm_sha256]
    tls12: [ECDHE-RSA-AES256-GCM-SHA384, TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256]
  tickets: {rotate: 6h, keep: 5}
  session_cache: none
  early_data: {max_bytes: 4096, anti_replay: false}
  key_log: keys.txt
";
    let fixture = Fixture::new();
    let tls = fixture.read(&around(lines)).unwrap().tls;
    let names: Vec<_> =
        tls.certificates.iter().map(|one| (one.certificate.names().to_vec(), one.default)).collect();
    assert_eq!(
        names,
        [
            (vec!["ec.example.com".to_owned()], DefaultFor::Unmarked),
            (vec!["other.example.com".to_owned()], DefaultFor::Unknown)
        ]
    );
    let (files, _) = tls.certificates[0].files.as_ref().unwrap();
    assert_eq!(files.chain, fixture.path().join("ec.crt"));
    assert_eq!(files.key.path(), Some(fixture.path().join("ec.key").as_path()));
    assert_eq!(tls.oldest, tls.newest);
    assert_eq!(tls.newest, Tls::default().newest);
    assert_eq!(tls.kernel, KernelTls::Off);
    assert_eq!(tls.groups, [Group::P256, Group::X25519]);
    assert_eq!(tls.chacha20, ChaCha20::Never);
    let suites: Vec<_> = tls.suites.iter().map(|suite| suite.number).collect();
    assert_eq!(suites, [0x1302, 0x1301, 0xc030, 0xcca9]);
    assert_eq!(
        tls.early_data,
        Some(EarlyData { max_bytes: 4096, anti_replay: false, ..EarlyData::default() })
    );
    assert_eq!(Tls::default().early_data, None);
    assert_eq!(tls.session_cache, SessionCache::None);
    assert_eq!(Tls::default().session_cache, SessionCache::Internal);
    let rotate = Duration::from_secs(6 * 3600);
    let policy = TicketPolicy { rotate, keep: 5, ..Tickets::default().policy };
    assert_eq!(tls.tickets, Tickets { policy, ..Tickets::default() });
    assert_eq!(tls.key_log, Some(fixture.path().join("keys.txt")));
}

#[test]
fn versions_may_be_written_with_or_without_quotes_in_any_order() {
    let fixture = Fixture::new();
    let default = Tls::default();
    for (written, oldest, newest) in [
        ("[1.3, 1.2]", default.oldest, default.newest),
        ("[\"1.2\"]", default.oldest, default.oldest),
        ("[1.3]", default.newest, default.newest),
    ] {
        let tls = fixture.read(&around(&format!("tls: {{versions: {written}}}"))).unwrap().tls;
        assert_eq!((tls.oldest, tls.newest), (oldest, newest), "{written}");
    }
}

#[test]
fn every_key_of_a_site_arrives() {
    let text = "\
listeners: [{address: 127.0.0.1:80}]
sites:
  - hosts: [Video.Example.COM., \"*.cdn.example.com\", \"[2001:db8:0::1]\", 192.0.2.1]
    origin: {directory: ./video}
    headers: {hsts: 180d, cors: \"https://player.example.com:8443\"}
    index: master.m3u8
    compress: false
    early_data: refuse
  - origin: {directory: video}
    headers: {hsts: 0, cors: \"*\"}
  - hosts: [a.example]
    origin: {directory: video}
    headers: {hsts: {max_age: 365d, include_subdomains: true, preload: true}}
  - hosts: [b.example]
    origin: {directory: video}
    cors: {origins: [\"https://a.example\", \"http://b.example:8080\"], credentials: true, allow: [Authorization], expose: [X-Id], max_age: 1h}
";
    let plain = |days: u64| Hsts {
        max_age: Duration::from_secs(days * 86_400),
        include_subdomains: false,
        preload: false,
    };
    let config = Fixture::new().read(text).unwrap();
    let exact = |name: &str| HostPattern::Exact(name.to_owned());
    assert_eq!(
        config.sites[0].hosts,
        [
            exact("video.example.com"),
            HostPattern::Under("cdn.example.com".to_owned()),
            exact("2001:db8::1"),
            exact("192.0.2.1"),
        ]
    );
    assert_eq!(config.sites[0].settings.index, "master.m3u8");
    assert_eq!((config.sites[0].settings.compress, config.sites[1].settings.compress), (false, true));
    assert_eq!(config.sites[0].settings.early_data, EarlyRequests::Refuse);
    assert_eq!(
        config.sites[0].settings.headers,
        Headers {
            hsts: Some(plain(180)),
            cors: Some(Cors::same("https://player.example.com:8443")),
            ..Headers::default()
        }
    );
    assert_eq!(
        config.sites[1].settings.headers,
        Headers { hsts: Some(plain(0)), cors: Some(Cors::same("*")), ..Headers::default() }
    );
    let longest = Hsts { include_subdomains: true, preload: true, ..plain(365) };
    assert_eq!(
        config.sites[2].settings.headers,
        Headers { hsts: Some(longest), cors: None, ..Headers::default() }
    );
    let cors = Cors {
        origins: CorsOrigins::Listed(
            ["https://a.example", "http://b.example:8080"].map(str::to_owned).into(),
        ),
        credentials: true,
        allow: vec!["Authorization".to_owned()],
        expose: vec!["X-Id".to_owned()],
        max_age: Duration::from_secs(3600),
    };
    assert_eq!(
        config.sites[3].settings.headers,
        Headers { hsts: None, cors: Some(cors), ..Headers::default() }
    );
}

#[test]
fn every_limit_arrives() {
    let lines = "\
limits:
  connections: 10
  connections_per_network: 18
  handshakes_in_flight: 11
  handshakes_per_network: 0
  handshake_rate: 12
  busy_percent: 50
  handshake_deadline: 1s
  head_deadline: 2s
  idle_timeout: 3s
  minimum_rate: 4KiB
  minimum_rate_grace: 5s
  requests_per_connection: 12
  head_bytes: 8KiB
  head_fields: 13
  target_bytes: 1KiB
  body_bytes: 2KiB
  upload_rate: 3KiB
  upload_rate_grace: 7s
  upload_deadline: 8s
  forwarded_per_network: 9
  fetches_per_network: 19
  open_files: 16
  waiters_per_fill: 17
  lame_duck: 20s
  drain_deadline: 0
  successor_start: 90s
";
    let limits = Fixture::new().read(&around(lines)).unwrap().limits;
    let wanted = Limits {
        connections: 10,
        connections_per_network: 18,
        handshakes_in_flight: 11,
        handshakes_per_network: 0,
        handshake_rate: HandshakeRateLimit::PerSecond(NonZeroU32::new(12).unwrap()),
        busy_percent: 50,
        handshake_deadline: Duration::from_secs(1),
        head_deadline: Duration::from_secs(2),
        idle_timeout: Duration::from_secs(3),
        minimum_rate: 4096,
        minimum_rate_grace: Duration::from_secs(5),
        requests_per_connection: 12,
        head_bytes: 8192,
        head_fields: 13,
        target_bytes: 1024,
        body_bytes: 2048,
        upload_rate: 3072,
        upload_rate_grace: Duration::from_secs(7),
        upload_deadline: Duration::from_secs(8),
        forwarded_per_network: 9,
        fetches_per_network: 19,
        open_files: 16,
        waiters_per_fill: 17,
        lame_duck: Duration::from_secs(20),
        drain_deadline: Duration::ZERO,
        successor_start: Duration::from_secs(90),
    };
    assert_eq!(limits, wanted);
}

#[test]
fn a_key_with_nothing_behind_it_means_its_default() {
    let config = Fixture::new().read(&around("workers:\ntls:\nlimits: {connections: }\nlog:\n")).unwrap();
    assert_eq!(config.workers, thread::available_parallelism().unwrap());
    assert_eq!(config.limits, Limits::default());
}

#[test]
fn an_alias_stands_for_what_it_names() {
    let lines = "limits: {head_deadline: &short 2s, handshake_deadline: *short}";
    let limits = Fixture::new().read(&around(lines)).unwrap().limits;
    assert_eq!(
        (limits.head_deadline, limits.handshake_deadline),
        (Duration::from_secs(2), Duration::from_secs(2))
    );
}

#[test]
fn a_file_is_loaded_with_paths_relative_to_it() {
    let fixture = Fixture::new();
    std::fs::write(fixture.file(), around("tls: {certificates: [{chain: ec.crt, key: ec.key}]}")).unwrap();
    let config = Config::load(&fixture.file()).unwrap();
    assert_eq!(config.tls.certificates.len(), 1);
}

#[test]
fn a_fault_of_a_socket_has_the_line_of_its_address() {
    let fixture = Fixture::new();
    let text = "listeners:\n- {address: 127.0.0.1:80}\n- {address: 127.0.0.1:81}\nsites: [{origin: {directory: video}}]\n\
                admin:\n  address: 127.0.0.1:82\n";
    let config = fixture.read(text).unwrap();
    let shown = |port: u16| {
        let fault = config.fault_at(Some(([127, 0, 0, 1], port).into()), "this port is taken".to_owned());
        fixture.shown(&[fault]).remove(0)
    };
    assert_eq!(shown(81), "edge.yaml:3: this port is taken");
    assert_eq!(shown(82), "edge.yaml:6: this port is taken");
    assert_eq!(shown(83), "edge.yaml: this port is taken");
}

#[test]
fn a_directory_alone_is_served_to_every_host() {
    let fixture = Fixture::new();
    let (chain, key) = (fixture.path().join("ec.crt"), fixture.path().join("ec.key"));
    let certificate = Certificate::load(&chain, &key).unwrap();
    let address = ([127, 0, 0, 1], 8443).into();
    let secure = Config::for_directory(fixture.path(), &[address], Some(certificate)).unwrap();
    assert!(secure.listeners[0].tls && secure.tls.certificates[0].default == DefaultFor::Unknown);
    assert_eq!(secure.sites[0].settings.origin, Origin::Directory(fixture.path().to_owned()));
    assert_eq!(secure.sites[0].hosts, [HostPattern::Any]);
    let plain = Config::for_directory(Path::new("."), &[address], None).unwrap();
    assert!(!plain.listeners[0].tls && plain.tls.certificates.is_empty());
    let Origin::Directory(root) = &plain.sites[0].settings.origin else { panic!("it is a directory") };
    assert!(root.is_absolute());
}

#[test]
fn an_http_origin_has_its_servers_its_lifetimes_and_a_cache() {
    let fixture = Fixture::new();
    let text = "listeners: [{address: 127.0.0.1:0}]\n\
         sites:\n  - {origin: {http: [\"http://192.0.2.5:8080/vod\"]}, cache: {default_ttl: 10m, missing_ttl: 250ms, prefetch: 3}}\n\
         cache: {slice: 512KiB, memory: {directory: memory, size: 64MiB}}\n";
    let config = fixture.read(text).unwrap();
    let Origin::Http(origin) = &config.sites[0].settings.origin else { panic!("it is HTTP") };
    let OriginServer { url, weight, .. } = &origin.targets[0];
    assert_eq!((url.host(), url.port(), url.base(), *weight), ("192.0.2.5", 8080, "/vod", 1));
    assert_eq!(config.sites[0].settings.cache.default_ttl, Duration::from_secs(600));
    assert_eq!(config.sites[0].settings.cache.missing_ttl, Duration::from_millis(250));
    assert_eq!(config.sites[0].settings.cache.prefetch, 3);
    assert_eq!(config.cache.slice, 512 * 1024);
    assert_eq!(config.cache.memory.size, 64 << 20);
    assert_eq!(config.cache.memory.directory, fixture.path().join("memory"));
}

#[test]
fn an_http_origin_may_say_everything_about_its_servers() {
    let fixture = Fixture::new();
    let text = "listeners: [{address: 127.0.0.1:0}]\n\
         sites:\n  - origin:\n      http: [{url: \"https://a.example/vod\", weight: 3}, \"http://b.example\"]\n      \
         host: origin.example.com\n      ca: ec.crt\n      \
         timeouts: {connect: 1s, first_byte: 2s, between_bytes: 300ms}\n      connections: 64\n      connection_age: 90s\n      retries: 0\n      \
         follow_redirects: 1\n      redirect_hosts: [cdn.example, \"192.0.2.7:8080\"]\n      \
         resolver: [\"192.0.2.53:53\", \"[::1]:5353\"]\n      \
         health: {path: /healthz, interval: 7s, unhealthy_after: 4, healthy_after: 5}\n";
    let config = fixture.read(text).unwrap();
    let Origin::Http(origin) = &config.sites[0].settings.origin else { panic!("it is HTTP") };
    let targets: Vec<_> =
        origin.targets.iter().map(|server| (server.url.to_string(), server.weight)).collect();
    assert_eq!(targets, [("https://a.example/vod".to_owned(), 3), ("http://b.example".to_owned(), 1)]);
    assert_eq!(origin.host.as_deref(), Some("origin.example.com"));
    assert_eq!(origin.authorities.as_ref().map(|authorities| authorities.count()), Some(1));
    assert_eq!(origin.timeouts.connect, Duration::from_secs(1));
    assert_eq!(origin.timeouts.first_byte, Duration::from_secs(2));
    assert_eq!(origin.timeouts.between_bytes, Duration::from_millis(300));
    assert_eq!((origin.connections, origin.retries), (64, 0));
    assert_eq!(origin.connection_age, Duration::from_secs(90));
    assert_eq!(origin.redirect_hosts, ["cdn.example", "192.0.2.7:8080"]);
    assert_eq!(origin.resolvers, ["192.0.2.53:53", "[::1]:5353"].map(|address| address.parse().unwrap()));
    assert_eq!(origin.health.check.as_deref(), Some("/healthz"));
    assert_eq!(origin.health.interval, Duration::from_secs(7));
    assert_eq!((origin.health.unhealthy_after, origin.health.healthy_after), (4, 5));
}

#[test]
fn a_bucket_has_its_server_its_key_and_what_stands_in_front() {
    let fixture = Fixture::new();
    let text = "listeners: [{address: 127.0.0.1:0}]\n\
         sites:\n  - origin:\n      s3: {endpoint: \"http://store.example:9000\", bucket: video, prefix: /vod/, \
         path_style: false, region: eu-1,\n           access_key_file: s3.key, secret_key_file: s3.key}\n      retries: 2\n";
    let config = fixture.read(text).unwrap();
    let Origin::Http(origin) = &config.sites[0].settings.origin else { panic!("it is HTTP") };
    assert_eq!(origin.targets[0].url.to_string(), "http://video.store.example:9000");
    let s3 = origin.s3.as_ref().unwrap();
    assert_eq!((s3.bucket.as_str(), s3.region.as_str(), s3.prefix.as_str()), ("video", "eu-1", "vod/"));
    assert_eq!((s3.access_key.as_str(), s3.secret_key.expose()), ("a-key", &b"a-key"[..]));
    assert!(!format!("{:?}", s3.secret_key).contains("a-key"), "it is not shown");
    assert_eq!(origin.retries, 2);
}

#[test]
fn an_admin_listener_may_be_a_unix_socket_and_a_rate_may_find_itself() {
    let fixture = Fixture::new();
    let config = fixture.read(&around(
        "admin: {address: \"unix:admin.sock\", mode: \"0660\"}\nlimits: {handshake_rate: auto}",
    ));
    let config = config.unwrap();
    let admin = config.admin.unwrap();
    let AdminAddress::Unix(path) = &admin.address else { panic!("{:?}", admin.address) };
    assert!(path.is_absolute() && path.ends_with("admin.sock"), "{path:?}");
    assert_eq!((admin.mode, config.limits.handshake_rate), (0o660, HandshakeRateLimit::Auto));
}
