//! Sessions of TLS 1.2 in a store: found at once, found later, never found.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use boring::ssl::{Ssl, SslContext, SslMethod, SslOptions, SslVersion};
use penstock_sys::ssl::client::{offer_session, session_bytes};
use penstock_sys::traffic::{Secret, Version};
use penstock_tls::certificate::Certificate;
use penstock_tls::session_cache::{SessionCache, SessionCacheLimits};
use penstock_tls::session_store::{
    InternalStore, Lookup, LookupWait, SessionKeeping, SessionKey, SessionStore,
};
use penstock_tls::{Acceptor, DefaultFor, Facts, Group, Offered, SUITES, Settings, Turns};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// So long that no machine is too slow for it.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_session_is_resumed_from_the_internal_store() {
    let server = Server::with(Arc::new(internal()), PATIENCE);
    server.run(async |server| {
        let (first, session) = server.handshake("a.test", None).await;
        assert_eq!((first.resumed, first.lookup_wait), (false, None));
        let (second, _) = server.handshake("a.test", session.clone()).await;
        assert_eq!((second.resumed, second.lookup_wait), (true, None));
        let (third, _) = server.handshake("a.test", session).await;
        assert!(third.resumed, "a session serves more than once");
    });
}

#[test]
fn a_session_of_one_certificate_resumes_only_under_its_own_name() {
    let store = Arc::new(internal());
    let server = Server::with(Arc::clone(&store) as Arc<dyn SessionStore>, PATIENCE);
    server.run(async |server| {
        // The first certificate is that of the context connections begin with, the second is switched to.
        for (name, other) in [("a.test", "b.test"), ("b.test", "a.test")] {
            let (_, session) = server.handshake(name, None).await;
            assert!(server.handshake(name, session.clone()).await.0.resumed, "{name}");
            assert!(!server.handshake(other, session).await.0.resumed, "{name} as {other}");
        }
    });
    let counts = store.cache.counts();
    assert_eq!((counts.hits, counts.misses), (2, 2));
}

