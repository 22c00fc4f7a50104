//! Bodies of requests: those that are forwarded to an origin, with their bounds, and those that are read past.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use penstock_config::Limits;
use penstock_content::{NetworkEntry, NetworkFull, RequestBody};
use penstock_http::{Rejection, Status};
use penstock_origin::http::BodySender;

use crate::clients::ClientBudget;
use crate::settings::Settings;
use crate::worker::Worker;

/// The body of a request, as the connection or stream that carries it gives it.
pub(crate) trait ClientBody {
    /// Reads past a body that is not used. Returns whether its end, and so the next request, has been found.
    ///
    /// # Errors
    /// The body is malformed or too long.
    async fn pass_over(&mut self) -> Result<bool, Rejection>;

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
const CLIENT_GONE: Rejection =
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

/// The body of a request for the content path, with what bounds it.
///
/// A client holds one origin connection with a forwarded body: until `upload_deadline` at most, and less if it sends fewer
/// bytes than `upload_rate`. The clients of one network hold no more than `forwarded_per_network`.
pub(crate) struct Upload<'s, B> {
    body: B,
    worker: &'s Worker,
    client: SocketAddr,
    settings: &'s Settings,
    /// Held until the response has been sent: it comes from the origin as well.
    pub(crate) share: Option<NetworkEntry>,
    /// Whether the body has been read to its end.
    pub(crate) is_whole: bool,
}

impl<'s, B: ClientBody> Upload<'s, B> {
    pub(crate) fn new(body: B, worker: &'s Worker, client: SocketAddr, settings: &'s Settings) -> Self {
        Self { body, worker, client, settings, share: None, is_whole: false }
    }
}

impl<B: ClientBody> RequestBody for Upload<'_, B> {
    async fn pass_over(&mut self) -> Result<(), Rejection> {
        self.is_whole = self.body.pass_over().await?;
        Ok(())
    }

    fn admit(&mut self) -> Result<(), Rejection> {
        let most = self.settings.limits.forwarded_per_network;
        let entered = self.worker.forwarded.enter(self.client.ip(), most);
        self.share = Some(entered.map_err(|NetworkFull| CROWDED)?);
        self.body.check()
    }

    async fn send_continue(&mut self) {
        self.body.send_continue().await;
    }

    async fn send_to(&mut self, origin: BodySender) -> Result<(), Rejection> {
        send_body(&mut self.body, origin, self.settings).await?;
        self.is_whole = true;
        Ok(())
    }

    async fn departed(&self) -> Rejection {
        self.body.departed().await;
        CLIENT_GONE
    }
}

/// The network of the client has no place left among forwarded requests.
const CROWDED: Rejection =
    Rejection { status: Status::TooManyRequests, reason: "network_forwards", close: true };

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
