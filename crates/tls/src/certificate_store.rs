//! Certificates of a listener, with one library context for each that is in use.
//!
//! Certificates in memory are ready at once. Lazy ones are known by name only: the first handshake that needs one waits
//! while a separate thread loads it. The least recently used contexts are dropped above a limit.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock, Weak};
use std::time::{Duration, Instant};

use boring::ssl::SslContext;
use penstock_sys::lock::Unpoisoned;

use crate::candidates::NameIndex;
use crate::challenges::{AnswerChallenges, ChallengeContext, Challenges};
use crate::compression::CompressedMessages;
use crate::context::{ContextError, with_certificate};
use crate::load_signal::LoadSignal;
use crate::offered_certificate::{CertificateSource, DefaultFor, OfferedCertificate};
use crate::settings::AcceptorSettings;
use crate::signatures::Verifiable;

/// Time before a certificate that failed to load is tried again.
const BROKEN_FOR: Duration = Duration::from_secs(30);

/// All certificates of a listener. Workers read it; only a change of certificates writes.
pub(crate) struct CertificateStore {
    settings: AcceptorSettings,
    compressed: Arc<CompressedMessages>,
    snapshot: RwLock<Arc<Snapshot>>,
    loader: OnceLock<Sender<Load>>,
    /// Answers to challenges of a certificate authority, if there can be any.
    challenges: OnceLock<Challenges>,
    /// Number of contexts of lazy certificates.
    prepared: AtomicUsize,
    started: Instant,
}

/// One generation of certificates; immutable.
struct Snapshot {
    index: NameIndex,
    slots: Vec<Arc<CertificateSlot>>,
}

/// One certificate with its context.
struct CertificateSlot {
    source: CertificateSource,
    state: Mutex<SlotState>,
    /// In seconds since the store was made.
    last_used: AtomicU64,
}

enum SlotState {
    Absent,
    Loading(LoadSignal),
    Ready(SslContext),
    Broken { since: Instant },
}

/// What the loading thread is asked for.
enum Load {
    Certificate(Arc<CertificateSlot>),
    /// The answer to a challenge for this name.
    Answer(String),
}

/// Result of [`CertificateStore::get_or_load`].
pub(crate) enum Chosen {
    Ready(SslContext),
    /// Being loaded; look again after this signal.
    Pending(LoadSignal),
    None,
}

impl CertificateStore {
    /// Makes a store of the certificates in `settings`.
    pub(crate) fn new(mut settings: AcceptorSettings) -> Result<Arc<Self>, ContextError> {
        let certificates = std::mem::take(&mut settings.certificates);
        let compressed = Arc::new(CompressedMessages::new(settings.compressed_bytes_max));
        let store = Arc::new(Self {
            settings,
            compressed,
            snapshot: RwLock::new(Arc::new(Snapshot { index: NameIndex::default(), slots: Vec::new() })),
            loader: OnceLock::new(),
            challenges: OnceLock::new(),
            prepared: AtomicUsize::new(0),
            started: Instant::now(),
        });
        store.replace(certificates)?;
        Ok(store)
    }

    /// Replaces the certificates. Contexts of certificates that stay are reused.
    pub(crate) fn replace(
        self: &Arc<Self>,
        certificates: Vec<OfferedCertificate>,
    ) -> Result<(), ContextError> {
        if certificates.is_empty() {
            return Err(ContextError::new("there is no certificate"));
        }
        let previous = self.snapshot();
        let known: HashMap<usize, &Arc<CertificateSlot>> =
            previous.slots.iter().map(|slot| (slot.source.address(), slot)).collect();
        let index = index_of(&certificates);
        let mut slots = Vec::with_capacity(certificates.len());
        for offered in certificates {
            slots.push(match known.get(&offered.source.address()) {
                Some(slot) => Arc::clone(slot),
                None => Arc::new(self.slot(offered.source)?),
            });
        }
        if slots.iter().any(|slot| matches!(slot.source, CertificateSource::Lazy(_))) {
            self.start_loader().map_err(|error| ContextError::new(&error.to_string()))?;
        }
        let snapshot = Arc::new(Snapshot { index, slots });
        *self.snapshot.write().unpoisoned() = Arc::clone(&snapshot);
        self.recount_prepared(&previous, &snapshot);
        Ok(())
    }

