//! Limits signatures per scheduling round of a worker, so that full handshakes do not delay established connections.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::{Duration, Instant};

use penstock_sys::{ConnectedSocket, CountGuard, Counted, ThreadCount};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::Interest;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use crate::rate::{Bucket, HandshakeRate, RateDecision};

/// Between two looks for the end of a connection behind bytes that nothing reads.
const LOOK: Duration = Duration::from_millis(100);

/// Issues permits to sign. One per worker; a permit is worth one signature.
///
/// A round is one pass of the worker's runtime over all ready tasks. A handshake that finds no permit waits in a
/// first-in, first-out queue, whose length is bounded by the number of handshakes in flight.
#[derive(Debug)]
pub struct SigningLimiter {
    available: Semaphore,
    per_round: usize,
    /// Wakes [`Self::run_rounds`].
    exhausted: Notify,
    waiting: ThreadCount,
    /// `None` without a limit on the rate.
    bucket: RefCell<Option<Bucket>>,
    /// Handshakes of each client network that wait for the rate.
    delayed: RefCell<HashMap<u64, u32>>,
}

/// Allows one signature. An unused permit goes to the next handshake when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit<'l> {
    limiter: &'l SigningLimiter,
    permit: SemaphorePermit<'l>,
    /// Whether the rate has counted this handshake already.
    counted: bool,
}

impl Permit<'_> {
    /// Consumes the permit after a signature.
    pub(crate) fn consume(self) {
        if let Some(bucket) = self.limiter.bucket.borrow_mut().as_mut().filter(|_| !self.counted) {
            bucket.take(Instant::now());
        }
        self.permit.forget();
        // With permits left no handshake waits for a new round, and a round costs a pass over all tasks.
        if self.limiter.available.available_permits() == 0 {
            self.limiter.exhausted.notify_one();
        }
    }
}

/// Why a handshake gets no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SigningRefusal {
    /// The client disconnected while it waited.
    Disconnected,
    /// There are more full handshakes than the configured rate allows.
    RateLimited,
}

impl SigningLimiter {
    /// Allows `per_round` signatures in each round, at least one.
    #[must_use]
    pub fn new(per_round: usize) -> Self {
        let per_round = per_round.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            available: Semaphore::new(per_round),
            per_round,
            exhausted: Notify::new(),
            waiting: ThreadCount::default(),
            bucket: RefCell::default(),
            delayed: RefCell::default(),
        }
    }

    /// Limits full handshakes to `rate` from now on; `None` removes the limit. Setting the same rate again changes
    /// nothing, and another one keeps the order and number of those that wait.
    pub fn set_rate(&self, rate: Option<HandshakeRate>, now: Instant) {
        let mut bucket = self.bucket.borrow_mut();
        if bucket.as_ref().map(Bucket::rate) != rate {
            *bucket = rate.map(|rate| match &*bucket {
                Some(before) => before.at_rate(rate, now),
                None => Bucket::new(rate, now),
            });
        }
    }

    /// Number of handshakes that wait for a permit.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.get()
    }

    /// Begins a new round whenever all permits are consumed and all ready tasks have run. Spawned once per worker;
    /// never ends.
    #[expect(clippy::infinite_loop, reason = "ended with its worker")]
    pub async fn run_rounds(&self) {
        loop {
            self.exhausted.notified().await;
            tokio::task::yield_now().await;
            let permits = permits_in_round(self.per_round, self.waiting.get());
            self.available.add_permits(permits.saturating_sub(self.available.available_permits()));
        }
    }

    /// Returns a permit if one is available, no handshake waits for it, and the rate allows it.
    pub(crate) fn try_acquire(&self) -> Option<Permit<'_>> {
        if self.bucket.borrow().is_some_and(|bucket| !bucket.has_capacity(Instant::now())) {
            return None;
        }
        self.available.try_acquire().ok().map(|permit| Permit { limiter: self, permit, counted: false })
    }

    /// Waits for a permit. Returns it with the time waited. A client that has left its `socket` gets none. `network` names the client's network among those that share the
    /// rate; a handshake without one is limited by the rate alone.
    pub(crate) async fn acquire(
        &self,
        socket: Option<&ConnectedSocket>,
        network: Option<u64>,
    ) -> Result<(Permit<'_>, Duration), SigningRefusal> {
        let started = Instant::now();
        let waiting = network.and_then(|network| self.delayed.borrow().get(&network).copied()).unwrap_or(0);
        let decision = self.bucket.borrow_mut().as_mut().map(|bucket| bucket.admit(started, waiting));
        let queued = self.waiting.enter();
        match decision {
            None | Some(RateDecision::Now) => {}
            Some(RateDecision::After(wait)) => {
                let _delayed = network.map(|network| self.delay(network));
                tokio::time::sleep(wait).await;
            }
            Some(RateDecision::Refused) => return Err(SigningRefusal::RateLimited),
        }
        // The semaphore is never closed, so the error cannot occur.
        let permit = self.available.acquire().await.map_err(|_| SigningRefusal::Disconnected)?;
        drop(queued);
        if socket.is_some_and(is_disconnected) {
            return Err(SigningRefusal::Disconnected);
        }
        Ok((Permit { limiter: self, permit, counted: decision.is_some() }, started.elapsed()))
    }
}

