//! The metrics of live streams.

use crate::metric::{Kind, Metric, closed, open};
use crate::prefetch::{PrefetchKind, Prefetched};

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_manifests_total",
        kind: Kind::Counter,
        help: "Manifests from origins: `hls_live` playlists that still grow, `hls` playlists that have ended, `hls_multivariant`, `dash_live`, `dash`, and `unread` ones, which have the name or type of a manifest but do not parse.",
        labels: &[open("kind", "see the meaning")],
        read: |from, out| out.reasons(from, |shard| &shard.manifests),
    },
    Metric {
        name: "penstock_playlist_reloads_total",
        kind: Kind::Counter,
        help: "Requests for an HLS playlist with `_HLS_msn`: `held` until the origin has the segment or part, answered `at_once` because it exists, or answered with 400 because the parameters are `bad` or point `too_far` ahead.",
        labels: &[open("outcome", "see the meaning")],
        read: |from, out| out.reasons(from, |shard| &shard.reloads),
    },
    Metric {
        name: "penstock_prefetches_total",
        kind: Kind::Counter,
        help: "Prefetches of the next `slice` of a body and of the next `segment` of a playlist: `started`, then `useful` when a client requested it or `wasted` when it was evicted before; `skipped` segments were not prefetched because too many prefetches were under way.",
        labels: &[open("what", "`segment`, `slice`"), open("outcome", "see the meaning")],
        read: |from, out| {
            if let Some(prefetches) = from.metrics.prefetches() {
                for what in Prefetched::ALL {
                    out.sample(&what.labels(), prefetches.get(what));
                }
            }
        },
    },
    Metric {
        name: "penstock_prefetched_segments_total",
        kind: Kind::Counter,
        help: "Prefetched segments, by where their names were known from: what a player said (`cmcd`), a `playlist`, or the `number` in the name. They were `used` if a client requested them, or `wasted` if they were evicted before.",
        labels: &[closed("kind", &["cmcd", "playlist", "number"]), closed("result", &["used", "wasted"])],
        read: |from, out| {
            let Some(prefetches) = from.metrics.prefetches() else { return };
            for kind in PrefetchKind::ALL {
                for (result, count) in ["used", "wasted"].into_iter().zip(prefetches.segments(kind)) {
                    out.sample(&[kind.label(), result], count);
                }
            }
        },
    },
];
