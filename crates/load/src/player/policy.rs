//! Chooses the next fetch of a player.

mod action;
mod cmcd;
mod decide;
mod pathway;
mod playlists;
mod presentation;
mod quality;
mod state;
mod steering;
mod take;
mod track;
mod tracks;

pub use action::{Fetch, FetchKind, FetchSlot, PlayerAction};
pub use state::Player;
pub use take::ManifestFault;

#[cfg(test)]
mod tests;
