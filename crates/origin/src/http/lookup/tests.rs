use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep, timeout};

use super::*;

const ADDRESS: [u8; 4] = [192, 0, 2, 7];

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, test);
}

fn lookups(most: usize) -> NameLookups {
    NameLookups::new(most, &Arc::default())
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

    fn resolver(&self) -> impl FnOnce() -> io::Result<AddressRecords> + Send + 'static {
        let (begun, released) = (Arc::clone(&self.begun), Arc::clone(&self.released));
        move || {
            begun.fetch_add(1, Ordering::SeqCst);
            released.lock().unwrap().recv_timeout(Duration::from_secs(30)).map_err(io::Error::other)?;
            Ok(AddressRecords { addresses: vec![ADDRESS.into()], ttl: Duration::from_secs(60) })
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
        let none = lookups(0);
        for (host, expected) in [("192.0.2.1", "192.0.2.1:80"), ("2001:db8::1", "[2001:db8::1]:80")] {
            let found = none.resolve(host, 80).await.unwrap();
            assert_eq!(found, [expected.parse().unwrap()]);
        }
        assert!(none.resolve("localhost", 80).await.is_err(), "no lookup is allowed");
        let found = lookups(1).resolve("localhost", 80).await.unwrap();
        assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 80), "{found:?}");
        assert!(!found.is_empty());
    });
}

#[test]
fn dials_of_one_moment_share_one_lookup() {
    run(async {
        let (lookups, slow) = (Arc::new(lookups(4)), SlowResolver::new());
        let mut dials = JoinSet::new();
        for _ in 0..50 {
            let (lookups, resolver) = (Arc::clone(&lookups), slow.resolver());
            dials.spawn_local(async move { lookups.look_up(resolver).await });
        }
        slow.wait_until_begun(1).await;
        slow.release.send(()).unwrap();
        while let Some(found) = dials.join_next().await {
            assert_eq!(*found.unwrap().unwrap(), [IpAddr::from(ADDRESS)]);
        }
        assert_eq!(slow.begun.load(Ordering::SeqCst), 1);
        // The result is kept for its time, and what is no longer true is looked up again.
        assert!(lookups.find(slow.resolver()).await.is_ok());
        assert_eq!(slow.begun.load(Ordering::SeqCst), 1);
        *lookups.known.lock().unwrap() = Known::default();
        slow.release.send(()).unwrap();
        assert!(lookups.find(slow.resolver()).await.is_ok());
        assert_eq!(slow.begun.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn lookups_that_do_not_return_are_bounded_also_without_dials_that_wait() {
    run(async {
        let (lookups, slow) = (lookups(2), SlowResolver::new());
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
        let (lookups, slow) = (lookups(2), SlowResolver::new());
        let failing = || Err(io::ErrorKind::NotFound.into());
        let error = lookups.look_up(failing).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        slow.release.send(()).unwrap();
        assert!(lookups.look_up(slow.resolver()).await.is_ok());
    });
}

#[test]
fn while_no_server_answers_dials_use_the_addresses_of_before() {
    run(async {
        let (lookups, slow) = (lookups(2), SlowResolver::new());
        let hour = Duration::from_secs(3600);
        let before = AddressRecords { addresses: vec![ADDRESS.into()], ttl: Duration::from_secs(60) };
        let long_ago = Instant::now().checked_sub(hour).unwrap();
        lookups.known.lock().unwrap().take_in(Ok(before), long_ago).unwrap();
        for _ in 0..3 {
            assert_eq!(*lookups.find(slow.resolver()).await.unwrap(), [IpAddr::from(ADDRESS)]);
        }
        assert!(slow.resolvers() <= 2, "the others joined a lookup under way");
        drop(slow);
    });
}

#[test]
fn each_dial_begins_with_another_address_of_the_first_family() {
    run(async {
        let lookups = lookups(1);
        let addresses = ["192.0.2.1", "192.0.2.2", "2001:db8::1"].map(|address| address.parse().unwrap());
        let records = AddressRecords { addresses: addresses.to_vec(), ttl: Duration::from_secs(60) };
        lookups.known.lock().unwrap().take_in(Ok(records), Instant::now()).unwrap();
        let mut firsts = Vec::new();
        for _ in 0..4 {
            let found = lookups.resolve("origin.example", 80).await.unwrap();
            assert_eq!((found.len(), found[2].is_ipv6()), (3, true));
            firsts.push(found[0].ip().to_string());
        }
        assert_eq!(firsts, ["192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.2"]);
    });
}
