//! Private keys in tokens: hardware modules, accelerators and SoftHSM, by PKCS #11.
//!
//! A token has threads of its own, each with a session, because calls of a module block. Operations wait for them in a queue
//! that is bounded; a module that hangs holds its threads and nothing else, since the handshakes wait until a deadline.

mod device;
mod keys;
mod module;
mod operation;
mod queue;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use penstock_metrics::SignerStatus;
use penstock_tls::SignatureKind;
use penstock_tls::pkcs11_uri::{ObjectName, Pkcs11Uri};
use penstock_tls::remote_key::{LaterSignature, PublicKey, RemoteKey, RemoteKeyError, SignRequest};
use tokio::sync::oneshot;
use tokio::time::timeout_at;

use self::device::{Device, TokenFault, TokenSession};
use self::keys::{KeyState, Keys};
use self::module::ModuleToken;
use self::operation::{Operation, Waiting};
use self::queue::{Popped, Queue};
use crate::counters::{Fallbacks, SignerCounters, SignerCounts};
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
    /// Pause between looks for keys that are in use: another may have come under the name of one. While a key is missing, the
    /// pause is [`Self::reopen_max`].
    pub look: Duration,
}

/// A token with its threads. Dropping it ends the threads, each after the call that it is in.
pub struct Token(Arc<TokenState>);

struct TokenState {
    name: String,
    limits: TokenLimits,
    queue: Queue<Operation>,
    counters: SignerCounters,
    fallbacks: Fallbacks,
    sessions: AtomicUsize,
    /// Whether no session could be opened. False before the first attempt has ended, so that operations wait for that.
    is_down: AtomicBool,
    keys: Keys,
}

/// A private key in a token.
#[derive(Debug)]
pub struct TokenKey {
    token: Arc<Token>,
    state: Arc<KeyState>,
}

impl Token {
    /// Starts the threads, which load the module and log in. Its operations are added to `counts`.
    ///
    /// # Errors
    /// The error of the system.
    pub fn start(uri: &Pkcs11Uri, limits: TokenLimits, counts: &SignerCounts) -> io::Result<Arc<Self>> {
        let device = ModuleToken::new(uri.module.clone(), uri.token.clone(), uri.pin.clone());
        Self::with(uri.token.to_string(), device, limits, counts)
    }

    fn with(
        name: String,
        device: impl Device,
        limits: TokenLimits,
        counts: &SignerCounts,
    ) -> io::Result<Arc<Self>> {
        let operations = counts.token(&name);
        let shared = Arc::new(TokenState {
            name,
            limits,
            queue: Queue::default(),
            counters: SignerCounters::new(operations, limits.circuit_failures, limits.circuit_open),
            fallbacks: counts.fallbacks_of_signer(),
            sessions: AtomicUsize::new(0),
            is_down: AtomicBool::new(false),
            keys: Keys::new(limits.look, limits.reopen_max),
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
        let state = Arc::new(KeyState::new(name.clone()));
        self.0.keys.add(Arc::downgrade(&state));
        self.0.queue.wake();
        Arc::new(TokenKey { token: Arc::clone(self), state })
    }

    /// The state of the token.
    pub fn status(&self) -> SignerStatus {
        self.0.counters.status(&self.0.name)
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
        self.state.public()
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
            && shared.queue.push_bounded(operation, most, |operation| !operation.is_over());
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

impl TokenState {
    fn opened(&self) {
        self.sessions.fetch_add(1, Relaxed);
        self.counters.opened();
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
            operation.into_iter().for_each(|operation| self.queue.push_first(operation));
            return;
        }
        if !self.is_down.swap(true, Relaxed) {
            tracing::warn!("token `{}` cannot be used: {fault}", self.name);
        }
        for operation in self.queue.drain().into_iter().chain(operation) {
            operation.end(Err(RemoteKeyError::Unavailable));
        }
        // Another thread may have opened one meanwhile.
        if self.sessions.load(Relaxed) > 0 {
            self.is_down.store(false, Relaxed);
        }
    }
}

/// A thread of a token: opens a session, and another when that is lost.
fn run(shared: &TokenState, device: &dyn Device) {
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
fn serve(shared: &TokenState, session: &mut dyn TokenSession, first: Option<Operation>) -> SessionEnd {
    let mut next = first;
    loop {
        if let Some(end) = next.and_then(|operation| operation.perform(session, &shared.name)) {
            return end;
        }
        if shared.keys.take_look()
            && let Err(fault) = shared.keys.look(session, &shared.name)
        {
            tracing::debug!("token `{}`: a session is lost: {fault}", shared.name);
            return SessionEnd::Lost(None);
        }
        next = match shared.queue.pop(shared.keys.pause()) {
            Popped::Item(operation) => Some(operation),
            Popped::Nothing => None,
            Popped::Closed => return SessionEnd::Closed,
        };
    }
}

#[cfg(test)]
mod tests;
