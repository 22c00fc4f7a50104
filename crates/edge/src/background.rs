//! Threads that prepare what handshakes need, so that no worker reads a file or waits for a responder.
mod purger;

pub(crate) use purger::{Purger, Reach};

mod ech;
mod fetch;
mod ocsp;
pub(crate) mod refresh;
pub(crate) mod tickets;
