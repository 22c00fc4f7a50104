//! Session tickets and their keys.
//!
//! [`directory`] reads shared key files, [`key_file`] parses them, [`TicketKeyring`] decides which key seals, [`rotation`]
//! adds and removes key files, and [`TicketOutcome`] tells why an offered ticket was accepted or not.

pub mod directory;
pub mod key_file;
mod keyring;
mod outcome;
mod policy;
mod random_keys;
pub mod rotation;
mod shared_keys;

pub use keyring::{KeyringStatus, TicketKeyring};
pub use outcome::TicketFacts;
pub use penstock_metrics::TicketOutcome;
pub use policy::TicketPolicy;

pub use crate::random::NoRandomness;

pub(crate) use outcome::facts_of;
