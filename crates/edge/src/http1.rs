//! HTTP/1 on a connection: requests one after the other (RFC 9112).

mod carrier;
mod head;
mod tunnel;

use std::rc::Rc;
use std::time::Instant;

use penstock_content::{
    Audience, Body, CacheStatus, ClientRequest, Clients, Handled, PeerService, Refusal as ContentRefusal,
    Response, Served, handle, handle_rejected,
};
use penstock_http::{BodyFraming, HttpVersion, Method, Rejection, Request, Status, head_length};
use penstock_http2::PREFACE;
use penstock_sys::socket::carriage;
use penstock_sys::{Recycled, end_of_round};
use tokio::task::coop::consume_budget;

use crate::carrier::{
    Answered, BoundedBody, CarriedBy, Sent, drive, name_alternative, record, record_connection,
    record_refusal, tell_path,
};
use crate::clients::IdleEntry;
use crate::connection::{CLOSE_NOTIFY, Connection, ReadOutcome, UNEXPECTED_MESSAGE, Unacknowledged};
use crate::metrics::{HttpLabel, Refusal, ShortReason};
use crate::settings::Settings;
use crate::worker::Purpose;
use carrier::{Http1Body, Http1Carrier};
pub(crate) use head::plain_http_on_tls_port;
use head::{ContentFraming, head_of};

/// The next thing on a connection.
enum Next {
    /// A whole request head.
    Head(Vec<u8>),
    /// Bytes that are not a request.
    Refused(Rejection),
    /// The end, with the alert to send.
    Close(u8),
}

const HEAD_TOO_SLOW: Rejection =
    Rejection { status: Status::RequestTimeout, reason: "head_too_slow", close: true };
/// First byte of a TLS handshake record.
const TLS_HANDSHAKE: u8 = 0x16;

/// Answers requests until client or server ends the connection, then closes it. Returns the connection if its first bytes
/// are those of HTTP/2, and it may speak that.
///
/// All but the wait for a request is boxed: an idle connection must not carry the memory that responses need.
pub(crate) async fn serve(mut connection: Box<Connection>) -> Option<Box<Connection>> {
    let mut is_used = false;
    let last_alert = loop {
        let settings = connection.worker.settings();
        match next_head(&mut connection, &settings).await {
            Next::Head(head) if is_http2(&connection, &head) => {
                connection.inbox.splice(..0, head);
                return Some(connection);
            }
            Next::Head(head) => {
                is_used = true;
                if !Recycled::new(|| answer(&mut connection, Ok(&head), &settings)).await {
                    break CLOSE_NOTIFY;
                }
            }
            Next::Refused(rejection) => {
                is_used = true;
                if !Recycled::new(|| answer(&mut connection, Err(rejection), &settings)).await {
                    break CLOSE_NOTIFY;
                }
            }
            Next::Close(alert) => break alert,
        }
        if connection.outlet.ending().is_some() {
            break CLOSE_NOTIFY;
        }
        // With pipelined requests nothing here waits. Other connections get their turn.
        consume_budget().await;
    };
    if !is_used && connection.purpose == Purpose::Clients {
        record_connection(CarriedBy::connection(&connection), connection.since, None);
    }
    connection.close(last_alert).await;
    None
}

/// Whether this is the beginning of HTTP/2's preface (RFC 9113 §3.4), on a connection that may speak it.
fn is_http2(connection: &Connection, head: &[u8]) -> bool {
    connection.versions.h2 && connection.requests == 0 && PREFACE.starts_with(head)
}

