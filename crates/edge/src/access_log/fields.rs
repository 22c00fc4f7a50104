//! The fields of a line: the one list that every format with names has its fields from.

use std::fmt::Display;
use std::time::Duration;

use penstock_origin::http::Upstream;
use penstock_tls::Ja4;

use super::time::Rfc3339;
use super::{Record, Text, Unsigned};
use crate::metrics::{Carried, HandshakeFacts};

/// What takes the fields of a line, in their order. Fields that do not apply are not given.
pub(super) trait FieldSink {
    /// The fields from here on are of this part of the line; of the line itself, if it is empty.
    fn part(&mut self, name: &'static str);
    /// A text, which may be of a client.
    fn text(&mut self, name: &'static str, value: &str);
    /// A value without quotes, backslashes or control characters.
    fn shown(&mut self, name: &'static str, value: &dyn Display);
    fn number(&mut self, name: &'static str, value: u64);
    /// `value / 10^places`
    fn decimal(&mut self, name: &'static str, value: u64, places: u32);
    fn flag(&mut self, name: &'static str, value: bool);

    fn optional(&mut self, name: &'static str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    fn decoded(&mut self, name: &'static str, value: Option<&Text>) {
        if let Some(value) = value {
            self.text(name, &value.as_str());
        }
    }

    fn milliseconds(&mut self, name: &'static str, value: Option<Duration>) {
        if let Some(value) = value {
            self.decimal(name, microseconds(value), 3);
        }
    }
}

/// Rounded.
pub(super) fn microseconds(duration: Duration) -> u64 {
    u64::try_from((duration.as_nanos() + 500) / 1000).unwrap_or(u64::MAX)
}

/// Gives all fields of a record.
pub(super) fn fields_of(record: &Record, sink: &mut impl FieldSink) {
    sink.text("time", Rfc3339::of(record.time).as_str());
    sink.shown("client_ip", &record.client.ip().to_canonical());
    sink.number("client_port", record.client.port().into());
    sink.text("host", &record.host.as_str());
    sink.decoded("site", record.site.as_ref());
    sink.decoded("route", record.route.as_ref());
    sink.text("method", &record.method.as_str());
    sink.text("target", &Unsigned(&record.target).shown());
    sink.number("status", record.status.into());
    sink.optional("refusal", record.refusal);
    sink.number("body_bytes", record.body_bytes);
    sink.milliseconds("duration_ms", Some(record.duration));
    sink.milliseconds("ttfb_ms", record.first_byte);
    if let Some(carried) = &record.carried {
        network(carried, sink);
    }
    if let Some(referer) = &record.referer {
        sink.text("referer", &Unsigned(referer).shown());
    }
    sink.decoded("user_agent", record.user_agent.as_ref());
    sink.decoded("range", record.range.as_ref());
    sink.text("protocol", record.protocol);
    if let Some(facts) = &record.tls {
        sink.part("tls");
        handshake(facts, record, sink);
        sink.part("");
    }
    if record.early_data {
        sink.flag("early_data", true);
    }
    sink.text("outlet", record.outlet.label());
    sink.number("request_number", record.request_number);
    if let Some(stream) = record.stream {
        sink.number("stream", stream);
    }
    if let Some(id) = &record.id {
        sink.text("request_id", &id.to_string());
    }
    if let Some(player) = &record.player {
        sink.optional("cmcd_session", player.session.as_deref());
        sink.optional("cmcd_content", player.content.as_deref());
    }
    sink.optional("cache", record.cache);
    sink.optional("tier", record.tier);
    if let Some(upstream) = &record.upstream {
        sink.part("upstream");
        origin(upstream, sink);
        sink.part("");
    }
    sink.text(
        "outcome",
        match record.short {
            Some(short) => short.label(),
            None if record.without_request => "no_request",
            None => "complete",
        },
    );
}

fn network(carried: &Carried, sink: &mut impl FieldSink) {
    sink.milliseconds("rtt_ms", Some(carried.round_trip));
    if let Some(rate) = carried.delivery_rate {
        sink.number("delivery_bytes_per_second", rate);
    }
    if let Some(millionths) = carried.share_sent_again() {
        sink.decimal("retransmitted_ratio", millionths, 6);
    }
}

fn handshake(facts: &HandshakeFacts, record: &Record, sink: &mut impl FieldSink) {
    sink.text("version", facts.version);
    sink.text("cipher", facts.cipher);
    sink.text("group", facts.group);
    sink.flag("resumed", facts.resumed);
    sink.optional("ja4", record.ja4.as_ref().map(Ja4::as_str));
    sink.decoded("client_certificate", record.client_certificate.as_ref());
}

fn origin(upstream: &Upstream, sink: &mut impl FieldSink) {
    sink.text("url", &upstream.url);
    sink.milliseconds("connect_ms", upstream.connect);
    sink.milliseconds("ttfb_ms", upstream.first_byte);
    sink.milliseconds("duration_ms", upstream.whole);
}
