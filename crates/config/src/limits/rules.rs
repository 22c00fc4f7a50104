//! Limits of rules: routes, redirects, fixed responses.

/// The default file of a directory.
pub const INDEX: &str = "index.html";

/// Routes of one site.
pub const ROUTES_MAX: usize = 2000;

/// Conditions of one kind of one route.
pub const ROUTE_CONDITIONS_MAX: usize = 16;

/// Bytes of the content of a response that the configuration has.
pub const FIXED_BODY_BYTES_MAX: usize = 64 * 1024;
