//! Threads of a token whose module does as a test says.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use penstock_tls::Hash;

use super::*;

/// Where the test sends the result of a call.
type Answer = Sender<Result<Vec<u8>, TokenFault>>;

const KIND: SignatureKind = SignatureKind::Ecdsa(Hash::Sha256);

/// A module that waits for the test before each answer.
struct Scripted {
    opens: Opens,
    /// Tells the test of each call, which sends the result.
    calls: Mutex<Sender<Answer>>,
    /// What a look finds.
    found: Shown,
}

struct ScriptedSession {
    calls: Sender<Answer>,
    found: Shown,
}

impl Device for Scripted {
    /// Opens as told, and then always.
    fn open(&self) -> Result<Box<dyn TokenSession>, TokenFault> {
        self.opens.lock().unwrap().pop_front().unwrap_or(Ok(()))?;
        let calls = self.calls.lock().unwrap().clone();
        Ok(Box::new(ScriptedSession { calls, found: Arc::clone(&self.found) }))
    }
}

impl TokenSession for ScriptedSession {
    fn look(&mut self, _: &ObjectName) -> Result<Option<PublicKey>, TokenFault> {
        self.found.lock().unwrap().clone()
    }

    fn sign(&mut self, _: &ObjectName, _: SignatureKind, _: &[u8]) -> Result<Vec<u8>, TokenFault> {
        let (answer, result) = channel();
        self.calls.send(answer).map_err(|_| TokenFault::Lost("the test has ended".to_owned()))?;
        result.recv().unwrap_or_else(|_| Err(TokenFault::Lost("the test has ended".to_owned())))
    }

    fn forget(&mut self, _: &ObjectName) {}
}

const LIMITS: TokenLimits = TokenLimits {
    deadline: Duration::from_secs(60),
    operations: 100,
    sessions: 1,
    reopen_min: Duration::from_millis(1),
    reopen_max: Duration::from_millis(1),
    circuit_failures: 3,
    circuit_open: Duration::from_millis(1),
    look: Duration::from_millis(1),
};

type Calls = Receiver<Answer>;

/// What the next openings of the module give.
type Opens = Arc<Mutex<VecDeque<Result<(), TokenFault>>>>;

fn token(limits: TokenLimits, opens: Vec<Result<(), TokenFault>>) -> (Arc<TokenKey>, Calls) {
    let (key, calls, _) = showing(limits, shared(opens), Ok(None));
    (key, calls)
}

type Shown = Arc<Mutex<Result<Option<PublicKey>, TokenFault>>>;

fn shared(opens: Vec<Result<(), TokenFault>>) -> Opens {
    Arc::new(Mutex::new(opens.into()))
}

fn showing(
    limits: TokenLimits,
    opens: Opens,
    found: Result<Option<PublicKey>, TokenFault>,
) -> (Arc<TokenKey>, Calls, Shown) {
    let (calls, called) = channel();
    let found = Arc::new(Mutex::new(found));
    let device = Scripted { opens, calls: Mutex::new(calls), found: Arc::clone(&found) };
    let token = Token::with("edge".to_owned(), device, limits, &SignerCounts::default()).unwrap();
    (token.key(&ObjectName::default()), called, found)
}

fn lost() -> TokenFault {
    TokenFault::Lost("the token was removed".to_owned())
}

fn results(key: &TokenKey) -> [u64; 6] {
    key.token.status().results
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.unwrap().block_on(test)
}

/// Tries until the token signs; `calls` are answered with `signed`.
async fn until_signed(key: &TokenKey, calls: &Calls) {
    loop {
        let signing = key.sign_digest(KIND, vec![0]);
        while let Ok(call) = calls.recv_timeout(Duration::from_millis(5)) {
            drop(call.send(Ok(b"signed".to_vec())));
        }
        if signing.await.is_ok_and(|signature| signature == b"signed") {
            return;
        }
    }
}

#[test]
fn a_module_that_hangs_costs_a_few_deadlines_and_then_nothing() {
    let (key, calls) = token(
        TokenLimits {
            deadline: Duration::from_millis(20),
            circuit_open: Duration::from_secs(3600),
            ..LIMITS
        },
        Vec::new(),
    );
    run(async {
        for _ in 0..3 {
            assert_eq!(key.sign_digest(KIND, vec![0]).await, Err(RemoteKeyError::TimedOut));
        }
        assert!(key.token.status().circuit_open);
        for _ in 0..1000 {
            assert_eq!(key.sign_digest(KIND, vec![0]).await, Err(RemoteKeyError::Unavailable));
        }
    });
    let status = key.token.status();
    assert_eq!((status.results, status.under_way), ([0, 0, 3, 0, 0, 0], 0));
    let _first = calls.recv().unwrap();
    assert!(calls.try_recv().is_err(), "the others were never begun");
}

#[test]
fn a_module_that_answers_again_signs_again() {
    let (key, calls) = token(TokenLimits { deadline: Duration::from_millis(20), ..LIMITS }, Vec::new());
    run(async {
        for _ in 0..3 {
            key.sign_digest(KIND, vec![0]).await.unwrap_err();
        }
        assert!(key.token.status().circuit_open);
        until_signed(&key, &calls).await;
    });
    assert!(!key.token.status().circuit_open);
}

