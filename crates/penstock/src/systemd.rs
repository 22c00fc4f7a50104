//! Notifications to systemd, if it started this program (`Type=notify-reload`).

use std::time::Duration;

use sd_notify::NotifyState;

/// The listeners are open, or a reload is over.
pub(crate) fn ready() {
    notify(&[NotifyState::Ready]);
}

/// Another process is the main one of the service from now on.
pub(crate) fn succeeded_by(id: u32) {
    notify(&[NotifyState::MainPid(id), NotifyState::Ready]);
}

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

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!("cannot notify systemd: {error}");
    }
}
