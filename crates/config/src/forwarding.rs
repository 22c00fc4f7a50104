//! How requests are forwarded to an origin.

/// Methods that are forwarded by default.
pub const METHODS: [&str; 4] = ["POST", "PUT", "PATCH", "DELETE"];

/// How an origin learns the client's address.
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

/// Whether `X-Request-Id` names each request to the origin and in the response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestIds {
    /// The field is not touched.
    #[default]
    Off,
    /// A new id for each request.
    Generate,
    /// The client's, if it is plain and short; otherwise a new one.
    Preserve,
}

/// [`METHODS`] as a list.
pub fn default_methods() -> Vec<String> {
    METHODS.map(str::to_owned).to_vec()
}