    /// Returns the context for a client, or starts to load its certificate.
    pub(crate) fn get_or_load(&self, server_name: Option<&str>, verifiable: Verifiable) -> Chosen {
        let snapshot = self.snapshot();
        let slots =
            snapshot.index.choose(server_name, verifiable).filter_map(|place| snapshot.slots.get(place));
        for slot in slots {
            match self.context_or_load(slot) {
                // A certificate of another name is better than none.
                Chosen::None => {}
                found => return found,
            }
        }
        Chosen::None
    }

    /// Answers challenges of a certificate authority from now on.
    pub(crate) fn answer_challenges(
        self: &Arc<Self>,
        answers: Arc<dyn AnswerChallenges>,
    ) -> Result<(), ContextError> {
        self.start_loader().map_err(|error| ContextError::new(&error.to_string()))?;
        // A second call changes nothing: settings are made anew with each configuration.
        drop(self.challenges.set(Challenges::new(answers)));
        Ok(())
    }

    /// Whether a client that sends this ALPN extension validates a name.
    pub(crate) fn is_challenged(&self, offered: Option<&[u8]>, server_name: Option<&str>) -> bool {
        self.challenges.get().is_some_and(|challenges| {
            server_name.is_some_and(|name| challenges.are_asked(offered, &name.to_ascii_lowercase()))
        })
    }

    /// The context with the answer to the challenge for a name.
    pub(crate) fn answer(&self, server_name: Option<&str>) -> Chosen {
        let (Some(challenges), Some(name), Some(loader)) =
            (self.challenges.get(), server_name, self.loader.get())
        else {
            return Chosen::None;
        };
        let name = name.to_ascii_lowercase();
        match challenges.get(&name) {
            ChallengeContext::Ready(context) => Chosen::Ready(context),
            ChallengeContext::Pending(signal) => Chosen::Pending(signal),
            // Without its thread there is no store.
            ChallengeContext::Load(signal) => match loader.send(Load::Answer(name)) {
                Ok(()) => Chosen::Pending(signal),
                Err(_) => Chosen::None,
            },
            ChallengeContext::None => Chosen::None,
        }
    }

    /// Whether a certificate covers this name.
    pub(crate) fn covers(&self, server_name: &str) -> bool {
        self.snapshot().index.covers(server_name)
    }

    /// Number of lazy certificates in memory.
    pub(crate) fn prepared(&self) -> usize {
        self.prepared.load(Relaxed)
    }

    fn context_or_load(&self, slot: &Arc<CertificateSlot>) -> Chosen {
        slot.touch(self.started.elapsed());
        let mut state = slot.lock();
        match &*state {
            SlotState::Ready(context) => return Chosen::Ready(context.clone()),
            SlotState::Loading(signal) => return Chosen::Pending(signal.clone()),
            SlotState::Broken { since } if since.elapsed() < BROKEN_FOR => return Chosen::None,
            SlotState::Broken { .. } | SlotState::Absent => {}
        }
        let Some(loader) = self.loader.get() else { return Chosen::None };
        // A slot is queued once, so the queue is never longer than the list of certificates.
        if loader.send(Load::Certificate(Arc::clone(slot))).is_err() {
            return Chosen::None;
        }
        let signal = LoadSignal::new();
        *state = SlotState::Loading(signal.clone());
        Chosen::Pending(signal)
    }

    fn slot(&self, source: CertificateSource) -> Result<CertificateSlot, ContextError> {
        let state = match &source {
            CertificateSource::Loaded(certificate) => {
                SlotState::Ready(with_certificate(&self.settings, certificate, &self.compressed)?.build())
            }
            CertificateSource::Lazy(_) => SlotState::Absent,
        };
        Ok(CertificateSlot { source, state: Mutex::new(state), last_used: AtomicU64::new(0) })
    }

    fn start_loader(self: &Arc<Self>) -> io::Result<()> {
        if self.loader.get().is_some() {
            return Ok(());
        }
        let (sender, requests) = channel();
        let store = Arc::downgrade(self);
        std::thread::Builder::new().name("certificates".into()).spawn(move || load(&store, &requests))?;
        // Only one thread replaces certificates, so the cell is still empty.
        drop(self.loader.set(sender));
        Ok(())
    }

