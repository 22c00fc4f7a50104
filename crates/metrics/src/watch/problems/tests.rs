//! Each problem in words: what is broken, and exactly what is said then.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use super::growing::COUNTERS;
use super::*;
use crate::labels::{FleetOperation, FleetOutcome, Sacrifice};
use crate::{
    CertificateExpiry, ClientKind, DiskCounters, DiskTierReading, FleetEdgeReading, FleetReading,
    HandshakeFacts, LastResponse, LogLoss, Method, Metrics, OrderedName, OrdersReading, OriginServerReading,
    PeerReading, PlayerSaid, Readings, Refusal, ReloadOutcome, RemoteKeysReading, ShortReason, SignerStatus,
    StapleReading, TierCounters, Timing,
};

const DAY: u64 = 24 * 3600;

/// A server of which a part breaks.
struct Scene {
    metrics: Arc<Metrics>,
    readings: Readings,
    problems: Problems,
    began: Instant,
}

impl Scene {
    /// All parts are there, and well.
    fn well() -> Self {
        let signer = |name: &str| SignerStatus {
            name: name.to_owned(),
            up: true,
            circuit_open: false,
            under_way: 0,
            results: [9, 0, 0, 0, 0, 0],
            time: Duration::from_secs(1),
            connections: 1,
            certificate_end: None,
        };
        let server = OriginServerReading {
            url: "http://b.example".to_owned(),
            up: true,
            ..OriginServerReading::default()
        };
        let peer = PeerReading {
            name: "edge2".to_owned(),
            up: true,
            fault: String::new(),
            load: 0,
            purges_missed: 0,
            requests: Vec::new(),
        };
        let disk = DiskCounters { directory: "/disk".into(), in_service: true, ..DiskCounters::default() };
        let readings = Readings {
            origin_servers: vec![server],
            peers: vec![peer],
            staples: vec![StapleReading {
                subject: "video.example".to_owned(),
                kind: "ecdsa",
                this_update: at(0),
                next_update: at(7 * DAY),
            }],
            orders: Some(OrdersReading::default()),
            remote_keys: Some(RemoteKeysReading {
                keyservers: vec![signer("192.0.2.9:2407")],
                tokens: vec![signer("edge")],
                ..RemoteKeysReading::default()
            }),
            memory_tier: Some(TierCounters { in_service: true, ..TierCounters::default() }),
            disk_tier: Some(DiskTierReading { disks: vec![disk], ..DiskTierReading::default() }),
            fleet: Some(FleetReading { is_up: true, ..FleetReading::default() }),
            ..Readings::default()
        };
        let metrics = Metrics::new(1);
        metrics.shard(0).busy(Duration::ZERO, Duration::from_secs(1));
        let mut scene = Self { metrics, readings, problems: Problems::default(), began: Instant::now() };
        assert_eq!(scene.look(0), []);
        scene
    }

    /// What is wrong so many seconds after the begin.
    fn look(&mut self, seconds: u64) -> Vec<Problem> {
        let from = Sources { metrics: &self.metrics, readings: &self.readings };
        self.problems.look(&from, self.began + Duration::from_secs(seconds), at(seconds))
    }

    fn keyserver(&mut self) -> &mut SignerStatus {
        &mut self.readings.remote_keys.as_mut().unwrap().keyservers[0]
    }

    fn token(&mut self) -> &mut SignerStatus {
        &mut self.readings.remote_keys.as_mut().unwrap().tokens[0]
    }

    fn disk(&mut self) -> &mut DiskCounters {
        &mut self.readings.disk_tier.as_mut().unwrap().disks[0]
    }

    fn tier(&mut self) -> &mut TierCounters {
        self.readings.memory_tier.as_mut().unwrap()
    }

    fn fleet(&mut self) -> &mut FleetReading {
        self.readings.fleet.as_mut().unwrap()
    }

    fn store_says(&mut self, outcome: FleetOutcome) {
        self.fleet().operations[FleetOperation::PurgeRead as usize][outcome as usize] = 3;
    }

    fn edge_misses(&mut self, purges_missing: u64, is_present: bool) {
        let seen = at(0) - Duration::from_secs(if is_present { 0 } else { 3 * 3600 });
        let edge = |name: &str, is_own| FleetEdgeReading {
            name: name.to_owned(),
            is_own,
            is_present: is_present || is_own,
            seen,
            purges_missing,
        };
        self.fleet().edges = vec![edge("edge1", true), edge("edge2", false)];
    }

