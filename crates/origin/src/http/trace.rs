//! Which server a request went to and how long its steps took, for the log of the response that it was sent for.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use penstock_sys::lock::Unpoisoned;

/// The last request that was sent to a server. A clone is the same one; the request may outlive its reader.
#[derive(Clone, Debug, Default)]
pub struct UpstreamTrace(Arc<Mutex<LastAttempt>>);

#[derive(Debug, Default)]
struct LastAttempt {
    /// Requests so far: what an earlier one reports late does not count.
    attempt: u32,
    /// Whether the next requests are sent to another node of the cluster.
    is_node: bool,
    seen: Option<Upstream>,
}

/// A server, and the steps of a request to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// The URL of the server, as configured.
    pub url: String,
    /// Whether it is another node of the cluster, rather than an origin.
    pub is_node: bool,
    /// Time to open a connection; `None` if there was one.
    pub connect: Option<Duration>,
    /// From the request to the head of its response; `None` without a response.
    pub first_byte: Option<Duration>,
    /// From the request to the end of its response; `None` before it.
    pub whole: Option<Duration>,
}

impl UpstreamTrace {
    /// Tells whether the next requests are sent to another node of the cluster.
    pub fn set_node(&self, is_node: bool) {
        self.lock().is_node = is_node;
    }

    /// The last request; `None` if none was sent.
    #[must_use]
    pub fn seen(&self) -> Option<Upstream> {
        self.lock().seen.clone()
    }

    /// Begins with a request to a server, and returns its number.
    pub(super) fn begin(&self, url: String) -> u32 {
        let mut state = self.lock();
        let is_node = state.is_node;
        state.seen = Some(Upstream { url, is_node, connect: None, first_byte: None, whole: None });
        state.attempt = state.attempt.wrapping_add(1);
        state.attempt
    }

    /// Notes a step of a request, unless another one has begun.
    pub(super) fn note(&self, attempt: u32, step: impl FnOnce(&mut Upstream)) {
        let mut state = self.lock();
        if state.attempt == attempt
            && let Some(seen) = &mut state.seen
        {
            step(seen);
        }
    }

    fn lock(&self) -> MutexGuard<'_, LastAttempt> {
        self.0.lock().unpoisoned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_request_reports_late_does_not_count() {
        let trace = UpstreamTrace::default();
        assert_eq!(trace.seen(), None);
        let first = trace.begin("http://a.example".to_owned());
        trace.set_node(true);
        let second = trace.begin("https://192.0.2.1:8443".to_owned());
        trace.note(first, |seen| seen.whole = Some(Duration::from_secs(1)));
        trace.note(second, |seen| seen.first_byte = Some(Duration::from_millis(3)));
        let seen = trace.seen().unwrap();
        assert_eq!((seen.url.as_str(), seen.is_node), ("https://192.0.2.1:8443", true));
        assert_eq!((seen.first_byte, seen.whole), (Some(Duration::from_millis(3)), None));
    }
}
