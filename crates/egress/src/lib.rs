//! Sealed bytes out: how a response leaves the machine.
//!
//! A response is a [`Transmission`]: a head and a description of its body. An [`Outlet`] moves it to the socket one
//! step at a time and never waits: whoever drives it (the connection, on the floor above) waits for the socket,
//! for cold pages or for its deadline in one place.
//!
//! This crate has never seen a request, a header field or a configuration file.
#![forbid(unsafe_code)]

mod batch;
mod cbc;
mod choice;
mod kernel;
pub mod measure;
mod outlet;
mod pace;
mod plain;
mod record;
mod source;
mod transmission;
mod user_space;

pub use choice::{Choice, KernelPlan, Wish};
pub use kernel::KernelAbilities;
pub use outlet::{Entry, Outlet, OutletKind, SendError, Step};
pub use pace::OutletLimits;
pub use source::Source;
pub use transmission::{Lent, Part, Transmission};
