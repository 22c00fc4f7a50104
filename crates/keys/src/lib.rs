//! Private keys that are elsewhere: on keyservers, by the keyless protocol.
//!
//! [`protocol`] encodes and decodes its messages, for both ends. [`Keyservers`] is the client: it implements
//! [`RemoteKey`](penstock_tls::remote_key::RemoteKey) with one connection to each server, pipelined.
//!
//! ```
//! use penstock_keys::protocol::{Message, Opcode, encode};
//!
//! let ping = Message::new(7, Opcode::PING, b"still there?");
//! assert_eq!(encode(&ping).unwrap().len(), 1024);
//! ```
#![forbid(unsafe_code)]

mod client;
pub mod protocol;

pub use client::{
    KeyserverAddress, KeyserverGroup, KeyserverLimits, Keyservers, OPERATION_RESULTS, ServerStatus,
};
#[doc(hidden)]
pub use protocol::fuzz_keyless;
