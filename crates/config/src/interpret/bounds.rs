//! Client limits and their ranges.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde_saphyr::Spanned;

use super::reader::Reader;
use crate::limits::{self, GIB, KIB, MIB};
use crate::model::{HandshakeRateLimit, Limits};
use crate::raw;
use crate::section::{Text, position};

pub(super) fn limits(section: Option<&Spanned<raw::Limits>>, reader: &mut Reader<'_>) -> Limits {
    let default = Limits::default();
    let Some(Spanned { value: raw, .. }) = section else { return default };
    let many = 1..=u64::from(u32::MAX);
    let deadline = Duration::from_millis(100)..=Duration::from_secs(600);
    let fields = 1..=limits::HEAD_FIELDS_MAX;
    let lame_duck = Duration::ZERO..=Duration::from_secs(limits::LAME_DUCK_SECONDS_MAX);
    let limits = Limits {
        head_deadline: reader.time(
            "head_deadline",
            raw.head_deadline.as_ref(),
            &deadline,
            default.head_deadline,
        ),
        idle_timeout: reader.time("idle_timeout", raw.idle_timeout.as_ref(), &day(1), default.idle_timeout),
        minimum_rate: reader.size(
            "minimum_rate",
            raw.minimum_rate.as_ref(),
            &(0..=GIB),
            default.minimum_rate,
        ),
        minimum_rate_grace: reader.time(
            "minimum_rate_grace",
            raw.minimum_rate_grace.as_ref(),
            &day(1),
            default.minimum_rate_grace,
        ),
        requests_per_connection: reader.number(
            "requests_per_connection",
            raw.requests_per_connection.as_ref(),
            &many,
            default.requests_per_connection,
        ),
        head_bytes: reader.size("head_bytes", raw.head_bytes.as_ref(), &(KIB..=MIB), default.head_bytes),
        head_fields: reader.number("head_fields", raw.head_fields.as_ref(), &fields, default.head_fields),
        target_bytes: reader.size(
            "target_bytes",
            raw.target_bytes.as_ref(),
            &(64..=MIB),
            default.target_bytes,
        ),
        waiters_per_fill: reader.number(
            "waiters_per_fill",
            raw.waiters_per_fill.as_ref(),
            &(1..=limits::WAITERS_PER_FILL_MAX),
            default.waiters_per_fill,
        ),
        body_bytes: reader.size("body_bytes", raw.body_bytes.as_ref(), &(0..=GIB), default.body_bytes),
        open_files: reader.number(
            "open_files",
            raw.open_files.as_ref(),
            &(16..=1_000_000),
            default.open_files,
        ),
        lame_duck: reader.time("lame_duck", raw.lame_duck.as_ref(), &lame_duck, default.lame_duck),
        drain_deadline: reader.time(
            "drain_deadline",
            raw.drain_deadline.as_ref(),
            &day(0),
            default.drain_deadline,
        ),
        successor_start: reader.time(
            "successor_start",
            raw.successor_start.as_ref(),
            &(Duration::from_secs(1)..=Duration::from_secs(600)),
            default.successor_start,
        ),
        ..connections(raw, &uploads(raw, &default, reader), reader)
    };
    require_target_in_head(&limits, raw.target_bytes.as_ref().or(raw.head_bytes.as_ref()), reader);
    limits
}

fn connections(raw: &raw::Limits, default: &Limits, reader: &mut Reader<'_>) -> Limits {
    let many = 1..=u64::from(u32::MAX);
    let any = 0..=u64::from(u32::MAX);
    let deadline = Duration::from_millis(100)..=Duration::from_secs(600);
    Limits {
        connections: reader.number("connections", raw.connections.as_ref(), &many, default.connections),
        connections_per_network: reader.number(
            "connections_per_network",
            raw.connections_per_network.as_ref(),
            &any,
            default.connections_per_network,
        ),
        handshakes_in_flight: reader.number(
            "handshakes_in_flight",
            raw.handshakes_in_flight.as_ref(),
            &many,
            default.handshakes_in_flight,
        ),
        handshakes_per_network: reader.number(
            "handshakes_per_network",
            raw.handshakes_per_network.as_ref(),
            &any,
            default.handshakes_per_network,
        ),
        handshake_rate: handshake_rate(raw.handshake_rate.as_ref(), reader),
        busy_percent: reader.number(
            "busy_percent",
            raw.busy_percent.as_ref(),
            &(10..=limits::BUSY_PERCENT_HIGH.into()),
            default.busy_percent,
        ),
        handshake_deadline: reader.time(
            "handshake_deadline",
            raw.handshake_deadline.as_ref(),
            &deadline,
            default.handshake_deadline,
        ),
        ..*default
    }
}

fn handshake_rate(raw: Option<&Text>, reader: &mut Reader<'_>) -> HandshakeRateLimit {
    if raw.is_some_and(|text| text.value == "auto") {
        return HandshakeRateLimit::Auto;
    }
    let number = reader.number("handshake_rate", raw, &(0..=u64::from(u32::MAX)), 0);
    NonZeroU32::new(number).map_or(HandshakeRateLimit::None, HandshakeRateLimit::PerSecond)
}

fn uploads(raw: &raw::Limits, default: &Limits, reader: &mut Reader<'_>) -> Limits {
    let any = 0..=u64::from(u32::MAX);
    Limits {
        upload_rate: reader.size("upload_rate", raw.upload_rate.as_ref(), &(0..=GIB), default.upload_rate),
        upload_rate_grace: reader.time(
            "upload_rate_grace",
            raw.upload_rate_grace.as_ref(),
            &day(1),
            default.upload_rate_grace,
        ),
        upload_deadline: reader.time(
            "upload_deadline",
            raw.upload_deadline.as_ref(),
            &day(1),
            default.upload_deadline,
        ),
        forwarded_per_network: reader.number(
            "forwarded_per_network",
            raw.forwarded_per_network.as_ref(),
            &any,
            default.forwarded_per_network,
        ),
        fetches_per_network: reader.number(
            "fetches_per_network",
            raw.fetches_per_network.as_ref(),
            &any,
            default.fetches_per_network,
        ),
        ..*default
    }
}

/// From so many seconds to a day.
fn day(least_seconds: u64) -> RangeInclusive<Duration> {
    Duration::from_secs(least_seconds)..=Duration::from_secs(24 * 3600)
}

fn require_target_in_head(limits: &Limits, raw: Option<&Text>, reader: &mut Reader<'_>) {
    if let Some(text) = raw.filter(|_| limits.target_bytes >= limits.head_bytes) {
        let (target, head) = (limits.target_bytes, limits.head_bytes);
        let what = format!("target_bytes ({target}) must be less than head_bytes ({head})");
        reader.fault(position(text), what, "write a smaller target_bytes or a larger head_bytes");
    }
}
