//! The metrics of the cache and of the origins behind it.

use std::sync::atomic::Ordering::Relaxed;

use super::{closed, open};
use crate::metrics::exposition::{Kind, Metric};
use crate::metrics::purges::KINDS;

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_signed_urls_total",
        kind: Kind::Counter,
        help: "Requests to sites with signed URLs: `accepted`, or answered with 403 because the token is `missing`, `malformed`, of an `unknown_key`, has a `wrong_signature`, is `expired`, or is for an `other_path`.",
        labels: &[open("outcome", "see left")],
        read: |seen, out| {
            for (outcome, count) in seen.tally(|shard| &shard.signed_urls) {
                out.sample(&[outcome], count);
            }
        },
    },
    Metric {
        name: "penstock_cache_requests_total",
        kind: Kind::Counter,
        help: "Requests to sites with an HTTP origin, by how their object was come by: `hit`, `miss`, `collapsed` into the fetch of another request, `revalidated`, `stale` (while somebody fetches), `stale_if_error`, `passed` (for one client only), `through` (another method, passed on).",
        labels: &[open("outcome", "see left")],
        read: |seen, out| {
            for (outcome, count) in seen.tally(|shard| &shard.cached) {
                out.sample(&[outcome], count);
            }
        },
    },
    Metric {
        name: "penstock_origin_requests_total",
        kind: Kind::Counter,
        help: "Requests to origins by their end: `answered`, `not_modified`, or what went wrong: `unreachable`, `timeout`, `certificate` (it does not verify), `handshake` (TLS), `malformed` (not HTTP/1.1 within the limits), `cut_short`, `busy` (all connections in use), `redirects` (more than are followed, or to where it is not), `abandoned` (the client stopped sending its body), `too_long` (a body without an announced length), `changed` (another version than the one being filled), `server_error`, `no_readers` (all had left, and enough was there), `no_room`.",
        labels: &[open("outcome", "see left")],
        read: |seen, out| {
            for (outcome, count) in seen.tally(|shard| &shard.origin) {
                out.sample(&[outcome], count);
            }
        },
    },
    Metric {
        name: "penstock_origin_received_bytes_total",
        kind: Kind::Counter,
        help: "Bytes of bodies that came from origins.",
        labels: &[],
        read: |seen, out| out.sample(&[], seen.sum(|shard| shard.filled.get())),
    },
    Metric {
        name: "penstock_origin_retries_total",
        kind: Kind::Counter,
        help: "Requests to origins that were sent once more, to another server or the same.",
        labels: &[],
        read: |seen, out| out.sample(&[], seen.sum(|shard| shard.origin_retries.get())),
    },
    Metric {
        name: "penstock_origin_target_up",
        kind: Kind::Gauge,
        help: "1 for a server of an origin that is asked, 0 for one that is out because it failed.",
        labels: &[open("target", "its URL")],
        read: |seen, out| seen.targets(|target| u64::from(target.up), out),
    },
    Metric {
        name: "penstock_origin_target_connections",
        kind: Kind::Gauge,
        help: "Open connections to a server of an origin, idle ones included.",
        labels: &[open("target", "its URL")],
        read: |seen, out| seen.targets(|target| target.connections as u64, out),
    },
    Metric {
        name: "penstock_origin_target_waiting",
        kind: Kind::Gauge,
        help: "Requests that wait for a connection to a server of an origin.",
        labels: &[open("target", "its URL")],
        read: |seen, out| seen.targets(|target| target.waiting as u64, out),
    },
    Metric {
        name: "penstock_cache_bytes",
        kind: Kind::Gauge,
        help: "Bytes that the slices of the memory tier take, in whole pages.",
        labels: &[],
        read: |seen, out| seen.tier(|tier| tier.bytes, out),
    },
    Metric {
        name: "penstock_cache_slices",
        kind: Kind::Gauge,
        help: "Slices that the memory tier keeps.",
        labels: &[],
        read: |seen, out| seen.tier(|tier| tier.slices, out),
    },
    Metric {
        name: "penstock_cache_evictions_total",
        kind: Kind::Counter,
        help: "Slices that had to go for others.",
        labels: &[],
        read: |seen, out| seen.tier(|tier| tier.evictions, out),
    },
    Metric {
        name: "penstock_cache_refusals_total",
        kind: Kind::Counter,
        help: "Slices that found no room because everything was being sent or filled.",
        labels: &[],
        read: |seen, out| seen.tier(|tier| tier.refusals, out),
    },
    Metric {
        name: "penstock_cache_purges_total",
        kind: Kind::Counter,
        help: "Purges that were ordered, hard or soft.",
        labels: &[closed("kind", KINDS)],
        read: |seen, out| {
            for (kind, count) in KINDS.iter().zip(&seen.purges.orders) {
                out.sample(&[kind], count.load(Relaxed));
            }
        },
    },
    Metric {
        name: "penstock_cache_purged_objects_total",
        kind: Kind::Counter,
        help: "Objects that were known when they were purged.",
        labels: &[],
        read: |seen, out| out.sample(&[], seen.purges.objects.load(Relaxed)),
    },
    Metric {
        name: "penstock_cache_purge_list",
        kind: Kind::Gauge,
        help: "Purges that are remembered for objects that nobody has asked for since.",
        labels: &[],
        read: |seen, out| {
            if let Some(length) = seen.purges_listed() {
                out.sample(&[], length as u64);
            }
        },
    },
];
