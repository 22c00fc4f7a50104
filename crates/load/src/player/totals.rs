//! What players went through, added up.

use std::time::Duration;

use crate::tally::Latencies;

/// Of all players together.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Players that came.
    pub players: u64,
    /// Those whose picture started.
    pub started: u64,
    /// From coming to the first picture.
    pub startup: Latencies,
    /// How often a picture stopped for want of data.
    pub stalls: u64,
    /// Players that this happened to.
    pub players_stalled: u64,
    /// For how long, together.
    pub stalled: Duration,
    /// How long was watched, together.
    pub played: Duration,
    /// Segments that came.
    pub segments: u64,
    /// Parts of segments that came.
    pub parts: u64,
    /// Changes from one quality to another.
    pub switches: u64,
    /// Segments that had left a live manifest before they could be fetched.
    pub skipped: u64,
    /// How far behind the live edge players were whenever they looked.
    pub live_distance: Latencies,
}

impl Totals {
    /// Adds those of another thread.
    pub fn add(&mut self, other: &Self) {
        self.players += other.players;
        self.started += other.started;
        self.startup.add(&other.startup);
        self.stalls += other.stalls;
        self.players_stalled += other.players_stalled;
        self.stalled += other.stalled;
        self.played += other.played;
        self.segments += other.segments;
        self.parts += other.parts;
        self.switches += other.switches;
        self.skipped += other.skipped;
        self.live_distance.add(&other.live_distance);
    }

    /// The share of time that viewers waited instead of watching, after the start.
    pub fn stall_ratio(&self) -> f64 {
        let all = (self.played + self.stalled).as_secs_f64();
        if all > 0.0 { self.stalled.as_secs_f64() / all } else { 0.0 }
    }
}
