//! Counters and access log of responses.

use std::time::{Duration, Instant, SystemTime};

use penstock_config::{client_number, limits};
use penstock_content::{SiteNumber, Tier};
use penstock_http::{HttpVersion, Request};
use penstock_origin::http::UpstreamTrace;

use crate::access_log::{Record, Text, Texts};
use crate::carrier::answered::{Answered, CarriedBy};
use crate::carrier::asked::count_asked;
use crate::carrier::drive::Sent;
use crate::metrics::{CacheOutcome, LastResponse, Method, SiteId, SiteResponse};
use crate::settings::Settings;

/// Counts and logs a response, of which the last byte was given to the carrier at `now`.
pub(crate) fn record(
    carrier: CarriedBy<'_>,
    request: &Request<'_>,
    answered: Answered,
    (sent, now): (&Sent, Instant),
    settings: &Settings,
) {
    let bytes = sent.bytes.saturating_sub(answered.head_bytes);
    count_asked(&carrier, request, &answered, bytes, settings);
    Recording::begin(carrier, request, answered, settings).end(&carrier, sent, now, settings);
}

/// What a response is counted and logged with once it has been sent, also if its request is gone by then.
pub(crate) struct Recording {
    method: Method,
    status: u16,
    cache: Option<CacheOutcome>,
    /// The site that answered, as it is counted.
    site: Option<SiteId>,
    started: Instant,
    head_bytes: u64,
    /// `None` without an access log.
    log: Option<Box<Record>>,
    /// Where the request to an origin was noted.
    upstream: Option<UpstreamTrace>,
}

impl Recording {
    pub(crate) fn begin(
        carrier: CarriedBy<'_>,
        request: &Request<'_>,
        answered: Answered,
        settings: &Settings,
    ) -> Self {
        let Answered { status, started, early, head_bytes, cache, site, route, id, refusal, served, said } =
            answered;
        let turn = &carrier.worker.unlogged;
        let log = settings.access_log.as_ref().filter(|log| log.may_log(site.map(SiteNumber::index), turn));
        let log = log.map(|_| {
            let mut record = of_carrier(carrier, status);
            let mut text = |value: &str| record.texts.add(value, limits::ACCESS_LOG_FIELD_BYTES);
            record.host = text(request.host());
            record.method = text(request.method().name());
            record.user_agent = request.user_agent().map(&mut text);
            record.trace_id = request.trace_id().map(&mut text);
            record.range = request.range().map(&mut text);
            record.site = site.map(|number| text(settings.sites.name(number)));
            record.route = site.zip(route).map(|(site, route)| text(settings.sites.path(site, route)));
            record.target = text(&settings.sites.hide_tokens(site, route, request.raw_target()));
            let referer = request.referer().map(|value| settings.sites.hide_tokens(site, route, value));
            record.referer = referer.map(|value| text(&value));
            Box::new(Record {
                protocol: match request.version() {
                    HttpVersion::Http10 => "HTTP/1.0",
                    HttpVersion::Http11 => "HTTP/1.1",
                    HttpVersion::Http2 => "h2",
                    HttpVersion::Http3 => "h3",
                },
                early_data: early,
                refusal,
                player: said,
                id,
                cache: cache.map(CacheOutcome::label),
                tier: served.tier.map(Tier::label),
                ..record
            })
        });
        let method = Method::named(request.method().name());
        let site = site.and_then(|number| settings.counted_sites.get(number.index()).copied());
        let upstream = served.upstream.filter(|_| log.is_some());
        Self { method, status, cache, site, started, head_bytes, log, upstream }
    }

