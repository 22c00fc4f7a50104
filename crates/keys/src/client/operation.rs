//! One signature: the choice of a server, and one retry on another.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use penstock_tls::remote_key::{RemoteKeyError, SignRequest};
use tokio::sync::oneshot;

use super::link::Link;
use super::shared::Shared;

/// Servers that are asked for one signature.
const ATTEMPTS: usize = 2;

/// A signature that a handshake waits for.
pub(super) struct Operation {
    pub(super) request: SignRequest,
    pub(super) deadline: Instant,
    pub(super) answer: oneshot::Sender<Result<Vec<u8>, RemoteKeyError>>,
    pub(super) _place: Place,
}

/// Counts an operation as under way until it is dropped.
pub(super) struct Place(Arc<Shared>);

impl Place {
    /// `None` if there are as many already.
    pub(super) fn enter(shared: &Arc<Shared>, most: usize) -> Option<Self> {
        let place = Self(Arc::clone(shared));
        (shared.under_way.fetch_add(1, Relaxed) < most).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Relaxed);
    }
}

impl Operation {
    /// Asks a server, and after a failure one other.
    pub(super) async fn perform(self, links: Rc<[Rc<Link>]>) {
        let mut result = Err(RemoteKeyError::Unavailable);
        let mut tried: Option<usize> = None;
        for attempt in 1..=ATTEMPTS {
            let now = Instant::now();
            // The client has left, or its time is over.
            if self.answer.is_closed() || now >= self.deadline {
                break;
            }
            let Some(link) = choose(&links, tried, now) else { break };
            tried = Some(link.index());
            let has_other = attempt < ATTEMPTS && links.len() > 1;
            let deadline = if has_other { now + (self.deadline - now) / 2 } else { self.deadline };
            result = link.sign(&self.request, deadline).await;
            if result.is_ok() {
                break;
            }
        }
        if result.is_ok() {
            self._place.0.fallback_logged.store(false, Relaxed);
        }
        // The handshake may have ended meanwhile.
        drop(self.answer.send(result));
    }
}

/// Of the servers that may be asked, the one with the fewest operations under way; connected ones come first.
fn choose(links: &[Rc<Link>], tried: Option<usize>, now: Instant) -> Option<&Rc<Link>> {
    let others = links.iter().filter(|link| Some(link.index()) != tried && link.admits(now));
    others.min_by_key(|link| (!link.is_up(), link.under_way()))
}
