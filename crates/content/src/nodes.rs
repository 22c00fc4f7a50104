//! Requests of other nodes, and orders to them: objects, purges.

mod catch_up;
mod locate;
mod peer_requests;
mod purge;
mod purge_cluster;
mod purge_fields;
mod summaries;

pub use catch_up::catch_up;
pub use locate::locate;
pub use peer_requests::PeerService;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use peer_requests::fuzz::fuzz_peer_fields;
pub(crate) use peer_requests::respond_to_peer;
pub use penstock_cache::purge::{PurgeOrder, PurgeTarget};
pub use purge::{PurgeFailure, Purged, PurgedNodes};
pub use purge_cluster::{purge_cluster, repeat_missed_purges};
pub use summaries::SummaryReader;
