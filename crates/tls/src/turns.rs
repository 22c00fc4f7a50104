//! Whose turn it is to sign: a few full handshakes in each round of a worker, so that those who are connected
//! already are served while thousands connect.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use crate::rate::{Bucket, HandshakeRate, Verdict};

/// Hands out turns. One per worker; a turn is worth one signature.
///
/// A round is one pass of the worker's runtime over everything that is ready. Who finds no turn left waits in a queue,
/// first come, first served. It is bounded by the number of handshakes in flight.
#[derive(Debug)]
pub struct Turns {
    left: Semaphore,
    per_round: usize,
    /// Wakes [`Self::begin_rounds`].
    used: Notify,
    waiting: Cell<usize>,
    /// `None` where there is no limit on the rate.
    bucket: RefCell<Option<Bucket>>,
}

/// Leave for one signature; dropping it unused gives it to the next.
#[derive(Debug)]
pub(crate) struct Turn<'t> {
    turns: &'t Turns,
    permit: SemaphorePermit<'t>,
    /// Whether its place in the rate is taken already.
    counted: bool,
}

impl Turn<'_> {
    pub(crate) fn use_up(self) {
        if let Some(bucket) = self.turns.bucket.borrow_mut().as_mut().filter(|_| !self.counted) {
            bucket.take(Instant::now());
        }
        self.permit.forget();
        // While turns are left nobody waits for a new round, and to begin one costs the worker a pass over nothing.
        if self.turns.left.available_permits() == 0 {
            self.turns.used.notify_one();
        }
    }
}

/// Why a signature is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoTurn {
    /// The client left while it waited.
    Gone,
    /// There are more full handshakes than the configured rate allows.
    RateLimited,
}

impl Turns {
    /// With so many signatures in each round, at least one.
    #[must_use]
    pub fn new(per_round: usize) -> Self {
        let per_round = per_round.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            left: Semaphore::new(per_round),
            per_round,
            used: Notify::new(),
            waiting: Cell::new(0),
            bucket: RefCell::default(),
        }
    }

    /// From now on full handshakes are limited to this rate; `None` is no limit. The same rate again changes nothing.
    pub fn set_rate(&self, rate: Option<HandshakeRate>, now: Instant) {
        let mut bucket = self.bucket.borrow_mut();
        if bucket.as_ref().map(Bucket::rate) != rate {
            *bucket = rate.map(|rate| Bucket::new(rate, now));
        }
    }

    /// How many handshakes wait for a turn now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.get()
    }

    /// Begins a new round whenever all turns are used and everything that was ready has run. To be spawned once per
    /// worker; never ends.
    #[expect(clippy::infinite_loop, reason = "ended with its worker")]
    pub async fn begin_rounds(&self) {
        loop {
            self.used.notified().await;
            tokio::task::yield_now().await;
            let turns = turns_in_round(self.per_round, self.waiting.get());
            self.left.add_permits(turns.saturating_sub(self.left.available_permits()));
        }
    }

    /// A turn if one is left, nobody waits for it, and the rate has a place.
    pub(crate) fn take(&self) -> Option<Turn<'_>> {
        if self.bucket.borrow().is_some_and(|bucket| !bucket.has_place(Instant::now())) {
            return None;
        }
        self.left.try_acquire().ok().map(|permit| Turn { turns: self, permit, counted: false })
    }

    /// Waits for a turn. Also says for how long.
    pub(crate) async fn wait(&self, socket: &TcpStream) -> Result<(Turn<'_>, Duration), NoTurn> {
        let started = Instant::now();
        let verdict = self.bucket.borrow_mut().as_mut().map(|bucket| bucket.ask(started));
        let queued = Queued::enter(self);
        match verdict {
            None | Some(Verdict::Now) => {}
            Some(Verdict::After(wait)) => tokio::time::sleep(wait).await,
            Some(Verdict::Refused) => return Err(NoTurn::RateLimited),
        }
        // Never closed, so there always will be one.
        let permit = self.left.acquire().await.map_err(|_| NoTurn::Gone)?;
        drop(queued);
        if is_gone(socket) {
            return Err(NoTurn::Gone);
        }
        Ok((Turn { turns: self, permit, counted: verdict.is_some() }, started.elapsed()))
    }
}

/// Where many wait, half of them have their turn: under full load a round takes long, and with a fixed number of turns
/// a queue that grew once would not end before the deadlines of those in it.
fn turns_in_round(per_round: usize, waiting: usize) -> usize {
    per_round.max(waiting / 2).min(Semaphore::MAX_PERMITS)
}

/// Counts one who waits for as long as it does, however that ends.
struct Queued<'t>(&'t Turns);

impl<'t> Queued<'t> {
    fn enter(turns: &'t Turns) -> Self {
        turns.waiting.set(turns.waiting.get() + 1);
        Self(turns)
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get().saturating_sub(1));
    }
}

