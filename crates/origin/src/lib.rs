//! Where bytes come from: directories and HTTP origins.
//!
//! Everything here answers a worker without making it wait: what needs a disk is done by [`io_threads`].
#![forbid(unsafe_code)]

pub mod directory;
pub mod http;
pub mod io_threads;
mod lru;
pub mod residency;