/// Waits for the next whole head. Its deadline counts from its first byte.
async fn next_head(connection: &mut Connection, settings: &Settings) -> Next {
    let mut scanned = 0;
    let mut deadline = connection.idle_since + settings.limits.idle_timeout;
    let mut idle = None;
    let mut has_waited = false;
    loop {
        if !connection.inbox.is_empty() {
            idle = None;
            match head_length(&connection.inbox, scanned, &settings.head) {
                Ok(Some(length)) => return Next::Head(connection.take_from_inbox(length)),
                Ok(None) if scanned == 0 => deadline = Instant::now() + settings.limits.head_deadline,
                Ok(None) => {}
                Err(rejection) => return Next::Refused(with_reason(connection, rejection)),
            }
            scanned = connection.inbox.len();
        }
        match connection.read() {
            // A record may hold one byte, and thousands of records may have come.
            ReadOutcome::Bytes => consume_budget().await,
            ReadOutcome::Ended => return Next::Close(CLOSE_NOTIFY),
            ReadOutcome::KeyUpdates => return Next::Close(UNEXPECTED_MESSAGE),
            ReadOutcome::Broken(alert) => return Next::Close(alert.unwrap_or(CLOSE_NOTIFY)),
            ReadOutcome::Nothing if connection.outlet.has_unsent() && !has_waited => {
                // The request may come in this round, so that the handshake's last messages go with the response.
                has_waited = true;
                end_of_round().await;
            }
            ReadOutcome::Nothing => {
                // There is no response to send them with: they go alone.
                if connection.outlet.flush().is_err() {
                    return Next::Close(CLOSE_NOTIFY);
                }
                let begun = !connection.inbox.is_empty();
                if !begun && connection.outlet.ending().is_some() {
                    return Next::Close(CLOSE_NOTIFY);
                }
                if !begun && connection.worker.is_draining() {
                    let first = connection.first_request_deadline();
                    if connection.requests > 0 || Instant::now() >= first {
                        return Next::Close(CLOSE_NOTIFY);
                    }
                    deadline = deadline.min(first);
                }
                let unfinished = connection.early_deadline();
                let until = unfinished.map_or(deadline, |early| deadline.min(early));
                let unacknowledged = connection.unacknowledged.as_ref().and_then(Unacknowledged::deadline);
                let until = unacknowledged.map_or(until, |unacknowledged| until.min(unacknowledged));
                if !begun && idle.is_none() {
                    idle = Some(connection.worker.idle.enter());
                }
                let came = connection.wait_for_bytes(until, idle.as_ref()).await;
                if idle.as_ref().is_some_and(IdleEntry::is_evicted) {
                    connection.worker.shard.refused(Refusal::Evicted);
                    connection.give_up_place();
                    return Next::Close(CLOSE_NOTIFY);
                }
                let is_unacknowledged_due =
                    unacknowledged.is_some_and(|unacknowledged| unacknowledged == until);
                if !came && let Some(end) = waited_too_long(connection, begun, is_unacknowledged_due) {
                    return end;
                }
            }
        }
    }
}

/// The end of a wait in which no byte came until its deadline; `None` if the wait goes on.
fn waited_too_long(connection: &mut Connection, begun: bool, is_unacknowledged_due: bool) -> Option<Next> {
    if is_unacknowledged_due {
        return connection.is_unacknowledged_given_up().then_some(Next::Close(CLOSE_NOTIFY));
    }
    if connection.early_deadline().is_some() {
        connection.worker.shard.early_request("abandoned");
        return Some(Next::Close(CLOSE_NOTIFY));
    }
    Some(if begun { Next::Refused(HEAD_TOO_SLOW) } else { Next::Close(CLOSE_NOTIFY) })
}

/// A reason of its own for TLS on a port for plain HTTP.
fn with_reason(connection: &Connection, rejection: Rejection) -> Rejection {
    match connection.inbox.first() {
        Some(&TLS_HANDSHAKE) if connection.tls.is_none() => {
            Rejection { reason: "tls_on_plain_port", ..rejection }
        }
        _ => rejection,
    }
}

