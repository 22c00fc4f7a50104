//! Requests that are forwarded to an origin with their body: POST and others.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use penstock_config::Limits;
use penstock_content::{ClientRequest, Context, Forward, NetworkEntry, NetworkFull, Response};
use penstock_http::{BodyFraming, Rejection, Request, Status};
use penstock_origin::http::{BodySender, request_body};

use crate::clients::ClientBudget;
use crate::settings::Settings;
use crate::worker::Worker;

/// The body of a request, as the connection or stream that carries it gives it.
pub(crate) trait ClientBody {
    /// Checks the announced length.
    ///
    /// # Errors
    /// It is over the limit.
    fn check(&mut self) -> Result<(), Rejection>;

    /// Asks the client for the body that it holds back (RFC 9110 §10.1.1).
    async fn send_continue(&mut self);

    /// Takes what has come.
    ///
    /// # Errors
    /// The body is malformed or too long, or the client has broken it off.
    fn take(&mut self) -> Result<BodyPiece, Rejection>;

    /// The origin has taken so many bytes: the client may send as many again.
    fn taken(&mut self, bytes: usize);

    /// Waits until more has come; false if it has not at the deadline, or the client has gone.
    async fn wait_for_more(&mut self, deadline: Instant) -> bool;

    /// Waits until the client is gone.
    async fn departed(&self);
}

/// The client has left before its response came.
pub(crate) const CLIENT_GONE: Rejection =
    Rejection { status: Status::RequestTimeout, reason: "client_gone", close: true };

/// A piece of a body.
pub(crate) struct BodyPiece {
    pub(crate) content: Vec<u8>,
    /// Bytes that came for it, framing included.
    pub(crate) received: u64,
    /// Whether the body ends with it.
    pub(crate) is_last: bool,
    /// Whether more has come already.
    pub(crate) has_more: bool,
}

/// A place among the forwarded requests of the client's network.
///
/// # Errors
/// The network has none left.
pub(crate) fn forwarded_share(
    worker: &Worker,
    client: SocketAddr,
    settings: &Settings,
) -> Result<NetworkEntry, Rejection> {
    let most = settings.limits.forwarded_per_network;
    worker.forwarded.enter(client.ip(), most).map_err(|NetworkFull| Rejection {
        status: Status::TooManyRequests,
        reason: "network_forwards",
        close: true,
    })
}

/// Forwards a request with its body. Returns the response, and whether all of the request has been read.
///
/// A client holds one origin connection with it: until `upload_deadline` at most, and less if it sends fewer bytes than
/// `upload_rate`. The clients of one network hold no more than `forwarded_per_network`.
///
/// # Errors
/// The body is malformed, too long or incomplete.
pub(crate) async fn forward(
    body: &mut impl ClientBody,
    forward: &Forward<'_>,
    client: ClientRequest<'_>,
    content: &Rc<Context>,
    settings: &Settings,
) -> Result<(Response, bool), Rejection> {
    let request = client.head;
    // A body that announces too great a length is refused before its first byte is sent on.
    body.check()?;
    if let Some(refusal) = forward.refusal(content, client) {
        return Ok((refusal, false));
    }
    let (sender, pieces) = request_body(announced_length(request));
    let Some(mut pending) = forward.start(content, client, pieces) else {
        return Err(Rejection { status: Status::BadRequest, reason: "method", close: true });
    };
    if request.expect_continue() {
        body.send_continue().await;
    }
    // The response may come before all of the body has been sent. The rest is not read then.
    let (head, is_whole) = tokio::select! {
        biased;
        head = pending.head() => (head, false),
        sent = send_body(body, sender, settings) => {
            sent?;
            tokio::select! {
                biased;
                head = pending.head() => (head, true),
                () = body.departed() => return Err(CLIENT_GONE),
            }
        }
    };
    Ok((forward.respond(content, client, head).await, is_whole))
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
    body: &mut impl ClientBody,
    sender: BodySender,
    settings: &Settings,
) -> Result<(), Rejection> {
    let mut patience = Patience::new(&settings.limits);
    loop {
        let BodyPiece { content, received, is_last, has_more } = body.take()?;
        patience.received += received;
        let bytes = content.len();
        if bytes > 0 {
            if sender.send(content).await.is_err() {
                // The response tells why the origin takes no more.
                std::future::pending::<()>().await;
            }
            body.taken(bytes);
        }
        if is_last {
            sender.finish();
            return Ok(());
        }
        if !has_more {
            patience.wait_for_more(body).await?;
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

    /// Waits until more of the body has come.
    ///
    /// # Errors
    /// The client has ended the connection, pauses too long, or is too slow.
    async fn wait_for_more(&mut self, body: &mut impl ClientBody) -> Result<(), Rejection> {
        let begun = Instant::now();
        let last = (begun + self.pause_max).min(self.deadline);
        loop {
            let now = Instant::now();
            let until = self.budget.left().map_or(last, |left| last.min(now + left));
            let came = body.wait_for_more(until).await;
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
