//! Where sessions of TLS 1.2 are kept: in this process, or one day somewhere that takes its time to answer.
//!
//! A lookup may answer later. Its handshake then waits, until a deadline, and its worker goes on with others.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use boring::ex_data::Index;
use boring::ssl::{NameType, Ssl, SslRef};
use penstock_sys::ssl::{Found, Sessions};
use penstock_sys::traffic::Secret;

use crate::session_cache::{Outcome, SessionCache};

/// What a session is kept under. A session resumes only under the server name that it was made for (RFC 6066 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionKey<'k> {
    /// The session identifier: random bytes if we made it, anything if a client did.
    pub id: &'k [u8],
    /// The server name that the client asked for.
    pub server_name: Option<&'k str>,
}

/// A session that is on its way; `None` if there is none.
pub type LaterSession = Pin<Box<dyn Future<Output = Option<Secret>> + Send>>;

/// The answer of a [`SessionStore`].
pub enum Lookup {
    /// Known at once; `None` if there is no such session.
    Now(Option<Secret>),
    /// Known later.
    Later(LaterSession),
}

/// Keeps sessions. Called on the workers: it must not block them.
pub trait SessionStore: Send + Sync + 'static {
    /// The session that a client offers to resume.
    fn find(&self, key: SessionKey<'_>) -> Lookup;
    /// Takes a new session in, if it likes to.
    fn keep(&self, key: SessionKey<'_>, session: Secret);
}

/// The cache of this process: it answers at once.
#[derive(Debug)]
pub struct InternalStore {
    /// The sessions, with what has been counted.
    pub cache: SessionCache,
    start: Instant,
}

impl InternalStore {
    /// A store on this cache; its time begins now.
    pub fn new(cache: SessionCache, now: Instant) -> Self {
        Self { cache, start: now }
    }

    /// Removes a part of what has outlived its time; see [`SessionCache::sweep`].
    pub fn sweep(&self) {
        self.cache.sweep(self.now());
    }

    fn now(&self) -> u32 {
        u32::try_from(self.start.elapsed().as_secs()).unwrap_or(u32::MAX)
    }
}

impl SessionStore for InternalStore {
    fn find(&self, key: SessionKey<'_>) -> Lookup {
        Lookup::Now(match self.cache.find(key, self.now()) {
            Outcome::Hit(session) => Some(session),
            Outcome::Miss | Outcome::Expired => None,
        })
    }

    fn keep(&self, key: SessionKey<'_>, session: Secret) {
        self.cache.keep(key, session.expose(), self.now());
    }
}

/// A store, and how long handshakes wait for its answers.
#[derive(Clone)]
pub struct SessionKeeping {
    /// Who keeps the sessions.
    pub store: Arc<dyn SessionStore>,
    /// After this a handshake goes on as a full one.
    pub lookup_deadline: Duration,
}

impl std::fmt::Debug for SessionKeeping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionKeeping")
            .field("lookup_deadline", &self.lookup_deadline)
            .finish_non_exhaustive()
    }
}

/// How a handshake had to wait for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupWait {
    /// The store answered in time.
    Answered,
    /// It did not.
    TimedOut,
}

/// Speaks for a store towards the library.
pub(crate) struct Desk(pub(crate) Arc<dyn SessionStore>);

impl Sessions for Desk {
    fn find(&self, connection: &SslRef, id: &[u8]) -> Found {
        let Some(asked) = asked(connection) else { return Found::Nothing };
        let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Asked::Answered(answer, _) = &mut *asked {
            return answer.take().map_or(Found::Nothing, Found::Session);
        }
        match self.0.find(key_of(connection, id)) {
            Lookup::Now(answer) => answer.map_or(Found::Nothing, Found::Session),
            Lookup::Later(answer) => {
                *asked = Asked::Waiting(answer);
                Found::Pending
            }
        }
    }

    fn keep(&self, connection: &SslRef, id: &[u8], session: Secret) {
        self.0.keep(key_of(connection, id), session);
    }
}

fn key_of<'k>(connection: &'k SslRef, id: &'k [u8]) -> SessionKey<'k> {
    SessionKey { id, server_name: connection.servername(NameType::HOST_NAME) }
}

/// What one handshake has asked of the store.
#[derive(Default)]
enum Asked {
    #[default]
    Nothing,
    Waiting(LaterSession),
    Answered(Option<Secret>, LookupWait),
}

/// Waits for the session that the library has asked for.
pub(crate) async fn wait_for_session(connection: &SslRef, deadline: Duration) {
    let Some(asked) = asked(connection) else { return };
    let waiting = match std::mem::take(&mut *asked.lock().unwrap_or_else(PoisonError::into_inner)) {
        Asked::Waiting(waiting) => waiting,
        Asked::Nothing | Asked::Answered(..) => return,
    };
    let answered = match tokio::time::timeout(deadline, waiting).await {
        Ok(session) => Asked::Answered(session, LookupWait::Answered),
        Err(_) => Asked::Answered(None, LookupWait::TimedOut),
    };
    *asked.lock().unwrap_or_else(PoisonError::into_inner) = answered;
}

/// How the handshake of this connection had to wait for a session; `None` if it had not.
pub(crate) fn lookup_wait(connection: &SslRef) -> Option<LookupWait> {
    match &*asked(connection)?.lock().unwrap_or_else(PoisonError::into_inner) {
        Asked::Answered(_, wait) => Some(*wait),
        Asked::Nothing | Asked::Waiting(_) => None,
    }
}

/// Lets a new connection ask; without it no session is ever found.
pub(crate) fn attach_question(ssl: &mut SslRef) {
    if let Some(index) = asked_index() {
        ssl.set_ex_data(index, Mutex::new(Asked::Nothing));
    }
}

fn asked(ssl: &SslRef) -> Option<&Mutex<Asked>> {
    ssl.ex_data(asked_index()?)
}

fn asked_index() -> Option<Index<Ssl, Mutex<Asked>>> {
    static INDEX: OnceLock<Option<Index<Ssl, Mutex<Asked>>>> = OnceLock::new();
    *INDEX.get_or_init(|| Ssl::new_ex_index().ok())
}
