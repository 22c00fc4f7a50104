//! One request of a stream, from its head to the end of its response.

use std::rc::Rc;
use std::time::Instant;

use penstock_config::limits;
use penstock_content::{
    Audience, CacheStatus, ClientRequest, Clients, ContentLength, Handled, Refusal, Response, handle,
    handle_rejected,
};
use penstock_egress::Transmission;
use penstock_http::manifest::{Likeness, Manifest};
use penstock_http::{BodyFraming, Fields, Rejection, Request, ResponseHead};

use super::body::StreamBody;
use super::detached::{Content, Detached, take_content};
use super::handle::StreamHandle;
use super::open_streams::SharedConnection;
use super::stream_carrier::StreamCarrier;
use crate::carrier::alternative::name_alternative;
use crate::carrier::answered::Answered;
use crate::carrier::asked::count_asked;
use crate::carrier::cmsd::tell_path;
use crate::carrier::drive::{NOTHING_SENT, Sent, drive, drive_rest};
use crate::carrier::multiplexer::{Multiplexer, StreamCount, StreamHead, StreamRequestHead};
use crate::carrier::record::{Recording, record, record_refusal};
use crate::carrier::upload::BoundedBody;
use crate::clients::ClientBudget;
use crate::metrics::ShortReason;
use crate::worker::LocalSettings;

/// A stream that the client has opened.
pub(crate) struct OpenedStream<M: Multiplexer> {
    stream: StreamHandle<M>,
    work: Work<M::RequestHead>,
    /// The number of the request on its connection.
    number: u64,
    settings: LocalSettings,
    /// When the request had come.
    started: Instant,
}

impl<M: Multiplexer> OpenedStream<M> {
    /// Adds a stream to those that are open. `is_body_whole` says that no body follows.
    pub(crate) fn new(
        shared: &Rc<SharedConnection<M>>,
        stream: M::StreamId,
        (request, is_body_whole): (Incoming<M::RequestHead>, bool),
        (number, settings): (u64, &LocalSettings),
        started: Instant,
    ) -> Self {
        let budget = ClientBudget::to_take(&settings.limits);
        shared.state.borrow_mut().add(stream, budget, is_body_whole);
        M::count(&shared.worker.shard, StreamCount::Opened);
        let (stream, settings) = (StreamHandle::new(shared, stream), Rc::clone(settings));
        Self { stream, work: Work::Answer(request), number, settings, started }
    }
}

/// Gives a task to each response that has none, before the connection waits.
pub(crate) fn attach<M: Multiplexer>(
    shared: &Rc<SharedConnection<M>>,
    open: &mut impl FnMut(OpenedStream<M>),
) {
    loop {
        let unsent = shared.state.borrow_mut().attach();
        let Some((stream, detached, transmission)) = unsent else { return };
        let (number, started) = (detached.number, detached.started);
        let settings = Rc::clone(&detached.settings);
        let work = Work::Send(Some(Box::new((detached, transmission))));
        open(OpenedStream { stream: StreamHandle::new(shared, stream), work, number, settings, started });
    }
}

/// What came on a stream.
pub(crate) enum Incoming<H> {
    Request {
        head: H,
        has_body: bool,
        early: Early,
    },
    /// A request that exceeds a bound.
    Rejected {
        status: u16,
        reason: &'static str,
    },
}

/// What the task of a stream does.
enum Work<H> {
    Answer(Incoming<H>),
    /// Sends a response that is complete but could not leave at once.
    Send(Option<Box<(Detached, Transmission)>>),
}

/// Whether a request came before the client's end of the handshake (RFC 8470).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Early {
    /// It did not.
    No,
    /// It did, and may be answered at once.
    Answer,
    /// It did, and waits for the end of the handshake.
    Wait,
}

