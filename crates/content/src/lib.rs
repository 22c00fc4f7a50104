//! From a request to its response, without a connection: sites, lookup, fill, body, response.
//!
//! [`respond()`] answers a request for a file or a cached object, [`Forward`] one that is forwarded to an origin with its
//! body. Both give a [`Response`]: status, fields, and a body of extents and memory, or a [`BodyStream`] of them. What
//! they need of their surroundings is a [`Context`]: clock, counters, open files, and origins, which a unit test scripts.
//!
//! ```no_run
//! # use penstock_content::{Body, ClientRequest, Context, SiteTable, respond};
//! # use std::rc::Rc;
//! # async fn example(context: Rc<Context>, sites: SiteTable, head: penstock_http::Request<'_>) {
//! let address = (std::net::Ipv4Addr::LOCALHOST, 40_000).into();
//! let client = ClientRequest { head: &head, address, secure: true, early: false };
//! let response = respond(&context, &sites, client).await;
//! if let Body::Part(part) = response.body {
//!     println!("{} with one part: {part:?}", response.status);
//! }
//! # }
//! ```
#![forbid(unsafe_code)]

mod blocking_reload;
mod body_stream;
mod cache_request;
mod cache_status;
mod cdn_loop;
mod clock;
mod compress;
mod content_range;
pub mod contents;
mod context;
mod exchange;
mod fault;
mod fetch;
mod file;
mod file_heads;
mod fill;
mod find;
mod forward;
mod health;
mod http_site;
mod invalidations;
mod known_keys;
mod lifetime;
mod live;
mod locate;
mod lookup;
mod metadata;
mod networks;
mod object;
mod object_heads;
mod origin_request;
mod origin_response;
mod origins;
mod outdated;
mod past_cache;
mod peer_fields;
mod peer_requests;
mod peers;
mod playlist;
mod prefetch;
mod purge;
mod purge_cluster;
mod readers;
mod relay;
mod relayed;
mod relayed_body;
mod representation;
mod requester;
mod respond;
mod response;
mod restore;
pub mod signed_urls;
mod site;
mod spread;
mod store;
mod store_error;
mod successors;
mod task;
#[cfg(test)]
mod tests;
mod tiers;
mod upstream;
mod variants;
mod volatile;
mod write_body;

pub use body_stream::{BodyChunk, BodyStream};
pub use cache_status::CacheStatus;
pub use clock::Clock;
pub use compress::CompressedManifests;
pub use context::Context;
pub use exchange::ClientRequest;
pub use fault::BodyError;
pub use file_heads::FileHeads;
pub use forward::{Forward, ForwardedResponse, PendingResponse};
pub use health::health_response;
pub use http_site::HttpSite;
pub use known_keys::KnownKeys;
pub use locate::locate;
pub use metadata::StoredObject;
#[doc(hidden)]
pub use metadata::fuzz::{fuzz_description, fuzz_origin_response};
pub use networks::{Network, NetworkEntry, NetworkFull, Networks};
pub use object_heads::ObjectHeads;
pub use origins::{Fetched, LocalFuture, OriginBody, Origins, PeerObject};
#[doc(hidden)]
pub use peer_requests::fuzz::fuzz_peer_fields;
pub use peer_requests::{PeerService, respond_to_peer};
pub use peers::{Peer, PeerOutcome, PeerStatus, Peers};
pub use purge::{PurgeFailure, PurgeOrder, PurgeWhat, Purged, PurgedNodes};
pub use purge_cluster::{purge_cluster, repeat_missed_purges};
pub use relayed_body::RelayedBody;
pub use respond::respond;
pub use response::{Body, ChunkSource, ContentLength, Fields, Response};
pub use site::{Site, SiteOrigin, SiteTable};
pub use store::Store;
pub use store_error::StoreError;
pub use task::spawn;
pub use tiers::check_space;
