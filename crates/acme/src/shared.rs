//! What the edges of a fleet share of their orders, in its store: the right to order, the account, certificates with their keys,
//! and the answer to the challenge that is under way.
//!
//! Each edge keeps copies in its own storage, from which it serves. The edge that orders waits until the others have had time
//! to fetch the answer, because the authority may ask any of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use penstock_config::limits;
use penstock_fleet::{NoAnswer, SharedFiles};
use penstock_tls::certificate::RenewalFacts;
use tokio::time::sleep;

use crate::storage::{OrderLock, Storage, StorageError};

const RIGHT: &str = "acme right";
const ANSWER: &str = "acme answer";
const RIGHT_TIME: Duration = Duration::from_secs(limits::ACME_RIGHT_SECONDS);

/// The storage of one edge, and what it shares of it.
#[derive(Clone, Debug)]
pub(crate) struct SharedStorage {
    pub(crate) own: Storage,
    shared: Option<Arc<FleetShare>>,
}

impl SharedStorage {
    /// A storage that is shared by `files`; by its directory alone if there are none.
    pub(crate) fn new(own: Storage, files: Option<SharedFiles>) -> Self {
        let shared = files.map(|files| Arc::new(FleetShare { files, orders: AtomicBool::new(false) }));
        Self { own, shared }
    }

    /// Takes the right to order; `None` if another process has it, or another edge of the fleet.
    pub(crate) async fn lock(&self) -> Result<Option<OrderLock>, StorageError> {
        let Some(lock) = self.own.lock()? else { return Ok(None) };
        let Some(shared) = &self.shared else { return Ok(Some(lock)) };
        let locked = shared.lock().await;
        let locked = locked.map_err(|error| StorageError::unanswered("take the right to order in", error))?;
        if locked {
            shared.take_account(&self.own).await?;
        }
        Ok(locked.then_some(lock))
    }

    /// Gives up the right to order.
    pub(crate) async fn unlock(&self, lock: OrderLock) {
        if let Some(shared) = &self.shared {
            shared.unlock(&self.own).await;
        }
        drop(lock);
    }

    /// Takes over what other edges have of a certificate, and gives them what is here.
    pub(crate) async fn exchange(&self, name: &str) -> Result<(), StorageError> {
        match &self.shared {
            Some(shared) => shared.exchange_certificate(&self.own, name).await,
            None => Ok(()),
        }
    }

    /// Writes an answer to a challenge, and gives it to the other edges.
    pub(crate) async fn set_answer(&self, path: &Path, answer: &[u8]) -> Result<(), StorageError> {
        self.own.set_answer(path, answer)?;
        let Some(shared) = &self.shared else { return Ok(()) };
        let spread = shared.spread_answer(path, answer).await;
        spread.map_err(|error| StorageError::unanswered("write the answer to", error))
    }

    /// Fetches the answers of other edges; waits without end if there are none.
    pub(crate) async fn mirror(&self) {
        match &self.shared {
            Some(shared) => shared.mirror(&self.own).await,
            None => std::future::pending().await,
        }
    }
}

/// The share of one edge.
#[derive(Debug)]
struct FleetShare {
    files: SharedFiles,
    /// Whether this edge has the right to order.
    orders: AtomicBool,
}

impl FleetShare {
    /// Takes the right to order; false if another edge has it.
    async fn lock(&self) -> Result<bool, NoAnswer> {
        let is_taken = self.files.lock(RIGHT, RIGHT_TIME).await?;
        self.orders.store(is_taken, Relaxed);
        Ok(is_taken)
    }

    /// Gives the right up, and with it the answer. What the authority has made goes to the others first.
    async fn unlock(&self, storage: &Storage) {
        if let Ok(Some(account)) = storage.account() {
            let put = self.files.put(&account_name(storage), &account, limits::ACME_ACCOUNT_SHARED).await;
            report("the account", put);
        }
        self.files.remove(ANSWER).await;
        self.orders.store(false, Relaxed);
        self.files.unlock(RIGHT).await;
    }

    /// Takes the account of the fleet over.
    async fn take_account(&self, storage: &Storage) -> Result<(), StorageError> {
        match self.files.get(&account_name(storage)).await {
            Ok(Some(json)) if storage.account()?.as_deref() != Some(json.expose()) => {
                storage.set_account(json.expose())
            }
            _ => Ok(()),
        }
    }

