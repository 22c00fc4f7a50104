//! Starts of operations: when a connection is free (closed loop), or when they are due (open loop).

use std::cell::{Cell, RefCell};
use std::time::Instant;

use tokio::sync::Notify;

use super::run_state::RunState;
use crate::schedule::{Punctuality, Schedule};
use crate::timer::Timer;

/// The starts of one thread.
pub(crate) struct StartQueue {
    schedule: Option<Schedule>,
    released: Cell<u64>,
    taken: Cell<u64>,
    ended: Cell<bool>,
    changed: Notify,
    punctuality: RefCell<Punctuality>,
}

impl StartQueue {
    pub(crate) fn new(schedule: Option<Schedule>) -> Self {
        Self {
            schedule,
            released: Cell::new(0),
            taken: Cell::new(0),
            ended: Cell::new(false),
            changed: Notify::new(),
            punctuality: RefCell::default(),
        }
    }

    /// Waits for the next start. Returns when it was due; `None` if there are no more.
    pub(crate) async fn next(&self, shared: &RunState) -> Option<Instant> {
        let Some(schedule) = &self.schedule else {
            return shared.take().then(Instant::now);
        };
        let mut waited = false;
        loop {
            if self.taken.get() < self.released.get() {
                let index = self.taken.get();
                self.taken.set(index + 1);
                self.punctuality.borrow_mut().queued += u64::from(!waited);
                return Some(shared.began + schedule.due(index));
            }
            if self.ended.get() {
                return None;
            }
            waited = true;
            self.changed.notified().await;
        }
    }

    /// Releases starts as they become due, until the run is over. In a closed loop it returns at once.
    pub(crate) async fn release(&self, shared: &RunState) -> std::io::Result<()> {
        let Some(schedule) = &self.schedule else { return Ok(()) };
        let timer = Timer::new()?;
        loop {
            let due = shared.began + schedule.due(self.released.get());
            if shared.deadline().is_some_and(|deadline| due >= deadline) {
                break;
            }
            if due > Instant::now() {
                timer.until(due).await?;
            } else {
                // At a rate that cannot be kept, connections still need their turn.
                tokio::task::yield_now().await;
            }
            let lateness = due.elapsed();
            if !shared.take() {
                break;
            }
            self.punctuality.borrow_mut().note(lateness);
            self.released.set(self.released.get() + 1);
            self.changed.notify_one();
        }
        self.ended.set(true);
        self.changed.notify_waiters();
        Ok(())
    }

    /// Starts that were due and did not begin.
    pub(crate) fn backlog(&self) -> u64 {
        self.released.get() - self.taken.get()
    }

    pub(crate) fn punctuality(&self) -> Punctuality {
        *self.punctuality.borrow()
    }
}
