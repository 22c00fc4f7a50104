//! Conditions that can be seen at one moment.

use std::time::{Duration, SystemTime};

use super::{Condition, Severity};
use crate::labels::Sacrifice;
use crate::lookup::{Which, sum_of};
use crate::metric::Sources;
use crate::readings::{DiskTierReading, FleetReading, OrdersReading, SignerStatus, TierCounters};

/// Workers that have been busier than this for [`BUSY_PATIENCE`] are a problem.
const BUSY: f64 = 0.95;
const BUSY_PATIENCE: Duration = Duration::from_secs(10);

/// The share of the descriptors in use from which on it is a problem.
const DESCRIPTORS: f64 = 0.9;

/// The certificate of a keyserver that ends sooner should have been renewed.
const RENEWAL: Duration = Duration::from_secs(14 * 24 * 3600);

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
            "curl -v its URL from this machine; origin.http lists the servers, origin.health how they are judged",
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
                format!("node {} has yet to confirm {} purges", peer.name, peer.purges_missed),
                "they are repeated once it answers; until then it may send what was purged",
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
    store(readings.fleet.as_ref(), &mut found);
    program(from, &mut found);
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
                format!("the {kind} certificate of {name} ends in {}", days(left)),
                HELP,
            )),
            Ok(_) => {}
        }
    }
    for (reason, count) in from.metrics.certificates.faults().into_iter().filter(|(_, count)| *count > 0) {
        found.push(warning(
            "certificates",
            format!("certificate fault {reason}"),
            format!("{} cannot be used ({reason})", certificates_of(count)),
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
            "the name has to lead to this server, on port 80 or 443; section acme shows the next attempt, docs/certificates.md the causes",
        ));
    }
}

fn certificates_of(count: u64) -> String {
    if count == 1 { "1 certificate".to_owned() } else { format!("{count} certificates") }
}

fn days(left: Duration) -> String {
    match left.as_secs() / (24 * 3600) {
        0 => format!("{} hours", left.as_secs() / 3600),
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    }
}

fn signers(kind: &str, signers: &[SignerStatus], now: SystemTime, found: &mut Vec<Condition>) {
    const HELP: &str = "penstock doctor -c FILE has each keyserver and token sign once";
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
            let what = format!("the certificate of {kind} {name} ends in {}", days(left));
            found.push(warning("keys", format!("certificate of {kind} {name}"), what, "renew it there"));
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

fn store(fleet: Option<&FleetReading>, found: &mut Vec<Condition>) {
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
    for (count, what, help) in [
        (fleet.purges_waiting, "purges wait for the store", "they are written once it answers"),
        (
            fleet.strangers,
            "edges use the store with another secret",
            "give all edges of the fleet the same fleet.secret",
        ),
        (fleet.namesakes, "other edges have the name of this one", "set fleet.name: each edge needs its own"),
    ] {
        if count > 0 {
            found.push(warning("store", what.to_owned(), format!("{count} {what}"), help));
        }
    }
}

fn program(from: &Sources<'_>, found: &mut Vec<Condition>) {
    let busy = from.metrics.busy_share();
    if busy > BUSY {
        found.push(Condition {
            patience: BUSY_PATIENCE,
            ..warning(
                "workers",
                "busy".to_owned(),
                format!("the workers are {:.0} % busy", 100.0 * busy),
                "add a machine, or workers if the machine has idle cores; penstock doctor shows what costs time",
            )
        });
    }
    let given_up = from.metrics.given_up();
    let parts: Vec<_> =
        Sacrifice::ALL.iter().filter(|what| given_up.is(**what)).map(|what| what.label()).collect();
    if !parts.is_empty() {
        found.push(warning(
            "pressure",
            "given up".to_owned(),
            format!("the CPU is short, so that the server does without: {}", parts.join(", ")),
            "it takes them back when the workers are less busy; docs/pressure.md tells what each costs",
        ));
    }
    let read = |name| sum_of(from, name, Which::All);
    let (open, most) = (read("process_open_fds"), read("process_max_fds"));
    if most > 0.0 && open > DESCRIPTORS * most {
        found.push(warning(
            "program",
            "descriptors".to_owned(),
            format!("{open} of {most} descriptors are in use"),
            "raise LimitNOFILE of the service, or lower limits.connections",
        ));
    }
}

fn critical(subject: &'static str, identity: String, what: String, help: &'static str) -> Condition {
    Condition { severity: Severity::Critical, subject, identity, what, help, patience: Duration::ZERO }
}

fn warning(subject: &'static str, identity: String, what: String, help: &'static str) -> Condition {
    Condition { severity: Severity::Warning, ..critical(subject, identity, what, help) }
}
