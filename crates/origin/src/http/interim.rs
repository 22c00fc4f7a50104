//! Interim responses (1xx) of an origin, on their way to the client that the request is for (RFC 9110 §15.2).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use hyper::header::{self, HeaderMap, HeaderName};
use penstock_sys::lock::Unpoisoned;
use tokio::sync::Notify;

/// Responses that wait for their client at most; further ones are dropped.
const WAITING_MAX: usize = 4;

/// Fields that say nothing of the final response, beside those of a connection.
const NOT_PASSED_ON: [HeaderName; 3] =
    [header::ALT_SVC, header::CONTENT_LENGTH, HeaderName::from_static("cache-status")];

/// The head of an interim response.
#[derive(Clone, Debug)]
pub struct InterimHead {
    /// Status code: 102 to 199, without 101.
    pub status: u16,
    /// Its fields.
    pub fields: HeaderMap,
}

/// The interim responses to one request, in order. Clones are the same queue.
#[derive(Clone, Debug, Default)]
pub struct InterimHeads(Arc<Queue>);

#[derive(Debug, Default)]
struct Queue {
    heads: Mutex<VecDeque<InterimHead>>,
    arrived: Notify,
}

impl InterimHeads {
    /// Adds a response. 100 is about the body of a request and 101 about the connection, so neither is passed on.
    pub fn put(&self, status: u16, fields: &HeaderMap) {
        if !(102..200).contains(&status) {
            return;
        }
        let mut fields = fields.clone();
        for name in NOT_PASSED_ON {
            fields.remove(name);
        }
        let mut heads = self.heads();
        if heads.len() < WAITING_MAX {
            heads.push_back(InterimHead { status, fields });
            self.0.arrived.notify_one();
        }
    }

    /// The next response, as soon as there is one. A call that is dropped loses nothing.
    pub async fn next(&self) -> InterimHead {
        loop {
            match self.take() {
                Some(head) => return head,
                None => self.0.arrived.notified().await,
            }
        }
    }

    /// The next response, if there is one already.
    pub fn take(&self) -> Option<InterimHead> {
        self.heads().pop_front()
    }

    fn heads(&self) -> MutexGuard<'_, VecDeque<InterimHead>> {
        self.0.heads.lock().unpoisoned()
    }
}
