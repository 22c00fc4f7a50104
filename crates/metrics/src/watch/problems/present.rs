//! Conditions that can be seen at one moment.

use std::time::{Duration, SystemTime};

use super::condition::{Condition, counted, critical, in_words, warning};
use crate::labels::Sacrifice;
use crate::metric::Sources;
use crate::readings::{DiskTierReading, FleetReading, OrdersReading, SignerStatus, TierCounters};

/// The certificate of a keyserver that ends sooner should have been renewed.
const RENEWAL: Duration = Duration::from_secs(14 * 24 * 3600);

/// Edges say every second what they have applied, and are read every five.
const EDGE_PATIENCE: Duration = Duration::from_secs(15);

/// Conditions that hold now.
pub(super) fn conditions(from: &Sources<'_>, now: SystemTime) -> Vec<Condition> {
    let mut found = Vec::new();
    let readings = from.readings;
    for server in readings.origin_servers.iter().filter(|server| !server.up) {
        let why = if server.fault.is_empty() { "it does not answer" } else { &server.fault };
        found.push(critical(
            "origins",
            format!("origin {}", server.url),
            format!("origin {} is out: {why}", server.url),
            "curl -v its URL from this machine; sites.origin.http lists the servers, sites.origin.health how they are judged",
        ));
    }
    for peer in &readings.peers {
        if !peer.up {
            let why = if peer.fault.is_empty() { "it does not answer" } else { &peer.fault };
            found.push(critical(
                "peers",
                format!("node {}", peer.name),
                format!("node {} is out: {why}", peer.name),
                "penstock cluster status -c FILE shows how each node sees the others",
            ));
        }
        if peer.purges_missed > 0 {
            found.push(warning(
                "peers",
                format!("purges of {}", peer.name),
                format!("node {} has yet to confirm {}", peer.name, purges(peer.purges_missed)),
                "they are repeated once it answers; until then it may send what was purged. penstock cluster status -c FILE",
            ));
        }
    }
    certificates(from, now, &mut found);
    orders(readings.orders.as_ref(), &mut found);
    if let Some(keys) = &readings.remote_keys {
        signers("keyserver", &keys.keyservers, now, &mut found);
        signers("token", &keys.tokens, now, &mut found);
    }
    memory(readings.memory_tier.as_ref(), &mut found);
    disks(readings.disk_tier.as_ref(), &mut found);
    store(readings.fleet.as_ref(), now, &mut found);
    pressure(from, &mut found);
    found
}

fn certificates(from: &Sources<'_>, now: SystemTime, found: &mut Vec<Condition>) {
    const HELP: &str = "renew it; a changed file is taken without a reload. tls.certificates lists them";
    for one in from.metrics.certificates.first_to_expire() {
        let time = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let (end, late) = (time(one.not_after_seconds), time(one.late_seconds));
        let (name, kind) = (&one.subject, one.kind);
        let identity = format!("certificate {name} {kind}");
        match end.duration_since(now) {
            Err(_) => found.push(critical(
                "certificates",
                identity,
                format!("the {kind} certificate of {name} has expired"),
                HELP,
            )),
            Ok(left) if late <= now => found.push(warning(
                "certificates",
                identity,
                format!("the {kind} certificate of {name} ends in {}", in_words(left)),
                HELP,
            )),
            Ok(_) => {}
        }
    }
    for (reason, count) in from.metrics.certificates.faults().into_iter().filter(|(_, count)| *count > 0) {
        found.push(warning(
            "certificates",
            format!("certificate fault {reason}"),
            format!("{} cannot be used ({reason})", counted(count, "certificate", "certificates")),
            "the log names the files; penstock check -c FILE says what is wrong with each",
        ));
    }
}

/// Names whose certificate was not ordered, in the words of the authority, which may be long.
fn orders(orders: Option<&OrdersReading>, found: &mut Vec<Condition>) {
    const WORDS: usize = 300;
    if let Some(clock) = orders.and_then(|orders| orders.clock.clone()) {
        let help =
            "timedatectl shows whether the clock is synchronised; chrony or systemd-timesyncd does that";
        found.push(warning("acme", "clock of this machine".to_owned(), clock, help));
    }
    for one in orders.iter().flat_map(|orders| &orders.names) {
        let Some(error) = &one.error else { continue };
        let words: String = error.chars().take(WORDS).collect();
        found.push(warning(
            "acme",
            format!("order of {}", one.name),
            format!("the certificate of {} was not ordered: {words}", one.name),
            "the name has to lead to this server, on port 80 or 443; the section tls.acme orders it. The page shows the next attempt, docs/certificates.md the causes",
        ));
    }
}

