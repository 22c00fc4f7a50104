//! Waits until idle connections have released what they do not keep.

use std::thread;
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(30);

/// The least number of bytes that `live` tells. Returns once that is at most `limit` and falls no more, at the latest after some
/// time: a worker gives memory back a while after the last response.
pub(crate) fn settled(limit: isize, mut live: impl FnMut() -> isize) -> isize {
    let deadline = Instant::now() + DEADLINE;
    let (mut least, mut same) = (isize::MAX, 0);
    while Instant::now() < deadline {
        let now = live();
        if now < least {
            (least, same) = (now, 0);
        }
        same += 1;
        if same > 50 && least <= limit {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    least
}
