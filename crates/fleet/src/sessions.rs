//! Sessions of TLS 1.2 that all edges share.
//!
//! The process's own cache comes first. A session of another edge is asked of the store, while the handshake waits. New
//! sessions go to the store through a queue, so that no handshake waits for that.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use penstock_sys::traffic::Secret;
use penstock_tls::session_store::{SessionKey, SessionStore, StoreAnswer};
use redis::Pipeline;
use tokio::sync::mpsc::{Receiver, Sender};

use crate::counters::{Operation, Outcome};
use crate::link::{Link, bytes_of};
use crate::seal::{OVERHEAD_BYTES, Purpose, Sealer};

/// Bytes of a session that goes to the store. A session with a client's certificate has several KiB.
const SESSION_BYTES: usize = 8 * 1024;

/// Sessions written at once.
const BATCH: usize = 64;

/// A sealed session on its way to the store.
pub(crate) struct SealedSession {
    name: String,
    record: Vec<u8>,
}

/// Sessions in the process and in the store.
pub(crate) struct FleetSessions {
    pub(crate) own: Arc<dyn SessionStore>,
    pub(crate) link: Arc<Link>,
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) queue: Sender<SealedSession>,
    /// Begins the name of everything that the fleet stores.
    pub(crate) prefix: String,
}

impl SessionStore for FleetSessions {
    fn find(&self, key: SessionKey<'_>) -> StoreAnswer {
        match self.own.find(key) {
            StoreAnswer::Now(None) => {}
            found => return found,
        }
        if !self.link.may_ask(Operation::SessionFind) {
            return StoreAnswer::Now(None);
        }
        let (link, sealer) = (Arc::clone(&self.link), Arc::clone(&self.sealer));
        let name = self.store_name(key);
        let (id, server_name) = (key.id.to_vec(), lowercase(key.server_name));
        let bytes_max = SESSION_BYTES + OVERHEAD_BYTES;
        StoreAnswer::Later(Box::pin(async move {
            let mut commands = Pipeline::with_capacity(1);
            // One more byte than a record can have: what is larger was not written by this fleet.
            commands.cmd("GETRANGE").arg(name).arg(0).arg(bytes_max);
            let answers = link.ask(Operation::SessionFind, &commands).await.ok()?;
            let record = answers.first().and_then(bytes_of).filter(|record| !record.is_empty());
            let opened = record
                .filter(|record| record.len() <= bytes_max)
                .and_then(|record| sealer.open(Purpose::Session, &[&id, &server_name], record));
            let outcome = match (record, &opened) {
                (None, _) => Outcome::Miss,
                (Some(_), None) => Outcome::Forged,
                (Some(_), Some(_)) => Outcome::Ok,
            };
            link.counters.count(Operation::SessionFind, outcome);
            opened
        }))
    }

    fn insert(&self, key: SessionKey<'_>, session: Secret) {
        if self.link.is_nearly_full.load(Relaxed) {
            self.link.counters.count(Operation::SessionStore, Outcome::Full);
        } else if session.expose().len() <= SESSION_BYTES {
            let context: [&[u8]; 2] = [key.id, &lowercase(key.server_name)];
            let sealed = self.sealer.seal(Purpose::Session, &context, session.expose());
            let name = self.store_name(key);
            if sealed.is_none_or(|record| self.queue.try_send(SealedSession { name, record }).is_err()) {
                self.link.counters.count(Operation::SessionStore, Outcome::Skipped);
            }
        }
        self.own.insert(key, session);
    }
}

/// Names are compared without case (RFC 6066 §3). A client without a name is not one with an empty name.
fn lowercase(name: Option<&str>) -> Vec<u8> {
    name.map_or_else(Vec::new, |name| format!("={}", name.to_ascii_lowercase()).into_bytes())
}

impl FleetSessions {
    fn store_name(&self, key: SessionKey<'_>) -> String {
        let pseudonym = self.sealer.pseudonym("session", &[key.id, &lowercase(key.server_name)]);
        format!("{}session:{pseudonym}", self.prefix)
    }
}

/// Writes queued sessions to the store, several at once.
pub(crate) struct SessionWriter {
    pub(crate) queue: Receiver<SealedSession>,
    pub(crate) lifetime: Duration,
}

impl SessionWriter {
    /// Writes for as long as it is polled. What is queued while there is no connection waits for one.
    pub(crate) async fn run(&mut self, link: &Link) {
        let mut taken = Vec::with_capacity(BATCH);
        while self.queue.recv_many(&mut taken, BATCH).await > 0 {
            let mut commands = Pipeline::with_capacity(taken.len());
            for session in &taken {
                commands
                    .cmd("SET")
                    .arg(&session.name)
                    .arg(&session.record)
                    .arg("PX")
                    .arg(millis(self.lifetime));
            }
            let count = taken.len();
            taken.clear();
            let outcome = match link.ask_patiently(Operation::SessionStore, &commands).await {
                Ok(_) => Outcome::Ok,
                // The first is counted already.
                Err(fault) => fault.outcome(),
            };
            let counted = usize::from(outcome != Outcome::Ok);
            (counted..count).for_each(|_| link.counters.count(Operation::SessionStore, outcome));
        }
    }
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
