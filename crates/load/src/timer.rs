//! A timer with a resolution of microseconds: the runtime's timers have milliseconds, which an open loop would add to
//! each latency.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// A timer of the kernel (`timerfd`).
#[derive(Debug)]
pub(crate) struct Timer(AsyncFd<OwnedFd>);

impl Timer {
    /// Must be called within a runtime.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[expect(
            deprecated,
            reason = "unsound only for types that give another descriptor each time; this is its own"
        )]
        Ok(Self(AsyncFd::new(timer)?))
    }

    /// Waits until this time.
    pub(crate) async fn until(&self, then: Instant) -> io::Result<()> {
        loop {
            let left = then.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
            let value = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            };
            let once = Itimerspec { it_interval: zero, it_value: value };
            timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &once)?;
            let mut guard = self.0.readable().await?;
            // Reading rearms the descriptor; the number of expirations is dropped.
            match rustix::io::read(self.0.get_ref(), &mut [0_u8; 8]) {
                Ok(_) | Err(rustix::io::Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
            guard.clear_ready();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_waits_again_and_again_and_never_too_short() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let timer = Timer::new().unwrap();
            for microseconds in [0, 50, 2000, 300] {
                let then = Instant::now() + Duration::from_micros(microseconds);
                timer.until(then).await.unwrap();
                assert!(Instant::now() >= then);
            }
        });
    }
}
