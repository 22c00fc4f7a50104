//! The results of fetches.

use std::fmt;
use std::time::Duration;

use super::action::FetchSlot;
use super::state::{Failures, InFlight, Player};
use super::track::{FetchItem, StartPoint, TrackKind};
use crate::player::hls::HlsPlaylist;
use crate::player::manifest::ParsedManifest;
use crate::player::segments::SegmentList;
use crate::player::totals::PlayerReport;

/// The pause after a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Why a manifest cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManifestFault {
    /// It cannot be played.
    Unplayable,
    /// It is a delta update that does not fit the playlist before it.
    DeltaMismatch,
}

impl fmt::Display for ManifestFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unplayable => "the manifest cannot be played",
            Self::DeltaMismatch => "the delta update does not fit the playlist before it",
        })
    }
}

impl Player {
    /// Takes a manifest.
    ///
    /// # Errors
    /// When it cannot be used. The caller then calls [`Player::fail`] or, for a delta update,
    /// [`Player::refuse_delta`].
    pub fn take_manifest(
        &mut self,
        slot: FetchSlot,
        now: Duration,
        manifest: ParsedManifest,
    ) -> Result<(), ManifestFault> {
        let Some(InFlight::Manifest { which, place }) = &self.in_flight[slot.index()] else {
            return Err(ManifestFault::Unplayable);
        };
        let which = *which;
        if *place != self.place(which) {
            // The rendition has changed meanwhile.
            self.in_flight[slot.index()] = None;
            return Ok(());
        }
        match manifest {
            ParsedManifest::Dash(presentation) => self.take_presentation(now, presentation),
            ParsedManifest::Hls(HlsPlaylist::Multivariant(variants, steering)) => {
                if !self.qualities.variants.is_empty() {
                    return Err(ManifestFault::Unplayable);
                }
                self.qualities.variants = variants;
                self.begin_steering(now, steering);
                self.take_level(now, self.qualities.wanted());
                if self.video.manifest.is_none() {
                    return Err(ManifestFault::Unplayable);
                }
            }
            ParsedManifest::Hls(HlsPlaylist::Media(segments)) => {
                let segments = self.without_skip(which, *segments)?;
                self.failures.manifests = 0;
                self.take_segments(now, which, segments);
            }
        }
        self.in_flight[slot.index()] = None;
        Ok(())
    }

    /// Completes a delta update with the segments that the playlist before it listed.
    fn without_skip(
        &mut self,
        which: TrackKind,
        segments: SegmentList,
    ) -> Result<SegmentList, ManifestFault> {
        if segments.skipped == 0 {
            return Ok(segments);
        }
        let before = self.track(which).and_then(|track| track.segments.as_ref());
        let merged = before.and_then(|before| segments.after(before)).ok_or(ManifestFault::DeltaMismatch)?;
        self.news.delta_playlists += 1;
        Ok(merged)
    }

    /// A delta update was refused, or does not fit: the slot fetches the full playlist at once.
    pub fn refuse_delta(&mut self, slot: FetchSlot) {
        let Some(InFlight::Manifest { which, .. }) = self.in_flight[slot.index()].take() else { return };
        if let Some(track) = self.track_mut(which) {
            track.wants_full_playlist = true;
        }
    }

    pub(super) fn take_segments(&mut self, now: Duration, which: TrackKind, mut segments: SegmentList) {
        if !self.config.low_latency {
            segments.low_latency = None;
        }
        if let Some(offer) = &segments.low_latency {
            // More would take the player away from the edge.
            self.buffer.start_within(offer.hold_back);
        }
        let is_live = !segments.ended;
        // Audio starts with video, as far as durations tell.
        let start = match which {
            TrackKind::Video => StartPoint::Usual,
            TrackKind::Audio if is_live => StartPoint::Behind(self.video.to_come()),
            TrackKind::Audio => StartPoint::After(self.video.reach()),
        };
        let skipped = self.track_mut(which).map_or(0, |track| track.take_segments(now, segments, start));
        self.news.skipped += skipped;
        self.buffer.advance(now);
        self.fill(now);
        if is_live && which == TrackKind::Video {
            let distance = self.ahead(&self.video) + self.video.to_come();
            self.news.live_distance.push(distance);
        }
    }

    /// Takes media of this many bytes.
    pub fn take_media(&mut self, slot: FetchSlot, now: Duration, bytes: u64) {
        self.failures = Failures::default();
        let taken = self.in_flight[slot.index()].take();
        let Some(InFlight::Item { which, item, since }) = taken else { return };
        if which == TrackKind::Video {
            self.news.segments += u64::from(matches!(item, FetchItem::Segment(_)));
            self.news.parts += u64::from(matches!(item, FetchItem::Part(_) | FetchItem::Hint(_)));
            // A part that is still being made arrives at the rate at which it is made.
            if matches!(item, FetchItem::Segment(_) | FetchItem::Part(_)) {
                self.qualities.measure(bytes, now.saturating_sub(since));
            }
        }
        if let Some(track) = self.track_mut(which) {
            track.take(item);
        }
        self.fill(now);
    }

    /// Takes the failure of a fetch.
    pub fn fail(&mut self, slot: FetchSlot, now: Duration) {
        let (which, failures) = match self.in_flight[slot.index()].take() {
            Some(InFlight::Manifest { which, .. }) => (which, &mut self.failures.manifests),
            Some(InFlight::Item { which, .. }) => (which, &mut self.failures.media),
            None => (TrackKind::Video, &mut self.failures.manifests),
        };
        *failures += 1;
        self.search = None;
        self.retry_at[slot.index()] = now + AFTER_FAILURE;
        // A segment of a live stream may have left the manifest meanwhile.
        let track = self.track_mut(which);
        if let Some(track) =
            track.filter(|track| track.segments.as_ref().is_some_and(|segments| !segments.ended))
        {
            track.segments = None;
            track.reload_at = now;
        }
    }

    /// Ends playback and returns what happened since the last report.
    pub fn leave(mut self, now: Duration) -> PlayerReport {
        self.report(now)
    }
}
