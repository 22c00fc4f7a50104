//! How long the library is busy with exchanging keys during a handshake.
//!
//! The library has no hook around a key exchange. It tells when it goes from one step of its state machine to the next,
//! and keys are exchanged in steps that do little else.

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::time::{Duration, Instant};

use boring::ssl::{SslContextBuilder, SslRef};
use boring_sys as ffi;
use foreign_types::ForeignTypeRef;

/// Adds up the time of the steps that exchange keys; a pure state machine.
#[derive(Debug, Default)]
pub(super) struct Stopwatch {
    total: Duration,
    /// When such a step began, later by the pauses in it; `None` in all other steps.
    since: Option<Instant>,
}

impl Stopwatch {
    pub(super) fn runs(&self) -> bool {
        self.since.is_some()
    }

    pub(super) fn total(&self) -> Duration {
        self.total
    }

    /// A step that exchanges keys begins.
    pub(super) fn start(&mut self, now: Instant) {
        self.stop(now);
        self.since = Some(now);
    }

    /// Another step begins.
    pub(super) fn stop(&mut self, now: Instant) {
        if let Some(since) = self.since.take() {
            self.total += now.saturating_duration_since(since);
        }
    }

    /// So long the current step was not at work.
    pub(super) fn paused(&mut self, duration: Duration) {
        self.since = self.since.and_then(|since| since.checked_add(duration));
    }
}

/// More than the library has states.
const SEEN_NAMES: usize = 64;

thread_local! {
    // A handshake takes some forty steps, and comparing texts in each of them would be most of what this costs.
    static SEEN: [Cell<(usize, bool)>; SEEN_NAMES] = const { [const { Cell::new((0, false)) }; SEEN_NAMES] };
}

/// Has the connections of this context write the times of their steps into their [`Notes`](super::Notes).
pub fn observe_steps(builder: &mut SslContextBuilder) {
    // SAFETY: the context outlives the call, and `on_info` matches the prototype and never unwinds.
    unsafe { ffi::SSL_CTX_set_info_callback(builder.as_ptr(), Some(on_info)) };
}

extern "C" fn on_info(ssl: *const ffi::SSL, kind: c_int, _value: c_int) {
    if ssl.is_null() || kind != ffi::SSL_CB_ACCEPT_LOOP {
        return;
    }
    // SAFETY: the library passes the live connection it is working on.
    let name = unsafe { ffi::SSL_state_string_long(ssl) };
    if name.is_null() {
        return;
    }
    let exchanges_keys = SEEN.with(|seen| {
        // The names are constants of the library, so their addresses tell them apart.
        let place = &seen[name.addr() / 8 % SEEN_NAMES];
        let (known, answer) = place.get();
        if known == name.addr() {
            return answer;
        }
        // SAFETY: the library returns a string literal.
        let answer = exchanges_keys(unsafe { CStr::from_ptr(name) }.to_bytes());
        place.set((name.addr(), answer));
        answer
    });
    // SAFETY: as above; the reference is shared and ends with this call.
    let ssl = unsafe { SslRef::from_ptr(ssl.cast_mut()) };
    if let Some(notes) = super::notes(ssl) {
        notes.enter_step(exchanges_keys);
    }
}

/// The library's names of its states, of TLS 1.3 and of the older versions.
fn exchanges_keys(state: &[u8]) -> bool {
    matches!(
        state,
        b"TLS 1.3 server select_session"
            | b"TLS 1.3 server read_second_client_hello"
            | b"TLS server send_server_certificate"
            | b"TLS server read_client_key_exchange"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn only_the_steps_that_exchange_keys_are_timed() {
        let start = Instant::now();
        let mut watch = Stopwatch::default();
        watch.stop(start);
        watch.start(start + 10 * MS);
        watch.stop(start + 13 * MS);
        watch.stop(start + 20 * MS);
        watch.start(start + 25 * MS);
        watch.start(start + 26 * MS);
        watch.stop(start + 28 * MS);
        assert_eq!(watch.total(), 6 * MS);
    }

    #[test]
    fn a_pause_is_no_work() {
        let start = Instant::now();
        let mut watch = Stopwatch::default();
        watch.paused(50 * MS);
        watch.start(start);
        watch.paused(70 * MS);
        watch.paused(20 * MS);
        watch.stop(start + 93 * MS);
        watch.paused(50 * MS);
        assert_eq!(watch.total(), 3 * MS);
    }

    #[test]
    fn a_pause_that_was_measured_longer_than_its_step_leaves_nothing() {
        let start = Instant::now();
        let mut watch = Stopwatch::default();
        watch.start(start);
        watch.paused(3 * MS);
        watch.stop(start + 2 * MS);
        assert_eq!(watch.total(), Duration::ZERO);
    }
}
