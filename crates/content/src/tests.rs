//! The content path from a request to the bytes of its response: with a scripted origin, a clock that the test moves,
//! and no socket.
#![allow(clippy::unwrap_used, reason = "a test stops where it cannot go on")]
#![cfg_attr(not(test), allow(dead_code, reason = "a fuzz target needs a part of it"))]

#[cfg(test)]
mod changes;
#[cfg(test)]
mod coded;
mod exchange;
#[cfg(test)]
mod fills;
#[cfg(test)]
mod find;
pub(crate) mod fixture;
#[cfg(test)]
mod hit;
#[cfg(test)]
mod kept;
#[cfg(test)]
mod manifests;
#[cfg(test)]
mod no_space;
#[cfg(test)]
mod own_words;
#[cfg(test)]
mod public_bugs;
#[cfg(test)]
mod races;
#[cfg(test)]
mod relays;
#[cfg(test)]
mod reloads;
#[cfg(test)]
mod request_ids;
#[cfg(test)]
mod respond;
#[cfg(test)]
mod routes;
#[cfg(test)]
mod rules;
pub(crate) mod scripted;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod validation;
#[cfg(test)]
mod variants;

pub use exchange::fuzz_exchange;
