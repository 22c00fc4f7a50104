//! Logs and metrics of handshakes, and input that is no handshake.

mod client_hello;
mod fields;
mod odd;
mod rfc9325;
mod scanner;
mod seen;
