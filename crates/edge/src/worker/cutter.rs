//! Cutting responses off at the drain deadline, so that each is counted and logged before its worker ends.

use std::cell::Cell;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

/// The responses that a worker sends, and the order to end them.
#[derive(Debug, Default)]
pub(crate) struct Cutter {
    is_cut: Cell<bool>,
    order: Notify,
    sending: Cell<usize>,
    all_ended: Notify,
}

/// A cut response only has to be logged, which waits for nothing.
const LOGGING_MAX: Duration = Duration::from_secs(1);

impl Cutter {
    /// Runs `sending` to its end or to the order. Returns false if it was cut.
    pub(crate) async fn run(&self, sending: impl Future<Output = ()>) -> bool {
        let _counted = Sending::enter(self);
        tokio::select! {
            biased;
            () = sending => true,
            () = self.ordered() => false,
        }
    }

    /// Gives the order, and waits until no response is being sent.
    pub(crate) async fn cut(&self) {
        self.is_cut.set(true);
        self.order.notify_waiters();
        let ended = async {
            while self.sending.get() > 0 {
                self.all_ended.notified().await;
            }
        };
        drop(timeout(LOGGING_MAX, ended).await);
        // A response is logged in the same turn of its task, behind the end of its sending.
        tokio::task::yield_now().await;
    }

    async fn ordered(&self) {
        while !self.is_cut.get() {
            self.order.notified().await;
        }
    }
}

struct Sending<'c>(&'c Cutter);

impl<'c> Sending<'c> {
    fn enter(cutter: &'c Cutter) -> Self {
        cutter.sending.set(cutter.sending.get() + 1);
        Self(cutter)
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        let left = self.0.sending.get().saturating_sub(1);
        self.0.sending.set(left);
        if left == 0 {
            self.0.all_ended.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn an_order_ends_what_is_being_sent_and_what_comes_later() {
        let cutter = Cutter::default();
        assert!(cutter.run(ready(())).await);
        let (was_whole, ()) = tokio::join!(cutter.run(pending()), cutter.cut());
        assert!(!was_whole);
        assert!(!cutter.run(pending()).await);
        assert!(cutter.run(ready(())).await, "a response that is ready needs no time");
    }
}
