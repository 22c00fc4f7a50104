//! Waiting for the object that another request claimed.

use std::sync::Arc;

use tokio::sync::watch;

use crate::metadata::Metadata;
use crate::object::Object;

/// The result of a claim, for the requests that wait for it.
pub enum ClaimResult<D: Metadata> {
    /// An object for all that waited.
    Shared(Arc<Object<D>>),
    /// A response for one client only: each request has to be sent to the origin.
    Private,
}

impl<D: Metadata> Clone for ClaimResult<D> {
    fn clone(&self) -> Self {
        match self {
            Self::Shared(object) => Self::Shared(Arc::clone(object)),
            Self::Private => Self::Private,
        }
    }
}

/// The result of a claim, once there is one.
pub(super) type ClaimOutcome<D> = Option<ClaimResult<D>>;

/// A request that waits for the result of another's claim.
pub struct Pending<D: Metadata> {
    outcome: watch::Receiver<ClaimOutcome<D>>,
    waiters: usize,
}

impl<D: Metadata> Pending<D> {
    /// Requests that waited when this one began to, itself included.
    pub fn waiters(&self) -> usize {
        self.waiters
    }

    pub(super) fn on(sender: &watch::Sender<ClaimOutcome<D>>) -> Self {
        let outcome = sender.subscribe();
        Self { outcome, waiters: sender.receiver_count() }
    }

    /// Waits for the result; `None` if the claim was dropped without one.
    pub async fn result(mut self) -> Option<ClaimResult<D>> {
        let outcome = self.outcome.wait_for(Option::is_some).await.ok()?;
        outcome.clone()
    }
}
