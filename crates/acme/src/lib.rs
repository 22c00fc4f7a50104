//! Certificates ordered from a certificate authority (ACME, RFC 8555).
//!
//! [`Acme`] runs on a thread of its own. It writes each certificate with its key into the storage directory, where the server
//! finds it as in any other directory of certificates. Challenge answers are files of the same directory, so that each machine
//! that shares it can answer. The edges of a fleet may share the same through its store.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # fn start(config: &penstock_config::Config) -> std::io::Result<()> {
//! let status = Arc::new(penstock_acme::AcmeStatus::default());
//! if let Some(settings) = &config.tls.acme {
//!     let _orders = penstock_acme::Acme::start(settings.clone(), Arc::clone(&status), None)?;
//! }
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod account;
mod challenge;
mod client;
mod clock;
mod failure;
mod last_failure;
mod last_order;
mod order;
mod orders;
mod schedule;
mod self_signed;
mod shared;
mod status;
mod storage;

pub use clock::ClockFault;
pub use orders::Acme;
pub use self_signed::{placeholder, self_signed};
pub use status::{AcmeStatus, NameState, NameStatus, OrderOutcome};
pub use storage::{Storage, StorageError};
