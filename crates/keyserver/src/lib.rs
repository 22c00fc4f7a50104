//! The keyserver: signs TLS handshakes of other servers with private keys that stay here.
//!
//! Clients have certificates, and each may use a list of keys. They speak the keyless protocol
//! ([`penstock_keys::protocol`]). Only digests are signed: no raw RSA, no decryption, no export.
//!
//! ```no_run
//! # fn run() -> Result<(), Box<dyn std::error::Error>> {
//! # let config: penstock_config::KeyserverConfig = unimplemented!();
//! let keyserver = penstock_keyserver::Keyserver::start(&config)?;
//! println!("listening on {}", keyserver.address());
//! keyserver.drain();
//! keyserver.wait();
//! # Ok(()) }
//! ```
//!
//! One thread has the connections, a pool of threads signs, and one follows the directories of keys. Each token of a
//! hardware module has threads of its own.
#![forbid(unsafe_code)]

mod access_log;
mod clients;
mod connection;
mod counters;
mod directory;
mod exposition;
mod follower;
mod handshake_places;
mod keyring;
mod pool;
mod request;
mod server;
mod shared;
mod tokens;

pub use server::{Keyserver, StartError};
