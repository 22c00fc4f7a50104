//! TLS 1.2 sessions in a store: lookups that complete at once, later, or never.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness;

use std::collections::HashMap;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use boring::ssl::{Ssl, SslContext, SslMethod, SslOptions, SslVersion};
use penstock_sys::ssl::client::{offer_session, session_bytes};
use penstock_sys::traffic::Secret;
use penstock_tls::session_cache::{SessionCache, SessionCacheLimits};
use penstock_tls::session_store::{
    InternalStore, LookupWait, SessionKey, SessionStorage, SessionStore, StoreAnswer,
};
use penstock_tls::{AcceptorSettings, Negotiated};
use tokio::sync::Notify;

use harness::{TestServer, settings};

/// A deadline that no machine misses.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_session_is_resumed_from_the_internal_store() {
    let server = server(Arc::new(internal()), PATIENCE);
    server.run(async |server| {
        let (first, session) = handshake(server, "a.test", None).await;
        assert_eq!((first.resumed, first.lookup_wait), (false, None));
        let (second, _) = handshake(server, "a.test", session.clone()).await;
        assert_eq!((second.resumed, second.lookup_wait), (true, None));
        let (third, _) = handshake(server, "a.test", session).await;
        assert!(third.resumed, "a session serves more than once");
    });
}

#[test]
fn a_session_of_one_certificate_resumes_only_under_its_own_name() {
    let store = Arc::new(internal());
    let server = server(Arc::clone(&store) as Arc<dyn SessionStore>, PATIENCE);
    server.run(async |server| {
        // The first certificate is that of the context connections begin with, the second is switched to.
        for (name, other) in [("a.test", "b.test"), ("b.test", "a.test")] {
            let (_, session) = handshake(server, name, None).await;
            assert!(handshake(server, name, session.clone()).await.0.resumed, "{name}");
            assert!(!handshake(server, other, session).await.0.resumed, "{name} as {other}");
        }
    });
    let counts = store.cache.counts();
    assert_eq!((counts.hits, counts.misses), (2, 2));
}

#[test]
fn a_handshake_waits_for_a_slow_store_and_the_others_of_its_worker_go_on() {
    let store = Arc::new(Slow::default());
    let server = server(Arc::clone(&store) as Arc<dyn SessionStore>, PATIENCE);
    server.run(async |server| {
        let (_, session) = handshake(server, "a.test", None).await;
        let mut waiting = Box::pin(handshake(server, "a.test", session));
        tokio::select! {
            _ = &mut waiting => panic!("it resumed without its session"),
            () = store.asked.notified() => {}
        }
        // The store has been asked and has not answered; another connection of the same thread is not held up.
        tokio::select! {
            _ = &mut waiting => panic!("it resumed without its session"),
            (other, _) = handshake(server, "b.test", None) => assert!(!other.resumed),
        }
        store.answer.notify_one();
        let (facts, _) = waiting.await;
        assert_eq!((facts.resumed, facts.lookup_wait), (true, Some(LookupWait::Answered)));
        assert_eq!(store.lookups.load(Ordering::Relaxed), 1, "asked once");
    });
}

#[test]
fn a_store_that_never_answers_makes_a_full_handshake() {
    let store = Arc::new(Slow::default());
    let server = server(store, Duration::from_millis(20));
    server.run(async |server| {
        let (_, session) = handshake(server, "a.test", None).await;
        let (facts, session) = handshake(server, "a.test", session).await;
        assert_eq!((facts.resumed, facts.lookup_wait), (false, Some(LookupWait::TimedOut)));
        assert!(session.is_some(), "and the client gets a new session");
    });
}

#[test]
fn a_session_invented_by_a_store_is_not_resumed() {
    let server = server(Arc::new(Garbage), PATIENCE);
    server.run(async |server| {
        let (_, session) = handshake(server, "a.test", None).await;
        let (facts, _) = handshake(server, "a.test", session).await;
        assert!(!facts.resumed);
    });
}

#[test]
fn a_session_is_as_large_as_the_measurement_of_memory_takes_it_to_be() {
    let store = Arc::new(Slow::default());
    store.answer.notify_one();
    let server = server(Arc::clone(&store) as Arc<dyn SessionStore>, PATIENCE);
    server.run(async |server| {
        handshake(server, "a.test", None).await;
        let sessions = store.sessions.lock().unwrap();
        let bytes: Vec<usize> = sessions.values().map(|session| session.expose().len()).collect();
        // See SESSION_BYTES in the example `session_memory`.
        assert!(bytes.iter().all(|bytes| (115..=135).contains(bytes)), "{bytes:?}");
    });
}

fn internal() -> InternalStore {
    let limits = SessionCacheLimits { sessions: 100, bytes: 1 << 20, lifetime_seconds: 3600, shards: 4 };
    InternalStore::new(SessionCache::new(limits), Instant::now())
}

/// Answers a lookup when it is told to.
#[derive(Default)]
struct Slow {
    sessions: Mutex<HashMap<Vec<u8>, Secret>>,
    lookups: AtomicUsize,
    asked: Notify,
    answer: Arc<Notify>,
}

impl SessionStore for Slow {
    fn find(&self, key: SessionKey<'_>) -> StoreAnswer {
        let session = self.sessions.lock().unwrap().get(key.id).cloned();
        let answer = Arc::clone(&self.answer);
        self.lookups.fetch_add(1, Ordering::Relaxed);
        self.asked.notify_one();
        StoreAnswer::Later(Box::pin(async move {
            answer.notified().await;
            session
        }))
    }

    fn insert(&self, key: SessionKey<'_>, session: Secret) {
        self.sessions.lock().unwrap().insert(key.id.to_vec(), session);
    }
}

/// Knows every session, all of them wrongly.
struct Garbage;

impl SessionStore for Garbage {
    fn find(&self, _key: SessionKey<'_>) -> StoreAnswer {
        StoreAnswer::Now(Some(Secret::new(b"no session at all".to_vec())))
    }

    fn insert(&self, _key: SessionKey<'_>, _session: Secret) {}
}

/// Starts a server with two certificates, `a.test` and `b.test`, each of which has its own context.
fn server(store: Arc<dyn SessionStore>, lookup_deadline: Duration) -> TestServer {
    let session_storage = Some(SessionStorage { store, lookup_deadline });
    TestServer::new(AcceptorSettings { session_storage, ..settings(&["a.test", "b.test"]) })
}

/// Connects a TLS 1.2 client without tickets that offers this session. Returns the facts and its new session.
async fn handshake(server: &TestServer, name: &str, session: Option<Secret>) -> (Negotiated, Option<Secret>) {
    let name = name.to_owned();
    let (accepted, client) = server.accept(move |socket| client(socket, &name, session)).await;
    (accepted.unwrap().facts, client.join().unwrap())
}

fn client(socket: TcpStream, name: &str, session: Option<Secret>) -> Option<Secret> {
    let mut context = SslContext::builder(SslMethod::tls()).unwrap();
    context.set_max_proto_version(Some(SslVersion::TLS1_2)).unwrap();
    context.set_options(SslOptions::NO_TICKET);
    let mut ssl = Ssl::new(&context.build()).unwrap();
    ssl.set_hostname(name).unwrap();
    if let Some(session) = session {
        assert!(offer_session(&mut ssl, session.expose()));
    }
    let stream = ssl.connect(socket).unwrap();
    stream.ssl().session().and_then(session_bytes)
}
