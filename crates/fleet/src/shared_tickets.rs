//! Keeps the session ticket keys of this edge and of the store the same.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use penstock_sys::lock::Unpoisoned;
use penstock_tls::tickets::TicketPolicy;
use penstock_tls::tickets::directory::KeyFile;
use redis::Pipeline;

use crate::counters::{Operation, Outcome};
use crate::link::{Fault, Link, bytes_of};
use crate::lock::take_lock;
use crate::seal::{OVERHEAD_BYTES, Purpose, Sealer};
use crate::state::StateDirectory;
use crate::ticket_keys::{ENCODED_BYTES_MAX, KeySet, seconds};

/// The file with the last known keys, sealed as in the store.
const FILE: &str = "tickets";

/// The keys of the fleet as this edge knows them.
pub(crate) struct SharedTickets {
    pub(crate) link: Arc<Link>,
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) prefix: String,
    pub(crate) state: StateDirectory,
    pub(crate) known: Mutex<KnownKeys>,
}

#[derive(Default)]
pub(crate) struct KnownKeys {
    set: KeySet,
    /// `None` if this edge does not share its keys.
    policy: Option<TicketPolicy>,
    /// Whether keys that are not this fleet's were mentioned in the log.
    forged: bool,
}

impl SharedTickets {
    /// Reads the last known keys of an earlier process.
    pub(crate) fn restore(&self) {
        let Some(record) = self.state.read(FILE) else { return };
        match self.opened(&record) {
            Some(set) => self.known().set.merge(&set),
            None => tracing::warn!("fleet: the stored ticket keys are of another secret and not used"),
        }
    }

    /// Changes whether and how keys are shared.
    pub(crate) fn set_policy(&self, policy: Option<TicketPolicy>) {
        self.known().policy = policy;
    }

    /// The known keys, the newest first.
    pub(crate) fn files(&self) -> Vec<Arc<KeyFile>> {
        self.known().set.files(seconds(SystemTime::now()))
    }

    /// The name of the newest key; `None` if keys are not shared.
    pub(crate) fn newest(&self) -> Option<String> {
        let known = self.known();
        known.policy.and_then(|_| known.set.newest())
    }

    /// Takes up what the store has, and adds what it lacks. Called about once a second. Returns whether it knows what the
    /// store has.
    pub(crate) async fn round(&self) -> bool {
        let Some(policy) = self.known().policy else { return false };
        let Some(stored) = self.read().await else { return false };
        let now = seconds(SystemTime::now());
        let (is_behind, is_changed) = {
            let mut known = self.known();
            let before = known.set.clone();
            known.set.merge(&stored.current(&policy, now));
            known.set.retire(policy.keep, now);
            let is_behind = known.set.clone().grow(&policy, now) || !stored.contains(&known.set);
            (is_behind, known.set != before)
        };
        if is_changed {
            self.save();
        }
        if is_behind {
            self.write(&policy, now).await;
        }
        true
    }

    /// The keys in the store, none if it has none; `None` if it does not answer.
    async fn read(&self) -> Option<KeySet> {
        let mut commands = Pipeline::with_capacity(1);
        commands.cmd("GETRANGE").arg(self.name()).arg(0).arg(ENCODED_BYTES_MAX + OVERHEAD_BYTES);
        let set = match self.link.ask_patiently(Operation::TicketKeys, &commands).await {
            // Counted.
            Err(Fault::WrongType) => None,
            Err(_) => return None,
            Ok(answers) => {
                let record = answers.first().and_then(bytes_of).unwrap_or_default();
                if record.is_empty() {
                    self.link.counters.count(Operation::TicketKeys, Outcome::Miss);
                    return Some(KeySet::default());
                }
                let set = self.opened(record);
                let outcome = if set.is_some() { Outcome::Ok } else { Outcome::Forged };
                self.link.counters.count(Operation::TicketKeys, outcome);
                set
            }
        };
        let was_forged = std::mem::replace(&mut self.known().forged, set.is_none());
        if set.is_none() && !was_forged {
            tracing::warn!(
                "fleet: the ticket keys in the store are not sealed with the fleet's secret; replaced"
            );
        }
        Some(set.unwrap_or_default())
    }

    /// Writes all known keys and those that are due, if no other edge does so now. A new key is in force only when it is
    /// in the store.
    async fn write(&self, policy: &TicketPolicy, now: u64) {
        let lock = format!("{}tickets:lock", self.prefix);
        if take_lock(&self.link, Operation::TicketKeys, &lock).await != Ok(true) {
            return;
        }
        // Another edge may have written before it gave the lock up.
        let Some(stored) = self.read().await else { return };
        let mut set = self.known().set.clone();
        set.merge(&stored.current(policy, now));
        set.retire(policy.keep, now);
        let has_grown = set.grow(policy, now);
        if stored.contains(&set) {
            return;
        }
        let Some(record) = self.sealer.seal(Purpose::TicketKeys, &[], set.encoded().expose()) else { return };
        let mut commands = Pipeline::with_capacity(1);
        commands.cmd("SET").arg(self.name()).arg(record);
        if self.link.ask_patiently(Operation::TicketKeys, &commands).await.is_err() {
            return;
        }
        if has_grown {
            tracing::info!("fleet: added session ticket key {}", set.newest().unwrap_or_default());
        }
        self.known().set = set;
        self.save();
    }

    fn save(&self) {
        let encoded = self.known().set.encoded();
        if let Some(record) = self.sealer.seal(Purpose::TicketKeys, &[], encoded.expose()) {
            self.state.write(FILE, &record);
        }
    }

    fn opened(&self, record: &[u8]) -> Option<KeySet> {
        KeySet::decode(self.sealer.open(Purpose::TicketKeys, &[], record)?.expose())
    }

    fn name(&self) -> String {
        format!("{}tickets", self.prefix)
    }

    fn known(&self) -> MutexGuard<'_, KnownKeys> {
        self.known.lock().unpoisoned()
    }

    /// Whether there is a key, and the keys with their uses and the times from which they seal.
    pub(crate) async fn stored(&self) -> Option<KeySet> {
        self.read().await
    }
}
