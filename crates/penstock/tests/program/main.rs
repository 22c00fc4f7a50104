//! The program as operators and clients see it: one test program, so that it is linked once.
//!
//! A test that needs a process of its own (limits of the process, a guest kernel, a long load) is a test program
//! beside this directory.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]
#![expect(clippy::print_stdout, reason = "shown with a test that fails")]

mod acme;
mod alerts;
mod bad_input;
mod bytes;
mod cached;
mod certificates;
mod cli;
mod clients;
mod cluster;
mod contrib;
mod files;
mod fleet;
mod handshake_policy;
mod handshakes;
mod http;
mod http2;
mod http3;
mod listeners;
mod loops;
mod mounted;
mod numbers;
mod operation;
mod players;
mod private_keys;
mod proxy;
mod ranges;
mod resumption;
mod rules;
mod system_calls;
mod tls;
mod tls_extras;
mod tokens;
