//! The bounds of the admin listener, which `serve` and `keyserver` share.

use std::time::Duration;

use penstock_config::limits;
use penstock_console::ConsoleLimits;

/// The bounds of an admin listener.
pub(crate) fn console_limits() -> ConsoleLimits {
    ConsoleLimits {
        connections: limits::ADMIN_CONNECTIONS,
        head_deadline: Duration::from_secs(limits::ADMIN_HEAD_DEADLINE_SECONDS),
        deadline: Duration::from_secs(limits::ADMIN_DEADLINE_SECONDS),
        head_bytes: limits::ADMIN_HEAD_BYTES,
        send_buffer: limits::ADMIN_SEND_BUFFER_BYTES,
        listeners: limits::ADMIN_LISTENERS,
        interval: Duration::from_millis(limits::ADMIN_INTERVAL_MILLISECONDS),
        points: limits::ADMIN_POINTS,
        accept_retry: Duration::from_millis(limits::ADMIN_ACCEPT_RETRY_MILLISECONDS),
    }
}
