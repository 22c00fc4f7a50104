//! One signature: the choice of a server, and one retry on another.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use penstock_tls::remote_key::{RemoteKeyError, SignRequest};
use tokio::sync::oneshot;

use super::link::Link;
use super::shared::ClientState;

/// Servers that are asked for one signature.
const ATTEMPTS: usize = 2;

/// A signature that a handshake waits for.
pub(super) struct Operation {
    pub(super) request: SignRequest,
    pub(super) deadline: Instant,
    pub(super) answer: oneshot::Sender<Result<Vec<u8>, RemoteKeyError>>,
    pub(super) _place: OperationGuard,
}

/// Counts an operation as under way until it is dropped.
pub(super) struct OperationGuard(Arc<ClientState>);

impl OperationGuard {
    /// `None` if there are as many already.
    pub(super) fn enter(shared: &Arc<ClientState>, most: usize) -> Option<Self> {
        let place = Self(Arc::clone(shared));
        (shared.under_way.fetch_add(1, Relaxed) < most).then_some(place)
    }
}

impl Drop for OperationGuard {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Relaxed);
    }
}

impl Operation {
    /// Runs the operation and answers the handshake.
    pub(super) async fn perform(mut self, links: Rc<[Rc<Link>]>) {
        let result = tokio::select! {
            result = attempt(&self.request, self.deadline, &links, &self._place.0) => result,
            // The handshake has ended: its client has left, or was too slow.
            () = self.answer.closed() => return,
        };
        if result.is_ok() {
            self._place.0.fallbacks.not_needed();
        }
        // The handshake may have ended meanwhile.
        drop(self.answer.send(result));
    }
}

/// Asks a server, and after a failure one other.
async fn attempt(
    request: &SignRequest,
    deadline: Instant,
    links: &[Rc<Link>],
    shared: &ClientState,
) -> Result<Vec<u8>, RemoteKeyError> {
    let mut result = Err(RemoteKeyError::Unavailable);
    let mut tried: Option<usize> = None;
    for attempt in 1..=ATTEMPTS {
        let now = Instant::now();
        if now >= deadline {
            break;
        }
        let Some(link) = choose(links, tried, now) else {
            if tried.is_none() {
                shared.not_sent();
            }
            break;
        };
        tried = Some(link.index());
        let has_other = attempt < ATTEMPTS && links.len() > 1;
        let until = if has_other { now + (deadline - now) / 2 } else { deadline };
        result = link.sign(request, until).await;
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Of the servers that may be asked, the one with the fewest operations under way; connected ones come first.
fn choose(links: &[Rc<Link>], tried: Option<usize>, now: Instant) -> Option<&Rc<Link>> {
    let others = links.iter().filter(|link| Some(link.index()) != tried && link.admits(now));
    others.min_by_key(|link| (!link.is_up(), link.under_way()))
}
