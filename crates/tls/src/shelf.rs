//! The certificates a server offers, with the library's contexts of those that are in use.
//!
//! Those in memory are ready at once. Others are known by name only: the first client that needs one waits while a
//! thread of its own reads it, and what nobody has needed for the longest time goes when there are too many.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use boring::ssl::SslContext;
use tokio::sync::Semaphore;

use crate::candidates::NameIndex;
use crate::certificate::{Certificate, CertificateError, Summary};
use crate::compression::CompressedMessages;
use crate::context::{ContextError, with_certificate};
use crate::settings::Settings;
use crate::signatures::Verifiable;

/// A certificate that clients can be shown.
#[derive(Clone, Debug)]
pub struct Offered {
    /// Who it is for.
    pub summary: Arc<Summary>,
    /// Which clients it answers beside those that ask for one of its names.
    pub default: DefaultFor,
    /// Where it comes from.
    pub source: Source,
}

impl Offered {
    /// A certificate that is in memory.
    #[must_use]
    pub fn loaded(certificate: &Arc<Certificate>, default: DefaultFor) -> Self {
        let source = Source::Loaded(Arc::clone(certificate));
        Self { summary: Arc::clone(certificate.summary()), default, source }
    }
}

/// Whom a certificate answers beside those who ask for one of its names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultFor {
    /// Nobody, unless no certificate is marked at all: then the first of each kind of key answers unknown names.
    #[default]
    Unmarked,
    /// Clients that send no server name or an unknown one.
    Unknown,
    /// Clients that send no server name, and only those: never those who ask for one of its names.
    NoSni,
}

/// Where a certificate comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// It is in memory.
    Loaded(Arc<Certificate>),
    /// It is read when the first client needs it.
    Lazy(Arc<dyn Load>),
}

/// Reads a certificate. It is called on a thread that may wait for disks.
pub trait Load: fmt::Debug + Send + Sync {
    /// Reads it now.
    ///
    /// # Errors
    /// Why it cannot be used; whoever reads says so in the log.
    fn load(&self) -> Result<Certificate, CertificateError>;
}

impl Source {
    /// Tells sources apart.
    fn address(&self) -> usize {
        match self {
            Self::Loaded(certificate) => Arc::as_ptr(certificate).addr(),
            Self::Lazy(load) => Arc::as_ptr(load).cast::<()>().addr(),
        }
    }
}

/// How long a certificate that could not be used is left alone.
const BROKEN_FOR: Duration = Duration::from_secs(30);

/// All certificates. Workers read it; only a change of certificates writes.
pub(crate) struct Shelf {
    settings: Settings,
    compressed: Arc<CompressedMessages>,
    stock: RwLock<Arc<Stock>>,
    loader: OnceLock<Sender<Arc<Slot>>>,
    /// Contexts of lazily read certificates.
    prepared: AtomicUsize,
    started: Instant,
}

/// One generation of certificates.
struct Stock {
    index: NameIndex,
    slots: Vec<Arc<Slot>>,
}

/// The place of one certificate.
struct Slot {
    source: Source,
    state: Mutex<State>,
    /// In seconds since the shelf was made.
    last_used: AtomicU64,
}

enum State {
    Absent,
    /// Closing the gate wakes all who wait there.
    Loading(Gate),
    Ready(SslContext),
    Broken {
        since: Instant,
    },
}

/// What those who need a certificate wait for; it never has a permit and is closed when the certificate is there.
pub(crate) type Gate = Arc<Semaphore>;

/// The certificate for a client.
pub(crate) enum Chosen {
    Ready(SslContext),
    /// Ask again when this gate is closed.
    Pending(Gate),
    None,
}

impl Shelf {
    /// With the certificates of these settings.
    pub(crate) fn new(mut settings: Settings) -> Result<Arc<Self>, ContextError> {
        let certificates = std::mem::take(&mut settings.certificates);
        let compressed = Arc::new(CompressedMessages::new(settings.compressed_bytes_max));
        let shelf = Arc::new(Self {
            settings,
            compressed,
            stock: RwLock::new(Arc::new(Stock { index: NameIndex::default(), slots: Vec::new() })),
            loader: OnceLock::new(),
            prepared: AtomicUsize::new(0),
            started: Instant::now(),
        });
        shelf.replace(certificates)?;
        Ok(shelf)
    }

