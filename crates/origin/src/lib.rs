//! Where bytes come from: directories and HTTP origins.
//!
//! Nothing here makes a worker wait: work that needs a disk runs on [`io_threads`].
//!
//! ```no_run
//! # use std::{path::Path, sync::Arc, time::Instant};
//! # use penstock_origin::{directory::{Directory, LookupError, OpenFiles}, io_threads::IoThreads};
//! # async fn length(files: &OpenFiles, directory: &Directory) -> Result<u64, LookupError> {
//! let file = files.open(directory, "live/1.m4s", Instant::now()).await?;
//! # Ok(file.len())
//! # }
//! ```
//!
//! [`http::Connections`] fetches from HTTP origins.
#![forbid(unsafe_code)]

pub mod directory;
pub mod dns;
pub mod http;
pub mod io_threads;
mod lru;
pub mod residency;