/// Answers what came on a stream.
pub(crate) async fn answer<M: Multiplexer>(mut opened: OpenedStream<M>) {
    if let Work::Send(unsent) = &mut opened.work {
        let Some(unsent) = unsent.take() else { return };
        return Box::pin(send_unsent(&opened.stream, *unsent)).await;
    }
    let OpenedStream { stream, work, number, settings, started } = &opened;
    let Work::Answer(request) = work else { return };
    let started = *started;
    match request {
        Incoming::Rejected { status, reason } => {
            stream.shared.worker.shard.rejected(reason);
            send_head_alone(stream, *status).await;
            let carrier = stream.shared.carrier(stream.id, *number);
            record_refusal(carrier, *status, started, &NOTHING_SENT, settings);
        }
        Incoming::Request { head, has_body, early } => {
            let body = match (has_body, head.content_length()) {
                (false, _) | (true, Some(0)) => BodyFraming::None,
                (true, Some(length)) => BodyFraming::Length(length),
                (true, None) => BodyFraming::Chunked,
            };
            match Request::from_validated(&head.validated(body), &settings.head) {
                Ok(request) => answer_request(&opened, &request, *early).await,
                Err(rejection) => Box::pin(answer_rejected(&opened, rejection, started)).await,
            }
        }
    }
}

async fn answer_request<M: Multiplexer>(opened: &OpenedStream<M>, request: &Request<'_>, early: Early) {
    let OpenedStream { stream, settings, number, started, .. } = opened;
    let started = *started;
    let shared = &stream.shared;
    let worker = Rc::clone(&shared.worker);
    if early == Early::Wait {
        worker.shard.early_request("waited");
        if !stream.until_handshake_finished().await {
            return;
        }
    }
    let early = early == Early::Answer || request.came_early();
    let (address, secure) = (shared.facts.client, shared.facts.tls.is_some());
    let certificate = shared.facts.client_certificate.as_deref();
    let client = ClientRequest { head: request, address, secure, certificate, early };
    let content = Rc::clone(&worker.content);
    let body = StreamBody::new(stream, request, started, settings);
    let mut body = BoundedBody::new(body, &worker, address, settings);
    let (listener, is_leaving) = (shared.facts.rules.as_deref(), worker.is_unhealthy());
    let orders = settings.orders.as_ref();
    let audience = Audience::Clients(Clients { sites: &settings.sites, listener, orders, is_leaving });
    let handled = handle(&content, audience, client, &mut body).await;
    // Held until the response has been sent: it comes from the origin as well.
    let share = body.share.take();
    if handled.refusal.is_some() {
        stream.drop_body();
    }
    let Handled { mut response, site, route, id, refusal, served, said } = handled;
    let refusal = refusal.map(Refusal::label);
    name_alternative(&mut response.head.fields, shared.facts.alt_svc.as_deref());
    tell_path(&mut response.head.fields, settings, (site, route), || shared.carriage_now());
    let cache = response.cache_status.map(CacheStatus::outcome);
    let status = response.head.status;
    let answered =
        Answered { status, started, early, head_bytes: 0, cache, site, route, id, refusal, served, said };
    if share.is_none()
        && response.permit.is_empty()
        && let Some(content) = take_content(&mut response, &worker, started)
    {
        return detach(opened, request, response, answered, content);
    }
    let mut sent = send(stream, request.raw_path(), response).await;
    sent.carried = shared.carried(sent.bytes);
    drop(share);
    record(shared.carrier(stream.id, *number), request, answered, (&sent, Instant::now()), settings);
}

/// Sends a response to its end.
async fn send<M: Multiplexer>(stream: &StreamHandle<M>, path: &str, response: Response) -> Sent {
    let Response { head, body, .. } = response;
    let (length, end) = (body.length(), body.is_empty());
    let urgency = urgency(&head.fields, length, path);
    let length = known(length);
    if let Some(urgency) = urgency {
        stream.with(|open, protocol| protocol.set_default_urgency(open.stream, urgency));
    }
    stream.send_head(StreamHead { response: head, length, end });
    let sent = if end {
        NOTHING_SENT
    } else {
        let worker = Rc::clone(&stream.shared.worker);
        drive(&mut StreamCarrier::new(stream), &worker, Vec::new(), body).await
    };
    end_stream(stream, sent).await
}

fn known(length: ContentLength) -> Option<u64> {
    match length {
        ContentLength::Known(length) => Some(length),
        ContentLength::None | ContentLength::Unknown => None,
    }
}

