//! The admin listener: a page, metrics, health, status, one switch, purging and revoking, over plain HTTP/1.1.
//!
//! A thread of its own serves it, so that no worker waits for a scrape, and takes a point of the history each second. The
//! crate imports the order of a purge and a comparison in constant time alone: what it shows comes from a [`Backend`].
//! There is no TLS; bind it to loopback, or set a token.
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

mod assets;
mod backend;
mod body;
mod connections;
mod deadline;
mod feed;
mod guard;
mod history;
mod order;
mod page;
mod purge;
mod response;
mod revoke;
mod routes;
mod server;
mod socket;

pub use backend::{Backend, Look, OrderError, Readiness, Token};
pub use connections::ConsoleLimits;
pub use server::Console;
pub use socket::AdminSocket;
