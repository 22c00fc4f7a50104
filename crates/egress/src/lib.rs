//! Sealed bytes out: how a response leaves the machine.
//!
//! A response is a [`Transmission`]: a head and a description of its body. An [`Outlet`] moves it to the socket one
//! step at a time and never waits. The connection that drives the outlet waits for the socket, for cold pages, or for
//! its deadline:
//!
//! ```no_run
//! # use penstock_egress::{Outlet, SendError, Step, Transmission};
//! # async fn send(outlet: &mut Outlet, socket: &penstock_sys::ConnectedSocket, mut response: Transmission) -> Result<(), SendError> {
//! loop {
//!     match outlet.advance(&mut response, std::time::Instant::now())? {
//!         Step::Sent(_) => {}
//!         Step::Blocked => socket.writable().await?,
//!         Step::Cold(extent) => response.warmed(extent.len), // once the pages are in memory
//!         Step::Starved => if let Some(source) = response.source() { source.socket().readable().await? },
//!         Step::Done => return Ok(()),
//!     }
//! }
//! # }
//! ```
//!
//! The crate must not depend on requests, header fields or configuration files.
#![forbid(unsafe_code)]

mod abilities;
mod batch;
mod cbc;
mod choice;
mod depth;
mod frames;
mod framing;
mod kernel;
pub mod measure;
mod outlet;
mod pace;
mod plain;
mod record;
mod send_error;
mod socket_source;
mod step;
mod traffic;
mod transmission;
mod unsent;
mod user_space;

pub use abilities::KernelAbilities;
pub use choice::{KernelPlan, SealerChoice, Wish};
pub use depth::fast_low_water;
pub use frames::{FrameBatch, FramesStep};
pub use outlet::{KernelEntry, Outlet};
pub use pace::OutletLimits;
pub use penstock_metrics::OutletKind;
pub use send_error::SendError;
pub use socket_source::{PIPES_PER_WORKER, SocketSource};
pub use step::Step;
pub use traffic::Traffic;
pub use transmission::{Available, ExternalBytes, Part, Parts, Transmission};
