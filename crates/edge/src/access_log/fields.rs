//! The fields of a line: the one list that every format with names has its fields from.

use std::net::IpAddr;
use std::time::Duration;

use penstock_origin::http::Upstream;
use penstock_tls::Ja4;

use super::Record;
use super::time::Rfc3339;
use crate::metrics::{Carried, HandshakeFacts};

/// The name of a field or of a part, as it is configured and as JSON has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    pub(super) plain: &'static str,
    /// `,"name":`
    pub(super) json: &'static str,
}

/// Makes a [`Name`].
macro_rules! name {
    ($name:literal) => {
        Name { plain: $name, json: concat!(",\"", $name, "\":") }
    };
}

#[cfg(test)]
pub(super) use name;

/// What takes the fields of a line, in their order. Fields that do not apply are not given.
pub(super) trait FieldSink {
    /// The fields from here on are of this part of the line.
    fn part(&mut self, name: Name);
    /// The fields from here on are of the line itself.
    fn end_part(&mut self);
    /// A text, which may be of a client.
    fn text(&mut self, name: Name, value: &str);
    /// A value of printable ASCII without quotes and backslashes.
    fn plain(&mut self, name: Name, value: &[u8]);
    fn number(&mut self, name: Name, value: u64);
    /// `value / 10^places`
    fn decimal(&mut self, name: Name, value: u64, places: u32);
    fn flag(&mut self, name: Name, value: bool);

    fn word(&mut self, name: Name, value: Option<&'static str>) {
        if let Some(value) = value {
            self.plain(name, value.as_bytes());
        }
    }

    fn optional(&mut self, name: Name, value: Option<&str>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    fn milliseconds(&mut self, name: Name, value: Option<Duration>) {
        if let Some(value) = value {
            self.decimal(name, microseconds(value), 3);
        }
    }
}

/// An address as text, without the formatting of the standard library for IPv4, which costs a thousand instructions.
struct Address {
    text: [u8; ADDRESS_BYTES],
    length: usize,
}

/// The longest text of an IPv4 or IPv6 address, with one in the end of the other.
const ADDRESS_BYTES: usize = 45;

impl Address {
    fn of(address: IpAddr) -> Self {
        let mut shown = Self { text: [0; ADDRESS_BYTES], length: 0 };
        match address.to_canonical() {
            IpAddr::V4(address) => {
                for (place, byte) in address.octets().into_iter().enumerate() {
                    if place > 0 {
                        shown.push(b'.');
                    }
                    if byte >= 100 {
                        shown.push(b'0' + byte / 100);
                    }
                    if byte >= 10 {
                        shown.push(b'0' + byte / 10 % 10);
                    }
                    shown.push(b'0' + byte % 10);
                }
            }
            IpAddr::V6(address) => address.to_string().bytes().for_each(|byte| shown.push(byte)),
        }
        shown
    }

    fn push(&mut self, byte: u8) {
        if let Some(place) = self.text.get_mut(self.length) {
            *place = byte;
            self.length += 1;
        }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }
}

/// Rounded.
pub(super) fn microseconds(duration: Duration) -> u64 {
    u64::try_from((duration.as_nanos() + 500) / 1000).unwrap_or(u64::MAX)
}

/// Gives all fields of a record.
pub(super) fn fields_of(record: &Record, sink: &mut impl FieldSink) {
    sink.plain(name!("time"), Rfc3339::of(record.time).as_bytes());
    sink.plain(name!("client_ip"), Address::of(record.client.ip()).as_bytes());
    sink.number(name!("client_port"), record.client.port().into());
    sink.text(name!("host"), record.text(record.host));
    sink.optional(name!("site"), record.site.map(|text| record.text(text)));
    sink.optional(name!("route"), record.route.map(|text| record.text(text)));
    sink.text(name!("method"), record.text(record.method));
    sink.text(name!("target"), &record.unsigned(record.target));
    sink.number(name!("status"), record.status.into());
    sink.word(name!("refusal"), record.refusal);
    sink.number(name!("body_bytes"), record.body_bytes);
    sink.milliseconds(name!("duration_ms"), Some(record.duration));
    sink.milliseconds(name!("ttfb_ms"), record.first_byte);
    if let Some(carried) = &record.carried {
        network(carried, sink);
    }
    if let Some(referer) = record.referer {
        sink.text(name!("referer"), &record.unsigned(referer));
    }
    sink.optional(name!("user_agent"), record.user_agent.map(|text| record.text(text)));
    sink.optional(name!("range"), record.range.map(|text| record.text(text)));
    sink.word(name!("protocol"), Some(record.protocol));
    if let Some(facts) = &record.tls {
        sink.part(name!("tls"));
        handshake(facts, record, sink);
        sink.end_part();
    }
    if record.early_data {
        sink.flag(name!("early_data"), true);
    }
    sink.word(name!("outlet"), Some(record.outlet.label()));
    sink.number(name!("request_number"), record.request_number);
    if let Some(stream) = record.stream {
        sink.number(name!("stream"), stream);
    }
    if let Some(id) = &record.id {
        sink.text(name!("request_id"), &id.to_string());
    }
    sink.optional(name!("trace_id"), record.trace_id.map(|text| record.text(text)));
    if let Some(player) = &record.player {
        sink.optional(name!("cmcd_session"), player.session.as_deref());
        sink.optional(name!("cmcd_content"), player.content.as_deref());
    }
    sink.word(name!("cache"), record.cache);
    sink.word(name!("tier"), record.tier);
    if let Some(upstream) = &record.upstream {
        sink.part(name!("upstream"));
        origin(upstream, sink);
        sink.end_part();
    }
    let outcome = match record.short {
        Some(short) => short.label(),
        None if record.without_request => "no_request",
        None => "complete",
    };
    sink.word(name!("outcome"), Some(outcome));
}

fn network(carried: &Carried, sink: &mut impl FieldSink) {
    sink.milliseconds(name!("rtt_ms"), Some(carried.round_trip));
    if let Some(rate) = carried.delivery_rate {
        sink.number(name!("delivery_bytes_per_second"), rate);
    }
    if let Some(millionths) = carried.share_sent_again() {
        sink.decimal(name!("retransmitted_ratio"), millionths, 6);
    }
}

fn handshake(facts: &HandshakeFacts, record: &Record, sink: &mut impl FieldSink) {
    sink.word(name!("version"), Some(facts.version));
    sink.word(name!("cipher"), Some(facts.cipher));
    sink.word(name!("group"), Some(facts.group));
    sink.flag(name!("resumed"), facts.resumed);
    sink.optional(name!("ja4"), record.ja4.as_ref().map(Ja4::as_str));
    sink.optional(name!("client_certificate"), record.client_certificate.map(|text| record.text(text)));
}

fn origin(upstream: &Upstream, sink: &mut impl FieldSink) {
    sink.text(name!("url"), &upstream.url);
    sink.milliseconds(name!("connect_ms"), upstream.connect);
    sink.milliseconds(name!("ttfb_ms"), upstream.first_byte);
    sink.milliseconds(name!("duration_ms"), upstream.whole);
}
