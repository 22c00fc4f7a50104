//! Steering manifests (RFC 8216bis §7.2, ETSI TS 103 998): who chooses the pathway, and what it has chosen.

use std::time::Duration;

use serde_json::Value;

use crate::target::TargetUrl;

/// How long a player waits without a usable manifest.
const TTL_DEFAULT: Duration = Duration::from_secs(300);

/// The shortest time to live that is believed.
const TTL_MIN: Duration = Duration::from_secs(1);

/// Who chooses the pathway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Steering {
    pub(super) server: TargetUrl,
    /// When the manifest is fetched again.
    pub(super) reload_at: Duration,
    ttl: Duration,
}

impl Steering {
    /// The manifest at `server`, which is due now.
    pub(super) fn new(server: TargetUrl, now: Duration) -> Self {
        Self { server, reload_at: now, ttl: TTL_DEFAULT }
    }

    /// Takes a manifest. Returns its pathways, the best first; none if it is not usable. The next one is due when the time to
    /// live has passed, that of the last manifest without a usable one.
    pub(super) fn take(&mut self, now: Duration, body: &[u8]) -> Vec<String> {
        let manifest: Option<Value> = serde_json::from_slice(body).ok();
        let manifest = manifest.filter(|manifest| manifest["VERSION"] == 1).unwrap_or_default();
        if let Some(ttl) = manifest["TTL"].as_u64() {
            self.ttl = Duration::from_secs(ttl).clamp(TTL_MIN, TTL_DEFAULT);
        }
        self.reload_at = now + self.ttl;
        if let Some(server) = manifest["RELOAD-URI"].as_str().and_then(|uri| self.server.join(uri).ok()) {
            self.server = server;
        }
        // Early drafts for DASH have another name for the same list.
        let list = ["PATHWAY-PRIORITY", "SERVICE-LOCATION-PRIORITY"]
            .iter()
            .find_map(|name| manifest[name].as_array());
        let pathways = list.map_or(&[][..], Vec::as_slice);
        pathways.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }
}
