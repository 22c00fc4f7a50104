//! Notifications to systemd, if it started this program (`Type=notify-reload`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sd_notify::NotifyState;

/// The listeners are open, or a reload is over.
pub(crate) fn ready() {
    notify(&[NotifyState::Ready]);
}

/// Another process is the main one of the service from now on.
pub(crate) fn succeeded_by(id: u32) {
    notify(&[NotifyState::MainPid(id), NotifyState::Ready]);
    // systemd would log each further message of a process that is not the main one.
    IS_SUCCEEDED.store(true, Ordering::Relaxed);
}

/// This process is the main one again: the one that had taken over has failed. The unit needs `NotifyAccess=all`.
pub(crate) fn is_main_again() {
    IS_SUCCEEDED.store(false, Ordering::Relaxed);
    notify(&[NotifyState::MainPid(std::process::id()), NotifyState::Ready]);
}

/// Whether another process is the main one.
static IS_SUCCEEDED: AtomicBool = AtomicBool::new(false);

/// A reload begins. The time tells systemd this notification from an older one.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!("no monotonic time: {error}"),
    }
}

/// The program has begun to end, which may take this long.
pub(crate) fn stopping(longest: Duration) {
    let longest = u32::try_from(longest.as_micros()).unwrap_or(u32::MAX);
    // More than TimeoutStopSec= may be needed.
    notify(&[NotifyState::Stopping, NotifyState::ExtendTimeoutUsec(longest)]);
}

/// Reports without end that this thread runs, twice in the time of `WatchdogSec=`. Without a watchdog it ends at once.
#[expect(clippy::infinite_loop, reason = "ended with its thread")]
pub(crate) async fn report_to_watchdog() {
    let Some(period) = watchdog_period(std::env::var("WATCHDOG_USEC").ok().as_deref()) else { return };
    loop {
        notify(&[NotifyState::Watchdog]);
        tokio::time::sleep(period).await;
    }
}

/// Half of the time after which systemd ends the service. `WATCHDOG_PID` is not compared: a process that took over from the one
/// that systemd has started has inherited the variables, and systemd expects reports of it.
fn watchdog_period(microseconds: Option<&str>) -> Option<Duration> {
    let limit = microseconds?.parse::<u64>().ok().filter(|limit| *limit > 1)?;
    Some(Duration::from_micros(limit / 2))
}

fn notify(state: &[NotifyState<'_>]) {
    if IS_SUCCEEDED.load(Ordering::Relaxed) {
        return;
    }
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!("cannot notify systemd: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watchdog_gets_two_reports_in_its_time() {
        assert_eq!(watchdog_period(Some("60000000")), Some(Duration::from_secs(30)));
        for none in [None, Some(""), Some("0"), Some("1"), Some("-5"), Some("soon")] {
            assert_eq!(watchdog_period(none), None, "{none:?}");
        }
    }
}
