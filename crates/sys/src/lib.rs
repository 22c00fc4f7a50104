//! Linux and BoringSSL calls behind safe types; the only crate with `unsafe` code.
//!
//! Each `unsafe` block is one operation with its reason. This crate has no policy: that belongs to the layers above.
#![allow(unsafe_code, reason = "this crate exists to hold it")]

pub mod aead;
pub mod cbc;
mod closing;
mod connected;
mod count;
pub mod digest;
pub mod file;
pub mod heap;
mod key_exchange;
pub mod ktls;
pub mod lock;
pub mod machine;
pub mod map;
pub mod process;
mod recycled;
pub mod root;
mod round;
mod secret;
pub mod send;
pub mod small_file;
pub mod socket;
pub mod ssl;
pub mod traffic;
pub mod udp;
pub mod watch;

pub use closing::{CLOSING_SOCKETS_MAX, close_together};
pub use connected::ConnectedSocket;
pub use count::{CountGuard, Counted, SharedCount, ThreadCount};
pub use recycled::Recycled;
pub use round::end_of_round;
