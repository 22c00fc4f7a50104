//! Private keys that are elsewhere: on keyservers, by the keyless protocol, and in hardware modules, by PKCS #11.
//!
//! [`protocol`] encodes and decodes its messages, for both ends. [`Keyservers`] is the client: it implements
//! [`RemoteKey`](penstock_tls::remote_key::RemoteKey) with one connection to each server, pipelined. [`Token`] has the
//! threads and sessions of a module, and [`TokenKey`] signs with one of its keys.
//!
//! ```
//! use penstock_keys::protocol::{Message, Opcode, encode};
//!
//! let ping = Message::new(7, Opcode::PING, b"still there?");
//! assert_eq!(encode(&ping).unwrap().len(), 1024);
//! ```
#![forbid(unsafe_code)]

mod client;
mod counters;
pub mod protocol;
mod token;

pub use client::{KeyserverAddress, KeyserverGroup, KeyserverLimits, Keyservers};
pub use counters::SignerCounts;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use protocol::fuzz_keyless;
pub use token::{Token, TokenKey, TokenLimits};
