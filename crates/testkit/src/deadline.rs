//! How long the tests wait for anything.

use std::thread;
use std::time::{Duration, Instant};

/// The longest wait for anything on the loopback: a test fails instead of hanging.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Asks repeatedly until there is an answer, for conditions that the server reaches in its own time.
///
/// # Panics
/// After [`DEADLINE`], naming `what` was waited for.
#[track_caller]
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "{what}: not within {DEADLINE:?}");
        thread::sleep(Duration::from_millis(10));
    }
}
