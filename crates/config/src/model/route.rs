//! Routes: parts of a site with other settings, and responses without an origin.

use std::sync::Arc;

use penstock_http::Status;

use crate::pattern::PathPattern;
use crate::template::Template;

/// The requests of a route: all conditions have to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteMatcher {
    /// Their paths.
    pub path: PathPattern,
    /// Their methods; all if there is none.
    pub methods: Vec<String>,
    /// Conditions on parameters of the query.
    pub query: Vec<Condition>,
    /// Conditions on fields, whose names are in lowercase letters.
    pub headers: Vec<Condition>,
}

/// A condition on a parameter or a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its name.
    pub name: String,
    /// What has to hold.
    pub test: ConditionTest,
}

/// What has to hold of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConditionTest {
    /// It is there.
    Present,
    /// It is not there.
    Absent,
    /// One of its values is this.
    Is(String),
}

/// A port of HTTPS, to which requests of plain HTTP are redirected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpsPort(
    /// The port.
    pub u16,
);

impl HttpsPort {
    /// The port that a URL need not name.
    pub const USUAL: Self = Self(443);
}

/// The scheme and the host that requests should have. Others get a redirect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Canonical {
    /// The port of HTTPS, if requests should use it.
    pub https: Option<HttpsPort>,
    /// The host, in lowercase letters.
    pub host: Option<String>,
}

/// Another path for the origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// The pattern that captures the variables of `to`: that of the route, or all paths.
    pub from: PathPattern,
    /// The path.
    pub to: Template,
}

/// A redirect of all requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The pattern that captures the variables of `to`.
    pub from: PathPattern,
    /// The new place: a path or a URL.
    pub to: Template,
    /// A status of redirects.
    pub status: Status,
}

/// A page in place of those of this server, or of the origin too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorPage {
    /// Its statuses, from 400 to 599.
    pub statuses: Vec<u16>,
    /// Content-Type.
    pub content_type: String,
    /// The content.
    pub body: Arc<[u8]>,
    /// Whether it replaces what the origin says too.
    pub replaces_origin: bool,
}

/// A response without an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedResponse {
    /// From 200 to 599.
    pub status: u16,
    /// Content-Type.
    pub content_type: String,
    /// The content.
    pub body: Arc<[u8]>,
}
