//! One request on a connection: parse, read past its body, answer, send, record.

use std::time::{Duration, Instant, SystemTime};

use penstock_config::limits;
use penstock_egress::{Part, Transmission};
use penstock_http::body::BodySkipper;
use penstock_http::{Rejection, Request, RequestBody, Status, Version};

use crate::access_log::{Record, Text};
use crate::cached::Outcome;
use crate::connection::Connection;
use crate::metrics::{LastResponse, Method};
use crate::passing::Passed;
use crate::respond::{Answer, refusal, respond};
use crate::settings::Settings;
use crate::transmit::Sent;

/// What is known of an answer when it has been sent.
struct Answered {
    status: u16,
    started: Instant,
    /// Whether the request could be a replay.
    early: bool,
    head_bytes: u64,
    cache: Option<&'static str>,
}

impl Connection {
    /// Answers the request of this head; false if the connection is to be closed now.
    pub(crate) async fn answer(&mut self, head: &[u8], settings: &Settings) -> bool {
        let started = Instant::now();
        let request = match Request::parse(head, &settings.head) {
            Ok(request) => request,
            Err(rejection) => return self.answer_rejected(rejection, started, settings).await,
        };
        self.requests += 1;
        let Some(early) = self.judge_early(&request, head.len()).await else { return false };
        let answered = match Passed::admit(settings, &request) {
            Some(passed) => self.pass(&passed, &request, early, settings).await,
            None => self.respond_past_body(&request, early, started, settings).await,
        };
        let (answer, keep_alive) = match answered {
            Ok(answered) => answered,
            Err(rejection) => return self.answer_rejected(rejection, started, settings).await,
        };
        let keep_alive = keep_alive && !answer.ends_connection;
        let status = answer.status;
        let head_bytes = match answer.parts.first() {
            Some(Part::Owned(head)) => head.len() as u64,
            _ => 0,
        };
        if early {
            let refused = status == Status::TooEarly.code();
            self.worker.shard.early_request(if refused { "refused" } else { "answered" });
        }
        let cache = answer.outcome.map(Outcome::label);
        let sent = self.send(answer, settings).await;
        let answered = Answered { status, started, early, head_bytes, cache };
        self.record(&request, &answered, &sent, settings);
        keep_alive && sent.short.is_none()
    }

    /// Answers what needs no body, and says whether another request can follow.
    async fn respond_past_body(
        &mut self,
        request: &Request<'_>,
        early: bool,
        started: Instant,
        settings: &Settings,
    ) -> Result<(Answer, bool), Rejection> {
        let (body_ends, rejection) = self.pass_over_body(request, started, settings).await;
        if let Some(rejection) = rejection {
            return Err(rejection);
        }
        let keep_alive = body_ends && self.may_stay(request, settings);
        let secure = self.tls.is_some();
        let answer = respond(&self.worker, settings, request, secure, early, keep_alive).await;
        Ok((answer, keep_alive))
    }

    /// Whether the connection may stay open behind this request.
    pub(crate) fn may_stay(&self, request: &Request<'_>, settings: &Settings) -> bool {
        request.keep_alive()
            && !self.worker.is_draining()
            && self.requests < settings.limits.requests_per_connection
    }

    /// Sends what is there, then what comes.
    async fn send(&mut self, answer: Answer, settings: &Settings) -> Sent {
        let mut sent = self.transmit(Transmission::new(answer.parts), settings).await;
        let Some((mut stretch, mut following)) = answer.rest else { return sent };
        while sent.short.is_none() {
            let next = self.wait_for_stretch(&mut following, settings).await;
            // What has been sent may go now, not before.
            drop(stretch);
            stretch = match next {
                Ok(Some(next)) => next,
                Ok(None) => return sent,
                Err(why) => {
                    sent.short = Some(why);
                    return sent;
                }
            };
            let parts = std::mem::take(&mut stretch.parts);
            let more = self.transmit(Transmission::new(parts), settings).await;
            sent = Sent { bytes: sent.bytes + more.bytes, short: more.short, ..sent };
        }
        sent
    }

