//! What the tests of the whole program share: a server of their own, files whose bytes are known, and clients.
//!
//! ```ignore
//! let server = Setup::new().start();
//! let file = server.file("clip.mp4", 70_000);
//! assert_eq!(Client::tls(&server).get("/clip.mp4").body, file.all());
//! ```
//! [`Setup`] says how the server is configured, [`Server`] is the running program, [`Client`] speaks to it byte by
//! byte, and [`Tool`] runs curl and its like. Dropping a server stops it and fails the test if it warned of
//! something that the test did not announce with [`Server::expect_warning`].
#![expect(dead_code, reason = "each file of tests uses another part of this")]
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "shown with a test that fails")]

mod certificates;
mod client;
mod content;
mod metrics;
mod process;
mod records;
mod server;
mod setup;
mod tls;
mod tool;

#[expect(unused_imports, reason = "each file of tests uses another part of this")]
pub(crate) use self::{
    certificates::{Certificates, rsa_key},
    client::{Client, Response, Stream},
    content::{Content, Random},
    metrics::Metrics,
    records::{ContentType, Records},
    server::{Server, until},
    setup::Setup,
    tls::{TlsOptions, TlsStream},
    tool::{Finished, Tool},
};