/// Leaves a response to the task of the connection.
fn detach<M: Multiplexer>(
    opened: &OpenedStream<M>,
    request: &Request<'_>,
    response: Response,
    answered: Answered,
    (transmission, chunks): Content,
) {
    let OpenedStream { stream, settings, number, .. } = opened;
    let Response { head, body, .. } = response;
    let length = body.length();
    let urgency = urgency(&head.fields, length, request.raw_path());
    let length = known(length);
    let transmission = transmission.filter(|transmission| transmission.remaining() > 0);
    let end = transmission.is_none();
    let (number, settings, started) = (*number, Rc::clone(settings), opened.started);
    let carrier = stream.shared.carrier(stream.id, number);
    let bytes = transmission.as_ref().map_or(0, Transmission::remaining);
    count_asked(&carrier, request, &answered, bytes, &settings);
    let recording = Recording::begin(carrier, request, answered, &settings);
    let head = StreamHead { response: head, length, end };
    stream.detach(
        head,
        transmission,
        urgency,
        Box::new(Detached { number, settings, started, recording, chunks }),
    );
}

/// Sends a response that could not be sent at once.
async fn send_unsent<M: Multiplexer>(
    stream: &StreamHandle<M>,
    (mut detached, transmission): (Detached, Transmission),
) {
    let worker = Rc::clone(&stream.shared.worker);
    let sent = if transmission.remaining() > 0 {
        let chunks = detached.chunks.take();
        drive_rest(&mut StreamCarrier::new(stream), &worker, transmission, chunks).await
    } else {
        NOTHING_SENT
    };
    let mut sent = end_stream(stream, sent).await;
    // With what was sent before it had a task.
    sent.bytes = stream.with(|open, _| open.content_sent).unwrap_or(sent.bytes);
    let carrier = stream.shared.carrier(stream.id, detached.number);
    detached.end(&carrier, &sent, Instant::now());
}

/// Waits until the end of a response has been sent, or resets its stream.
async fn end_stream<M: Multiplexer>(stream: &StreamHandle<M>, mut sent: Sent) -> Sent {
    if sent.short.is_none() {
        sent.short = stream.end().await.err();
    }
    if let Some(why) = sent.short {
        stream.reset(why);
        if why != ShortReason::ClientClosed {
            M::count(&stream.shared.worker.shard, StreamCount::Reset(why.label()));
        }
    }
    sent.first_byte = stream.with(|open, _| open.first_byte).flatten();
    sent
}

/// The urgency of a response for which the client said nothing: what a player waits for comes before segments (RFC 9218
/// §4.1 has 3 as the urgency of the others).
fn urgency(fields: &Fields, length: ContentLength, path: &str) -> Option<u8> {
    let is_small = matches!(length, ContentLength::Known(length) if length <= limits::URGENT_BYTES_MAX);
    let kind = std::str::from_utf8(fields.get("Content-Type")?).ok()?;
    match Manifest::likeness(kind, path) {
        Likeness::Named => Some(1),
        Likeness::Possible | Likeness::None => is_small.then_some(2),
    }
}

/// Answers what is no request with a page that says no more than its status.
async fn answer_rejected<M: Multiplexer>(opened: &OpenedStream<M>, rejection: Rejection, started: Instant) {
    let OpenedStream { stream, number, settings, .. } = opened;
    stream.drop_body();
    let is_head =
        matches!(&opened.work, Work::Answer(Incoming::Request { head, .. }) if head.method() == "HEAD");
    let page = handle_rejected(&stream.shared.worker.content, rejection, is_head);
    let sent = send(stream, "", page).await;
    let status = rejection.status.code();
    record_refusal(stream.shared.carrier(stream.id, *number), status, started, &sent, settings);
}

async fn send_head_alone<M: Multiplexer>(stream: &StreamHandle<M>, status: u16) {
    let response = ResponseHead { status, fields: Fields::default() };
    stream.send_head(StreamHead { response, length: Some(0), end: true });
    // A client that has gone needs no answer.
    let _gone = stream.end().await;
}
