//! Limits of rules: routes, redirects, fixed responses.

/// The default file of a directory.
pub const INDEX: &str = "index.html";

/// Routes of one site.
pub const ROUTES_MAX: usize = 2000;

/// Conditions of one kind of one route.
pub const ROUTE_CONDITIONS_MAX: usize = 16;

/// Pages for statuses, of one site.
pub const ERROR_PAGES_MAX: usize = 32;

/// Bytes of such a page.
pub const ERROR_PAGE_BYTES: u64 = 64 * 1024;

/// How often at most the file of a maintenance is looked for.
pub const MAINTENANCE_MILLISECONDS: u64 = 1000;

/// Changes to fields of one kind, for one direction.
pub const FIELD_RULES_MAX: usize = 32;

/// Bytes of a value that is set, with the secret in it.
pub const FIELD_VALUE_BYTES: usize = 4096;

/// Bytes of the id that a client gives its request.
pub const REQUEST_ID_BYTES: usize = 128;

/// Bytes of the content of a response that the configuration has.
pub const FIXED_BODY_BYTES_MAX: usize = 64 * 1024;
