//! The interface between the console and the program.

use penstock_cache::purge::PurgeOrder;

/// The program behind the console. The console's thread calls it once for each request.
pub trait Backend: Send + Sync + 'static {
    /// All metrics in the Prometheus text format, version 0.0.4.
    fn metrics(&self) -> String;

    /// The state of the program for people and dashboards. `version` and `uptime_seconds` also appear on the index.
    fn status(&self) -> serde_json::Value;

    /// Whether load balancers should send new connections.
    fn readiness(&self) -> Readiness;

    /// Which clients get ChaCha20-Poly1305.
    fn chacha20(&self) -> serde_json::Value;

    /// Changes that for new connections.
    ///
    /// # Errors
    /// The fault of the mode and its remedy.
    fn set_chacha20(&self, mode: &str) -> Result<serde_json::Value, String>;

    /// Purges cached objects, for good. If `confirm` is set it waits until the other edges of the fleet have applied the
    /// purge. Runs on a thread of its own, since it waits for a disk.
    ///
    /// # Errors
    /// See [`PurgeError`].
    fn purge(&self, order: &PurgeOrder, confirm: bool) -> Result<serde_json::Value, PurgeError>;

    /// Whether this DNS name is one of the listener's own, in lowercase letters and without a port.
    ///
    /// `localhost` and IP addresses need no such permission.
    fn is_own_name(&self, name: &str) -> bool;
}

/// Why a purge did not happen, or not for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurgeError {
    /// The request is wrong: 400.
    Wrong(String),
    /// The program failed: 500.
    Failed(String),
}

/// Whether load balancers should send new connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The program serves.
    Ready,
    /// It finishes running responses and accepts no new connections.
    Draining,
}