#[test]
fn a_handshake_waits_for_a_slow_store_and_the_others_of_its_worker_go_on() {
    let store = Arc::new(Slow::default());
    let server = Server::with(Arc::clone(&store) as Arc<dyn SessionStore>, PATIENCE);
    server.run(async |server| {
        let (_, session) = server.handshake("a.test", None).await;
        let mut waiting = Box::pin(server.handshake("a.test", session));
        tokio::select! {
            _ = &mut waiting => panic!("it resumed without its session"),
            () = store.asked.notified() => {}
        }
        // The store has been asked and has not answered; another connection of the same thread is not held up.
        tokio::select! {
            _ = &mut waiting => panic!("it resumed without its session"),
            (other, _) = server.handshake("b.test", None) => assert!(!other.resumed),
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
    let server = Server::with(store, Duration::from_millis(20));
    server.run(async |server| {
        let (_, session) = server.handshake("a.test", None).await;
        let (facts, session) = server.handshake("a.test", session).await;
        assert_eq!((facts.resumed, facts.lookup_wait), (false, Some(LookupWait::TimedOut)));
        assert!(session.is_some(), "and the client gets a new session");
    });
}

#[test]
fn what_a_store_makes_up_is_not_resumed() {
    let server = Server::with(Arc::new(Garbage), PATIENCE);
    server.run(async |server| {
        let (_, session) = server.handshake("a.test", None).await;
        let (facts, _) = server.handshake("a.test", session).await;
        assert!(!facts.resumed);
    });
}

#[test]
fn a_session_is_as_large_as_the_measurement_of_memory_takes_it_to_be() {
    let store = Arc::new(Slow::default());
    store.answer.notify_one();
    let server = Server::with(Arc::clone(&store) as Arc<dyn SessionStore>, PATIENCE);
    server.run(async |server| {
        server.handshake("a.test", None).await;
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
    fn find(&self, key: SessionKey<'_>) -> Lookup {
        let session = self.sessions.lock().unwrap().get(key.id).cloned();
        let answer = Arc::clone(&self.answer);
        self.lookups.fetch_add(1, Ordering::Relaxed);
        self.asked.notify_one();
        Lookup::Later(Box::pin(async move {
            answer.notified().await;
            session
        }))
    }

    fn keep(&self, key: SessionKey<'_>, session: Secret) {
        self.sessions.lock().unwrap().insert(key.id.to_vec(), session);
    }
}

/// Knows every session, all of them wrongly.
struct Garbage;

impl SessionStore for Garbage {
    fn find(&self, _key: SessionKey<'_>) -> Lookup {
        Lookup::Now(Some(Secret::new(b"no session at all".to_vec())))
    }

    fn keep(&self, _key: SessionKey<'_>, _session: Secret) {}
}

/// One worker that answers handshakes.
struct Server {
    acceptor: Acceptor,
    turns: Turns,
    listener: Option<TcpListener>,
}

impl Server {
    /// Two certificates, `a.test` and `b.test`, each of which has a context of its own.
    fn with(store: Arc<dyn SessionStore>, lookup_deadline: Duration) -> Self {
        let acceptor = Acceptor::new(Settings {
            certificates: ["a.test", "b.test"]
                .map(|name| Offered::loaded(&certificate(name), DefaultFor::Unmarked))
                .to_vec(),
            prepared_certificates: 1,
            oldest: Version::Tls12,
            legacy: None,
            newest: Version::Tls13,
            groups: vec![Group::X25519],
            asks_for_best_group: false,
            ja4: false,
            suites: SUITES.iter().collect(),
            chacha20: Arc::default(),
            tickets: None,
            session_lifetime: Duration::from_secs(3600),
            session_keeping: Some(SessionKeeping { store, lookup_deadline }),
            compressions: Vec::new(),
            compressed_bytes_max: 0,
            staples: Arc::default(),
            early_data: None,
            client_certificates: None,
            key_log: None,
        });
        Self { acceptor: acceptor.unwrap(), turns: Turns::new(16), listener: None }
    }

    /// Runs a test on one thread, as a worker does.
    fn run(mut self, test: impl AsyncFnOnce(&Self)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            self.listener = Some(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap());
            test(&self).await;
        });
    }

    /// A client of TLS 1.2 without tickets comes with this session; what it agreed on, and its session.
    async fn handshake(&self, name: &str, session: Option<Secret>) -> (Facts, Option<Secret>) {
        let listener = self.listener.as_ref().unwrap();
        let client = client(listener.local_addr().unwrap(), name.to_owned(), session);
        let (socket, _): (TcpStream, _) = listener.accept().await.unwrap();
        let accepted = self.acceptor.accept(Rc::new(socket), Vec::new(), &self.turns).await;
        (accepted.unwrap().facts, client.join().unwrap())
    }
}

fn client(server: SocketAddr, name: String, session: Option<Secret>) -> JoinHandle<Option<Secret>> {
    thread::spawn(move || {
        let mut context = SslContext::builder(SslMethod::tls()).unwrap();
        context.set_max_proto_version(Some(SslVersion::TLS1_2)).unwrap();
        context.set_options(SslOptions::NO_TICKET);
        let mut ssl = Ssl::new(&context.build()).unwrap();
        ssl.set_hostname(&name).unwrap();
        if let Some(session) = session {
            assert!(offer_session(&mut ssl, session.expose()));
        }
        let stream = ssl.connect(std::net::TcpStream::connect(server).unwrap()).unwrap();
        stream.ssl().session().and_then(session_bytes)
    })
}

fn certificate(name: &str) -> Arc<Certificate> {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let key = made.signing_key.serialize_pem();
    Arc::new(Certificate::from_pem(made.cert.pem().as_bytes(), key.as_bytes()).unwrap())
}