    fn certificate_ends(&self, seconds: u64) {
        let not_after_seconds = at(seconds).duration_since(UNIX_EPOCH).unwrap().as_secs();
        let subject = "video.example".to_owned();
        let late_seconds = not_after_seconds - 14 * 24 * 3600;
        let expiry = CertificateExpiry { subject, kind: "ecdsa", not_after_seconds, late_seconds };
        self.metrics.set_certificates(vec![expiry]);
    }

    fn order(&mut self, clock: Option<&str>, error: Option<&str>) {
        let name = OrderedName {
            name: "video.example".to_owned(),
            state: "failing",
            not_after: None,
            next: None,
            error: error.map(str::to_owned),
        };
        let orders =
            OrdersReading { names: vec![name], clock: clock.map(str::to_owned), ..OrdersReading::default() };
        self.readings.orders = Some(orders);
    }

    fn handshakes(&self, well: usize, failed: usize) {
        let facts = HandshakeFacts {
            version: "TLSv1.3",
            cipher: "TLS_AES_128_GCM_SHA256",
            group: "X25519",
            resumed: false,
            certificate: "ecdsa",
        };
        let shard = self.metrics.shard(0);
        (0..well).for_each(|_| shard.handshake_done(&facts, &Timing::default(), LastResponse::None));
        (0..failed).for_each(|_| shard.handshake_failed("no_shared_cipher"));
    }

    fn responses(&self, count: usize, first_byte: Duration) {
        let shard = self.metrics.shard(0);
        (0..count).for_each(|_| shard.request(Method::Get, 200, first_byte, Some(first_byte)));
    }

    fn server_errors(&self, count: usize) {
        let shard = self.metrics.shard(0);
        (0..count).for_each(|_| shard.request(Method::Get, 502, Duration::from_millis(1), None));
    }

    fn players(&self, count: usize, starved: bool) {
        let site = self.metrics.site("video.example");
        let said = PlayerSaid {
            session: None,
            buffer: None,
            starved,
            startup: false,
            malformed: false,
            throughput: None,
        };
        (0..count).for_each(|_| self.metrics.shard(0).player_said(site, ClientKind::Browser, &said));
    }
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000 + seconds)
}

/// Subject, severity and words of a problem, and what breaks.
type Row = (&'static str, Severity, &'static str, fn(&mut Scene));

const CRITICAL: Severity = Severity::Critical;
const WARNING: Severity = Severity::Warning;

