//! What is passed on to an origin.

/// Methods that are passed on unless others are named.
pub const METHODS: [&str; 4] = ["POST", "PUT", "PATCH", "DELETE"];

/// How an origin is told who sent a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forwarded {
    /// By X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host.
    #[default]
    XForwarded,
    /// By Forwarded (RFC 7239).
    Standard,
    /// Not at all.
    Off,
}

/// All that are passed on by default.
pub fn default_methods() -> Vec<String> {
    METHODS.map(str::to_owned).to_vec()
}
