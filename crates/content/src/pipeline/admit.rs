//! Admit: whether a request may be answered. Each rule is a function from facts to `Result<(), Refusal>`.

use penstock_http::{Method, Rejection, Status};

use crate::context::Context;
use crate::response::ClientRequest;
use crate::site::signed_urls::{self, Bare};
use crate::site_table::Site;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No site answers for the authority.
    NoSite,
    /// The path could name another one for an origin, which another route may be for.
    AmbiguousPath,
    /// The site is out of service.
    Maintenance,
    /// The client expects something else than `100 Continue` (RFC 9110 §10.1.1).
    Expectation,
    /// The request came as early data, which the site refuses (RFC 8470 §5.2).
    Early,
    /// The request has passed through this site before (RFC 8586).
    Loop,
    /// The URL is not signed as the site demands.
    Token(signed_urls::Refusal),
    /// The request came for a cluster, and there is none.
    NoCluster,
    /// The body of the request, or its client.
    Body(Rejection),
}

impl Refusal {
    /// The status of the response.
    pub fn status(self) -> Status {
        match self {
            Self::NoSite | Self::NoCluster => Status::MisdirectedRequest,
            Self::Expectation => Status::ExpectationFailed,
            Self::Early => Status::TooEarly,
            Self::Loop => Status::LoopDetected,
            Self::AmbiguousPath => Status::NotFound,
            Self::Maintenance => Status::ServiceUnavailable,
            Self::Token(_) => Status::Forbidden,
            Self::Body(rejection) => rejection.status,
        }
    }

    /// The label for a request that is rejected before any rule of its site; `None` for the others, which have counters of
    /// their own.
    pub fn rejection(self) -> Option<&'static str> {
        match self {
            Self::Body(rejection) => Some(rejection.reason),
            Self::NoCluster => Some("no_cluster"),
            Self::Expectation => Some("unknown_expectation"),
            Self::NoSite
            | Self::AmbiguousPath
            | Self::Maintenance
            | Self::Early
            | Self::Loop
            | Self::Token(_) => None,
        }
    }
}

/// Admits a request. Returns its target without its token if the site signs its URLs.
///
/// # Errors
/// The first rule that refuses it.
pub(super) fn admit<'r>(
    context: &Context,
    site: &Site,
    client: ClientRequest<'r>,
) -> Result<Option<Bare<'r>>, Refusal> {
    expectation(client)?;
    early(site, client)?;
    has_passed(site, client)?;
    token(context, site, client)
}

fn expectation(client: ClientRequest<'_>) -> Result<(), Refusal> {
    if client.head.has_unknown_expectation() { Err(Refusal::Expectation) } else { Ok(()) }
}

fn early(site: &Site, client: ClientRequest<'_>) -> Result<(), Refusal> {
    if client.early && site.refuses_early { Err(Refusal::Early) } else { Ok(()) }
}

fn has_passed(site: &Site, client: ClientRequest<'_>) -> Result<(), Refusal> {
    match site.http() {
        Some(http) if http.loop_member.has_passed(client.head) => Err(Refusal::Loop),
        _ => Ok(()),
    }
}

fn token<'r>(context: &Context, site: &Site, client: ClientRequest<'r>) -> Result<Option<Bare<'r>>, Refusal> {
    // A CORS preflight carries no token.
    let rules = site.signed_urls.as_ref().filter(|_| client.head.method() != Method::Options);
    let Some(rules) = rules else { return Ok(None) };
    let admitted = signed_urls::admit(rules, client.head, context.clock.wall());
    context.metrics.signed_url(admitted.as_ref().map_or_else(|why| why.label(), |_| "accepted"));
    admitted.map(Some).map_err(Refusal::Token)
}
