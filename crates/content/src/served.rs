//! Where a response came from, for the access log, and what an origin is told of the trace that a request belongs to.

use std::sync::Arc;

use penstock_http::Request;
use penstock_origin::http::{Fetch, UpstreamTrace};

use crate::request_id::REQUEST_ID;

/// Where the first bytes of a response came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// The memory tier of the cache.
    Memory,
    /// A disk of the cache.
    Disk,
    /// Another node of the cluster.
    Peer,
    /// The origin.
    Origin,
}

impl Tier {
    /// The word in the access log.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Peer => "peer",
            Self::Origin => "origin",
        }
    }
}

/// Where a response came from.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Where its first bytes came from; `None` if neither a cache nor an origin was asked.
    pub tier: Option<Tier>,
    /// The request that was sent for it, if one may have been.
    pub upstream: Option<UpstreamTrace>,
}

/// What a request to an origin takes over from the request that causes it. It concerns no other request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cause {
    upstream: Option<UpstreamTrace>,
    /// `traceparent`, `tracestate` and `X-Request-Id`.
    fields: Option<Arc<[CauseField]>>,
}

/// Name and value of a field.
type CauseField = (&'static str, Box<[u8]>);

/// The fields of W3C Trace Context.
const TRACE_FIELDS: [&str; 2] = ["traceparent", "tracestate"];

impl Cause {
    /// The cause that this request is, with its name and the place for what is noted.
    pub(crate) fn new(request: &Request<'_>, id: Option<&str>, upstream: UpstreamTrace) -> Self {
        let trace =
            TRACE_FIELDS.iter().flat_map(|name| request.values(name).map(move |value| (*name, value.into())));
        let id = id.map(|id| (REQUEST_ID, id.as_bytes().into()));
        let fields: Arc<[_]> = trace.chain(id).collect();
        Self { upstream: Some(upstream), fields: (!fields.is_empty()).then_some(fields) }
    }

    /// Adds itself to a request to an origin, whose own fields stay.
    pub(crate) fn add_to(&self, fetch: &mut Fetch) {
        fetch.trace.clone_from(&self.upstream);
        // The origin may vary by them, and then they are there already.
        let has_any = TRACE_FIELDS.iter().any(|name| fetch.fields.contains_key(*name));
        for (name, value) in self.fields.iter().flat_map(|fields| fields.iter()) {
            if *name == REQUEST_ID {
                fetch.fields.remove(REQUEST_ID);
            } else if has_any {
                continue;
            }
            fetch.pass(name, value);
        }
    }
}