    fn load_answer(&self, name: &str) {
        if let Some(challenges) = self.challenges.get() {
            challenges.load(name, &self.settings);
        }
    }

    fn load(&self, slot: &CertificateSlot) {
        let CertificateSource::Lazy(source) = &slot.source else { return };
        let context = source.load().ok().and_then(|certificate| {
            with_certificate(&self.settings, &certificate, &self.compressed)
                .ok()
                .map(|builder| builder.build())
        });
        let is_ready = context.is_some();
        let state = context.map_or_else(|| SlotState::Broken { since: Instant::now() }, SlotState::Ready);
        if let SlotState::Loading(signal) = std::mem::replace(&mut *slot.lock(), state) {
            signal.notify();
        }
        if is_ready && self.prepared.fetch_add(1, Relaxed) >= self.settings.prepared_certificates {
            self.evict();
        }
    }

    /// Drops the surplus and at least an eighth of the lazy contexts, least recently used first.
    fn evict(&self) {
        let snapshot = self.snapshot();
        let lazy = |slot: &&Arc<CertificateSlot>| {
            matches!(slot.source, CertificateSource::Lazy(_)) && slot.is_ready()
        };
        let mut ready: Vec<(u64, &Arc<CertificateSlot>)> =
            snapshot.slots.iter().filter(lazy).map(|slot| (slot.last_used.load(Relaxed), slot)).collect();
        ready.sort_unstable_by_key(|(last_used, _)| *last_used);
        let surplus = ready.len().saturating_sub(self.settings.prepared_certificates);
        let too_many = surplus.max(ready.len() / 8);
        for (_, slot) in ready.iter().take(too_many) {
            *slot.lock() = SlotState::Absent;
        }
        self.prepared.store(ready.len().saturating_sub(too_many), Relaxed);
    }

    /// Recounts lazy contexts after a change of certificates.
    fn recount_prepared(&self, previous: &Snapshot, snapshot: &Snapshot) {
        let is_lazy = |slot: &&Arc<CertificateSlot>| {
            matches!(slot.source, CertificateSource::Lazy(_)) && slot.is_ready()
        };
        if previous.slots.iter().any(|slot| is_lazy(&slot)) {
            self.prepared.store(snapshot.slots.iter().filter(is_lazy).count(), Relaxed);
        }
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read().unpoisoned())
    }
}

fn index_of(certificates: &[OfferedCertificate]) -> NameIndex {
    let any_default = certificates.iter().any(|one| one.default == DefaultFor::Unknown);
    let mut index = NameIndex::default();
    for (place, offered) in certificates.iter().enumerate() {
        let algorithm = offered.summary.algorithm();
        match offered.default {
            DefaultFor::NoSni => index.add_for_no_sni(algorithm, place),
            DefaultFor::Unmarked if any_default => {}
            DefaultFor::Unknown | DefaultFor::Unmarked => index.add_default(algorithm, place),
        }
    }
    // For one name the first certificate of the configuration wins; directories have no order, so the longest valid wins.
    let mut places: Vec<usize> = (0..certificates.len()).collect();
    places.sort_by_key(|place| match &certificates[*place].source {
        CertificateSource::Loaded(_) => (false, None),
        CertificateSource::Lazy(_) => (true, Some(Reverse(certificates[*place].summary.not_after()))),
    });
    for place in places {
        let offered = &certificates[place];
        if offered.default != DefaultFor::NoSni {
            index.add(offered.summary.names(), offered.summary.algorithm(), place);
        }
    }
    index
}

/// Loads requested certificates until the store is dropped.
fn load(store: &Weak<CertificateStore>, requests: &Receiver<Load>) {
    while let Ok(wanted) = requests.recv() {
        let Some(store) = store.upgrade() else { return };
        match wanted {
            Load::Certificate(slot) => store.load(&slot),
            Load::Answer(name) => store.load_answer(&name),
        }
    }
}

impl CertificateSlot {
    fn touch(&self, now: Duration) {
        let now = now.as_secs();
        if self.last_used.load(Relaxed) != now {
            self.last_used.store(now, Relaxed);
        }
    }

    fn is_ready(&self) -> bool {
        matches!(*self.lock(), SlotState::Ready(_))
    }

    /// Held briefly: handshakes wait at the [`LoadSignal`], not here.
    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unpoisoned()
    }
}

#[cfg(test)]
mod tests;
