//! Counters and access log of responses.

use std::time::{Duration, Instant, SystemTime};

use penstock_config::limits;
use penstock_http::{HttpVersion, Request, Status};

use crate::access_log::{Record, Text};
use crate::connection::Connection;
use crate::drive::Sent;
use crate::metrics::{LastResponse, Method};
use crate::settings::Settings;

/// A response that has been sent.
pub(super) struct Answered {
    pub(super) status: u16,
    pub(super) started: Instant,
    /// Whether the request could be a replay.
    pub(super) early: bool,
    pub(super) head_bytes: u64,
    pub(super) cache: Option<&'static str>,
}

/// Counts and logs a response.
pub(super) fn record(
    connection: &Connection,
    request: &Request<'_>,
    answered: &Answered,
    sent: &Sent,
    settings: &Settings,
) {
    let Answered { status, started, early, head_bytes, cache } = *answered;
    let (duration, first_byte) =
        count(connection, Method::named(request.method().name()), status, started, sent);
    let Some(log) = &settings.access_log else { return };
    let text = |value: &str| Text::cut(value.as_bytes(), limits::ACCESS_LOG_FIELD_BYTES);
    log.record(Record {
        host: text(request.host()),
        method: text(request.method().name()),
        target: text(request.raw_target()),
        body_bytes: sent.bytes.saturating_sub(head_bytes),
        duration,
        first_byte,
        referer: request.referer().map(text),
        user_agent: request.user_agent().map(text),
        range: request.range().map(text),
        protocol: match request.version() {
            HttpVersion::Http10 => "HTTP/1.0",
            HttpVersion::Http11 => "HTTP/1.1",
        },
        early_data: early,
        cache,
        ..of_connection(connection, status, sent)
    });
}

/// Counts and logs the answer to bytes that were not a request, so that the log shows which client sends them.
pub(super) fn record_refusal(
    connection: &Connection,
    status: Status,
    started: Instant,
    sent: &Sent,
    settings: &Settings,
) {
    let (duration, first_byte) = count(connection, Method::Other, status.code(), started, sent);
    let Some(log) = &settings.access_log else { return };
    log.record(Record { duration, first_byte, ..of_connection(connection, status.code(), sent) });
}

/// A record without the values of a request.
fn of_connection(connection: &Connection, status: u16, sent: &Sent) -> Record {
    let name = connection.client_certificate.as_ref();
    Record {
        time: SystemTime::now(),
        client: connection.client,
        host: Text::cut(b"", 0),
        method: Text::cut(b"", 0),
        target: Text::cut(b"", 0),
        status,
        body_bytes: 0,
        duration: Duration::ZERO,
        first_byte: None,
        referer: None,
        user_agent: None,
        range: None,
        protocol: "",
        tls: connection.tls,
        early_data: false,
        ja4: connection.ja4,
        client_certificate: name
            .map(|name| Text::cut(name.as_bytes(), limits::CLIENT_CERTIFICATE_NAME_BYTES)),
        outlet: connection.outlet_kind(),
        request_number: connection.requests,
        cache: None,
        short: sent.short,
    }
}

fn count(
    connection: &Connection,
    method: Method,
    status: u16,
    started: Instant,
    sent: &Sent,
) -> (Duration, Option<Duration>) {
    let duration = started.elapsed();
    let first_byte = sent.first_byte.map(|at| at.saturating_duration_since(started));
    let worker = &connection.worker;
    if connection.tls.is_some() {
        let answer = LastResponse::of(status);
        worker.recent_clients.note(connection.client.ip(), answer, started + duration);
    }
    worker.shard.request(method, status, duration, first_byte);
    if let Some(why) = sent.short {
        worker.shard.short_response(why);
    }
    (duration, first_byte)
}