/// Whether the peer has ended or reset the connection, even if bytes from before that have not been read.
fn is_gone(socket: &TcpStream) -> bool {
    let ended = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    let mut watched = [PollFd::new(socket, ended)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut watched, Some(&now)).is_ok() && watched[0].revents().intersects(ended)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use tokio::net::TcpListener;
    use tokio::task::{LocalSet, spawn_local, yield_now};

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has ports");
        let address = listener.local_addr().expect("it is bound");
        let client = TcpStream::connect(address).await.expect("it listens");
        let (server, _) = listener.accept().await.expect("somebody connects");
        (client, server)
    }

    fn run<T>(test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        LocalSet::new().block_on(&runtime.expect("a runtime can be made"), test)
    }

    #[test]
    fn a_round_has_so_many_turns_and_an_unused_one_comes_back() {
        let turns = Turns::new(2);
        let first = turns.take().expect("nobody has one");
        let second = turns.take().expect("one is left");
        assert!(turns.take().is_none());
        drop(second);
        turns.take().expect("it came back").use_up();
        first.use_up();
        assert!(turns.take().is_none(), "both were used, and the round goes on");
    }

    #[test]
    fn who_waits_gets_turns_in_order_a_few_in_each_round() {
        run(async {
            let turns = Rc::new(Turns::new(2));
            let events = Rc::new(RefCell::new(Vec::new()));
            let mut waiting = Vec::new();
            let (_client, socket) = pair().await;
            let socket = Rc::new(socket);
            turns.take().expect("the first round has two").use_up();
            turns.take().expect("the first round has two").use_up();
            for number in 0..5 {
                let (turns, events, socket) = (Rc::clone(&turns), Rc::clone(&events), Rc::clone(&socket));
                waiting.push(spawn_local(async move {
                    let (turn, _) = turns.wait(&socket).await.expect("the client stays");
                    turn.use_up();
                    events.borrow_mut().push(number);
                }));
            }
            yield_now().await;
            assert_eq!(turns.waiting(), 5);
            assert!(turns.take().is_none(), "nobody passes those who wait");
            let rounds = Rc::clone(&turns);
            let rounds = spawn_local(async move { rounds.begin_rounds().await });
            let mut most_in_a_pass = 0;
            while events.borrow().len() < 5 {
                let before = events.borrow().len();
                yield_now().await;
                most_in_a_pass = most_in_a_pass.max(events.borrow().len() - before);
            }
            assert_eq!(*events.borrow(), [0, 1, 2, 3, 4]);
            assert!(most_in_a_pass <= 2, "{most_in_a_pass} in one pass");
            assert_eq!(turns.waiting(), 0);
            rounds.abort();
        });
    }

    #[test]
    fn a_long_queue_ends_within_a_few_rounds() {
        assert_eq!((turns_in_round(4, 0), turns_in_round(4, 9)), (4, 4));
        let (mut waiting, mut rounds) = (2000, 0);
        while waiting > 0 {
            waiting -= turns_in_round(4, waiting).min(waiting);
            rounds += 1;
        }
        assert!(rounds <= 12, "{rounds}");
    }

    #[test]
    fn a_client_that_left_gets_no_turn_and_the_next_one_does() {
        run(async {
            let turns = Rc::new(Turns::new(1));
            let (leaves, socket) = pair().await;
            let left_behind = Rc::new(socket);
            let (_stays, served) = pair().await;
            let taken = turns.take().expect("the first round has one");
            let (first, second) = (Rc::clone(&turns), Rc::clone(&turns));
            let socket = Rc::clone(&left_behind);
            let first = spawn_local(async move { first.wait(&socket).await.map(drop) });
            let second =
                spawn_local(async move { second.wait(&served).await.map(|(turn, _)| turn.use_up()) });
            yield_now().await;
            drop(leaves);
            while !is_gone(&left_behind) {
                yield_now().await;
            }
            drop(taken);
            assert_eq!(first.await.expect("it does not panic"), Err(NoTurn::Gone));
            assert_eq!(second.await.expect("it does not panic"), Ok(()));
        });
    }

    #[test]
    fn a_rate_refuses_what_is_over_it_and_ends_with_its_setting() {
        run(async {
            let turns = Turns::new(1000);
            let rate = HandshakeRate::per_second(2.0, 0, Duration::from_secs(1));
            turns.set_rate(rate, Instant::now());
            let (_client, socket) = pair().await;
            // However slow this machine is, a hundred take less than 49 s.
            let mut refused = 0;
            for _ in 0..100 {
                match turns.take() {
                    Some(turn) => turn.use_up(),
                    None => match turns.wait(&socket).await {
                        Ok((turn, _)) => turn.use_up(),
                        Err(why) => {
                            assert_eq!(why, NoTurn::RateLimited);
                            refused += 1;
                        }
                    },
                }
            }
            assert!((1..=98).contains(&refused), "{refused}");
            turns.set_rate(None, Instant::now());
            (0..100).for_each(|_| turns.take().expect("there is no rate").use_up());
        });
    }

    #[test]
    fn who_gives_up_waiting_leaves_the_queue() {
        run(async {
            let turns = Rc::new(Turns::new(1));
            let (_client, socket) = pair().await;
            let taken = turns.take().expect("the first round has one");
            let waiter = Rc::clone(&turns);
            let waiter = spawn_local(async move { waiter.wait(&socket).await.map(drop) });
            yield_now().await;
            assert_eq!(turns.waiting(), 1);
            waiter.abort();
            assert!(waiter.await.is_err());
            assert_eq!(turns.waiting(), 0);
            drop(taken);
            assert!(turns.take().is_some());
        });
    }
}