    /// Reads past a body that nobody wants. Says whether the next request can be found behind it, and what to
    /// answer if the body is malformed or too long.
    async fn pass_over_body(
        &mut self,
        request: &Request<'_>,
        started: Instant,
        settings: &Settings,
    ) -> (bool, Option<Rejection>) {
        if request.body() == RequestBody::None {
            return (true, None);
        }
        if request.expect_continue() {
            // The final answer comes without `100 Continue`; whether the body follows all the same is then
            // unknown, so the connection ends behind the answer (RFC 9110 §10.1.1).
            return (false, None);
        }
        let deadline = started + settings.limits.head_deadline;
        let mut skipper = BodySkipper::new(request.body(), limits::DROPPED_BODY_BYTES);
        loop {
            match skipper.skip(&self.inbox) {
                Ok(skipped) => {
                    self.drop_from_inbox(skipped.consumed);
                    if skipped.done {
                        return (true, None);
                    }
                }
                Err(rejection) => return (false, Some(rejection)),
            }
            if !self.pull_until(deadline).await {
                return (false, None);
            }
        }
    }

    /// Answers a head that cannot be answered as it was meant. The connection stays where the head's end was
    /// beyond doubt: a browser whose connection ends opens another, and a handshake costs more than an error.
    pub(crate) async fn answer_rejected(
        &mut self,
        rejection: Rejection,
        started: Instant,
        settings: &Settings,
    ) -> bool {
        let keep_alive = !rejection.close && !self.worker.is_draining();
        self.worker.shard.rejected(rejection.reason);
        let answer = refusal(&self.worker, rejection.status, keep_alive);
        let sent = self.transmit(Transmission::new(vec![Part::Owned(answer)]), settings).await;
        self.record_refusal(rejection.status, started, &sent, settings);
        keep_alive && sent.short.is_none()
    }

    fn record(&self, request: &Request<'_>, answered: &Answered, sent: &Sent, settings: &Settings) {
        let Answered { status, started, early, head_bytes, cache } = *answered;
        let (duration, first_byte) =
            self.count(Method::named(request.method().name()), status, started, sent);
        let Some(log) = &settings.access_log else { return };
        let text = |value: &str| Text::cut(value.as_bytes(), limits::ACCESS_LOG_FIELD_BYTES);
        log.record(Record {
            time: SystemTime::now(),
            client: self.client,
            host: text(request.host()),
            method: text(request.method().name()),
            target: text(request.raw_target()),
            status,
            body_bytes: sent.bytes.saturating_sub(head_bytes),
            duration,
            first_byte,
            referer: request.referer().map(text),
            user_agent: request.user_agent().map(text),
            range: request.range().map(text),
            protocol: match request.version() {
                Version::Http10 => "HTTP/1.0",
                Version::Http11 => "HTTP/1.1",
            },
            tls: self.tls,
            early_data: early,
            ja4: self.ja4,
            client_certificate: self.client_certificate_in_log(),
            outlet: self.outlet_kind(),
            request_number: self.requests,
            cache,
            short: sent.short,
        });
    }

    /// Records an answer to something that was not a request, so that the log shows who keeps sending it.
    fn record_refusal(&self, status: Status, started: Instant, sent: &Sent, settings: &Settings) {
        let (duration, first_byte) = self.count(Method::Other, status.code(), started, sent);
        let Some(log) = &settings.access_log else { return };
        log.record(Record {
            time: SystemTime::now(),
            client: self.client,
            host: Text::cut(b"", 0),
            method: Text::cut(b"", 0),
            target: Text::cut(b"", 0),
            status: status.code(),
            body_bytes: 0,
            duration,
            first_byte,
            referer: None,
            user_agent: None,
            range: None,
            protocol: "",
            tls: self.tls,
            early_data: false,
            ja4: self.ja4,
            client_certificate: self.client_certificate_in_log(),
            outlet: self.outlet_kind(),
            request_number: self.requests,
            cache: None,
            short: sent.short,
        });
    }

    fn client_certificate_in_log(&self) -> Option<Text> {
        let name = self.client_certificate.as_ref()?;
        Some(Text::cut(name.as_bytes(), limits::CLIENT_CERTIFICATE_NAME_BYTES))
    }

    fn count(
        &self,
        method: Method,
        status: u16,
        started: Instant,
        sent: &Sent,
    ) -> (Duration, Option<Duration>) {
        let duration = started.elapsed();
        let first_byte = sent.first_byte.map(|at| at.saturating_duration_since(started));
        if self.tls.is_some() {
            let answer = LastResponse::of(status);
            self.worker.recent_clients.note(self.client.ip(), answer, started + duration);
        }
        self.worker.shard.request(method, status, duration, first_byte);
        if let Some(why) = sent.short {
            self.worker.shard.short_response(why);
        }
        (duration, first_byte)
    }
}
