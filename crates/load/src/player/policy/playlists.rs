//! Requests for playlists: blocking reloads and delta updates (RFC 8216bis §6.2.5).

use std::fmt::Write;
use std::time::Duration;

use super::action::{Fetch, FetchKind, FetchSlot, PlayerAction};
use super::state::{InFlight, Player};
use super::track::TrackKind;

impl Player {
    /// Fetches the manifest of a track, as a delta update if the server offers that.
    pub(super) fn fetch_manifest(
        &mut self,
        slot: FetchSlot,
        which: TrackKind,
        now: Duration,
    ) -> PlayerAction {
        self.fetch_playlist(slot, which, now, None)
    }

    /// Requests the playlist that has the next part. The server holds the request until the part is there.
    pub(super) fn await_playlist(
        &mut self,
        slot: FetchSlot,
        which: TrackKind,
        now: Duration,
    ) -> PlayerAction {
        let Some(track) = self.track(which).filter(|track| track.is_low_latency) else { return self.idle() };
        let Some(segments) = &track.segments else { return self.fetch_manifest(slot, which, now) };
        if segments.ended {
            return self.idle();
        }
        if now < track.reload_at {
            return PlayerAction::Wait(self.bounded(track.reload_at));
        }
        let edge = segments.edge();
        self.fetch_playlist(slot, which, now, Some(edge))
    }

    fn fetch_playlist(
        &mut self,
        slot: FetchSlot,
        which: TrackKind,
        now: Duration,
        edge: Option<(u64, u64)>,
    ) -> PlayerAction {
        let place = self.place(which);
        let can_skip = self.config.low_latency && self.track(which).is_some_and(|track| track.can_skip(now));
        // Directives stand in the order of their names (RFC 8216bis §6.2.5).
        let mut directives = String::new();
        if let Some((segment, part)) = edge {
            _ = write!(directives, "&_HLS_msn={segment}&_HLS_part={part}");
        }
        if can_skip {
            directives.push_str("&_HLS_skip=YES");
        }
        let mut target = place.clone();
        if let Some(directives) = directives.strip_prefix('&') {
            target.path.push(if target.path.contains('?') { '&' } else { '?' });
            target.path.push_str(directives);
        }
        self.in_flight[slot.index()] = Some(InFlight::Manifest { which, place });
        let kind = if can_skip { FetchKind::DeltaManifest } else { FetchKind::Manifest };
        PlayerAction::Fetch(Fetch { target, range: None, kind, cmcd: None })
    }
}
