//! Private keys in tokens: hardware modules, accelerators and SoftHSM, by PKCS #11.
//!
//! A token has threads of its own, each with a session, because calls of a module block. Operations wait for them in a queue
//! that is bounded; a module that hangs holds its threads and nothing else, since the handshakes wait until a deadline.

mod device;
mod module;
mod queue;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use penstock_tls::SignatureKind;
use penstock_tls::pkcs11_uri::{ObjectName, Pkcs11Uri};
use penstock_tls::remote_key::{LaterSignature, PublicKey, RemoteKey, RemoteKeyError, SignRequest};
use tokio::sync::oneshot;
use tokio::time::timeout_at;

use self::device::{Device, TokenFault, TokenSession};
use self::module::ModuleToken;
use self::queue::{Popped, Queue};
use crate::counters::{Fallbacks, SignerCounters, SignerStatus};
use crate::protocol::ErrorCode;

/// Limits on operations of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLimits {
    /// Time for one operation.
    pub deadline: Duration,
    /// Operations under way, waiting ones included.
    pub operations: usize,
    /// Sessions, each with a thread.
    pub sessions: usize,
    /// Pause before a session is opened again. It doubles up to [`Self::reopen_max`].
    pub reopen_min: Duration,
    /// The longest such pause.
    pub reopen_max: Duration,
    /// Failures one after the other, after which the token gets no operations for [`Self::circuit_open`].
    pub circuit_failures: u32,
    /// How long it gets none; then one at a time, until one succeeds.
    pub circuit_open: Duration,
}

/// A token with its threads. Dropping it ends the threads, each after the call that it is in.
pub struct Token(Arc<Shared>);

struct Shared {
    name: String,
    limits: TokenLimits,
    queue: Queue<Work>,
    counters: SignerCounters,
    fallbacks: Fallbacks,
    sessions: AtomicUsize,
    /// Whether no session could be opened. False before the first attempt has ended, so that operations wait for that.
    is_down: AtomicBool,
    keys: Mutex<Vec<Weak<KeyState>>>,
    /// Whether the queue has a [`Work::Look`].
    is_look_due: AtomicBool,
}

/// A private key in a token.
#[derive(Debug)]
pub struct TokenKey {
    token: Arc<Token>,
    state: Arc<KeyState>,
}

#[derive(Debug)]
struct KeyState {
    name: ObjectName,
    found: Mutex<Option<Result<Option<PublicKey>, String>>>,
}

/// What the threads do.
enum Work {
    Sign(Operation),
    /// Look for keys that were not found yet.
    Look,
}

impl Work {
    fn is_needed(&self) -> bool {
        match self {
            Self::Sign(operation) => !operation.is_over(),
            Self::Look => true,
        }
    }
}

/// A signature that a handshake waits for.
struct Operation {
    key: Arc<KeyState>,
    kind: SignatureKind,
    digest: Vec<u8>,
    /// What the signature is verified with; `None` if the other end does so.
    request: Option<SignRequest>,
    deadline: Instant,
    answer: oneshot::Sender<Result<Vec<u8>, RemoteKeyError>>,
    /// Whether another session has failed with it.
    is_repeated: bool,
}

impl Token {
    /// Starts the threads, which load the module and log in.
    ///
    /// # Errors
    /// The error of the system.
    pub fn start(uri: &Pkcs11Uri, limits: TokenLimits) -> io::Result<Arc<Self>> {
        let device = ModuleToken::new(uri.module.clone(), uri.token.clone(), uri.pin.clone());
        Self::with(uri.token.to_string(), device, limits)
    }

