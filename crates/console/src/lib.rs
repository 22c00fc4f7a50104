//! The admin listener: metrics, health, status, one switch and purging, over plain HTTP/1.1.
//!
//! A thread of its own serves it, so that no worker waits for a scrape. The crate imports the order of a purge
//! alone: what it shows comes from a [`Backend`]. There is no TLS and no password; bind it to loopback.
//!
//! ```no_run
//! # fn run(backend: std::sync::Arc<dyn penstock_console::Backend>, limits: penstock_console::ConsoleLimits)
//! # -> std::io::Result<()> {
//! let listener = std::net::TcpListener::bind("127.0.0.1:9600")?;
//! let console = penstock_console::Console::start(listener, backend, limits)?;
//! println!("curl http://{}/metrics", console.address()); // until `console` is dropped
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod backend;
mod connections;
mod guard;
mod page;
mod purge;
mod response;
mod routes;
mod server;

pub use backend::{Backend, PurgeError, Readiness};
pub use connections::ConsoleLimits;
pub use server::Console;
