//! Shared parts of the tests of the whole program: a server of their own, files whose bytes are known, clients, and
//! origins that follow a script.
//!
//! ```no_run
//! use penstock_testkit::{Client, Setup};
//!
//! let server = Setup::new().start();
//! let file = server.file("clip.mp4", 70_000);
//! assert_eq!(Client::tls(&server).get("/clip.mp4").body, file.all());
//! ```
//! [`Setup`] says how the server is configured, [`Server`] is the running program, [`Client`] speaks to it byte by
//! byte, [`Tool`] runs curl and its like, and [`origin::Origin`] is a server that answers as a test tells it. Dropping
//! a [`Server`] stops it and fails the test if it logged a warning that the test did not announce with
//! [`Server::expect_warning`].
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "shown with a test that fails")]

mod certificates;
mod client;
mod content;
mod deadline;
mod forwarder;
pub mod frames;
mod gate;
mod keyserver;
mod load;
mod lying_store;
mod metrics;
mod network;
mod not_tested;
pub mod origin;
mod ports;
mod process;
mod program;
mod records;
mod relay;
mod running;
mod server;
mod setup;
mod sockets;
mod store;
mod strace;
pub mod tapped;
mod tls;
mod token;
mod tool;
mod usage;

pub use self::{
    certificates::{Certificates, rsa_key},
    client::{Client, Response, Stream},
    content::{Content, Random},
    deadline::{DEADLINE, until},
    forwarder::Forwarder,
    gate::Gate,
    keyserver::Keyserver,
    load::EndOfLoad,
    lying_store::{Lie, LyingStore},
    metrics::Metrics,
    network::Networks,
    not_tested::{has_congestion_control, not_tested},
    ports::{ReservedAddress, unused_address},
    process::Process,
    program::{disk_directory, memory_directory, program},
    records::{ContentType, Records},
    relay::Relay,
    server::Server,
    setup::Setup,
    sockets::Sockets,
    store::Store,
    strace::Strace,
    tls::{TlsOptions, TlsStream, client_hello},
    token::SoftToken,
    tool::{Finished, Started, Tool},
};
