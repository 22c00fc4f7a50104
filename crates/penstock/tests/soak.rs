//! A thousand clients of every kind at once, with reloads in between. What they leave behind must be nothing.
//!
//! `PENSTOCK_SOAK_SECONDS` sets how long it lasts; 30 by default.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::fs;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use boring::ssl::SslVersion;
use penstock_testkit::{Client, Content, Random, Server, Setup, TlsOptions, until};
use rustix::process::Signal;

const CLIENTS: u64 = 1000;
/// The path that a slow reader requests.
const SLOW_BYTES: u64 = 300_000;
const RELOAD_EVERY: Duration = Duration::from_secs(4);
/// The memory that may remain: pages that the allocator keeps for the next thousand clients, not the clients' own.
const KEPT_BYTES_MAX: u64 = 160 * 1024 * 1024;

/// Counts of the clients, to verify that the soak had load.
#[derive(Default)]
struct Tally {
    whole: AtomicU64,
    ranges: AtomicU64,
    pipelined: AtomicU64,
    slow: AtomicU64,
    aborted: AtomicU64,
    refused: AtomicU64,
}

impl Tally {
    fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn all(&self) -> [(&'static str, u64); 6] {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("whole files", get(&self.whole)),
            ("ranges", get(&self.ranges)),
            ("pipelined", get(&self.pipelined)),
            ("slow readers", get(&self.slow)),
            ("aborts", get(&self.aborted)),
            ("bad requests", get(&self.refused)),
        ]
    }
}

struct Scene<'s> {
    server: &'s Server,
    small: Content,
    large: Content,
    tally: Tally,
    over: AtomicBool,
}

#[test]
fn a_thousand_mixed_clients_leave_nothing_behind() {
    let seconds = std::env::var("PENSTOCK_SOAK_SECONDS").map_or(30, |text| text.parse().unwrap());
    // Deadlines are for clients that are slow, not for a machine that has a thousand of them on two cores.
    let patient = "handshake_deadline: 60s, head_deadline: 60s, minimum_rate_grace: 120s";
    let setup = Setup::new().workers(2).limits(patient);
    let server = setup.start();
    let scene = Scene {
        small: server.file("small.m4s", 70_001),
        large: server.file("large.mp4", 3_000_017),
        server: &server,
        tally: Tally::default(),
        over: AtomicBool::new(false),
    };
    // Both files are open and mapped in both workers before anything is counted.
    for _ in 0..40 {
        scene.large.assert_range(0..scene.large.len, &Client::tls(&server).get("/large.mp4").body);
        scene.small.assert_range(0..scene.small.len, &Client::plain(&server).get("/small.m4s").body);
    }
    until("the warm-up's connections to end", || no_connections(&server));
    let (descriptors, memory) = (descriptors(&server), resident_bytes(&server));

    let seed = Random::from_environment();
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let mut random = seed.clone();
            (0..number).for_each(|_| {
                random.number();
            });
            let scene = &scene;
            let client = thread::Builder::new().stack_size(256 * 1024);
            client.spawn_scoped(scope, move || be_a_client(scene, &mut random)).unwrap();
        }
        let end = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < end {
            thread::sleep(RELOAD_EVERY.min(end.saturating_duration_since(Instant::now())));
            server.configure(&setup);
            server.signal(Signal::HUP);
        }
        scene.over.store(true, Ordering::Relaxed);
    });

    until("the last connection to end", || no_connections(&server));
    until("every descriptor to be given back", || (self::descriptors(&server) <= descriptors).then_some(()));
    let kept = resident_bytes(&server).saturating_sub(memory);
    assert!(kept < KEPT_BYTES_MAX, "{kept} bytes more than before");
    let metrics = server.metrics();
    assert_eq!(metrics.sum("penstock_worker_panics_total", &[]), 0.0);
    assert!(metrics.sum("penstock_open_files", &[]) <= 4.0, "two files in two workers");
    assert!(metrics.sum("penstock_reloads_total", &["outcome=\"applied\""]) >= 1.0);
    assert_eq!(metrics.sum("penstock_connections_refused_total", &[]), 0.0);
    for (what, count) in scene.tally.all() {
        println!("{count:>8} {what}");
        assert!(count > 0, "no client got to try: {what}");
    }
}

fn no_connections(server: &Server) -> Option<()> {
    (server.metrics().sum("penstock_connections", &[]) == 0.0).then_some(())
}

fn descriptors(server: &Server) -> usize {
    fs::read_dir(format!("/proc/{}/fd", server.pid().as_raw_nonzero())).unwrap().count()
}

fn resident_bytes(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid().as_raw_nonzero())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

/// Opens connections, uses each for some requests, and leaves them in one way or another.
fn be_a_client(scene: &Scene<'_>, random: &mut Random) {
    while !scene.over.load(Ordering::Relaxed) {
        let server = scene.server;
        match random.below(4) {
            0 => use_connection(scene, random, Client::plain(server)),
            1 => {
                let options = TlsOptions::version(SslVersion::TLS1_2);
                use_connection(scene, random, Client::tls_with(server, &options));
            }
            _ => use_connection(scene, random, Client::tls(server)),
        }
    }
}

fn use_connection<S: Read + Write>(scene: &Scene<'_>, random: &mut Random, mut client: Client<S>) {
    for _ in 0..=random.below(8) {
        if scene.over.load(Ordering::Relaxed) {
            return;
        }
        let (small, large) = (&scene.small, &scene.large);
        match random.below(12) {
            0..=3 => {
                small.assert_range(0..small.len, &client.get("/small.m4s").body);
                Tally::add(&scene.tally.whole);
            }
            4..=6 => {
                let first = random.below(large.len);
                let last = (first + random.below(200_000)).min(large.len - 1);
                large.assert_range(first..last + 1, &client.get_range("/large.mp4", first, last).body);
                Tally::add(&scene.tally.ranges);
            }
            7 => {
                let one = "GET /small.m4s HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-999\r\n\r\n";
                client.send(one.repeat(5));
                (0..5).for_each(|_| small.assert_range(0..1000, &client.response().unwrap().body));
                Tally::add(&scene.tally.pipelined);
            }
            8 => read_slowly(scene, random, &mut client),
            9 | 10 => {
                client.ask("/large.mp4");
                let mut some = vec![0; usize::try_from(1 + random.below(100_000)).unwrap()];
                client.stream.read_exact(&mut some).unwrap();
                Tally::add(&scene.tally.aborted);
                return;
            }
            _ => {
                let answer = client.request("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
                assert_eq!(answer.status, 400);
                Tally::add(&scene.tally.refused);
                return;
            }
        }
        thread::sleep(Duration::from_millis(random.below(50)));
    }
}

/// Takes a response in small bites at first.
fn read_slowly<S: Read + Write>(scene: &Scene<'_>, random: &mut Random, client: &mut Client<S>) {
    let first = random.below(scene.large.len - SLOW_BYTES);
    let last = first + SLOW_BYTES - 1;
    client.send(format!("GET /large.mp4 HTTP/1.1\r\nHost: localhost\r\nRange: bytes={first}-{last}\r\n\r\n"));
    assert_eq!(client.response_to_head().unwrap().status, 206);
    let mut body = Vec::new();
    for _ in 0..20 {
        body.extend(client.body(1000).unwrap());
        thread::sleep(Duration::from_millis(20));
    }
    body.extend(client.body(SLOW_BYTES - 20_000).unwrap());
    scene.large.assert_range(first..last + 1, &body);
    Tally::add(&scene.tally.slow);
}