    fn with(name: String, device: impl Device, limits: TokenLimits) -> io::Result<Arc<Self>> {
        let shared = Arc::new(Shared {
            name,
            limits,
            queue: Queue::default(),
            counters: SignerCounters::new(limits.circuit_failures, limits.circuit_open),
            fallbacks: Fallbacks::default(),
            sessions: AtomicUsize::new(0),
            is_down: AtomicBool::new(false),
            keys: Mutex::default(),
            is_look_due: AtomicBool::new(false),
        });
        // Dropped after an error, it ends the threads that there are.
        let token = Arc::new(Self(Arc::clone(&shared)));
        let device = Arc::new(device);
        for number in 0..limits.sessions {
            let (shared, device) = (Arc::clone(&shared), Arc::clone(&device));
            thread::Builder::new().name(format!("token-{number}")).spawn(move || run(&shared, &*device))?;
        }
        Ok(token)
    }

    /// A key in the token. It is looked for soon, and again when it is used.
    pub fn key(self: &Arc<Self>, name: &ObjectName) -> Arc<TokenKey> {
        let state = Arc::new(KeyState { name: name.clone(), found: Mutex::default() });
        let mut keys = self.0.keys();
        keys.retain(|key| key.strong_count() > 0);
        keys.push(Arc::downgrade(&state));
        drop(keys);
        if !self.0.is_look_due.swap(true, Relaxed) {
            self.0.queue.push(Work::Look);
        }
        Arc::new(TokenKey { token: Arc::clone(self), state })
    }

    /// The state of the token.
    pub fn status(&self) -> SignerStatus {
        self.0.counters.status(&self.0.name)
    }

    /// Handshakes that a local key signed because the token failed.
    pub fn fallbacks(&self) -> u64 {
        self.0.fallbacks.count()
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.queue.close();
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("name", &self.0.name).finish_non_exhaustive()
    }
}

impl TokenKey {
    /// The public key; `None` until the token has shown it.
    pub fn public(&self) -> Option<PublicKey> {
        self.state.found().clone().and_then(Result::ok).flatten()
    }

    /// Signs a digest. The future ends within the deadline, and may be dropped before. It needs the timer of a runtime.
    pub fn sign_digest(&self, kind: SignatureKind, digest: Vec<u8>) -> LaterSignature {
        self.submit(kind, digest, None)
    }

    fn submit(&self, kind: SignatureKind, digest: Vec<u8>, request: Option<SignRequest>) -> LaterSignature {
        let shared = &self.token.0;
        let now = Instant::now();
        if shared.is_down.load(Relaxed) || !shared.counters.circuit.admits(now) {
            return Box::pin(async { Err(RemoteKeyError::Unavailable) });
        }
        let waiting = Waiting::begin(shared, now);
        let most = shared.limits.operations;
        let (answer, later) = oneshot::channel();
        let deadline = now + shared.limits.deadline;
        let key = Arc::clone(&self.state);
        let operation = Operation { key, kind, digest, request, deadline, answer, is_repeated: false };
        // Operations that nothing waits for any more stay in the queue of a module that hangs.
        let has_space = shared.counters.under_way.load(Relaxed) <= most as u64
            && shared.queue.push_bounded(Work::Sign(operation), most, Work::is_needed);
        if !has_space {
            return Box::pin(async move { waiting.ended(Err(RemoteKeyError::Overloaded)) });
        }
        Box::pin(async move {
            let result = match timeout_at(deadline.into(), later).await {
                Ok(Ok(result)) => result,
                Ok(Err(_)) => Err(RemoteKeyError::Unavailable),
                Err(_) => Err(RemoteKeyError::TimedOut),
            };
            waiting.ended(result)
        })
    }
}

impl RemoteKey for TokenKey {
    fn sign(&self, request: SignRequest) -> LaterSignature {
        match request.kind.digest(&request.message) {
            Some(digest) => self.submit(request.kind, digest, Some(request)),
            None => Box::pin(async { Err(RemoteKeyError::Refused(ErrorCode::BadOpcode as u8)) }),
        }
    }

    fn used_fallback(&self, error: RemoteKeyError) {
        self.token.0.fallbacks.used(&format!("token `{}`", self.token.0.name), error);
    }
}