/// Answers the request of a head, or bytes that are no request; false if the connection is to be closed now. Behind bytes that
/// are no request the connection stays open if their end is beyond doubt: a new one costs more than an error page.
async fn answer(connection: &mut Connection, came: Result<&[u8], Rejection>, settings: &Settings) -> bool {
    let started = Instant::now();
    let parsed = came.and_then(|head| parse(connection, head, settings));
    let worker = Rc::clone(&connection.worker);
    let (mut response, (site, route, id, refusal), (served, said), early, may_stay, share) = match &parsed {
        Ok(request) => {
            let head_bytes = came.map_or(0, <[u8]>::len);
            let Some(early) = judge_early(connection, request, head_bytes).await else { return false };
            let (address, secure) = (connection.client, connection.tls.is_some());
            let certificate = connection.client_certificate.clone();
            let client =
                ClientRequest { head: request, address, secure, certificate: certificate.as_deref(), early };
            let rules = connection.rules.clone();
            let (listener, is_leaving) = (rules.as_deref(), worker.is_unhealthy());
            let orders = settings.orders.as_ref();
            let clients = Clients { sites: &settings.sites, listener, orders, is_leaving };
            let audience = audience(connection.purpose, settings, clients);
            let body = Http1Body::new(connection, request, started, settings);
            let mut body = BoundedBody::new(body, &worker, address, settings);
            let handled = handle(&worker.content, audience, client, &mut body).await;
            // The share is held until the response has been sent: it comes from the origin as well.
            let (is_whole, share) = (body.is_whole && !handled.ends_connection(), body.share.take());
            drop(body);
            connection.has_read_last_request = is_whole && !request.keep_alive();
            let Handled { response, site, route, id, refusal, served, said } = handled;
            let refusal = refusal.map(ContentRefusal::label);
            let may_stay = is_whole && request.keep_alive();
            (response, (site, route, id, refusal), (served, said), early, may_stay, share)
        }
        Err(rejection) => {
            let page = handle_rejected(&worker.content, *rejection, false);
            let served = (Served::default(), None);
            (page, (None, None, None, None), served, false, !rejection.close, None)
        }
    };
    name_alternative(&mut response.head.fields, connection.alt_svc.as_deref());
    tell_path(&mut response.head.fields, settings, (site, route), || carriage(&connection.socket).ok());
    let (status, cache) = (response.head.status, response.cache_status.map(CacheStatus::outcome));
    let version = parsed.as_ref().map_or(HttpVersion::Http11, Request::version);
    let sent = respond(connection, response, version, may_stay, settings).await;
    drop(share);
    let carrier = CarriedBy::connection(connection);
    match &parsed {
        Ok(request) => {
            let head_bytes = sent.head_bytes;
            let answered = Answered {
                status,
                started,
                early,
                head_bytes,
                cache,
                site,
                route,
                id,
                refusal,
                served,
                said,
            };
            record(carrier, request, answered, (&sent.sent, sent.now), settings);
        }
        Err(_) => record_refusal(carrier, status, started, &sent.sent, settings),
    }
    sent.stays
}

fn parse<'h>(
    connection: &mut Connection,
    head: &'h [u8],
    settings: &Settings,
) -> Result<Request<'h>, Rejection> {
    if connection.requests == 0 {
        connection.worker.shard.connection_speaks(HttpLabel::H1);
    }
    connection.requests += 1;
    Request::parse(head, &settings.head)
}

/// What answers the requests of a connection.
fn audience<'s>(purpose: Purpose, settings: &'s Settings, clients: Clients<'s>) -> Audience<'s> {
    match purpose {
        Purpose::Clients => Audience::Clients(clients),
        Purpose::Peers => Audience::Nodes(settings.cluster.as_ref().map(|cluster| PeerService {
            sites: &settings.sites,
            peers: &cluster.peers,
            store: settings.store.as_ref(),
        })),
    }
}

/// A response that has been sent.
struct Responded {
    sent: Sent,
    head_bytes: u64,
    /// When the last byte was given to the connection.
    now: Instant,
    /// Whether the connection stays open.
    stays: bool,
}

