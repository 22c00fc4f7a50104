//! The metrics of the cache and its origins.

use crate::labels::PurgeKind;
use crate::metric::{Family, Kind, Metric, Sources, closed, open};
use crate::readings::{OriginServerReading, TierCounters};

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_signed_urls_total",
        kind: Kind::Counter,
        help: "Requests to sites with signed URLs: `accepted`, or refused with 403 because the token is `missing`, `malformed`, `expired`, has an `unknown_key` or a `wrong_signature`, or is for an `other_path`.",
        labels: &[open("outcome", "see the meaning")],
        read: |from, out| out.reasons(from, |shard| &shard.signed_urls),
    },
    Metric {
        name: "penstock_cache_requests_total",
        kind: Kind::Counter,
        help: "Requests to sites with an HTTP origin, by cache status: `hit`, `miss`, `collapsed` into the fetch of another request, `revalidated`, `stale` (while it is fetched again), `stale_if_error`, `uncacheable` (the response may not be shared), `bypass` (the method does not use the cache).",
        labels: &[open("outcome", "see the meaning")],
        read: |from, out| out.reasons(from, |shard| &shard.cached),
    },
    Metric {
        name: "penstock_origin_requests_total",
        kind: Kind::Counter,
        help: "Requests to origins, by outcome: `answered`, `not_modified`, or a fault: `unreachable`, `timeout`, `certificate` (it does not verify), `handshake` (TLS), `malformed` (not HTTP/1.1 within the limits), `cut_short`, `busy` (all connections in use), `redirects` (too many, or to a forbidden target), `too_slow` (below the minimum rate), `interim_responses` (too many 1xx), `trailer_too_large`, `unsendable` (the client's request cannot be sent), `abandoned` (the client stopped sending its body), `too_long` (a body of unknown length), `changed` (another version than the one being filled), `server_error`, `no_readers` (no client waits for the rest), `no_room` (the cache has no space).",
        labels: &[open("outcome", "see the meaning")],
        read: |from, out| out.reasons(from, |shard| &shard.origin),
    },
    Metric {
        name: "penstock_origin_received_bytes_total",
        kind: Kind::Counter,
        help: "Bytes of bodies received from origins.",
        labels: &[],
        read: |from, out| out.sample(&[], from.metrics.sum(|shard| shard.filled.get())),
    },
    Metric {
        name: "penstock_origin_retries_total",
        kind: Kind::Counter,
        help: "Requests to origins that were repeated, to another server or the same.",
        labels: &[],
        read: |from, out| out.sample(&[], from.metrics.sum(|shard| shard.origin_retries.get())),
    },
    Metric {
        name: "penstock_origin_target_up",
        kind: Kind::Gauge,
        help: "1 for a server of an origin that is in use, 0 for a failed one that is skipped.",
        labels: &[open("target", "its URL")],
        read: |from, out| origin_servers(from, out, |server| u64::from(server.up)),
    },
    Metric {
        name: "penstock_origin_target_connections",
        kind: Kind::Gauge,
        help: "Open connections to a server of an origin, idle ones included.",
        labels: &[open("target", "its URL")],
        read: |from, out| origin_servers(from, out, |server| server.connections),
    },
    Metric {
        name: "penstock_origin_target_waiting",
        kind: Kind::Gauge,
        help: "Requests waiting for a connection to a server of an origin.",
        labels: &[open("target", "its URL")],
        read: |from, out| origin_servers(from, out, |server| server.waiting),
    },
    Metric {
        name: "penstock_cache_bytes",
        kind: Kind::Gauge,
        help: "Bytes of the slices in the memory tier, in whole pages.",
        labels: &[],
        read: |from, out| memory_tier(from, out, |tier| tier.bytes),
    },
    Metric {
        name: "penstock_cache_slices",
        kind: Kind::Gauge,
        help: "Slices in the memory tier.",
        labels: &[],
        read: |from, out| memory_tier(from, out, |tier| tier.slices),
    },
    Metric {
        name: "penstock_cache_evicted_bytes",
        kind: Kind::Gauge,
        help: "Bytes of slices that were evicted from the memory tier while clients still read them.",
        labels: &[],
        read: |from, out| memory_tier(from, out, |tier| tier.evicted_bytes),
    },
    Metric {
        name: "penstock_cache_copied_bytes",
        kind: Kind::Gauge,
        help: "Bytes in the memory tier that are copies of what other nodes of the cluster own.",
        labels: &[],
        read: |from, out| memory_tier(from, out, |tier| tier.copied_bytes),
    },
    Metric {
        name: "penstock_cache_evictions_total",
        kind: Kind::Counter,
        help: "Slices evicted from the memory tier.",
        labels: &[],
        read: |from, out| memory_tier(from, out, |tier| tier.evictions),
    },
    Metric {
        name: "penstock_cache_refusals_total",
        kind: Kind::Counter,
        help: "Slices that found no space because others were being sent or filled.",
        labels: &[],
        read: |from, out| memory_tier(from, out, |tier| tier.refusals),
    },
    Metric {
        name: "penstock_cache_bytes_max",
        kind: Kind::Gauge,
        help: "Bytes that the memory tier may use: less than its `size` if its file system has no more space.",
        labels: &[],
        read: |from, out| memory_tier(from, out, |tier| tier.bytes_max),
    },
    Metric {
        name: "penstock_cache_in_service",
        kind: Kind::Gauge,
        help: "1 while the memory tier can be used, 0 while its file cannot be read or written: then responses do not enter the cache.",
        labels: &[],
        read: |from, out| memory_tier(from, out, |tier| u64::from(tier.in_service)),
    },
    Metric {
        name: "penstock_cache_waiting",
        kind: Kind::Gauge,
        help: "1 while an earlier process that drains still has the tiers, and this one caches in a small memory tier of its own.",
        labels: &[],
        read: |from, out| memory_tier(from, out, |tier| u64::from(tier.waiting)),
    },
    Metric {
        name: "penstock_cache_purges_total",
        kind: Kind::Counter,
        help: "Purges, hard or soft.",
        labels: &[closed("kind", PurgeKind::LABELS)],
        read: |from, out| out.each(|kind: PurgeKind| from.metrics.purges(kind)),
    },
    Metric {
        name: "penstock_cache_purged_objects_total",
        kind: Kind::Counter,
        help: "Known objects that were purged.",
        labels: &[],
        read: |from, out| out.sample(&[], from.metrics.purged_objects()),
    },
    Metric {
        name: "penstock_cache_purge_list",
        kind: Kind::Gauge,
        help: "Purges kept for objects that have not been requested since.",
        labels: &[],
        read: |from, out| out.optional(from.readings.purge_list),
    },
];

/// A number of each server of the origins.
fn origin_servers(from: &Sources<'_>, out: &mut Family<'_>, number: fn(&OriginServerReading) -> u64) {
    for server in &from.readings.origin_servers {
        out.sample(&[&server.url], number(server));
    }
}

/// A number of the memory tier, if the program has one.
fn memory_tier(from: &Sources<'_>, out: &mut Family<'_>, number: fn(&TierCounters) -> u64) {
    out.optional(from.readings.memory_tier.as_ref().map(number));
}
