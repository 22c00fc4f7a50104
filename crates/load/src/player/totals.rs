//! Figures of players, of one and of all together.

use std::time::Duration;

use crate::latencies::Latencies;

/// The counts of one player since its last report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlayerReport {
    /// 1 in the first report.
    pub players: u64,
    /// From arrival to the first picture, if playback has started since.
    pub startup: Option<Duration>,
    /// How often playback stopped for lack of data.
    pub stalls: u64,
    /// Whether these stalls are the first of this player.
    pub is_first_stall: bool,
    /// Whether playback is stalled now.
    pub is_stalled: bool,
    /// The time stalled.
    pub stalled: Duration,
    /// The time played.
    pub played: Duration,
    /// Segments that were fetched.
    pub segments: u64,
    /// Partial segments that were fetched.
    pub parts: u64,
    /// Delta updates of playlists that were merged.
    pub delta_playlists: u64,
    /// Changes of the rendition.
    pub switches: u64,
    /// Changes of the pathway.
    pub pathway_changes: u64,
    /// Segments that had left a live manifest before they were fetched.
    pub skipped: u64,
    /// The distance from the live edge at each look at the manifest.
    pub live_distance: Vec<Duration>,
}

/// The figures of all players.
#[derive(Clone, Debug, Default)]
pub struct PlaybackTotals {
    /// Players that arrived.
    pub players: u64,
    /// Players whose playback started.
    pub started: u64,
    /// From arrival to the first picture.
    pub startup: Latencies,
    /// How often playback stopped for lack of data.
    pub stalls: u64,
    /// Players with at least one stall.
    pub players_stalled: u64,
    /// Players that are stalled now.
    pub stalled_now: u64,
    /// The time stalled, summed.
    pub stalled: Duration,
    /// The time played, summed.
    pub played: Duration,
    /// Segments that were fetched.
    pub segments: u64,
    /// Partial segments that were fetched.
    pub parts: u64,
    /// Delta updates of playlists that were merged.
    pub delta_playlists: u64,
    /// Changes of the rendition.
    pub switches: u64,
    /// Changes of the pathway.
    pub pathway_changes: u64,
    /// Segments that had left a live manifest before they were fetched.
    pub skipped: u64,
    /// The distance from the live edge at each look at a manifest.
    pub live_distance: Latencies,
}

impl PlaybackTotals {
    /// Adds a report of a player. `stalled_now` is the caller's to keep.
    pub fn note(&mut self, report: &PlayerReport) {
        self.players += report.players;
        if let Some(startup) = report.startup {
            self.started += 1;
            self.startup.note(startup);
        }
        self.stalls += report.stalls;
        self.players_stalled += u64::from(report.is_first_stall);
        self.stalled += report.stalled;
        self.played += report.played;
        self.segments += report.segments;
        self.parts += report.parts;
        self.delta_playlists += report.delta_playlists;
        self.switches += report.switches;
        self.pathway_changes += report.pathway_changes;
        self.skipped += report.skipped;
        report.live_distance.iter().for_each(|distance| self.live_distance.note(*distance));
    }

    /// Adds the totals of another thread.
    pub fn add(&mut self, other: &Self) {
        self.players += other.players;
        self.started += other.started;
        self.startup.add(&other.startup);
        self.stalls += other.stalls;
        self.players_stalled += other.players_stalled;
        self.stalled_now += other.stalled_now;
        self.stalled += other.stalled;
        self.played += other.played;
        self.segments += other.segments;
        self.parts += other.parts;
        self.delta_playlists += other.delta_playlists;
        self.switches += other.switches;
        self.pathway_changes += other.pathway_changes;
        self.skipped += other.skipped;
        self.live_distance.add(&other.live_distance);
    }

    /// The share of the time after start-up in which viewers waited.
    pub fn stall_ratio(&self) -> f64 {
        let all = (self.played + self.stalled).as_secs_f64();
        if all > 0.0 { self.stalled.as_secs_f64() / all } else { 0.0 }
    }
}
