//! Ends responses at the drain deadline, so that each is counted and logged before its worker ends.

use std::cell::Cell;
use std::time::Duration;

use penstock_sys::{CountGuard, Counted, ThreadCount};
use tokio::sync::Notify;
use tokio::time::timeout;

/// The responses that a worker sends, and the order to abort them.
#[derive(Debug, Default)]
pub(crate) struct ResponseAbort {
    is_aborted: Cell<bool>,
    order: Notify,
    sending: ThreadCount,
    all_ended: Notify,
}

/// An aborted response only has to be logged, which waits for nothing.
const LOGGING_MAX: Duration = Duration::from_secs(1);

impl ResponseAbort {
    /// Runs `sending` to its end or to the order. Returns false if it was aborted.
    pub(crate) async fn run(&self, sending: impl Future<Output = ()>) -> bool {
        self.sending.count();
        let _counted = CountGuard::of_counted(self);
        tokio::select! {
            biased;
            () = sending => true,
            () = self.ordered() => false,
        }
    }

    /// Gives the order, and waits until no response is being sent.
    pub(crate) async fn abort(&self) {
        self.is_aborted.set(true);
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
        while !self.is_aborted.get() {
            self.order.notified().await;
        }
    }
}

impl Counted for ResponseAbort {
    fn uncount(&self) {
        self.sending.uncount();
        if self.sending.get() == 0 {
            self.all_ended.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn an_order_ends_what_is_being_sent_and_what_comes_later() {
        let responses = ResponseAbort::default();
        assert!(responses.run(ready(())).await);
        let (was_whole, ()) = tokio::join!(responses.run(pending()), responses.abort());
        assert!(!was_whole);
        assert!(!responses.run(pending()).await);
        assert!(responses.run(ready(())).await, "a response that is ready needs no time");
    }
}
