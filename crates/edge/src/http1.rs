//! HTTP/1 on a connection: requests one after the other (RFC 9112).

mod carrier;
mod head;

use std::pin::pin;
use std::rc::Rc;
use std::time::Instant;

use penstock_config::limits;
use penstock_content::{
    CacheStatus, ClientRequest, Forward, PeerService, Response, respond, respond_to_peer,
};
use penstock_egress::{Part, Transmission};
use penstock_http::body::BodyDecoder;
use penstock_http::{BodyFraming, Method, Rejection, Request, Status, head_length};
use penstock_http2::PREFACE;
use penstock_sys::end_of_round;
use tokio::task::coop::consume_budget;

use crate::carrier::upload;
use crate::carrier::{
    Answered, CLIENT_GONE, CarriedBy, Sent, drive, forwarded_share, record, record_refusal, send,
};
use crate::clients::{IdleEntry, departure};
use crate::connection::{CLOSE_NOTIFY, Connection, ReadOutcome, UNEXPECTED_MESSAGE, Untaken};
use crate::metrics::{HttpLabel, Refusal, ShortReason};
use crate::settings::Settings;
use crate::worker::Purpose;
use carrier::{Http1Body, Http1Carrier};
pub(crate) use head::plain_http_on_tls_port;
use head::{ContentFraming, head_of, refusal};

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
/// The answer to another node after a reload has ended the cluster.
const NO_CLUSTER: Rejection =
    Rejection { status: Status::MisdirectedRequest, reason: "no_cluster", close: true };
/// First byte of a TLS handshake record.
const TLS_HANDSHAKE: u8 = 0x16;

