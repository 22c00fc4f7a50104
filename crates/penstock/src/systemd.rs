//! Notifications to systemd, if it started this program (`Type=notify-reload`).

use sd_notify::NotifyState;

/// The listeners are open, or a reload is over.
pub(crate) fn ready() {
    notify(&[NotifyState::Ready]);
}

/// A reload begins. The time tells systemd this notification from an older one.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!("no monotonic time: {error}"),
    }
}

/// The program has begun to end.
pub(crate) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!("cannot notify systemd: {error}");
    }
}
