//! An OCSP response that has been checked.

use std::time::SystemTime;

/// A response that may be stapled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staple {
    pub(crate) response: Vec<u8>,
    /// When the responder last confirmed the status.
    pub this_update: SystemTime,
    /// When it expires.
    pub next_update: SystemTime,
}
