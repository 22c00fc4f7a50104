//! The body of a request on its way from the client to an origin.

use std::time::{Duration, Instant};

use penstock_config::Limits;
use penstock_http::{Rejection, Status};
use penstock_origin::http::BodySender;

use super::ClientBudget;
use crate::metrics::ShortReason;

/// The body of a request, as the connection or stream that carries it gives it.
pub(crate) trait ClientBody {
    /// Reads past a body that is not used. Returns whether its end, and so the next request, has been found. A long body of a
    /// method that has one is left to the end of the connection.
    ///
    /// # Errors
    /// The body is malformed or broken off, or too long for a method that has none.
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

    /// The origin has taken `bytes` bytes: the client may send as many again.
    fn taken(&mut self, bytes: usize);

    /// Waits until more has come; false if it has not at the deadline, or the client has gone.
    async fn wait_for_more(&mut self, deadline: Instant) -> bool;

    /// Waits until the client is gone.
    async fn departed(&self);

    /// Keeps what is left of the upload for the carrier of the response, which sends on what comes meanwhile.
    fn go_on(&mut self, upload: Box<Upload>);
}

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

const INCOMPLETE: Rejection =
    Rejection { status: Status::RequestTimeout, reason: "body_incomplete", close: true };

/// A body that is sent on. It ends when the client or the origin ends it, at `upload_deadline`, or with the response.
pub(crate) struct Upload {
    /// `None` once the body has ended.
    sender: Option<BodySender>,
    patience: Patience,
}

impl Upload {
    pub(crate) fn new(sender: BodySender, limits: &Limits) -> Self {
        Self { sender: Some(sender), patience: Patience::new(limits) }
    }

    /// Sends the body on as it comes, and no faster than the origin takes it. What comes after the origin has ended the
    /// request is dropped. A call that is dropped loses nothing: the next one goes on.
    ///
    /// # Errors
    /// The body is malformed, too long or incomplete.
    pub(crate) async fn run(&mut self, body: &mut impl ClientBody) -> Result<(), Rejection> {
        loop {
            let (is_last, has_more) = {
                let space = match &self.sender {
                    Some(sender) => sender.space().await.ok(),
                    None => None,
                };
                let piece = body.take()?;
                self.patience.received += piece.received;
                let bytes = piece.content.len();
                if let Some(space) = space.filter(|_| bytes > 0) {
                    space.send(piece.content);
                }
                body.taken(bytes);
                (piece.is_last, piece.has_more)
            };
            if is_last {
                if let Some(sender) = self.sender.take() {
                    sender.finish();
                }
                return Ok(());
            }
            if !has_more {
                self.patience.wait_for_more(body).await?;
            }
        }
    }

    /// The same while the response is sent, until the client leaves.
    ///
    /// # Errors
    /// Why the response ends early.
    pub(crate) async fn run_beside_response(
        &mut self,
        body: &mut impl ClientBody,
    ) -> Result<(), ShortReason> {
        self.run(body).await.map_err(|rejection| match rejection.status {
            Status::RequestTimeout => ShortReason::TooSlow,
            _ => ShortReason::ClientClosed,
        })
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