/// Sends a response, behind which the connection stays open if it may.
async fn respond(
    connection: &mut Connection,
    Response { mut head, body, .. }: Response,
    version: HttpVersion,
    may_stay: bool,
    settings: &Settings,
) -> Responded {
    let length = body.length();
    let (tunnel, body) = match body {
        Body::Tunnel(tunnel) => (Some(tunnel), Body::None),
        body => (None, body),
    };
    let mut framing = ContentFraming::of(length, version);
    if let Some(tunnel) = &tunnel {
        framing = ContentFraming::Switched;
        head.fields.field("Upgrade", &*tunnel.protocol);
    }
    let worker = Rc::clone(&connection.worker);
    let keep_alive = may_stay
        && tunnel.is_none()
        && framing != ContentFraming::UntilClose
        && !worker.is_leaving()
        && connection.requests < settings.limits.requests_per_connection;
    let head = head_of(&worker, head, length, version, (framing, keep_alive));
    let head_bytes = head.len() as u64;
    let mut carrier = Http1Carrier::new(connection, settings, framing == ContentFraming::Chunked);
    carrier.is_last = !keep_alive && tunnel.is_none();
    // The responses of one round follow each other.
    end_of_round().await;
    let mut sent = drive(&mut carrier, &worker, head, body).await;
    let budget = carrier.budget;
    if let Some(tunnel) = tunnel.filter(|_| sent.short.is_none()) {
        // Boxed: few responses switch the protocol.
        Box::pin(tunnel::pass(connection, tunnel, &mut sent)).await;
        sent.now = None;
    }
    let now = sent.now.unwrap_or_else(Instant::now);
    connection.idle_since = now;
    sent.carried = connection.carriage.measure(sent.bytes, || carriage(&connection.socket).ok());
    let unacknowledged = Unacknowledged::new(budget, sent.bytes, now);
    connection.unacknowledged = sent.short.is_none().then_some(unacknowledged);
    // An orderly end would make the client take a part for the whole (RFC 9112 §9.8). Pages of a truncated file that are
    // queued in a plain socket would leave as zeros.
    let is_plain_file = sent.short == Some(ShortReason::Truncated) && connection.tls.is_none();
    if is_plain_file || (sent.short.is_some() && framing == ContentFraming::UntilClose) {
        connection.break_off();
    }
    let stays = keep_alive && sent.short.is_none();
    Responded { sent, head_bytes, now, stays }
}

/// Whether the request counts as early, after waiting for the end of the handshake if the request has to wait. `None` if
/// the handshake was not finished.
async fn judge_early(connection: &mut Connection, request: &Request<'_>, head_bytes: usize) -> Option<bool> {
    let Some(unfinished) = &mut connection.unfinished_handshake else { return Some(request.came_early()) };
    let is_harmless =
        matches!(request.method(), Method::Get | Method::Head) && request.body() == BodyFraming::None;
    if unfinished.admits(is_harmless, head_bytes) {
        return Some(true);
    }
    connection.worker.shard.early_request("waited");
    Box::pin(connection.finish_handshake()).await.then(|| request.came_early())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<F>(_: impl FnOnce(Box<Connection>) -> F) -> usize {
        size_of::<F>() + size_of::<Connection>()
    }

    #[test]
    fn an_idle_connection_carries_no_response() {
        let bytes = size_of_future(serve);
        assert!(
            bytes <= 1280,
            "{bytes} bytes for each connection, busy or not: is something large not boxed?"
        );
    }
    fn size_of_answer<'c, F>(
        _: impl FnOnce(&'c mut Connection, Result<&'c [u8], Rejection>, &'c Settings) -> F,
    ) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_connection_with_a_response_under_way_carries_few_kilobytes_more() {
        let bytes = size_of_answer(answer);
        assert!(
            bytes <= 4 << 10,
            "{bytes} bytes for each response: is a future passed by value, or not boxed?"
        );
    }
}
