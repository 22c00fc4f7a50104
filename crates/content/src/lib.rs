//! From a request to its response, without a connection: sites, lookup, fill, body, response.
//!
//! [`handle()`] answers a request of a client or of another node, whatever connection or stream carries it. It gives a
//! [`Response`]: status, fields, and a body of extents and memory, or a [`BodyStream`] of them. What it needs of its
//! surroundings is a [`Context`]: clock, counters, open files, and origins, which a unit test scripts.
//!
//! ```no_run
//! # use penstock_content::{Audience, Body, ClientRequest, Clients, Context, RequestBody, SiteTable, handle};
//! # use std::rc::Rc;
//! # async fn example(
//! #     context: Rc<Context>,
//! #     sites: SiteTable,
//! #     head: penstock_http::Request<'_>,
//! #     mut body: impl RequestBody,
//! # ) {
//! let address = (std::net::Ipv4Addr::LOCALHOST, 40_000).into();
//! let client = ClientRequest { head: &head, address, secure: true, certificate: None, early: false };
//! let handled = handle(&context, Audience::Clients(Clients::of(&sites)), client, &mut body).await;
//! if let Body::Part(part) = handled.response.body {
//!     println!("{} with one part: {part:?}", handled.response.head.status);
//! }
//! # }
//! ```
#![forbid(unsafe_code)]

mod cache_status;
mod cached;
mod challenge;
mod clock;
mod context;
mod fault;
mod fill;
mod handle;
mod health;
mod lifetime;
mod networks;
mod nodes;
mod object;
mod origin;
mod origins;
mod peers;
mod pipeline;
mod remembered;
mod request_id;
mod requester;
mod response;
mod served;
mod site;
mod site_table;
mod store;
mod task;
#[cfg(any(test, feature = "fuzz"))]
mod tests;

pub use cache_status::CacheStatus;
pub use clock::Clock;
pub use context::{Context, IsRevoked};
pub use fault::BodyError;
pub use fill::RelayedBody;
pub use fill::{BodyChunk, BodyStream};
pub use handle::{Audience, Clients, handle, handle_rejected};
pub use networks::{NetworkEntry, NetworkFull, Networks};
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use nodes::fuzz_peer_fields;
pub use nodes::locate;
pub use nodes::{PeerService, SummaryReader};
pub use nodes::{PurgeFailure, PurgeOrder, PurgeTarget, Purged, PurgedNodes};
pub use nodes::{catch_up, purge_cluster, repeat_missed_purges};
pub use object::StoredObject;
#[doc(hidden)]
pub use object::contents;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub use object::{fuzz_description, fuzz_origin_response};
pub use origins::{Fetched, LocalFuture, OriginBody, Origins, PeerObject};
pub use peers::{Peer, PeerOutcome, PeerStatus, Peers};
pub use penstock_cache::{BusySlots, GivenTier};
pub use pipeline::{Handled, Refusal, RequestBody};
pub use remembered::FileHeads;
pub use remembered::ObjectHeads;
pub use remembered::{Bitrates, CompressedManifests};
pub use request_id::RequestId;
pub use response::ClientRequest;
pub use response::{Body, ChunkSource, ContentLength, PacedBody, Response, Tunnel};
pub use served::{Served, Tier};
pub use site::HttpSite;
pub use site::KnownKeys;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use site::fuzz_access_fields;
pub use site::tokens;
pub use site::{AccessRefusal, LimitReached, Permit, TokenRefusal};
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub use site::{fuzz_routes, fuzz_tokens};
pub use site_table::{ListenerRules, RouteNumber, Site, SiteNumber, SiteOrigin, SiteTable};
pub use store::Store;
pub use store::StoreError;
pub use store::check_space;
pub use task::spawn;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use tests::fuzz_exchange;
