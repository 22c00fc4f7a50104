//! HLS playlists (RFC 8216), as far as fetching needs them.

mod delta;
mod parse;
mod parts;
mod values;

pub use parse::{HlsPlaylist, parse};

#[cfg(test)]
mod tests;
