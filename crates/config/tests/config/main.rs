//! What the configuration means and what is said about a wrong one, through the crate's own door.
#![expect(clippy::unwrap_used, reason = "in a test it is the assertion")]

mod arbitrary;
mod caching;
mod documents;
mod extensions;
mod fixture;
mod meanings;
mod structure_faults;
mod tickets;
mod value_faults;
mod versions;
