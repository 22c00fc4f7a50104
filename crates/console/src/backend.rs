//! The interface between the console and the program.

use std::fmt;

use penstock_cache::purge::PurgeOrder;
use penstock_sys::digest::{is_same, sha256};

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
    /// See [`OrderError`].
    fn purge(&self, order: &PurgeOrder, confirm: bool) -> Result<serde_json::Value, OrderError>;

    /// Refuses the tokens with these ids until a time, as it was written. `confirm` means what it does for a purge. Runs on a
    /// thread of its own, since it waits for a disk.
    ///
    /// # Errors
    /// See [`OrderError`].
    fn revoke(&self, ids: &[String], expires: &str, confirm: bool) -> Result<serde_json::Value, OrderError>;

    /// The names of the numbers of [`Self::second`]. They stay the same while the console runs.
    fn series(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// The numbers of the last second; NaN stands for one that is not known. The console calls it once a second.
    fn second(&self) -> Vec<f32> {
        Vec::new()
    }

    /// Looks at what the workers are doing, which the console then calls about a hundred times a second; `None` if there is
    /// nothing to look at.
    fn look(&self) -> Option<Look> {
        None
    }

    /// The token that every request but health checks needs; `None` if there is none.
    fn token(&self) -> Option<Token> {
        None
    }

    /// Whether this DNS name is one of the listener's own, in lowercase letters and without a port.
    ///
    /// `localhost` and IP addresses need no such permission.
    fn is_own_name(&self, name: &str) -> bool;
}

/// Something that is called often, and is short.
pub type Look = Box<dyn Fn() + Send>;

/// What admits a request, as a digest.
#[derive(Clone, Copy)]
pub struct Token([u8; 32]);

impl Token {
    /// The token with these bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(sha256(&[bytes]))
    }

    /// Whether these bytes are the token. The time depends on their length alone.
    pub(crate) fn is(&self, bytes: &[u8]) -> bool {
        is_same(&self.0, &sha256(&[bytes]))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Why a purge or a revocation did not happen, or not for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderError {
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