/// All problems but that of descriptors, which are those of this process.
const ROWS: &[Row] = &[
    ("origins", CRITICAL, "origin http://b.example is out: timeout", |scene| {
        let server = &mut scene.readings.origin_servers[0];
        (server.up, server.fault) = (false, "timeout".to_owned());
    }),
    ("peers", CRITICAL, "node edge2 is out: it does not answer", |scene| scene.readings.peers[0].up = false),
    ("peers", WARNING, "node edge2 has yet to confirm 2 purges", |scene| {
        scene.readings.peers[0].purges_missed = 2;
    }),
    ("certificates", CRITICAL, "the ecdsa certificate of video.example has expired", |scene| {
        scene.certificate_ends(0);
    }),
    ("certificates", WARNING, "the ecdsa certificate of video.example ends in 9 days", |scene| {
        scene.certificate_ends(9 * DAY + 3600);
    }),
    ("certificates", WARNING, "2 certificates cannot be used (no_key)", |scene| {
        scene.metrics.set_certificate_faults(vec![("no_key", 2)]);
    }),
    (
        "certificates",
        WARNING,
        "the OCSP response for the ecdsa certificate of video.example ends in 11 hours",
        |scene| {
            scene.readings.staples[0].next_update = at(12 * 3600 - 1);
            scene.readings.staples[0].this_update = at(0) - Duration::from_secs(10 * DAY);
        },
    ),
    (
        "certificates",
        CRITICAL,
        "the OCSP response for the ecdsa certificate of video.example has ended: none is sent",
        |scene| {
            scene.readings.staples[0].next_update = at(1);
            scene.look(1);
            scene.readings.staples.clear();
        },
    ),
    ("acme", WARNING, "the clock of this machine is 3 hours behind", |scene| {
        scene.order(Some("the clock of this machine is 3 hours behind"), None);
    }),
    ("acme", WARNING, "the certificate of video.example was not ordered: no such name", |scene| {
        scene.order(None, Some("no such name"));
    }),
    ("keys", CRITICAL, "keyserver 192.0.2.9:2407 is out", |scene| scene.keyserver().up = false),
    ("keys", CRITICAL, "token edge gets no operations, because it has failed too often", |scene| {
        scene.token().circuit_open = true;
    }),
    ("keys", WARNING, "the certificate of keyserver 192.0.2.9:2407 ends in 1 day", |scene| {
        scene.keyserver().certificate_end = Some(at(DAY + 60));
    }),
    ("keys", WARNING, "operations that the keyserver 192.0.2.9:2407 refused: 3", |scene| {
        scene.keyserver().results[3] = 3;
    }),
    ("keys", WARNING, "operations that the keyserver 192.0.2.9:2407 did not answer in time: 2", |scene| {
        scene.keyserver().results[2] = 2;
    }),
    ("keys", CRITICAL, "wrong signatures of the keyserver 192.0.2.9:2407: 1", |scene| {
        scene.keyserver().results[4] = 1;
    }),
    ("keys", CRITICAL, "operations that the hardware module of the token edge did not answer: 3", |scene| {
        (scene.token().results[1], scene.token().results[2]) = (1, 2);
    }),
    ("keys", CRITICAL, "operations that the token edge refused or signed wrong: 3", |scene| {
        (scene.token().results[3], scene.token().results[4]) = (1, 2);
    }),
    ("keys", WARNING, "handshakes signed by the local copy of a key that is elsewhere: 4", |scene| {
        scene.readings.remote_keys.as_mut().unwrap().fallbacks = 4;
    }),
    (
        "cache",
        WARNING,
        "an earlier process still has the tiers of the cache: this one uses a small one",
        |scene| scene.tier().waiting = true,
    ),
    ("cache", CRITICAL, "the memory tier is out of service: nothing is cached", |scene| {
        scene.tier().in_service = false;
    }),
    (
        "cache",
        WARNING,
        "slices that found no space in memory, so that their responses were not cached: 5",
        |scene| {
            scene.tier().refusals = 5;
        },
    ),
    ("cache", CRITICAL, "the disk /disk is out of service after an error", |scene| {
        scene.disk().in_service = false;
    }),
    ("cache", CRITICAL, "calls that failed on the disk /disk of the cache: 2", |scene| {
        scene.disk().errors = 2
    }),
    ("cache", CRITICAL, "damaged slices on the disk /disk, which are fetched again: 1", |scene| {
        scene.disk().damaged = 1;
    }),
    (
        "store",
        CRITICAL,
        "there is no connection with the store of the fleet: sessions and purges are not shared",
        |scene| scene.fleet().is_up = false,
    ),
    (
        "store",
        CRITICAL,
        "the store of the fleet answers too late: sessions and purges are not shared",
        |scene| {
            scene.fleet().is_circuit_open = true;
        },
    ),
    ("store", WARNING, "7 purges wait for the store", |scene| scene.fleet().purges_waiting = 7),
    (
        "store",
        WARNING,
        "8 revoked ids of tokens wait for the store, so that other edges may accept them",
        |scene| scene.fleet().revoked_waiting = 8,
    ),
    ("store", WARNING, "1 edge uses the store with another secret", |scene| scene.fleet().strangers = 1),
    ("store", WARNING, "1 other edge has the name of this one", |scene| scene.fleet().namesakes = 1),
    ("store", WARNING, "edge edge2 of the fleet has yet to apply 1 purge", |scene| {
        scene.edge_misses(1, true)
    }),
    ("store", WARNING, "edge edge2 of the fleet, away for 3 hours, has yet to apply 4 purges", |scene| {
        scene.edge_misses(4, false);
    }),
    ("store", CRITICAL, "entries of the store that were not sealed with the fleet's secret: 3", |scene| {
        scene.store_says(FleetOutcome::Forged);
    }),
    ("store", WARNING, "operations for which the store had no memory left: 3", |scene| {
        scene.store_says(FleetOutcome::Full);
    }),
    ("store", WARNING, "purges of the whole cache, because purges were missed: 1", |scene| {
        scene.fleet().purges_missed = 1;
    }),
    (
        "store",
        CRITICAL,
        "revoked ids that were dropped, since this edge keeps no more of them, so that their tokens are accepted again: 2",
        |scene| scene.fleet().revoked_dropped = 2,
    ),
    ("pressure", WARNING, "the CPU is short, so that the server does without: prefetch", |scene| {
        scene.metrics.given_up().set(Sacrifice::Prefetch, Some(at(0)));
    }),
    ("workers", WARNING, "the workers are 96 % busy", |scene| {
        scene.metrics.shard(0).busy(Duration::from_millis(960), Duration::from_secs(2));
    }),
    ("workers", CRITICAL, "connections that a panic ended, which is a bug of the program: 1", |scene| {
        scene.metrics.shard(0).panicked();
    }),
    (
        "clients",
        CRITICAL,
        "connections refused, since the limit of connections or descriptors is reached: 1",
        |scene| scene.metrics.shard(0).refused(Refusal::Limit),
    ),
    (
        "clients",
        WARNING,
        "connections refused, since a network or the handshakes under way are at their limit: 1",
        |scene| scene.metrics.shard(0).refused(Refusal::Network),
    ),
    ("clients", CRITICAL, "connections that could not be accepted: 1", |scene| {
        scene.metrics.shard(0).accept_error("aborted");
    }),
    (
        "handshakes",
        WARNING,
        "25 % of the handshakes of the last minute failed, most of them: no_shared_cipher",
        |scene| {
            scene.handshakes(60, 20);
        },
    ),
    (
        "requests",
        WARNING,
        "2.0 % of the responses of the last minute took longer than a second to their first byte",
        |scene| {
            scene.responses(98, Duration::from_millis(2));
            scene.responses(2, Duration::from_millis(1_500));
        },
    ),
    ("requests", WARNING, "2.0 % of the responses of the last minute had a status of 5xx", |scene| {
        scene.responses(245, Duration::from_millis(1));
        scene.server_errors(5);
    }),
    (
        "players",
        WARNING,
        "players of the site video.example starve: their buffer was empty at 4.0 % of the requests of the last minute",
        |scene| {
            scene.players(96, false);
            scene.players(4, true);
        },
    ),
    ("origins", CRITICAL, "responses cut short, because an origin or a file ended early: 1", |scene| {
        scene.metrics.shard(0).short_response(ShortReason::Origin);
    }),
    ("program", WARNING, "lines of the access log that were dropped: 2", |scene| {
        scene.metrics.access_log().lost(LogLoss::QueueFull, 2);
    }),
    ("program", WARNING, "the last reload was rejected: the configuration before it is in force", |scene| {
        scene.metrics.reloaded(ReloadOutcome::Rejected, at(0));
    }),
];