/// An operation that is counted as under way until it is dropped.
struct Waiting {
    shared: Arc<Shared>,
    begun: Instant,
    has_ended: bool,
}

impl Waiting {
    fn begin(shared: &Arc<Shared>, begun: Instant) -> Self {
        shared.counters.circuit.begun();
        shared.counters.under_way.fetch_add(1, Relaxed);
        Self { shared: Arc::clone(shared), begun, has_ended: false }
    }

    fn ended(mut self, result: Result<Vec<u8>, RemoteKeyError>) -> Result<Vec<u8>, RemoteKeyError> {
        self.has_ended = true;
        let Shared { counters, fallbacks, name, .. } = &*self.shared;
        counters.ended(result.as_ref().map(|_| self.begun.elapsed()).map_err(|error| *error));
        match &result {
            Ok(_) => {
                counters.circuit.succeeded();
                fallbacks.not_needed();
            }
            // They say something about a key or this program.
            Err(RemoteKeyError::Refused(_) | RemoteKeyError::Overloaded) => counters.circuit.ended(),
            Err(error) if counters.circuit.failed(Instant::now()) => {
                tracing::warn!("token `{name}` has failed too often and is asked less: {error}");
            }
            Err(_) => {}
        }
        result
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.shared.counters.under_way.fetch_sub(1, Relaxed);
        if !self.has_ended {
            self.shared.counters.abandoned();
            self.shared.counters.circuit.ended();
        }
    }
}

impl Shared {
    fn keys(&self) -> MutexGuard<'_, Vec<Weak<KeyState>>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn opened(&self) {
        self.sessions.fetch_add(1, Relaxed);
        self.counters.connections.fetch_add(1, Relaxed);
        self.counters.up.store(true, Relaxed);
        if self.is_down.swap(false, Relaxed) {
            // Operations that failed while it was away say nothing about it now.
            self.counters.circuit.succeeded();
            tracing::info!("token `{}` can be used again", self.name);
        }
    }

    /// A session is gone: the token is up for as long as there is another.
    fn closed(&self) {
        if self.sessions.fetch_sub(1, Relaxed) == 1 {
            self.counters.up.store(false, Relaxed);
        }
    }

    /// Fails what waits, if there is no other session.
    fn cannot_open(&self, fault: &TokenFault, operation: Option<Operation>) {
        if self.sessions.load(Relaxed) > 0 {
            operation.into_iter().for_each(|operation| self.queue.push_first(Work::Sign(operation)));
            return;
        }
        if !self.is_down.swap(true, Relaxed) {
            tracing::warn!("token `{}` cannot be used: {fault}", self.name);
        }
        // The next session looks by itself.
        self.is_look_due.store(false, Relaxed);
        for work in self.queue.drain().into_iter().chain(operation.map(Work::Sign)) {
            if let Work::Sign(operation) = work {
                operation.end(Err(RemoteKeyError::Unavailable));
            }
        }
        // Another thread may have opened one meanwhile.
        if self.sessions.load(Relaxed) > 0 {
            self.is_down.store(false, Relaxed);
        }
    }

    /// Looks for the keys that were not found yet; returns whether there are any left.
    ///
    /// # Errors
    /// When the session is lost.
    fn look(&self, session: &mut dyn TokenSession) -> Result<bool, TokenFault> {
        self.is_look_due.store(false, Relaxed);
        let keys: Vec<_> = self.keys().iter().filter_map(Weak::upgrade).collect();
        let mut is_incomplete = false;
        for key in keys.into_iter().filter(|key| !matches!(&*key.found(), Some(Ok(_)))) {
            let found = match session.look(&key.name) {
                Err(fault @ TokenFault::Lost(_)) => return Err(fault),
                found => found.map_err(|fault| fault.to_string()),
            };
            is_incomplete |= found.is_err();
            let before = key.found().replace(found.clone());
            if let Err(fault) = &found
                && !matches!(&before, Some(Err(said)) if said == fault)
            {
                tracing::warn!("token `{}`: private key `{}`: {fault}", self.name, key.name);
            }
        }
        Ok(is_incomplete)
    }
}