#[test]
fn a_session_that_is_lost_is_opened_again_and_the_operation_repeated_once() {
    let (key, calls) = token(LIMITS, Vec::new());
    run(async {
        let signing = key.sign_digest(KIND, vec![0]);
        calls.recv().unwrap().send(Err(lost())).unwrap();
        calls.recv().unwrap().send(Ok(b"signed".to_vec())).unwrap();
        assert_eq!(signing.await, Ok(b"signed".to_vec()));
        assert_eq!(key.token.status().connections, 2);
        let signing = key.sign_digest(KIND, vec![0]);
        calls.recv().unwrap().send(Err(lost())).unwrap();
        calls.recv().unwrap().send(Err(lost())).unwrap();
        assert_eq!(signing.await, Err(RemoteKeyError::Unavailable));
        until_signed(&key, &calls).await;
    });
    assert_eq!(results(&key)[1], 1);
}

#[test]
fn a_fault_of_a_key_leaves_the_session_and_the_circuit_alone() {
    let (key, calls) = token(LIMITS, Vec::new());
    run(async {
        let faults = [TokenFault::Keys(0), TokenFault::Keys(2), TokenFault::WrongKind];
        for fault in faults.iter().cycle().take(6) {
            let signing = key.sign_digest(KIND, vec![0]);
            calls.recv().unwrap().send(Err(fault.clone())).unwrap();
            assert_eq!(signing.await, Err(fault.error()));
        }
    });
    let status = key.token.status();
    assert_eq!((status.connections, status.circuit_open, status.results[3]), (1, false, 6));
}

#[test]
fn without_a_token_handshakes_fail_at_once_until_it_comes() {
    let (key, calls) = token(LIMITS, vec![Err(lost()); 5]);
    run(async {
        // The first attempt is waited for.
        assert_eq!(key.sign_digest(KIND, vec![0]).await, Err(RemoteKeyError::Unavailable));
        until_signed(&key, &calls).await;
    });
    assert!(key.token.status().up);
}

#[test]
fn a_token_that_comes_back_is_asked_at_once_though_it_had_failed_too_often() {
    let limits = TokenLimits { circuit_failures: 1, circuit_open: Duration::from_secs(3600), ..LIMITS };
    // It stays away until the test lets it come.
    let opens = shared(vec![Err(lost()); 100_000]);
    // The first opening ends behind the first operation, which it fails.
    let first = opens.lock().unwrap();
    let (key, calls, _) = showing(limits, Arc::clone(&opens), Ok(None));
    run(async {
        let signing = key.sign_digest(KIND, vec![0]);
        drop(first);
        assert_eq!(signing.await, Err(RemoteKeyError::Unavailable));
        assert!(key.token.status().circuit_open);
        opens.lock().unwrap().clear();
        until_signed(&key, &calls).await;
    });
    assert!(!key.token.status().circuit_open);
}

#[test]
fn abandoned_operations_of_a_module_that_hangs_are_bounded() {
    let (key, calls) = token(TokenLimits { operations: 4, ..LIMITS }, Vec::new());
    run(async {
        let _first = key.sign_digest(KIND, vec![0]);
        let _call = calls.recv().unwrap();
        for _ in 0..1000 {
            drop(key.sign_digest(KIND, vec![0]));
        }
        assert_eq!(results(&key)[5], 1000, "none was refused");
        assert!(key.token.0.queue.drain().len() <= 4);
    });
}

#[test]
fn more_operations_than_the_limit_are_refused_and_abandoned_ones_make_space() {
    let (key, calls) = token(TokenLimits { operations: 2, ..LIMITS }, Vec::new());
    run(async {
        let first = key.sign_digest(KIND, vec![0]);
        let call = calls.recv().unwrap();
        let second = key.sign_digest(KIND, vec![0]);
        assert_eq!(key.sign_digest(KIND, vec![0]).await, Err(RemoteKeyError::Overloaded));
        drop(second);
        let third = key.sign_digest(KIND, vec![0]);
        call.send(Ok(b"one".to_vec())).unwrap();
        assert_eq!(first.await, Ok(b"one".to_vec()));
        calls.recv().unwrap().send(Ok(b"three".to_vec())).unwrap();
        assert_eq!(third.await, Ok(b"three".to_vec()), "the second was never begun");
    });
    assert_eq!(results(&key), [2, 1, 0, 0, 0, 1]);
}

/// The public key of Ed25519 with these bytes.
fn public(byte: u8) -> PublicKey {
    PublicKey::ed25519(&[byte; 32]).unwrap()
}

fn until_shown(key: &TokenKey, wanted: Option<&PublicKey>) {
    let id = |public: Option<&PublicKey>| public.and_then(PublicKey::id);
    let until = Instant::now() + Duration::from_secs(60);
    while id(key.public().as_ref()) != id(wanted) {
        assert!(Instant::now() < until, "{:?} is shown instead of {wanted:?}", key.public());
        thread::yield_now();
    }
}

#[test]
fn a_key_that_is_replaced_under_its_name_is_seen() {
    let (key, _calls, found) = showing(LIMITS, shared(Vec::new()), Ok(Some(public(1))));
    let show = |result| *found.lock().unwrap() = result;
    until_shown(&key, Some(&public(1)));
    show(Ok(Some(public(2))));
    until_shown(&key, Some(&public(2)));
    show(Err(TokenFault::Keys(0)));
    until_shown(&key, None);
    show(Ok(Some(public(3))));
    until_shown(&key, Some(&public(3)));
}

#[test]
fn a_key_stays_while_its_successor_has_the_same_name() {
    let name = ObjectName::default();
    let state = KeyState::new(name);
    assert!(state.record(Ok(Some(public(1))), "edge"));
    assert!(!state.record(Err(TokenFault::Keys(2)), "edge"));
    assert_eq!(state.public().and_then(|key| key.id()), public(1).id());
    assert!(!state.record(Err(TokenFault::Keys(0)), "edge") && state.public().is_none());
}