/// What is wrong after `break_it`, once it has held for longer than any problem needs.
fn broken(break_it: fn(&mut Scene)) -> Vec<Problem> {
    let mut scene = Scene::well();
    break_it(&mut scene);
    scene.look(2);
    scene.look(2 + BROKEN_SECONDS)
}

/// Longer than the patience of any condition.
const BROKEN_SECONDS: u64 = 20;

#[test]
fn each_part_that_breaks_is_one_problem_with_its_thing_a_time_and_what_helps() {
    // Commands that are known on every machine; those of this program are compared with it by another test.
    const COMMANDS: [&str; 9] = [
        "penstock ",
        "curl ",
        "journalctl ",
        "jq ",
        "dmesg ",
        "smartctl ",
        "redis-cli ",
        "timedatectl ",
        "df ",
    ];
    const SECTIONS: [&str; 8] =
        ["cache.", "fleet.", "limits.", "log.", "metrics.", "sites.", "tls.", "listeners."];
    for (subject, severity, what, break_it) in ROWS {
        let found = broken(*break_it);
        let words: Vec<_> = found.iter().map(|problem| problem.what.as_str()).collect();
        assert_eq!(words, [*what]);
        let problem = &found[0];
        assert_eq!((problem.subject, problem.severity), (*subject, *severity), "{what}");
        assert!(problem.since >= at(1) && problem.since <= at(2), "{what}: {:?}", problem.since);
        let names = [
            "video.example",
            "b.example",
            "edge",
            "192.0.2.9",
            "/disk",
            "store",
            "tier",
            "CPU",
            "reload",
            "workers",
        ];
        let has_number = what.contains(|letter: char| letter.is_ascii_digit());
        assert!(has_number || names.iter().any(|name| what.contains(name)), "{what} names nothing");
        let help = problem.help;
        let has_command = COMMANDS.iter().any(|command| help.contains(command));
        let has_key = SECTIONS.iter().any(|section| help.contains(section));
        assert!(has_command || has_key, "{what}: {help}");
    }
}

#[test]
fn each_counter_that_should_not_grow_is_in_the_table() {
    let words: BTreeSet<_> = ROWS.iter().map(|(_, _, what, _)| *what).collect();
    assert_eq!(words.len(), ROWS.len());
    for counter in COUNTERS {
        // What is between the number and the name.
        let longest =
            counter.what.split("{}").flat_map(|part| part.split("{name}")).max_by_key(|part| part.len());
        assert!(words.iter().any(|what| what.contains(longest.unwrap())), "{} has no row", counter.what);
    }
}

