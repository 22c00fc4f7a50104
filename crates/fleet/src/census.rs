//! Notices what the sealed entries of a fleet cannot show: an edge with another secret, and another edge of the same name.
//!
//! All processes that use a store write one entry each into a hash whose name no secret determines. An entry has the name of
//! the edge, the first digits of what its secret makes of the word `fleet` (as in all names of entries), and a count that
//! rises. A process is alive while its count changes, by no clock but this one's. Entries are not sealed: a program that writes to
//! the store can cause the warnings, each once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use penstock_sys::lock::Unpoisoned;
use redis::{Pipeline, Value};
use serde_json::{Value as Json, json};

use crate::counters::Operation;
use crate::link::{Fault, Link, bytes_of, list_of};
use crate::message::Instance;
use crate::seal::hex;

/// The hash of all processes.
const NAME: &str = "penstock:processes";

/// Processes that are followed; more are not noticed.
const PROCESSES_MAX: usize = 1024;

/// Rounds without a change after which a process is away, and after which its entry is removed.
const AWAY_ROUNDS: u64 = 6;
const REMOVED_ROUNDS: u64 = 60;

/// Bytes of an entry, its name included; a longer one is removed.
const ENTRY_BYTES_MAX: usize = 512;

/// The other processes that use the store.
pub(crate) struct Census {
    link: Arc<Link>,
    name: String,
    fingerprint: String,
    instance: String,
    /// Whether this process drains, so that its successor may have its name.
    has_left: AtomicBool,
    followed: Mutex<Followed>,
    strangers: AtomicU64,
    namesakes: AtomicU64,
    members: AtomicU64,
}

#[derive(Default)]
struct Followed {
    round: u64,
    processes: BTreeMap<Vec<u8>, Process>,
    has_said_strangers: bool,
    has_said_namesakes: bool,
}

/// A process as its last entry has it.
struct Process {
    entry: Vec<u8>,
    /// The round in which the entry was first seen, and the last one in which it changed.
    first: u64,
    changed: u64,
}

impl Census {
    /// This process.
    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    pub(crate) fn new(link: &Arc<Link>, name: &str, fingerprint: &str, instance: Instance) -> Self {
        Self {
            link: Arc::clone(link),
            name: name.to_owned(),
            fingerprint: fingerprint.to_owned(),
            instance: hex(&instance),
            has_left: AtomicBool::new(false),
            followed: Mutex::default(),
            strangers: AtomicU64::new(0),
            namesakes: AtomicU64::new(0),
            members: AtomicU64::new(1),
        }
    }

    /// Edges with another secret that use the store now.
    pub(crate) fn strangers(&self) -> u64 {
        self.strangers.load(Relaxed)
    }

    /// Other edges of this fleet that have the name of this one now.
    pub(crate) fn namesakes(&self) -> u64 {
        self.namesakes.load(Relaxed)
    }

    /// Edges with the secret of this one that use the store now, this one included.
    pub(crate) fn members(&self) -> u64 {
        self.members.load(Relaxed)
    }

    /// What tells this secret from others, without telling it.
    pub(crate) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Writes the entry of this process no more: a successor has its name.
    pub(crate) fn leave(&self) {
        self.has_left.store(true, Relaxed);
    }

    /// Writes the entry of this process again.
    pub(crate) fn come_back(&self) {
        self.has_left.store(false, Relaxed);
    }

    /// Renews the entry of this process, and reads those of the others. An error ends the round only.
    pub(crate) async fn round(&self) {
        if self.has_left.load(Relaxed) {
            // What the successor does is its own affair.
            return self.remove_own().await;
        }
        let round = self.followed.lock().unpoisoned().round;
        let entry = json!({"name": self.name, "fleet": self.fingerprint, "count": round});
        let mut commands = Pipeline::with_capacity(2);
        commands.cmd("HSET").arg(NAME).arg(&self.instance).arg(entry.to_string());
        commands.cmd("HGETALL").arg(NAME);
        match self.link.ask_patiently(Operation::Edges, &commands).await {
            Ok(answers) => {
                let pairs = list_of(answers.get(1).unwrap_or(&Value::Nil)).chunks_exact(2);
                let entries = pairs.filter_map(|pair| Some((bytes_of(&pair[0])?, bytes_of(&pair[1])?)));
                let removed = self.take_in(entries);
                self.remove(&removed).await;
            }
            Err(Fault::WrongType) => self.link.remove(Operation::Edges, &[NAME.to_owned()]).await,
            Err(_) => {}
        }
    }

    /// Removes the entry of this process.
    pub(crate) async fn remove_own(&self) {
        self.remove(&[self.instance.clone().into_bytes()]).await;
    }

    /// The name of the hash, which is removed if it is too large to be read.
    pub(crate) fn list_name() -> String {
        NAME.to_owned()
    }

    async fn remove(&self, fields: &[Vec<u8>]) {
        if fields.is_empty() {
            return;
        }
        let mut commands = Pipeline::with_capacity(1);
        commands.cmd("HDEL").arg(NAME).arg(fields);
        drop(self.link.ask_patiently(Operation::Edges, &commands).await);
    }

