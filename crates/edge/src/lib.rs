//! Workers, accept, handshake, connections, sending.
//!
//! A connection's way through this crate: [`accept`] takes it in, `establish` brings it through its handshake, `http1` reads
//! its requests and has each answered by the content path, and `drive` sends the response. [`Server`] starts, reloads and
//! ends all of that.
//!
//! ```no_run
//! # fn example(config: &penstock_config::Config) -> Result<(), penstock_edge::StartError> {
//! let server = penstock_edge::Server::start(config)?;
//! println!("serving at {:?}", server.addresses());
//! server.drain();
//! server.wait();
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod accept;
pub mod access_log;
mod background;
mod carrier;
mod clients;
mod connection;
mod fleet;
mod http1;
mod http2;
mod http3;
mod qlog;
mod server;
mod settings;
mod tls;
mod worker;

pub use fleet::{examine_store, locate, look_at_fleet};
pub use http3::QuicPassage;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub use http3::fuzz_quic_steering;
pub use penstock_content::{
    BusySlots, GivenTier, PeerOutcome, PeerStatus, PurgeFailure, PurgeOrder, PurgeTarget, Purged,
    StoredObject, check_space, contents, tokens,
};
pub use penstock_fleet::{EdgeStatus, FleetKeyUse, FleetReport, FleetView, StoreFacts};
pub use penstock_metrics as metrics;
pub use server::{Inheritance, InheritedSockets, ListenSocket, Server};
pub use settings::StartError;
pub use tls::measure_limits;
pub use tls::{ChaCha20Control, ChaCha20Status, UnknownMode};
pub use tls::{RemoteKeyCheck, check_remote_keys};
pub use worker::{Collector, NodeSummary, descriptors_of_others};
