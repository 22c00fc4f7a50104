//! Actions that a player asks of its driver.

use std::time::Duration;

use crate::target::TargetUrl;

/// The next action of a fetch slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlayerAction {
    /// Fetch this, then report the result to the player.
    Fetch(Fetch),
    /// Ask again at this time, or when another slot has fetched something.
    Wait(Duration),
    /// Ask again when another slot has fetched something.
    Idle,
    /// The player leaves.
    Leave,
}

/// A resource to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The URL.
    pub target: TargetUrl,
    /// The byte range, `first-last`.
    pub range: Option<String>,
    /// The kind of resource.
    pub kind: FetchKind,
    /// What the player says of itself: the value of `CMCD-Request`.
    pub cmcd: Option<String>,
}

/// The kind of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchKind {
    /// A manifest, whose body is read.
    Manifest,
    /// A playlist delta update (`_HLS_skip=YES`), whose body is read.
    DeltaManifest,
    /// Bytes that may hold the index of a media file; the body is read.
    Index,
    /// Media; only the length of the body counts.
    Media,
    /// A steering manifest, whose body is read.
    Steering,
}

impl FetchKind {
    /// Whether the body is a manifest.
    pub fn is_manifest(self) -> bool {
        matches!(self, Self::Manifest | Self::DeltaManifest)
    }
}

/// Fetches that run at the same time, each on its own connection. Most streams need one. Low latency fetches video,
/// audio and their playlists at once, because servers hold requests for parts that are still being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchSlot {
    /// Everything without a slot of its own.
    Main,
    /// Audio in parts.
    Audio,
    /// The playlist of video in parts.
    VideoList,
    /// The playlist of audio in parts.
    AudioList,
    /// The steering manifest.
    Steering,
}

impl FetchSlot {
    /// All slots.
    pub const ALL: [Self; 5] = [Self::Main, Self::Audio, Self::VideoList, Self::AudioList, Self::Steering];

    /// The index in [`FetchSlot::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}