    /// Counts and logs the response, of which the last byte was given to the carrier at `now`.
    pub(crate) fn end(self, carrier: &CarriedBy<'_>, sent: &Sent, now: Instant, settings: &Settings) {
        let duration = now.saturating_duration_since(self.started);
        let first_byte = count(carrier, (self.method, self.status), self.started, duration, sent);
        let body_bytes = sent.bytes.saturating_sub(self.head_bytes);
        if let Some(site) = self.site {
            let Self { status, cache, .. } = self;
            let carried = sent.carried.map(|carried| (carrier.version, carried));
            let response = SiteResponse { status, body_bytes, first_byte, cache, short: sent.short, carried };
            carrier.worker.shard.site_response(site, &response);
            if let Some(rate) = sent.carried.and_then(|carried| carried.delivery_rate) {
                let client = client_number(carrier.client.ip());
                carrier.worker.shard.received(site, (client, rate), &settings.counted_rates, now);
            }
        }
        if let (Some(log), Some(record)) = (&settings.access_log, self.log) {
            log.record(&Record {
                time: began(duration),
                body_bytes,
                duration,
                first_byte,
                short: sent.short,
                carried: sent.carried,
                upstream: self.upstream.and_then(|trace| trace.seen()).map(Box::new),
                ..*record
            });
        }
    }
}

/// Counts and logs the answer to bytes that were not a request, so that the log shows which client sends them.
pub(crate) fn record_refusal(
    carrier: CarriedBy<'_>,
    status: u16,
    started: Instant,
    sent: &Sent,
    settings: &Settings,
) {
    let duration = started.elapsed();
    let first_byte = count(&carrier, (Method::Other, status), started, duration, sent);
    let log = settings.access_log.as_ref().filter(|log| log.may_log(None, &carrier.worker.unlogged));
    let Some(log) = log else { return };
    let time = began(duration);
    log.record(&Record { time, duration, first_byte, short: sent.short, ..of_carrier(carrier, status) });
}

/// Logs a connection of a client that ends without a request, if the log has such: it began at `since`. `refusal` is why its
/// handshake failed.
pub(crate) fn record_connection(carrier: CarriedBy<'_>, since: Instant, refusal: Option<&'static str>) {
    let settings = carrier.worker.settings();
    let Some(log) = settings.access_log.as_ref().filter(|log| log.connections) else { return };
    if log.may_log(None, &carrier.worker.unlogged) {
        let duration = since.elapsed();
        let time = began(duration);
        log.record(&Record { time, duration, refusal, without_request: true, ..of_carrier(carrier, 0) });
    }
}

/// The time at which a response began that has ended now.
fn began(duration: Duration) -> SystemTime {
    let now = SystemTime::now();
    now.checked_sub(duration).unwrap_or(now)
}

/// A record without the values of a request, its time, nor how it was sent.
fn of_carrier(carrier: CarriedBy<'_>, status: u16) -> Record {
    let mut texts = Texts::with_space();
    let certificate = carrier.client_certificate;
    let client_certificate = certificate.map(|name| texts.add(name, limits::CLIENT_CERTIFICATE_NAME_BYTES));
    Record {
        texts,
        time: SystemTime::UNIX_EPOCH,
        client: carrier.client,
        host: Text::default(),
        method: Text::default(),
        target: Text::default(),
        status,
        body_bytes: 0,
        duration: Duration::ZERO,
        first_byte: None,
        refusal: None,
        carried: None,
        player: None,
        referer: None,
        user_agent: None,
        trace_id: None,
        range: None,
        protocol: "",
        tls: carrier.tls,
        early_data: false,
        ja4: carrier.ja4,
        client_certificate,
        outlet: carrier.outlet,
        request_number: carrier.request_number,
        stream: carrier.stream,
        id: None,
        cache: None,
        tier: None,
        upstream: None,
        site: None,
        route: None,
        short: None,
        without_request: false,
    }
}

/// Returns the time to the first byte.
fn count(
    carrier: &CarriedBy<'_>,
    (method, status): (Method, u16),
    started: Instant,
    duration: Duration,
    sent: &Sent,
) -> Option<Duration> {
    let first_byte = sent.first_byte.map(|at| at.saturating_duration_since(started));
    let worker = carrier.worker;
    if carrier.tls.is_some() {
        let answer = LastResponse::of(status);
        worker.recent_clients.note(carrier.client.ip(), answer, started + duration);
    }
    worker.shard.request_of(carrier.version);
    worker.shard.request(method, status, duration, first_byte);
    if let Some(why) = sent.short {
        worker.shard.short_response(why);
    }
    first_byte
}