#[test]
fn a_share_of_few_events_is_no_problem_and_one_that_was_too_high_has_to_fall_far_enough() {
    let mut scene = Scene::well();
    scene.handshakes(0, 19);
    assert_eq!(scene.look(1), [], "too few to judge");
    scene.handshakes(81, 0);
    assert_eq!(scene.look(2), [], "below the level");
    scene.handshakes(0, 10);
    assert_eq!(scene.look(3).len(), 1);
    scene.handshakes(70, 0);
    let found = scene.look(4);
    assert_eq!(found.len(), 1, "still above the lower level");
    assert_eq!(found[0].since, at(3));
    scene.handshakes(200, 0);
    assert_eq!(scene.look(5), []);
    scene.handshakes(0, 30);
    assert_eq!(scene.look(6), [], "between the levels, and it was below");
    scene.handshakes(0, 100);
    assert_eq!(scene.look(7).len(), 1);
    assert_eq!(scene.look(600), [], "what is long ago is forgotten");
}

#[test]
fn few_server_errors_or_a_small_share_of_them_are_no_problem_and_all_responses_of_a_small_site_are() {
    // Errors, other responses, and whether that is a problem.
    for (errors, others, is_problem) in [
        (1, 0, false),
        (4, 10, false),
        (4, 100, false),
        (5, 0, true),
        (5, 490, true),
        (5, 500, false),
        (50, 6_000, false),
        (61, 6_000, true),
    ] {
        let mut scene = Scene::well();
        scene.server_errors(errors);
        scene.responses(others, Duration::from_millis(1));
        assert_eq!(scene.look(1).len(), usize::from(is_problem), "{errors} of {}", errors + others);
    }
    let mut scene = Scene::well();
    scene.server_errors(5);
    assert_eq!(scene.look(1).len(), 1);
    assert_eq!(scene.look(60).len(), 1, "a quarter of them is enough to go on");
    assert_eq!(scene.look(120), []);
}

#[test]
fn requests_that_wait_for_a_part_of_a_playlist_are_not_slow() {
    let mut scene = Scene::well();
    scene.responses(200, Duration::from_millis(1_500));
    (0..200).for_each(|_| scene.metrics.shard(0).reload("held"));
    assert_eq!(scene.look(1), []);
    scene.responses(100, Duration::from_millis(1));
    scene.responses(50, Duration::from_millis(1_500));
    assert_eq!(scene.look(2).len(), 1);
}

#[test]
fn workers_are_said_to_be_busy_after_a_while_and_until_they_are_clearly_less() {
    let mut scene = Scene::well();
    let mut lived = (Duration::ZERO, Duration::from_secs(1));
    let mut second = |scene: &mut Scene, seconds, share| {
        lived = (lived.0 + Duration::from_secs(1).mul_f64(share), lived.1 + Duration::from_secs(1));
        scene.metrics.shard(0).busy(lived.0, lived.1);
        scene.look(seconds).len()
    };
    assert_eq!(second(&mut scene, 1, 0.97), 0);
    assert_eq!(second(&mut scene, 6, 0.90), 0, "the time runs on");
    assert_eq!(second(&mut scene, 11, 0.90), 1);
    assert_eq!(second(&mut scene, 12, 0.80), 0);
    assert_eq!(second(&mut scene, 30, 0.90), 0);
}

#[test]
fn an_ocsp_response_that_was_replaced_in_time_is_no_problem() {
    let mut scene = Scene::well();
    scene.readings.staples[0].next_update = at(3 * DAY);
    assert_eq!(scene.look(DAY), []);
    // One of a day has an eighth of it left.
    (scene.readings.staples[0].this_update, scene.readings.staples[0].next_update) = (at(DAY), at(2 * DAY));
    assert_eq!(scene.look(DAY + 20 * 3600), []);
    assert_eq!(scene.look(DAY + 22 * 3600).len(), 1);
    scene.readings.staples[0].next_update = at(9 * DAY);
    assert_eq!(scene.look(DAY + 23 * 3600), []);
    // Its certificate is no longer in use.
    scene.readings.staples.clear();
    assert_eq!(scene.look(2 * DAY), []);
    assert_eq!(scene.look(10 * DAY), []);
}

#[test]
fn one_signer_that_fails_is_not_the_other() {
    let mut scene = Scene::well();
    let keys = scene.readings.remote_keys.as_mut().unwrap();
    keys.keyservers.push(SignerStatus { name: "192.0.2.8:2407".to_owned(), ..keys.keyservers[0].clone() });
    assert_eq!(scene.look(1), []);
    scene.readings.remote_keys.as_mut().unwrap().keyservers[1].results[3] = 4;
    let found = scene.look(2);
    assert_eq!(found[0].what, "operations that the keyserver 192.0.2.8:2407 refused: 4");
    assert_eq!(found.len(), 1);
}