    /// Notes the entries of a round; returns those to remove.
    fn take_in<'e>(&self, entries: impl Iterator<Item = (&'e [u8], &'e [u8])>) -> Vec<Vec<u8>> {
        let mut guard = self.followed.lock().unpoisoned();
        let followed = &mut *guard;
        followed.round += 1;
        let round = followed.round;
        let mut removed = Vec::new();
        let mut seen = BTreeMap::new();
        for (field, entry) in entries.filter(|(field, _)| *field != self.instance.as_bytes()) {
            if field.len() + entry.len() > ENTRY_BYTES_MAX {
                removed.push(field.to_vec());
                continue;
            }
            if seen.len() >= PROCESSES_MAX {
                continue;
            }
            let process = match followed.processes.remove(field) {
                Some(known) if known.entry == entry => known,
                known => Process {
                    entry: entry.to_vec(),
                    first: known.map_or(round, |known| known.first),
                    changed: round,
                },
            };
            if round - process.changed >= REMOVED_ROUNDS {
                removed.push(field.to_vec());
            } else {
                seen.insert(field.to_vec(), process);
            }
        }
        followed.processes = seen;
        // One that was seen once only may have ended before.
        let alive = followed
            .processes
            .values()
            .filter(|process| process.changed > process.first && round - process.changed < AWAY_ROUNDS);
        let (mut strangers, mut namesakes, mut members) = (Vec::new(), 0, 1);
        for process in alive {
            let Some((name, fleet)) = read(&process.entry) else { continue };
            if fleet != self.fingerprint {
                strangers.push(name);
                continue;
            }
            members += 1;
            if name == self.name {
                namesakes += 1;
            }
        }
        self.strangers.store(strangers.len() as u64, Relaxed);
        self.namesakes.store(namesakes, Relaxed);
        self.members.store(members, Relaxed);
        if let (Some(name), false) = (strangers.first(), followed.has_said_strangers) {
            followed.has_said_strangers = true;
            tracing::warn!(
                "fleet: `{}` uses this store with another secret, so nothing is shared with it; copy the file of \
                 fleet.secret, or give each fleet a database of its own",
                name.escape_debug()
            );
        }
        if namesakes > 0 && !followed.has_said_namesakes {
            followed.has_said_namesakes = true;
            tracing::warn!(
                "fleet: another edge has the name `{}` too, so purges and ticket keys of one of both are not waited for; \
                 write another fleet.name",
                self.name
            );
        }
        removed
    }
}

/// The name and the fingerprint in an entry.
fn read(entry: &[u8]) -> Option<(String, String)> {
    let json: Json = serde_json::from_slice(entry).ok()?;
    let text = |key: &str| json[key].as_str().map(str::to_owned);
    Some((text("name")?, text("fleet")?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use penstock_tls::circuit::{Circuit, CircuitLimits};

    use super::*;
    use crate::connect::{AnswerLimits, Meter};

    fn census() -> Census {
        let circuit = Circuit::new(CircuitLimits { failures: 1, successes: 1, pause: None });
        let meter = Meter::new(AnswerLimits { bytes: 1, lines: 1 });
        let link = Link::new(circuit, Duration::ZERO, Duration::ZERO, 1, meter);
        Census::new(&Arc::new(link), "edge-1", "0123abcd", [7; 16])
    }

    fn entry(name: &str, fleet: &str, count: u64) -> Vec<u8> {
        json!({"name": name, "fleet": fleet, "count": count}).to_string().into_bytes()
    }

    /// Takes in these entries of other processes, one round; returns strangers, namesakes and what is to be removed.
    fn round(census: &Census, entries: &[(&str, Vec<u8>)]) -> (u64, u64, usize) {
        let own = (census.instance.clone(), entry("edge-1", "0123abcd", 9));
        let all = entries.iter().map(|(field, entry)| (field.as_bytes(), &entry[..]));
        let removed = census.take_in(all.chain([(own.0.as_bytes(), &own.1[..])]));
        (census.strangers(), census.namesakes(), removed.len())
    }

    #[test]
    fn a_process_counts_while_its_entry_changes_and_is_removed_when_it_has_not_for_long() {
        let census = census();
        // One that was killed before this one began is no second edge of the name.
        let killed = || ("k", entry("edge-1", "0123abcd", 5));
        for _ in 0..REMOVED_ROUNDS {
            assert_eq!(round(&census, &[killed()]), (0, 0, 0));
        }
        assert_eq!(round(&census, &[killed()]), (0, 0, 1));
        let others = |count| {
            [
                ("same", entry("edge-1", "0123abcd", count)),
                ("other", entry("edge-2", "0123abcd", count)),
                ("stranger", entry("edge-1", "99999999", count)),
                ("rubbish", b"{".to_vec()),
            ]
        };
        assert_eq!(round(&census, &others(1)), (0, 0, 0));
        assert_eq!(round(&census, &others(2)), (1, 1, 0));
        assert_eq!(census.members(), 3);
        for _ in 1..AWAY_ROUNDS {
            assert_eq!(round(&census, &others(2)), (1, 1, 0));
        }
        assert_eq!(round(&census, &others(2)), (0, 0, 0));
        assert_eq!(round(&census, &[]), (0, 0, 0));
    }

    #[test]
    fn entries_are_bounded_in_bytes_and_number() {
        let census = census();
        let long = ("long", vec![b'x'; ENTRY_BYTES_MAX + 1]);
        assert_eq!(round(&census, &[long]), (0, 0, 1));
        let names: Vec<String> = (0..2 * PROCESSES_MAX).map(|number| format!("{number:032}")).collect();
        for count in 0..2 {
            let many: Vec<_> =
                names.iter().map(|name| (name.as_str(), entry("edge-2", "99999999", count))).collect();
            round(&census, &many);
        }
        assert_eq!(census.strangers(), PROCESSES_MAX as u64);
    }
}
