//! Manifests of streams: HLS playlists (RFC 8216) and DASH descriptions (ISO/IEC 23009-1), as far as a cache needs
//! them: their freshness, their last position, and the order of segments.
//!
//! Input is untrusted: the caller bounds its length, and the output is never longer than the input.

mod dash;
mod delivery;
mod hls;
mod position;
mod resolve;

use std::time::Duration;

use crate::m3u8::{BOM, FIRST_LINE};

pub use delivery::{BadDirective, Delivery, Skip};
pub use hls::{Playlist, Reach};
pub use position::Position;
pub use resolve::resolve;

/// The longest freshness a manifest gives itself; a target duration beyond ten minutes is a mistake.
const FRESH_MAX: Duration = Duration::from_secs(300);
/// The shortest: a packager that wants its manifest read all the time still gets it once for all viewers.
const FRESH_MIN: Duration = Duration::from_millis(250);

/// Media types that only manifests have.
const MEDIA_TYPES: [&str; 5] = [
    "application/vnd.apple.mpegurl",
    "application/x-mpegurl",
    "audio/mpegurl",
    "audio/x-mpegurl",
    "application/dash+xml",
];

/// The ends of paths that only manifests have.
const SUFFIXES: [&str; 2] = ["m3u8", "mpd"];

/// Media types that say nothing of whether it is a manifest.
const UNSPECIFIC_MEDIA_TYPES: [&str; 5] =
    ["application/octet-stream", "binary/octet-stream", "text/plain", "text/xml", "application/xml"];

/// Why something may be a manifest, before its first byte is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// Its media type or the end of its path says so.
    Named,
    /// Neither says so, and neither says that it is something else.
    Possible,
    /// It is something else.
    None,
}

/// A manifest, as far as a cache needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manifest {
    /// An HLS multivariant playlist: it names playlists, and seldom changes.
    Multivariant,
    /// An HLS media playlist.
    Media(Playlist),
    /// A DASH description. A live one that is to be read again says after how long.
    Dash {
        /// Whether segments are still being added.
        live: bool,
        /// `minimumUpdatePeriod`; `None` if it need not be read again.
        update: Option<Duration>,
    },
}

impl Manifest {
    /// The number of bytes that decide [`Self::may_begin_with`]: with these, further bytes do not change the result.
    pub const START_BYTES: usize = BOM.len() + dash::PROLOGUE_BYTES + 1;

    /// Judges by media type and path whether a response may be a manifest.
    pub fn likeness(content_type: &str, path: &str) -> Likeness {
        let essence = before(content_type, b';').trim();
        let is_one_of =
            |known: &[&str], text: &str| known.iter().any(|known| known.eq_ignore_ascii_case(text));
        if is_one_of(&MEDIA_TYPES, essence) || suffix(path).is_some_and(|end| is_one_of(&SUFFIXES, end)) {
            Likeness::Named
        } else if essence.is_empty() || is_one_of(&UNSPECIFIC_MEDIA_TYPES, essence) {
            Likeness::Possible
        } else {
            Likeness::None
        }
    }

    /// Whether a body that begins so may be a manifest. With less than [`Self::START_BYTES`] it may be too early to
    /// tell, and then this says yes.
    pub fn may_begin_with(start: &[u8]) -> bool {
        if BOM.starts_with(start) {
            return true;
        }
        let start = without_bom(start);
        hls::begins(start) || dash::begins(start)
    }

    /// Reads a whole manifest; `None` if it is none.
    pub fn parse(body: &[u8]) -> Option<Self> {
        let body = without_bom(body);
        if body.starts_with(FIRST_LINE) {
            hls::parse(body)
        } else if dash::begins(body) {
            dash::parse(body)
        } else {
            None
        }
    }

    /// Whether the stream is still going on, and with it the manifest.
    pub fn is_live(&self) -> bool {
        match self {
            Self::Multivariant => false,
            Self::Media(playlist) => !playlist.ended,
            Self::Dash { live, .. } => *live,
        }
    }

    /// Its freshness by its own contents: half the target duration of a live playlist, which is how soon players ask again
    /// for one that had nothing new (RFC 8216 §6.3.4), or half of `minimumUpdatePeriod`: a player that asks once in a period
    /// gets at most half a period more of delay. `None` if it says nothing, as those that do not change.
    pub fn fresh(&self) -> Option<Duration> {
        let told = match self {
            Self::Media(playlist) if !playlist.ended => playlist.target / 2,
            Self::Dash { live: true, update: Some(update) } => *update / 2,
            Self::Multivariant | Self::Media(_) | Self::Dash { .. } => return None,
        };
        Some(told.clamp(FRESH_MIN, FRESH_MAX))
    }

    /// The playlist, if it is one with segments.
    pub fn media(&self) -> Option<&Playlist> {
        match self {
            Self::Media(playlist) => Some(playlist),
            Self::Multivariant | Self::Dash { .. } => None,
        }
    }
}

/// What is in front of the first `end`, or all of `text`.
fn before(text: &str, end: u8) -> &str {
    let length = text.bytes().position(|byte| byte == end);
    length.and_then(|length| text.get(..length)).unwrap_or(text)
}

/// What is behind the last dot of the last segment of a path.
fn suffix(path: &str) -> Option<&str> {
    let path = before(path, b'?');
    let at = path.bytes().rposition(|byte| matches!(byte, b'.' | b'/'))?;
    path.get(at..)?.strip_prefix('.')
}

fn without_bom(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(BOM).unwrap_or(bytes)
}

#[cfg(test)]
mod tests;
