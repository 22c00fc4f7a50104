//! Requests that are forwarded to an origin with their body: POST and others.

use std::time::{Duration, Instant};

use penstock_config::{Limits, limits};
use penstock_content::{ClientRequest, Forward, Response};
use penstock_egress::{Part, Transmission};
use penstock_http::body::BodyDecoder;
use penstock_http::{BodyFraming, Rejection, Request, Status, response};
use penstock_origin::http::{BodySender, request_body};

use super::carrier::Http1Carrier;
use crate::client_budget::ClientBudget;
use crate::connection::Connection;
use crate::drive::{Sent, send};
use crate::settings::Settings;

/// Forwards a request with its body. Returns the response, and whether all of the request has been read.
///
/// A client holds one origin connection with it: until `upload_deadline` at most, and less if it sends fewer bytes than
/// `upload_rate`. The clients of one network hold no more than `forwarded_per_network`.
///
/// # Errors
/// The body is malformed, too long or incomplete.
pub(super) async fn forward(
    connection: &mut Connection,
    forward: &Forward<'_>,
    client: ClientRequest<'_>,
    settings: &Settings,
) -> Result<(Response, bool), Rejection> {
    let request = client.head;
    let mut reader = BodyDecoder::new(request.body(), settings.limits.body_bytes);
    // A body that announces too great a length is refused before its first byte is sent on.
    reader.skip(&[])?;
    let content = std::rc::Rc::clone(&connection.worker.content);
    if let Some(refusal) = forward.refusal(&content, client) {
        return Ok((refusal, false));
    }
    let (sender, body) = request_body(announced_length(request));
    let Some(mut pending) = forward.start(&content, client, connection.client, body) else {
        return Err(Rejection { status: Status::BadRequest, reason: "method", close: true });
    };
    if request.expect_continue() {
        let interim = Transmission::new(vec![Part::Owned(response::CONTINUE.to_vec())]);
        let worker = std::rc::Rc::clone(&connection.worker);
        let mut sent = Sent { bytes: 0, first_byte: None, short: None };
        let mut carrier = Http1Carrier::new(connection, settings, false);
        send(&mut carrier, &worker, interim, &mut sent).await;
    }
    // The response may come before all of the body has been sent. The rest is not read then.
    let (head, is_whole) = tokio::select! {
        biased;
        head = pending.head() => (head, false),
        sent = send_body(connection, &mut reader, sender, settings) => {
            sent?;
            (pending.head().await, true)
        }
    };
    Ok((forward.respond(&content, client, head).await, is_whole))
}

fn announced_length(request: &Request<'_>) -> Option<u64> {
    match request.body() {
        BodyFraming::None => Some(0),
        BodyFraming::Length(length) => Some(length),
        BodyFraming::Chunked => None,
    }
}

const INCOMPLETE: Rejection =
    Rejection { status: Status::RequestTimeout, reason: "body_incomplete", close: true };

/// Sends the body to the origin as it comes, and no faster than the origin takes it.
async fn send_body(
    connection: &mut Connection,
    reader: &mut BodyDecoder,
    sender: BodySender,
    settings: &Settings,
) -> Result<(), Rejection> {
    let mut patience = Patience::new(&settings.limits);
    loop {
        let mut piece = Vec::new();
        let available = connection.inbox.len().min(limits::PASSED_PIECE_BYTES);
        let read = reader.read(&connection.inbox[..available], |content| piece.extend_from_slice(content))?;
        connection.drop_from_inbox(read.consumed);
        patience.received += read.consumed as u64;
        if !piece.is_empty() && sender.send(piece).await.is_err() {
            // The response tells why the origin takes no more.
            std::future::pending::<()>().await;
        }
        if read.done {
            sender.finish();
            return Ok(());
        }
        if connection.inbox.is_empty() {
            patience.wait_for_more(connection).await?;
        }
    }
}

/// How long the server waits for the rest of one body.
struct Patience {
    budget: ClientBudget,
    /// From one piece to the next.
    pause_max: Duration,
    /// The end of the body, in total.
    deadline: Instant,
    /// Bytes of the body and its framing so far.
    received: u64,
}

impl Patience {
    fn new(limits: &Limits) -> Self {
        let deadline = Instant::now() + limits.upload_deadline;
        Self { budget: ClientBudget::to_send(limits), pause_max: limits.head_deadline, deadline, received: 0 }
    }

    /// Waits until more of the body is in the inbox.
    ///
    /// # Errors
    /// The client has ended the connection, pauses too long, or is too slow.
    async fn wait_for_more(&mut self, connection: &mut Connection) -> Result<(), Rejection> {
        let begun = Instant::now();
        let last = (begun + self.pause_max).min(self.deadline);
        loop {
            let now = Instant::now();
            let until = self.budget.left().map_or(last, |left| last.min(now + left));
            let came = connection.read_until(until).await;
            self.budget.spend(now.elapsed());
            if came {
                return Ok(());
            }
            let is_over = Instant::now() < until || until == last;
            if is_over || !self.budget.earn(self.received) {
                return Err(INCOMPLETE);
            }
        }
    }
}