fn signers(kind: &str, signers: &[SignerStatus], now: SystemTime, found: &mut Vec<Condition>) {
    const HELP: &str = "penstock doctor -c FILE has each keyserver and token sign once";
    const RENEW_THERE: &str = "renew it there; penstock doctor -c FILE shows the end of the one in use";
    for signer in signers {
        let name = &signer.name;
        let identity = format!("{kind} {name}");
        if !signer.up {
            found.push(critical("keys", identity, format!("{kind} {name} is out"), HELP));
        } else if signer.circuit_open {
            let what = format!("{kind} {name} gets no operations, because it has failed too often");
            found.push(critical("keys", identity, what, HELP));
        }
        let left = signer.certificate_end.map(|end| end.duration_since(now).unwrap_or_default());
        if let Some(left) = left.filter(|left| *left < RENEWAL) {
            let what = format!("the certificate of {kind} {name} ends in {}", in_words(left));
            found.push(warning("keys", format!("certificate of {kind} {name}"), what, RENEW_THERE));
        }
    }
}

fn memory(tier: Option<&TierCounters>, found: &mut Vec<Condition>) {
    let Some(tier) = tier else { return };
    if tier.waiting {
        found.push(warning(
            "cache",
            "waiting".to_owned(),
            "an earlier process still has the tiers of the cache: this one uses a small one".to_owned(),
            "it ends with the last response of the earlier process, at limits.drain_deadline at the latest",
        ));
    } else if !tier.in_service {
        found.push(critical(
            "cache",
            "memory".to_owned(),
            "the memory tier is out of service: nothing is cached".to_owned(),
            "cache.memory names its directory; df shows whether its file system is full",
        ));
    }
}

fn disks(tier: Option<&DiskTierReading>, found: &mut Vec<Condition>) {
    for disk in tier.iter().flat_map(|tier| &tier.disks).filter(|disk| !disk.in_service) {
        let directory = disk.directory.display();
        found.push(critical(
            "cache",
            format!("disk {directory}"),
            format!("the disk {directory} is out of service after an error"),
            "dmesg tells the error; it is used again after a restart. cache.disk lists the directories",
        ));
    }
}

fn store(fleet: Option<&FleetReading>, now: SystemTime, found: &mut Vec<Condition>) {
    let Some(fleet) = fleet else { return };
    let why = match (fleet.is_up, fleet.is_circuit_open) {
        (false, _) => Some("there is no connection with the store of the fleet"),
        (true, true) => Some("the store of the fleet answers too late"),
        (true, false) => None,
    };
    if let Some(why) = why {
        found.push(critical(
            "store",
            "store".to_owned(),
            format!("{why}: sessions and purges are not shared"),
            "fleet.valkey names it; redis-cli -u URL ping tells whether it answers",
        ));
    }
    let ping = "they are written once it answers: redis-cli -u URL ping";
    for (count, one, many, help) in [
        (fleet.purges_waiting, "purge waits for the store", "purges wait for the store", ping),
        (
            fleet.revoked_waiting,
            "revoked id of tokens waits for the store, so that other edges may accept it",
            "revoked ids of tokens wait for the store, so that other edges may accept them",
            ping,
        ),
        (
            fleet.strangers,
            "edge uses the store with another secret",
            "edges use the store with another secret",
            "give all edges of the fleet the same fleet.secret",
        ),
        (
            fleet.namesakes,
            "other edge has the name of this one",
            "other edges have the name of this one",
            "set fleet.name: each edge needs its own",
        ),
    ] {
        if count > 0 {
            found.push(warning("store", many.to_owned(), counted(count, one, many), help));
        }
    }
    members(fleet, now, found);
}

/// Other edges that have not applied purges: one that is there does so within some seconds.
fn members(fleet: &FleetReading, now: SystemTime, found: &mut Vec<Condition>) {
    for edge in fleet.edges.iter().filter(|edge| !edge.is_own && edge.purges_missing > 0) {
        let (name, missing) = (&edge.name, purges(edge.purges_missing));
        let silent = now.duration_since(edge.seen).unwrap_or_default();
        let what = match edge.is_present {
            true => format!("edge {name} of the fleet has yet to apply {missing}"),
            false => {
                format!("edge {name} of the fleet, away for {}, has yet to apply {missing}", in_words(silent))
            }
        };
        found.push(Condition {
            patience: EDGE_PATIENCE,
            ..warning(
                "store",
                format!("purges of edge {name}"),
                what,
                "it may send what was purged until it has read them; penstock cache purge --fleet -c FILE waits for all edges",
            )
        });
    }
}

fn purges(count: u64) -> String {
    counted(count, "purge", "purges")
}

fn pressure(from: &Sources<'_>, found: &mut Vec<Condition>) {
    let given_up = from.metrics.given_up();
    let parts: Vec<_> =
        Sacrifice::ALL.iter().filter(|what| given_up.is(**what)).map(|what| what.label()).collect();
    if !parts.is_empty() {
        found.push(warning(
            "pressure",
            "given up".to_owned(),
            format!("the CPU is short, so that the server does without: {}", parts.join(", ")),
            "it takes them back when the workers are less busy than limits.busy_percent; docs/pressure.md tells what each costs",
        ));
    }
}
