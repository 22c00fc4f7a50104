//! Rounds of a thread: each is one pass of its runtime over the tasks that are ready.
//!
//! Packets that follow each other cost less than packets that come one by one, because the core that receives them is
//! interrupted once for several of them. Tasks that have something small to send therefore wait until the others have read and
//! computed.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

/// A round that takes longer is too long to wait for.
const ROUND_MAX: Duration = Duration::from_millis(5);
/// For how long nothing waits after a round that was too long.
const PAUSE: Duration = Duration::from_millis(100);

thread_local! {
    static ROUNDS: Rounds = const { Rounds { paused_until: Cell::new(None) } };
}

/// Waits until the tasks of this thread that are ready have run. The system is not asked for more events meanwhile. While rounds
/// take longer than 5 ms, one wait in 100 ms is as long, and the others return at once.
pub async fn end_of_round() {
    let begun = Instant::now();
    if !ROUNDS.with(|rounds| rounds.may_wait(begun)) {
        return;
    }
    let mut is_behind_others = false;
    poll_fn(|context| {
        if is_behind_others {
            return Poll::Ready(());
        }
        is_behind_others = true;
        // A runtime runs the tasks that are ready in the order in which they were woken.
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    ROUNDS.with(|rounds| rounds.waited(begun, Instant::now()));
}

/// Decides whether to wait.
#[derive(Debug)]
struct Rounds {
    paused_until: Cell<Option<Instant>>,
}

impl Rounds {
    fn may_wait(&self, now: Instant) -> bool {
        self.paused_until.get().is_none_or(|until| now >= until)
    }

    /// Notes a wait.
    fn waited(&self, begun: Instant, ended: Instant) {
        if ended.saturating_duration_since(begun) > ROUND_MAX {
            self.paused_until.set(Some(ended + PAUSE));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use tokio::task::{LocalSet, spawn_local};

    use super::*;

    #[test]
    fn tasks_that_are_ready_run_before_those_that_wait_for_the_end_of_the_round() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let events = Rc::new(RefCell::new(Vec::new()));
        let tasks = LocalSet::new();
        tasks.block_on(&runtime, async {
            let task = |number| {
                let events = Rc::clone(&events);
                spawn_local(async move {
                    events.borrow_mut().push(("reads", number));
                    end_of_round().await;
                    events.borrow_mut().push(("sends", number));
                })
            };
            for task in [task(1), task(2), task(3)] {
                task.await.unwrap();
            }
        });
        let expected = [("reads", 1), ("reads", 2), ("reads", 3), ("sends", 1), ("sends", 2), ("sends", 3)];
        assert_eq!(*events.borrow(), expected);
    }

    #[test]
    fn after_a_long_round_nothing_waits_for_a_while() {
        let rounds = Rounds { paused_until: Cell::new(None) };
        let start = Instant::now();
        assert!(rounds.may_wait(start));
        rounds.waited(start, start + ROUND_MAX);
        assert!(rounds.may_wait(start + ROUND_MAX), "that was not too long");
        let ended = start + ROUND_MAX + Duration::from_nanos(1);
        rounds.waited(start, ended);
        assert!(!rounds.may_wait(ended));
        assert!(!rounds.may_wait(ended + PAUSE - Duration::from_nanos(1)));
        assert!(rounds.may_wait(ended + PAUSE));
    }

    #[test]
    fn a_wait_of_before_a_pause_does_not_end_the_pause() {
        let rounds = Rounds { paused_until: Cell::new(None) };
        let start = Instant::now();
        let ended = start + 2 * ROUND_MAX;
        rounds.waited(start, ended);
        // Another task began to wait later in the same round.
        rounds.waited(ended - ROUND_MAX / 2, ended);
        assert!(!rounds.may_wait(ended));
    }
}
