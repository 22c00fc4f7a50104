//! What the edges of a fleet share in a Valkey or Redis store: sessions of TLS 1.2, session ticket keys, the strike
//! register of early data, purges, revoked ids of tokens, and orders of certificates.
//!
//! The store is never trusted and never needed. Everything in it is sealed with the fleet's secret, and a handshake waits
//! for an answer until a deadline, then goes on without. A thread of its own keeps one connection for the process; after
//! some failures a circuit opens, and handshakes do not ask until the store answers in time again.
//!
//! ```no_run
//! # fn run(options: penstock_fleet::FleetOptions, own: std::sync::Arc<dyn penstock_tls::session_store::SessionStore>)
//! # -> std::io::Result<()> {
//! let fleet = penstock_fleet::Fleet::start(options)?;
//! let sessions = fleet.sessions(own); // for handshakes
//! println!("connected: {}", fleet.reading().is_up);
//! # drop(sessions);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod census;
mod connect;
mod counters;
mod duty;
mod edges;
mod examine;
mod files;
mod fleet;
#[cfg(any(test, feature = "fuzz"))]
mod fuzz;
mod known_entries;
mod link;
mod lock;
mod look;
mod message;
mod nodes;
mod outage;
mod own_purges;
mod position;
mod purges;
mod revocations;
mod revoked_ids;
mod seal;
mod sessions;
mod shared_tickets;
mod state;
mod store_facts;
mod strikes;
mod ticket_keys;

pub use connect::{StoreAddress, StoreLogin};
pub use counters::{Operation, Outcome};
pub use edges::EdgeStatus;
pub use examine::examine;
pub use files::{NoAnswer, SharedFiles};
pub use fleet::{Fleet, FleetOptions, FleetReport};
#[cfg(any(test, feature = "fuzz"))]
pub use fuzz::fuzz_fleet_records;
pub use look::{FleetKeyStatus, FleetView, look};
pub use nodes::{NodeEntry, NodeSink};
pub use purges::PurgeSink;
pub use revoked_ids::{RevokedIds, RevokedLimits};
pub use store_facts::StoreFacts;
pub use ticket_keys::FleetKeyUse;
