use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep, timeout};

use super::*;

const ADDRESS: &str = "192.0.2.7:0";

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, test);
}

/// Lookups that return once they are told to.
struct SlowResolver {
    begun: Arc<AtomicUsize>,
    release: mpsc::Sender<()>,
    released: Arc<Mutex<mpsc::Receiver<()>>>,
}

impl SlowResolver {
    fn new() -> Self {
        let (release, released) = mpsc::channel();
        Self { begun: Arc::default(), release, released: Arc::new(Mutex::new(released)) }
    }

    fn resolver(&self) -> impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static {
        let (begun, released) = (Arc::clone(&self.begun), Arc::clone(&self.released));
        move || {
            begun.fetch_add(1, Ordering::SeqCst);
            released.lock().unwrap().recv_timeout(Duration::from_secs(30)).map_err(io::Error::other)?;
            Ok(vec![ADDRESS.parse().unwrap()])
        }
    }

    /// Resolvers that a lookup has or will call.
    fn resolvers(&self) -> usize {
        Arc::strong_count(&self.begun) - 1
    }

    async fn wait_until_begun(&self, count: usize) {
        while self.begun.load(Ordering::SeqCst) < count {
            sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Makes the newest lookup too old to be joined.
fn age(lookups: &NameLookups) {
    lookups.newest.lock().unwrap().as_mut().unwrap().began -= JOINABLE;
}

#[test]
fn an_address_is_no_name_to_look_up() {
    run(async {
        let lookups = NameLookups::new(0);
        for (host, expected) in [("192.0.2.1", "192.0.2.1:80"), ("2001:db8::1", "[2001:db8::1]:80")] {
            let found = lookups.resolve(host, 80).await.unwrap();
            assert_eq!(found, [expected.parse().unwrap()]);
        }
        assert!(lookups.resolve("localhost", 80).await.is_err(), "no lookup is allowed");
        let found = NameLookups::new(1).resolve("localhost", 80).await.unwrap();
        assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 80), "{found:?}");
        assert!(!found.is_empty());
    });
}

#[test]
fn dials_of_one_moment_share_one_lookup() {
    run(async {
        let (lookups, slow) = (Arc::new(NameLookups::new(4)), SlowResolver::new());
        let mut dials = JoinSet::new();
        for _ in 0..50 {
            let (lookups, resolver) = (Arc::clone(&lookups), slow.resolver());
            dials.spawn_local(async move { lookups.look_up(resolver).await });
        }
        slow.wait_until_begun(1).await;
        slow.release.send(()).unwrap();
        while let Some(found) = dials.join_next().await {
            assert_eq!(found.unwrap().unwrap(), [ADDRESS.parse().unwrap()]);
        }
        assert_eq!(slow.begun.load(Ordering::SeqCst), 1);
        // A result is not kept.
        slow.release.send(()).unwrap();
        assert!(lookups.look_up(slow.resolver()).await.is_ok());
        assert_eq!(slow.begun.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn lookups_that_do_not_return_are_bounded_also_without_dials_that_wait() {
    run(async {
        let (lookups, slow) = (NameLookups::new(2), SlowResolver::new());
        for dial in 0..20 {
            let waited = timeout(Duration::ZERO, lookups.look_up(slow.resolver())).await;
            assert!(waited.is_err(), "dial {dial} ended");
            age(&lookups);
        }
        assert_eq!(slow.resolvers(), 2, "lookups that were begun");
        assert_eq!(lookups.permits.available_permits(), 0);
        // The next dial joins the newest lookup while both are under way: after the end of one it would begin a third.
        let mut next = pin!(lookups.look_up(slow.resolver()));
        assert!(timeout(Duration::ZERO, &mut next).await.is_err());
        for _ in 0..2 {
            slow.release.send(()).unwrap();
        }
        assert!(next.await.is_ok());
        while lookups.permits.available_permits() < 2 {
            sleep(Duration::from_millis(1)).await;
        }
        slow.release.send(()).unwrap();
        assert!(lookups.look_up(slow.resolver()).await.is_ok());
    });
}

#[test]
fn an_error_reaches_all_dials_that_wait_and_none_later() {
    run(async {
        let (lookups, slow) = (NameLookups::new(2), SlowResolver::new());
        let failing = || Err(io::ErrorKind::NotFound.into());
        let error = lookups.look_up(failing).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        slow.release.send(()).unwrap();
        assert!(lookups.look_up(slow.resolver()).await.is_ok());
    });
}
