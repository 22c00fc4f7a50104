//! A manifest of either format.

use super::{dash, hls};
use crate::target::TargetUrl;

/// A manifest that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParsedManifest {
    /// HLS: a multivariant playlist, or a media playlist.
    Hls(hls::HlsPlaylist),
    /// DASH: one document with everything.
    Dash(dash::Presentation),
}

impl ParsedManifest {
    /// Reads the manifest that was fetched from `place`; `None` if it is none.
    pub fn parse(text: &str, place: &TargetUrl) -> Option<Self> {
        if text.trim_start_matches(['\u{feff}', ' ', '\n', '\r', '\t']).starts_with('<') {
            dash::parse(text.trim_start_matches('\u{feff}'), place).map(Self::Dash)
        } else {
            hls::parse(text).map(Self::Hls)
        }
    }
}