impl SigningLimiter {
    fn delay(&self, network: u64) -> CountGuard<DelayedHandshake<'_>> {
        *self.delayed.borrow_mut().entry(network).or_insert(0) += 1;
        CountGuard::of_counted(DelayedHandshake(self, network))
    }
}

/// Permits of the next round: at least half of the queue. Under full load a round takes long, and with a fixed number
/// a long queue would outlast the deadlines of the handshakes in it.
fn permits_in_round(per_round: usize, waiting: usize) -> usize {
    per_round.max(waiting / 2).min(Semaphore::MAX_PERMITS)
}

/// A handshake of a network that waits for the rate.
struct DelayedHandshake<'l>(&'l SigningLimiter, u64);

impl Counted for DelayedHandshake<'_> {
    fn uncount(&self) {
        let Self(limiter, network) = self;
        if let Entry::Occupied(mut count) = limiter.delayed.borrow_mut().entry(*network) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// Whether the peer has closed or reset the connection, even with unread bytes left.
fn is_disconnected(socket: &ConnectedSocket) -> bool {
    let ended = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    let mut watched = [PollFd::new(socket, ended)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut watched, Some(&now)).is_ok() && watched[0].revents().intersects(ended)
}

/// Waits until the peer has closed or reset the connection.
pub(crate) async fn disconnected(socket: &ConnectedSocket) {
    loop {
        match socket.ready(Interest::READABLE).await {
            Ok(ready) if !ready.is_read_closed() => {}
            Ok(_) | Err(_) => return,
        }
        // Bytes in front of the end keep the socket readable.
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use tokio::task::{LocalSet, spawn_local, yield_now};

    use super::*;

    fn pair() -> (TcpStream, ConnectedSocket) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
        let client = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        (client, ConnectedSocket::accept(&listener).expect("a client connected").0)
    }

    fn run<T>(test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        LocalSet::new().block_on(&runtime.expect("a runtime can be made"), test)
    }

    #[test]
    fn a_round_has_a_fixed_number_of_permits_and_an_unused_one_returns() {
        let limiter = SigningLimiter::new(2);
        let first = limiter.try_acquire().expect("no permit is taken");
        let second = limiter.try_acquire().expect("one is left");
        assert!(limiter.try_acquire().is_none());
        drop(second);
        limiter.try_acquire().expect("it came back").consume();
        first.consume();
        assert!(limiter.try_acquire().is_none(), "both were used, and the round goes on");
    }

    #[test]
    fn waiting_handshakes_get_permits_in_order_a_few_in_each_round() {
        run(async {
            let limiter = Rc::new(SigningLimiter::new(2));
            let events = Rc::new(RefCell::new(Vec::new()));
            let mut waiting = Vec::new();
            let (_client, socket) = pair();
            let socket = Rc::new(socket);
            limiter.try_acquire().expect("the first round has two").consume();
            limiter.try_acquire().expect("the first round has two").consume();
            for number in 0..5 {
                let (limiter, events, socket) = (Rc::clone(&limiter), Rc::clone(&events), Rc::clone(&socket));
                waiting.push(spawn_local(async move {
                    let (permit, _) = limiter.acquire(Some(&socket), None).await.expect("the client stays");
                    permit.consume();
                    events.borrow_mut().push(number);
                }));
            }
            yield_now().await;
            assert_eq!(limiter.waiting(), 5);
            assert!(limiter.try_acquire().is_none(), "no handshake passes the queue");
            let rounds = Rc::clone(&limiter);
            let rounds = spawn_local(async move { rounds.run_rounds().await });
            let mut most_in_a_pass = 0;
            while events.borrow().len() < 5 {
                let before = events.borrow().len();
                yield_now().await;
                most_in_a_pass = most_in_a_pass.max(events.borrow().len() - before);
            }
            assert_eq!(*events.borrow(), [0, 1, 2, 3, 4]);
            assert!(most_in_a_pass <= 2, "{most_in_a_pass} in one pass");
            assert_eq!(limiter.waiting(), 0);
            rounds.abort();
        });
    }

    #[test]
    fn a_long_queue_ends_within_a_few_rounds() {
        assert_eq!((permits_in_round(4, 0), permits_in_round(4, 9)), (4, 4));
        let (mut waiting, mut rounds) = (2000, 0);
        while waiting > 0 {
            waiting -= permits_in_round(4, waiting).min(waiting);
            rounds += 1;
        }
        assert!(rounds <= 12, "{rounds}");
    }

    #[test]
    fn a_disconnected_client_gets_no_permit_and_the_next_one_does() {
        run(async {
            let limiter = Rc::new(SigningLimiter::new(1));
            let (leaves, socket) = pair();
            let left_behind = Rc::new(socket);
            let (_stays, served) = pair();
            let taken = limiter.try_acquire().expect("the first round has one");
            let (first, second) = (Rc::clone(&limiter), Rc::clone(&limiter));
            let socket = Rc::clone(&left_behind);
            let first = spawn_local(async move { first.acquire(Some(&socket), None).await.map(drop) });
            let second = spawn_local(async move {
                second.acquire(Some(&served), None).await.map(|(permit, _)| permit.consume())
            });
            yield_now().await;
            drop(leaves);
            while !is_disconnected(&left_behind) {
                yield_now().await;
            }
            drop(taken);
            assert_eq!(first.await.expect("it does not panic"), Err(SigningRefusal::Disconnected));
            assert_eq!(second.await.expect("it does not panic"), Ok(()));
        });
    }

    #[test]
    fn a_rate_refuses_handshakes_above_it_and_ends_with_its_setting() {
        run(async {
            let limiter = SigningLimiter::new(1000);
            let rate = HandshakeRate::per_second(2.0, 0, Duration::from_secs(1));
            limiter.set_rate(rate, Instant::now());
            let (_client, socket) = pair();
            // However slow this machine is, a hundred take less than 49 s.
            let mut refused = 0;
            for _ in 0..100 {
                match limiter.try_acquire() {
                    Some(permit) => permit.consume(),
                    None => match limiter.acquire(Some(&socket), None).await {
                        Ok((permit, _)) => permit.consume(),
                        Err(why) => {
                            assert_eq!(why, SigningRefusal::RateLimited);
                            refused += 1;
                        }
                    },
                }
            }
            assert!((1..=98).contains(&refused), "{refused}");
            limiter.set_rate(None, Instant::now());
            (0..100).for_each(|_| limiter.try_acquire().expect("there is no rate").consume());
        });
    }

    #[test]
    fn the_end_of_a_connection_is_seen_with_and_without_unread_bytes() {
        run(async {
            for unread in [&b""[..], b"unread"] {
                let (mut client, socket) = pair();
                client.write_all(unread).expect("the socket has space");
                let seen = spawn_local(async move { disconnected(&socket).await });
                yield_now().await;
                assert!(!seen.is_finished());
                drop(client);
                seen.await.expect("it does not panic");
            }
        });
    }

    #[test]
    fn a_cancelled_wait_leaves_the_queue() {
        run(async {
            let limiter = Rc::new(SigningLimiter::new(1));
            let (_client, socket) = pair();
            let taken = limiter.try_acquire().expect("the first round has one");
            let waiter = Rc::clone(&limiter);
            let waiter = spawn_local(async move { waiter.acquire(Some(&socket), None).await.map(drop) });
            yield_now().await;
            assert_eq!(limiter.waiting(), 1);
            waiter.abort();
            assert!(waiter.await.is_err());
            assert_eq!(limiter.waiting(), 0);
            drop(taken);
            assert!(limiter.try_acquire().is_some());
        });
    }
}
