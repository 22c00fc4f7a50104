//! Stores of TLS 1.2 sessions.
//!
//! A lookup may complete later. Its handshake then waits until a deadline, while the worker serves others.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use boring::ex_data::Index;
use boring::ssl::{NameType, Ssl, SslRef};
pub use penstock_metrics::LookupWait;
use penstock_sys::lock::Unpoisoned;
use penstock_sys::ssl::{SessionAnswer, SessionCallbacks};
use penstock_sys::traffic::Secret;

use crate::session_cache::{CacheLookup, SessionCache};

pub use crate::session_key::SessionKey;

/// A lookup that completes later; `None` if there is no such session.
pub type LaterSession = Pin<Box<dyn Future<Output = Option<Secret>> + Send>>;

/// The answer of a [`SessionStore`].
pub enum StoreAnswer {
    /// Known at once; `None` if there is no such session.
    Now(Option<Secret>),
    /// Known later.
    Later(LaterSession),
}

/// A store of sessions. Called on the workers: it must not block.
pub trait SessionStore: Send + Sync + 'static {
    /// The session that a client offers to resume.
    fn find(&self, key: SessionKey<'_>) -> StoreAnswer;
    /// Stores a new session; the store may refuse it.
    fn insert(&self, key: SessionKey<'_>, session: Secret);
}

/// The cache of this process; its lookups complete at once.
#[derive(Debug)]
pub struct InternalStore {
    /// The sessions and their counters.
    pub cache: SessionCache,
    start: Instant,
}

impl InternalStore {
    /// A store of the sessions in `cache`; `now` is the origin of its clock.
    pub fn new(cache: SessionCache, now: Instant) -> Self {
        Self { cache, start: now }
    }

    /// Removes some expired sessions; see [`SessionCache::sweep`].
    pub fn sweep(&self) {
        self.cache.sweep(self.now());
    }

    fn now(&self) -> u32 {
        u32::try_from(self.start.elapsed().as_secs()).unwrap_or(u32::MAX)
    }
}

impl SessionStore for InternalStore {
    fn find(&self, key: SessionKey<'_>) -> StoreAnswer {
        StoreAnswer::Now(match self.cache.find(key, self.now()) {
            CacheLookup::Hit(session) => Some(session),
            CacheLookup::Miss | CacheLookup::Expired => None,
        })
    }

    fn insert(&self, key: SessionKey<'_>, session: Secret) {
        self.cache.insert(key, session.expose(), self.now());
    }
}

/// A store, and how long handshakes wait for it.
#[derive(Clone)]
pub struct SessionStorage {
    /// Stores the sessions.
    pub store: Arc<dyn SessionStore>,
    /// After this time a handshake continues as a full one.
    pub lookup_deadline: Duration,
}

impl std::fmt::Debug for SessionStorage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionStorage")
            .field("lookup_deadline", &self.lookup_deadline)
            .finish_non_exhaustive()
    }
}

/// Adapts a store to the callbacks of the library.
pub(crate) struct SessionLookup(pub(crate) Arc<dyn SessionStore>);

impl SessionCallbacks for SessionLookup {
    fn find(&self, connection: &SslRef, id: &[u8]) -> SessionAnswer {
        let Some(asked) = asked(connection) else { return SessionAnswer::Nothing };
        let mut asked = asked.lock().unpoisoned();
        if let StoreQuery::Answered(answer, _) = &mut *asked {
            return answer.take().map_or(SessionAnswer::Nothing, SessionAnswer::Session);
        }
        match self.0.find(key_of(connection, id)) {
            StoreAnswer::Now(answer) => answer.map_or(SessionAnswer::Nothing, SessionAnswer::Session),
            StoreAnswer::Later(answer) => {
                *asked = StoreQuery::Waiting(answer);
                SessionAnswer::Pending
            }
        }
    }

    fn insert(&self, connection: &SslRef, id: &[u8], session: Secret) {
        self.0.insert(key_of(connection, id), session);
    }
}

fn key_of<'k>(connection: &'k SslRef, id: &'k [u8]) -> SessionKey<'k> {
    SessionKey { id, server_name: connection.servername(NameType::HOST_NAME) }
}

/// State of the lookup of one handshake.
#[derive(Default)]
enum StoreQuery {
    #[default]
    Nothing,
    Waiting(LaterSession),
    Answered(Option<Secret>, LookupWait),
}

/// Waits for the session that the library asked for.
pub(crate) async fn wait_for_session(connection: &SslRef, deadline: Duration) {
    let Some(asked) = asked(connection) else { return };
    let waiting = match std::mem::take(&mut *asked.lock().unpoisoned()) {
        StoreQuery::Waiting(waiting) => waiting,
        StoreQuery::Nothing | StoreQuery::Answered(..) => return,
    };
    let answered = match tokio::time::timeout(deadline, waiting).await {
        Ok(session) => StoreQuery::Answered(session, LookupWait::Answered),
        Err(_) => StoreQuery::Answered(None, LookupWait::TimedOut),
    };
    *asked.lock().unpoisoned() = answered;
}

/// How the handshake waited for a session; `None` if it did not.
pub(crate) fn lookup_wait(connection: &SslRef) -> Option<LookupWait> {
    match &*asked(connection)?.lock().unpoisoned() {
        StoreQuery::Answered(_, wait) => Some(*wait),
        StoreQuery::Nothing | StoreQuery::Waiting(_) => None,
    }
}

/// Attaches the lookup state to a new connection; without it no session is found.
pub(crate) fn attach_query(ssl: &mut SslRef) {
    if let Some(index) = asked_index() {
        ssl.set_ex_data(index, Mutex::new(StoreQuery::Nothing));
    }
}

fn asked(ssl: &SslRef) -> Option<&Mutex<StoreQuery>> {
    ssl.ex_data(asked_index()?)
}

fn asked_index() -> Option<Index<Ssl, Mutex<StoreQuery>>> {
    static INDEX: OnceLock<Option<Index<Ssl, Mutex<StoreQuery>>>> = OnceLock::new();
    *INDEX.get_or_init(|| Ssl::new_ex_index().ok())
}