    /// Takes the certificate of the fleet over if it is newer than the one that is here, and shares this one if that is newer.
    async fn exchange_certificate(&self, storage: &Storage, name: &str) -> Result<(), StorageError> {
        let key = certificate_name(storage, name);
        let Ok(found) = self.files.get(&key).await else { return Ok(()) };
        let theirs = found.as_ref().and_then(|pem| validity(pem.expose()));
        let pem = storage.certificate_pem(name);
        let own = pem.as_deref().and_then(validity);
        match (found, pem, own) {
            (Some(pem), _, _) if theirs > own => storage.replace_certificate(name, pem.expose()),
            (_, Some(pem), Some((_, end))) if theirs < own => {
                if let Ok(left) = end.duration_since(SystemTime::now()) {
                    report("a certificate", self.files.put(&key, &pem, left).await);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Gives the others an answer to a challenge, and time to fetch it.
    async fn spread_answer(&self, path: &Path, answer: &[u8]) -> Result<(), NoAnswer> {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let record = [name, b"\n", answer].concat();
        let lifetime = Duration::from_secs(limits::ACME_ORDER_SECONDS_MAX);
        self.files.put(ANSWER, &record, lifetime).await?;
        sleep(limits::ACME_MIRRORED).await;
        Ok(())
    }

    /// Keeps the right while this edge orders, and fetches the answers of others meanwhile. Never returns.
    async fn mirror(&self, storage: &Storage) -> ! {
        let mut fetched: Option<(PathBuf, Vec<u8>)> = None;
        loop {
            sleep(limits::ACME_MIRROR).await;
            if self.orders.load(Relaxed) {
                // Without an answer the right ends by itself.
                let _is_kept = self.files.keep(RIGHT, RIGHT_TIME).await;
                continue;
            }
            let Ok(record) = self.files.get(ANSWER).await else { continue };
            let answer = record.as_ref().and_then(|record| answer_of(storage, record.expose()));
            if answer == fetched {
                continue;
            }
            if let Some((path, _)) =
                fetched.take().filter(|(path, _)| answer.as_ref().is_none_or(|new| new.0 != *path))
            {
                // One that stays is removed before a later order.
                drop(fs::remove_file(path));
            }
            let Some((path, bytes)) = answer else { continue };
            match storage.set_answer(&path, &bytes) {
                Ok(()) => fetched = Some((path, bytes)),
                Err(error) => tracing::warn!("{error}"),
            }
        }
    }
}

/// Begin and end of a certificate: the greater pair is the newer one. It may end earlier, if the authority or the profile has changed
/// how long certificates live.
fn validity(pem: &[u8]) -> Option<(SystemTime, SystemTime)> {
    RenewalFacts::from_pem(pem).ok().map(|facts| (facts.not_before, facts.not_after))
}

/// The file and the content of an answer of another edge.
fn answer_of(storage: &Storage, record: &[u8]) -> Option<(PathBuf, Vec<u8>)> {
    let end = record.iter().position(|byte| *byte == b'\n')?;
    let name = str::from_utf8(&record[..end]).ok()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.*".contains(&byte);
    let is_name = !name.is_empty() && !name.starts_with('.') && name.bytes().all(is_plain);
    let answer = &record[end + 1..];
    let is_fine = is_name && answer.len() as u64 <= limits::ACME_ANSWER_BYTES;
    is_fine.then(|| (storage.challenges().join(name), answer.to_vec()))
}

fn account_name(storage: &Storage) -> String {
    format!("acme account {}", storage.label())
}

fn certificate_name(storage: &Storage, name: &str) -> String {
    format!("acme certificate {} {name}", storage.label())
}

fn report(what: &str, put: Result<(), NoAnswer>) {
    if let Err(error) = put {
        tracing::warn!("acme: {what} did not reach the other edges: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_with_a_shorter_life_is_newer_than_one_that_began_before_it() {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        let now = SystemTime::now();
        let made = |begin: SystemTime, life: Duration| {
            let mut params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
            (params.not_before, params.not_after) = (begin.into(), (begin + life).into());
            params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
        };
        let (revoked, short) = (made(now - DAY, 90 * DAY), made(now, 6 * DAY));
        assert!(validity(short.as_bytes()) > validity(revoked.as_bytes()));
        assert!(validity(revoked.as_bytes()) > validity(b"garbage"));
    }
}
