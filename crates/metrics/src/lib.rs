//! Counters of the server, and their text for Prometheus and dashboards.
//!
//! Each worker counts in its own [`Shard`] with plain loads and stores, so that a request pays next to nothing;
//! [`Metrics`] sums the shards for a scrape. The state of other parts, such as caches and origins, is handed in as plain
//! numbers: [`Readings`]. One table lists every metric with its name, help text and labels; the Prometheus text and
//! `docs/metrics.md` are made from it. This crate imports no other crate of the program, and no label takes a value
//! that a client makes up.
//!
//! ```
//! use std::time::Duration;
//!
//! use penstock_metrics::{Method, Metrics, Readings};
//!
//! let metrics = Metrics::new(2);
//! let shard = metrics.shard(0);
//! shard.request(Method::Get, 206, Duration::from_millis(3), Some(Duration::from_micros(90)));
//! shard.cached("hit");
//!
//! let text = metrics.render(&Readings::default());
//! assert!(text.contains("penstock_requests_total{status=\"2xx\",method=\"GET\"} 1\n"));
//! assert!(text.contains("penstock_cache_requests_total{outcome=\"hit\"} 1\n"));
//! assert_eq!(metrics.status()["requests"]["total"], 1);
//! ```
#![forbid(unsafe_code)]

mod background;
mod cells;
mod certificates;
mod distinct;
mod exposition;
mod facts;
mod keyed_hash;
mod labels;
mod limits;
mod lock;
mod log;
mod lookup;
mod metric;
mod origin;
mod players;
mod prefetch;
mod pressure;
mod process;
mod readings;
mod reference;
mod registry;
mod render;
mod sample;
mod shard;
mod status;
mod status_sections;
mod table;
#[cfg(test)]
mod tests;
mod titles;
mod top;
mod viewers;
mod watch;
mod work;

pub use background::BackgroundCounters;
pub use cells::Distribution;
pub use certificates::CertificateExpiry;
pub use distinct::NameHash;
pub use facts::{Extensions, FileCounts, HandshakeFacts, ListenerId, RateId, SiteId, Timing};
pub use labels::{
    CacheOutcome, CertificateCompression, ChaCha20Cause, ClientKind, CpuMode, Direction, EncryptedHello,
    FileLookup, FleetLoss, FleetOperation, FleetOutcome, HandshakePart, HttpLabel, IgnoredTicketFile,
    LastResponse, LogLoss, LookupWait, Method, OutletKind, Protocol, PurgeKind, Refusal, ReloadOutcome,
    Sacrifice, ShortReason, Signer, StapleOutcome, StapleSource, StapleStatus, StatusClass, TicketOutcome,
    Work,
};
pub use log::LogCounters;
pub use origin::{ANSWERED, OriginCounters};
pub use players::PlayerSaid;
pub use prefetch::{PrefetchKind, PrefetchUnderWay, Prefetched, Prefetches};
pub use pressure::GivenUp;
pub use readings::{
    ChaCha20Reading, DiskCounters, DiskTierReading, FleetEdgeReading, FleetReading, KernelTlsReading,
    OrderedName, OrdersReading, OriginRequestsReading, OriginServerReading, PeerReading, Readings,
    RemoteKeysReading, SessionCacheCounts, SignerStatus, StapleReading, TicketKeysReading, TierCounters,
};
pub use reference::reference;
pub use registry::Metrics;
pub use shard::{Asked, Carried, ClientMarks, QuicPackets, Shard, SiteResponse};
pub use watch::{Problem, Severity, Watch};
pub use work::{Doing, doing, doing_all, work_goes_on, work_pauses};
