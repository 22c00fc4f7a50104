//! The metrics of live streams.

use super::{lock, open};
use crate::metrics::Prefetched;
use crate::metrics::exposition::{Kind, Metric};

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_manifests_total",
        kind: Kind::Counter,
        help: "Manifests that came from origins: `hls_live` playlists that still grow, `hls` that have ended, `hls_multivariant`, `dash_live`, `dash`, and `unread`: called a manifest by name or type, and none.",
        labels: &[open("kind", "see left")],
        read: |seen, out| {
            for (kind, count) in seen.tally(|shard| &shard.manifests) {
                out.sample(&[kind], count);
            }
        },
    },
    Metric {
        name: "penstock_playlist_reloads_total",
        kind: Kind::Counter,
        help: "Requests for an HLS playlist with `_HLS_msn`: `held` until the origin has it, `at_once` because it is there, and answered with 400 because they are `bad` or for something `too_far` ahead.",
        labels: &[open("outcome", "see left")],
        read: |seen, out| {
            for (outcome, count) in seen.tally(|shard| &shard.reloads) {
                out.sample(&[outcome], count);
            }
        },
    },
    Metric {
        name: "penstock_prefetches_total",
        kind: Kind::Counter,
        help: "Fetches before anybody asked, of the next `slice` of what is being read and of the next `segment` of a playlist: `started`, then `useful` when somebody came for it or `wasted` when nobody did before it went; `skipped` are segments that were left out since too many were on their way.",
        labels: &[open("what", "`segment`, `slice`"), open("outcome", "see left")],
        read: |seen, out| {
            if let Some(prefetches) = lock(&seen.prefetches).as_ref() {
                for what in Prefetched::ALL {
                    out.sample(&what.labels(), prefetches.get(what));
                }
            }
        },
    },
];
