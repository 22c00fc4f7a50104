//! Content steering (RFC 8216bis §7, ETSI TS 103 998): a player takes the pathway that a server chooses from time to time.

use std::fmt::Write;
use std::time::Duration;

use super::action::{Fetch, FetchKind, PlayerAction};
use super::cmcd::encoded;
use super::pathway::Steering;
use super::state::Player;
use crate::player::segments::ContentSteering;

impl Player {
    /// Starts with the pathway that the manifest names, and asks for another one at once.
    pub(super) fn begin_steering(&mut self, now: Duration, steering: Option<ContentSteering>) {
        let Some(ContentSteering { server, pathway }) = steering else { return };
        let first = self.qualities.variants.first().and_then(|variant| variant.pathway.clone());
        if let Some(pathway) = pathway.or(first) {
            self.qualities.take_pathway(&pathway);
        }
        self.steering = self.master.join(&server).ok().map(|server| Steering::new(server, now));
    }

    /// Fetches the steering manifest when it is due.
    pub(super) fn steer(&self, now: Duration) -> PlayerAction {
        let Some(steering) = &self.steering else { return self.idle() };
        if now < steering.reload_at {
            return PlayerAction::Wait(self.bounded(steering.reload_at));
        }
        let mut target = steering.server.clone();
        target.path.push(if target.path.contains('?') { '&' } else { '?' });
        let format = if self.presentation.is_some() { "DASH" } else { "HLS" };
        let pathway = encoded(self.qualities.pathway().unwrap_or_default());
        _ = write!(target.path, "_{format}_pathway=%22{pathway}%22");
        if let Some(throughput) = self.qualities.throughput() {
            _ = write!(target.path, "&_{format}_throughput={throughput}");
        }
        PlayerAction::Fetch(Fetch { target, range: None, kind: FetchKind::Steering, cmcd: None })
    }

    /// Takes a steering manifest; false if it is not usable, or names no pathway of the playlist: the player stays where it is.
    pub fn take_steering(&mut self, now: Duration, body: &[u8]) -> bool {
        let pathways = self.steering.as_mut().map(|steering| steering.take(now, body)).unwrap_or_default();
        pathways.iter().any(|pathway| self.qualities.take_pathway(pathway))
    }
}
