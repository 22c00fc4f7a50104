//! What a site does for players.

use std::time::Duration;

use crate::limits;

/// What a site does for players.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlayerRules {
    /// What it does with what they say of themselves.
    pub cmcd: CmcdRules,
    /// Whether they are told the throughput and the round-trip time of their connection (CMSD, CTA-5006).
    pub cmsd: bool,
    /// Which pathway they should use; `None` if they are not told.
    pub steering: Option<Steering>,
}

/// What a site does with what players say of themselves (CMCD, CTA-5004).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CmcdRules {
    /// Whether the next object that a player names is fetched.
    pub prefetch: bool,
    /// Whether the origin is told.
    pub to_origin: bool,
}

/// A steering manifest, which is made for each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steering {
    /// Its path for HLS players.
    pub hls: Option<String>,
    /// Its path for DASH players.
    pub dash: Option<String>,
    /// How long players wait before they ask again.
    pub ttl: Duration,
    /// The pathways in the order of preference, no ID twice. Empty: each node of the cluster is one.
    pub pathways: Vec<Pathway>,
}

impl Steering {
    /// Without paths and pathways.
    pub(crate) fn new() -> Self {
        let ttl = Duration::from_secs(limits::STEERING_TTL_SECONDS);
        Self { hls: None, dash: None, ttl, pathways: Vec::new() }
    }

    /// Whether a request for this path asks for the manifest.
    #[must_use]
    pub fn is_at(&self, path: &str) -> bool {
        [&self.hls, &self.dash].into_iter().flatten().any(|own| own == path)
    }
}

/// A pathway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pathway {
    /// Its ID.
    pub id: String,
    /// Names of the nodes that serve it, in lowercase letters. Empty: the node whose name the ID is, if there is one.
    pub nodes: Vec<String>,
}
