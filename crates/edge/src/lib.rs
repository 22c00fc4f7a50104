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
mod accept_queue;
pub mod access_log;
mod background;
mod certificates;
mod chacha20;
mod client_budget;
mod collect;
mod connection;
mod connection_count;
mod cutter;
mod date;
mod departure;
mod drive;
mod early;
mod egress_path;
mod establish;
mod fleet;
mod http1;
mod http2;
mod idle_connections;
mod inbound;
mod kernel_tls;
mod membership;
mod pressure;
mod purger;
mod recent_clients;
mod record;
mod remote_keys;
mod server;
mod settings;
mod start_error;
mod thread;
mod tls_state;
mod untaken;
mod upload;
mod worker;

pub use chacha20::{ChaCha20Control, ChaCha20Status, UnknownMode};
pub use collect::Collector;
pub use fleet::{examine_store, look_at_fleet};
pub use kernel_tls::measure_limits;
pub use penstock_content::{
    PeerOutcome, PeerStatus, PurgeFailure, PurgeOrder, PurgeWhat, Purged, StoredObject, check_space,
    contents, locate, signed_urls,
};
pub use penstock_fleet::{EdgeStatus, FleetKeyUse, FleetView, PurgeReport, StoreFacts};
pub use penstock_metrics as metrics;
pub use remote_keys::{RemoteKeyCheck, check_remote_keys};
pub use server::{Server, descriptors_of_others};
pub use start_error::StartError;