    /// Offers these certificates from now on. The contexts of those that were here before stay.
    pub(crate) fn replace(self: &Arc<Self>, certificates: Vec<Offered>) -> Result<(), ContextError> {
        if certificates.is_empty() {
            return Err(ContextError::new("there is no certificate"));
        }
        let previous = self.stock();
        let known: HashMap<usize, &Arc<Slot>> =
            previous.slots.iter().map(|slot| (slot.source.address(), slot)).collect();
        let index = index_of(&certificates);
        let mut slots = Vec::with_capacity(certificates.len());
        for offered in certificates {
            slots.push(match known.get(&offered.source.address()) {
                Some(slot) => Arc::clone(slot),
                None => Arc::new(self.slot(offered.source)?),
            });
        }
        if slots.iter().any(|slot| matches!(slot.source, Source::Lazy(_))) {
            self.start_loader().map_err(|error| ContextError::new(&error.to_string()))?;
        }
        let stock = Arc::new(Stock { index, slots });
        *self.stock.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&stock);
        self.forget_prepared(&previous, &stock);
        Ok(())
    }

    /// The certificate for a client.
    pub(crate) fn choose(&self, server_name: Option<&str>, verifiable: Verifiable) -> Chosen {
        let stock = self.stock();
        let slots = stock.index.choose(server_name, verifiable).filter_map(|place| stock.slots.get(place));
        for slot in slots {
            match self.take_from(slot) {
                // Another one is better than none.
                Chosen::None => {}
                found => return found,
            }
        }
        Chosen::None
    }

    /// Whether there is a certificate that bears this name.
    pub(crate) fn bears(&self, server_name: &str) -> bool {
        self.stock().index.bears(server_name)
    }

    /// How many lazily read certificates are in memory now.
    pub(crate) fn prepared(&self) -> usize {
        self.prepared.load(Relaxed)
    }

    fn take_from(&self, slot: &Arc<Slot>) -> Chosen {
        slot.touch(self.started.elapsed());
        let mut state = slot.lock();
        match &*state {
            State::Ready(context) => return Chosen::Ready(context.clone()),
            State::Loading(gate) => return Chosen::Pending(Arc::clone(gate)),
            State::Broken { since } if since.elapsed() < BROKEN_FOR => return Chosen::None,
            State::Broken { .. } | State::Absent => {}
        }
        let Some(loader) = self.loader.get() else { return Chosen::None };
        // Queued at most once, so the queue is never longer than the list of certificates.
        if loader.send(Arc::clone(slot)).is_err() {
            return Chosen::None;
        }
        let gate = Arc::new(Semaphore::new(0));
        *state = State::Loading(Arc::clone(&gate));
        Chosen::Pending(gate)
    }

    fn slot(&self, source: Source) -> Result<Slot, ContextError> {
        let state = match &source {
            Source::Loaded(certificate) => {
                State::Ready(with_certificate(&self.settings, certificate, &self.compressed)?.build())
            }
            Source::Lazy(_) => State::Absent,
        };
        Ok(Slot { source, state: Mutex::new(state), last_used: AtomicU64::new(0) })
    }

    fn start_loader(self: &Arc<Self>) -> io::Result<()> {
        if self.loader.get().is_some() {
            return Ok(());
        }
        let (sender, wanted) = channel();
        let shelf = Arc::downgrade(self);
        std::thread::Builder::new().name("certificates".into()).spawn(move || load(&shelf, &wanted))?;
        // Certificates are replaced by one thread only, so nobody has been faster.
        drop(self.loader.set(sender));
        Ok(())
    }

    fn load(&self, slot: &Slot) {
        let Source::Lazy(source) = &slot.source else { return };
        let context = source.load().ok().and_then(|certificate| {
            with_certificate(&self.settings, &certificate, &self.compressed)
                .ok()
                .map(|builder| builder.build())
        });
        let is_ready = context.is_some();
        let state = context.map_or_else(|| State::Broken { since: Instant::now() }, State::Ready);
        if let State::Loading(gate) = std::mem::replace(&mut *slot.lock(), state) {
            gate.close();
        }
        if is_ready && self.prepared.fetch_add(1, Relaxed) >= self.settings.prepared_certificates {
            self.make_room();
        }
    }

    /// Drops an eighth of the contexts, those that were not needed for the longest time.
    fn make_room(&self) {
        let stock = self.stock();
        let lazy = |slot: &&Arc<Slot>| matches!(slot.source, Source::Lazy(_)) && slot.is_ready();
        let mut ready: Vec<(u64, &Arc<Slot>)> =
            stock.slots.iter().filter(lazy).map(|slot| (slot.last_used.load(Relaxed), slot)).collect();
        ready.sort_unstable_by_key(|(last_used, _)| *last_used);
        let surplus = ready.len().saturating_sub(self.settings.prepared_certificates);
        let too_many = surplus.max(ready.len() / 8);
        for (_, slot) in ready.iter().take(too_many) {
            *slot.lock() = State::Absent;
        }
        self.prepared.store(ready.len().saturating_sub(too_many), Relaxed);
    }

    /// Counts what went with the generation before.
    fn forget_prepared(&self, previous: &Stock, stock: &Stock) {
        let is_lazy = |slot: &&Arc<Slot>| matches!(slot.source, Source::Lazy(_)) && slot.is_ready();
        if previous.slots.iter().any(|slot| is_lazy(&slot)) {
            self.prepared.store(stock.slots.iter().filter(is_lazy).count(), Relaxed);
        }
    }

    fn stock(&self) -> Arc<Stock> {
        Arc::clone(&self.stock.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn index_of(certificates: &[Offered]) -> NameIndex {
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
    // For one name the order of the configuration counts, and in directories, which have none, who is valid longest.
    let mut places: Vec<usize> = (0..certificates.len()).collect();
    places.sort_by_key(|place| match &certificates[*place].source {
        Source::Loaded(_) => (false, None),
        Source::Lazy(_) => (true, Some(Reverse(certificates[*place].summary.not_after()))),
    });
    for place in places {
        let offered = &certificates[place];
        if offered.default != DefaultFor::NoSni {
            index.add(offered.summary.names(), offered.summary.algorithm(), place);
        }
    }
    index
}

/// Reads what is wanted until the shelf is gone.
fn load(shelf: &Weak<Shelf>, wanted: &Receiver<Arc<Slot>>) {
    while let Ok(slot) = wanted.recv() {
        match shelf.upgrade() {
            Some(shelf) => shelf.load(&slot),
            None => return,
        }
    }
}

impl Slot {
    fn touch(&self, now: Duration) {
        let now = now.as_secs();
        if self.last_used.load(Relaxed) != now {
            self.last_used.store(now, Relaxed);
        }
    }

    fn is_ready(&self) -> bool {
        matches!(*self.lock(), State::Ready(_))
    }

    /// Held for a moment; who waits for a certificate waits at its gate.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
