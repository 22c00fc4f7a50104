//! What systemd is told, if it started this program (`Type=notify-reload`).

use sd_notify::NotifyState;

/// The listeners are open, or a reload is over.
pub(crate) fn ready() {
    tell(&[NotifyState::Ready]);
}

/// A reload begins. systemd tells its answer from an older one by the time.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!("no monotonic time: {error}"),
    }
}

/// The program has begun to end.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!("systemd does not listen: {error}");
    }
}