impl KeyState {
    fn found(&self) -> MutexGuard<'_, Option<Result<Option<PublicKey>, String>>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Operation {
    fn end(self, result: Result<Vec<u8>, RemoteKeyError>) {
        // The handshake may have ended meanwhile.
        drop(self.answer.send(result));
    }

    /// Whether nothing waits for it any more.
    fn is_over(&self) -> bool {
        self.answer.is_closed() || Instant::now() >= self.deadline
    }

    /// Signs and answers. Returns the end of the session if that is lost, with the operation if another is to repeat it.
    fn perform(mut self, session: &mut dyn TokenSession, token: &str) -> Option<SessionEnd> {
        if self.is_over() {
            return None;
        }
        let name = &self.key.name;
        let fault = match session.sign(name, self.kind, &self.digest) {
            Ok(signature) if self.verifies(&signature) => {
                self.end(Ok(signature));
                return None;
            }
            Ok(_) => {
                // Another key may have come in its place.
                session.forget(name);
                self.end(Err(RemoteKeyError::WrongSignature));
                return None;
            }
            Err(fault) => fault,
        };
        tracing::debug!("token `{token}`: private key `{name}`: {fault}");
        if !matches!(fault, TokenFault::Lost(_)) {
            session.forget(name);
            self.end(Err(fault.error()));
            return None;
        }
        if self.is_repeated {
            self.end(Err(fault.error()));
            return Some(SessionEnd::Lost(None));
        }
        self.is_repeated = true;
        Some(SessionEnd::Lost(Some(self)))
    }

    fn verifies(&self, signature: &[u8]) -> bool {
        let verifies =
            |request: &SignRequest| request.public.verifies(self.kind, &request.message, signature);
        self.request.as_ref().is_none_or(verifies)
    }
}

/// A thread of a token: opens a session, and another when that is lost.
fn run(shared: &Shared, device: &dyn Device) {
    let mut pause = shared.limits.reopen_min;
    let mut lost = None;
    loop {
        match device.open() {
            Ok(mut session) => {
                shared.opened();
                let end = serve(shared, &mut *session, lost.take());
                // Closed before another is opened: tokens have few.
                drop(session);
                shared.closed();
                match end {
                    SessionEnd::Closed => return,
                    SessionEnd::Lost(operation) => lost = operation,
                }
                if lost.is_some() {
                    pause = shared.limits.reopen_min;
                    continue;
                }
            }
            Err(fault) => shared.cannot_open(&fault, lost.take()),
        }
        if shared.queue.pause(pause) {
            return;
        }
        pause = (pause * 2).min(shared.limits.reopen_max);
    }
}

enum SessionEnd {
    /// The token is not needed any more.
    Closed,
    /// The session is of no use any more; another is to repeat this operation.
    Lost(Option<Operation>),
}

/// Performs operations until the session is lost, `first` before all others.
fn serve(shared: &Shared, session: &mut dyn TokenSession, first: Option<Operation>) -> SessionEnd {
    let mut next = first.map_or(Work::Look, Work::Sign);
    let mut is_incomplete = true;
    loop {
        match next {
            Work::Sign(operation) => {
                if let Some(end) = operation.perform(session, &shared.name) {
                    return end;
                }
            }
            Work::Look => match shared.look(session) {
                Ok(incomplete) => is_incomplete = incomplete,
                Err(fault) => {
                    tracing::debug!("token `{}`: a session is lost: {fault}", shared.name);
                    return SessionEnd::Lost(None);
                }
            },
        }
        next = match shared.queue.pop(if is_incomplete { shared.limits.reopen_max } else { LOOK }) {
            Popped::Item(work) => work,
            Popped::Nothing => Work::Look,
            Popped::Closed => return SessionEnd::Closed,
        };
    }
}

/// How long a thread without work waits before it looks whether keys are missing.
const LOOK: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
