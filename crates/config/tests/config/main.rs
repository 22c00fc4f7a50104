//! The meaning of configurations and the faults of wrong ones, through the crate's public interface.
#![expect(clippy::unwrap_used, reason = "in a test it is the assertion")]

mod access;
mod acme;
mod arbitrary;
mod caching;
mod cluster;
mod consistency;
mod counted;
mod documents;
mod extensions;
mod files;
mod fixture;
mod fleet;
mod logs;
mod meanings;
mod mistakes;
mod origins;
mod players;
mod private_keys;
mod proxy;
mod rules;
mod site_tokens;
mod structure_faults;
mod tickets;
mod value_faults;
mod versions;
