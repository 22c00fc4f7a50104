//! A video player without a socket: it is told what arrived when, and says what to fetch next.
//!
//! [`manifest`] reads HLS and DASH into the types of [`segments`], [`policy`] decides, [`buffer`] keeps the time.

pub mod buffer;
pub mod config;
pub mod dash;
pub mod hls;
pub mod manifest;
pub mod policy;
pub mod segments;
pub mod totals;

pub use buffer::PlaybackBuffer;
pub use config::{PlayerConfig, QualityChoice};
pub use manifest::ParsedManifest;
pub use policy::{Fetch, FetchKind, FetchSlot, Player, PlayerAction};
pub use totals::PlaybackTotals;