/// Answers requests until client or server ends the connection, then closes it. Returns the connection if its first bytes
/// are those of HTTP/2, and it may speak that.
///
/// All but the wait for a request is boxed: an idle connection must not carry the memory that responses need.
pub(crate) async fn serve(mut connection: Box<Connection>) -> Option<Box<Connection>> {
    let last_alert = loop {
        let settings = connection.worker.settings();
        match next_head(&mut connection, &settings).await {
            Next::Head(head) if is_http2(&connection, &head) => {
                connection.inbox.splice(..0, head);
                return Some(connection);
            }
            Next::Head(head) => {
                if !Box::pin(answer(&mut connection, &head, &settings)).await {
                    break CLOSE_NOTIFY;
                }
            }
            Next::Refused(rejection) => {
                let answered = answer_rejected(&mut connection, rejection, Instant::now(), &settings);
                if !Box::pin(answered).await {
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
    // A new connection waits for its first request.
    let waits_since = if connection.requests == 0 { connection.since } else { Instant::now() };
    let mut deadline = waits_since + settings.limits.idle_timeout;
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
                let untaken = connection.untaken.as_ref().and_then(Untaken::deadline);
                let until = untaken.map_or(until, |untaken| until.min(untaken));
                if !begun && idle.is_none() {
                    idle = Some(connection.worker.idle.enter());
                }
                let came = connection.wait_for_bytes(until, idle.as_ref()).await;
                if idle.as_ref().is_some_and(IdleEntry::is_evicted) {
                    connection.worker.shard.refused(Refusal::Evicted);
                    connection.give_up_place();
                    return Next::Close(CLOSE_NOTIFY);
                }
                let is_untaken_due = untaken.is_some_and(|untaken| untaken == until);
                if !came && let Some(end) = waited_too_long(connection, begun, is_untaken_due) {
                    return end;
                }
            }
        }
    }
}

/// The end of a wait in which no byte came until its deadline; `None` if the wait goes on.
fn waited_too_long(connection: &mut Connection, begun: bool, is_untaken_due: bool) -> Option<Next> {
    if is_untaken_due {
        return connection.is_untaken_given_up().then_some(Next::Close(CLOSE_NOTIFY));
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

/// Answers the request of this head; false if the connection is to be closed now.
async fn answer(connection: &mut Connection, head: &[u8], settings: &Settings) -> bool {
    let started = Instant::now();
    if connection.requests == 0 {
        connection.worker.shard.connection_speaks(HttpLabel::H1);
    }
    connection.requests += 1;
    let request = match Request::parse(head, &settings.head) {
        Ok(request) => request,
        Err(rejection) => return Box::pin(answer_rejected(connection, rejection, started, settings)).await,
    };
    let Some(early) = judge_early(connection, &request, head.len()).await else { return false };
    let client =
        ClientRequest { head: &request, address: connection.client, secure: connection.tls.is_some(), early };
    let content = Rc::clone(&connection.worker.content);
    // Held until the response has been sent: it comes from the origin as well.
    let mut share = None;
    let forward = match connection.purpose {
        Purpose::Clients => Forward::admit(&content, &settings.sites, &request),
        Purpose::Peers => None,
    };
    let responded = match forward {
        Some(forward) => match forwarded_share(&connection.worker, connection.client, settings) {
            Ok(held) => {
                share = Some(held);
                let mut body = Http1Body::new(connection, &request, settings);
                Box::pin(upload::forward(&mut body, &forward, client, &content, settings)).await
            }
            Err(rejection) => Err(rejection),
        },
        None => respond_past_body(connection, client, started, settings).await,
    };
    let (mut response, is_whole) = match responded {
        Ok(responded) => responded,
        Err(rejection) => return Box::pin(answer_rejected(connection, rejection, started, settings)).await,
    };
    let framing = ContentFraming::of(response.body.length(), request.version());
    let keep_alive =
        is_whole && framing != ContentFraming::UntilClose && may_stay(connection, &request, settings);
    let status = response.status;
    if early {
        let refused = status == Status::TooEarly.code();
        connection.worker.shard.early_request(if refused { "refused" } else { "answered" });
    }
    let cache = response.cache_status.map(CacheStatus::label);
    let head = head_of(&connection.worker, &mut response, request.version(), framing, keep_alive);
    let head_bytes = head.len() as u64;
    let worker = Rc::clone(&connection.worker);
    connection.is_heard_out = is_whole && !request.keep_alive();
    let mut carrier = Http1Carrier::new(connection, settings, framing == ContentFraming::Chunked);
    carrier.is_last = !keep_alive;
    // The responses of one round follow each other.
    end_of_round().await;
    let sent = drive(&mut carrier, &worker, head, response.body).await;
    let now = Instant::now();
    let untaken = Untaken::new(carrier.budget, sent.bytes, now);
    connection.untaken = sent.short.is_none().then_some(untaken);
    // An orderly end would make the client take a part for the whole (RFC 9112 §9.8). Pages of a truncated file that are
    // queued in a plain socket would leave as zeros.
    let is_plain_file = sent.short == Some(ShortReason::Truncated) && connection.tls.is_none();
    if is_plain_file || (sent.short.is_some() && framing == ContentFraming::UntilClose) {
        connection.break_off();
    }
    drop(share);
    let answered = Answered { status, started, early, head_bytes, cache };
    record(CarriedBy::connection(connection), &request, &answered, (&sent, now), settings);
    keep_alive && sent.short.is_none()
}

/// Answers a request whose body is not used, and says whether all of the request has been read.
async fn respond_past_body(
    connection: &mut Connection,
    client: ClientRequest<'_>,
    started: Instant,
    settings: &Settings,
) -> Result<(Response, bool), Rejection> {
    let is_whole = match client.head.body() {
        BodyFraming::None => true,
        _ => Box::pin(skip_body(connection, client.head, started, settings)).await?,
    };
    let content = &connection.worker.content;
    let response = match (connection.purpose, &settings.cluster) {
        (Purpose::Clients, _) => {
            let responded = pin!(respond(content, &settings.sites, client));
            unless_departed(connection, responded).await?
        }
        (Purpose::Peers, Some(cluster)) => {
            let service =
                PeerService { sites: &settings.sites, peers: &cluster.peers, store: settings.store.as_ref() };
            unless_departed(connection, Box::pin(respond_to_peer(content, service, client))).await?
        }
        (Purpose::Peers, None) => return Err(NO_CLUSTER),
    };
    Ok((response, is_whole))
}

/// Waits for a response of an origin, for as long as the client does.
///
/// # Errors
/// The client has left.
async fn unless_departed<T>(
    connection: &Connection,
    coming: impl Future<Output = T>,
) -> Result<T, Rejection> {
    tokio::select! {
        biased;
        response = coming => Ok(response),
        // Boxed when it is first waited for: most responses are there at once.
        () = async { Box::pin(departure(&connection.socket)).await } => Err(CLIENT_GONE),
    }
}

/// Whether the connection may stay open behind this request.
fn may_stay(connection: &Connection, request: &Request<'_>, settings: &Settings) -> bool {
    request.keep_alive()
        && !connection.worker.is_draining()
        && connection.requests < settings.limits.requests_per_connection
}

/// Reads past a body that is not used. Returns whether its end, and so the next request, has been found. A long body of a
/// method that has one is left to the end of the connection.
///
/// # Errors
/// The body is malformed, or too long for a method that has none.
async fn skip_body(
    connection: &mut Connection,
    request: &Request<'_>,
    started: Instant,
    settings: &Settings,
) -> Result<bool, Rejection> {
    // Other methods have bodies by their meaning: the response says more than 413.
    let (most, is_too_long) = match (request.method(), request.body()) {
        (Method::Other(_), BodyFraming::Length(length)) => (u64::MAX, length > limits::DROPPED_BODY_BYTES),
        (Method::Other(_), _) => (u64::MAX, false),
        _ => (limits::DROPPED_BODY_BYTES, false),
    };
    connection.body = Some(BodyDecoder::new(request.body(), most));
    if is_too_long || request.expect_continue() {
        // The final response comes without `100 Continue`. The client may send the body or not, so the connection ends
        // behind the response (RFC 9110 §10.1.1).
        return Ok(false);
    }
    let deadline = started + settings.limits.head_deadline;
    let mut dropped = 0;
    while dropped <= limits::DROPPED_BODY_BYTES {
        let Some(body) = &mut connection.body else { return Ok(true) };
        let skipped = body.skip(&connection.inbox)?;
        connection.drop_from_inbox(skipped.consumed);
        if skipped.done {
            connection.body = None;
            return Ok(true);
        }
        dropped += skipped.consumed as u64;
        if !connection.read_until(deadline).await {
            return Ok(false);
        }
    }
    Ok(false)
}

/// Answers a head that is not a valid request. The connection stays open if the end of the head is beyond doubt: a new
/// connection costs more than an error page.
async fn answer_rejected(
    connection: &mut Connection,
    rejection: Rejection,
    started: Instant,
    settings: &Settings,
) -> bool {
    let keep_alive = !rejection.close
        && !connection.worker.is_draining()
        && connection.requests < settings.limits.requests_per_connection;
    connection.worker.shard.rejected(rejection.reason);
    let answer = refusal(&connection.worker, rejection.status, keep_alive);
    let worker = Rc::clone(&connection.worker);
    let mut sent = Sent { bytes: 0, first_byte: None, short: None };
    let mut carrier = Http1Carrier::new(connection, settings, false);
    send(&mut carrier, &worker, Transmission::new([Part::Owned(answer)]), &mut sent).await;
    let carrier = CarriedBy::connection(connection);
    record_refusal(carrier, rejection.status.code(), started, &sent, settings);
    keep_alive && sent.short.is_none()
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
    fn size_of_answer<'c, F>(_: impl FnOnce(&'c mut Connection, &'c [u8], &'c Settings) -> F) -> usize {
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
