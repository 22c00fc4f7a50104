//! Bodies of requests for the content path: those that are forwarded to an origin, with their bounds, and those that are read
//! past.

use std::net::SocketAddr;

use penstock_content::{NetworkEntry, NetworkFull, RequestBody};
use penstock_http::{Rejection, ResponseHead, Status};
use penstock_origin::http::BodySender;

use crate::clients::{ClientBody, Upload};
use crate::settings::Settings;
use crate::worker::Worker;

/// The client has left before its response came.
const CLIENT_GONE: Rejection =
    Rejection { status: Status::RequestTimeout, reason: "client_gone", close: true };

/// The network of the client has no place left among forwarded requests.
const CROWDED: Rejection =
    Rejection { status: Status::TooManyRequests, reason: "network_forwards", close: true };

/// The body of a request with what bounds it.
///
/// A client holds one origin connection with a forwarded body: until `upload_deadline` at most, and less if it sends fewer
/// bytes than `upload_rate`. The clients of one network hold no more than `forwarded_per_network`.
pub(crate) struct BoundedBody<'s, B> {
    body: B,
    worker: &'s Worker,
    client: SocketAddr,
    settings: &'s Settings,
    /// Held until the response has been sent: it comes from the origin as well.
    pub(crate) share: Option<NetworkEntry>,
    /// Whether the body has been read to its end.
    pub(crate) is_whole: bool,
    upload: Option<Box<Upload>>,
}

impl<'s, B: ClientBody> BoundedBody<'s, B> {
    pub(crate) fn new(body: B, worker: &'s Worker, client: SocketAddr, settings: &'s Settings) -> Self {
        Self { body, worker, client, settings, share: None, is_whole: false, upload: None }
    }
}

impl<B: ClientBody> RequestBody for BoundedBody<'_, B> {
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

    async fn send_interim(&mut self, head: ResponseHead) {
        self.body.send_interim(head).await;
    }

    fn begin(&mut self, origin: BodySender) {
        self.upload = Some(Box::new(Upload::new(origin, &self.settings.limits)));
    }

    async fn send(&mut self) -> Result<(), Rejection> {
        if let Some(upload) = &mut self.upload {
            upload.run(&mut self.body).await?;
        }
        self.is_whole = true;
        Ok(())
    }

    fn go_on(&mut self) {
        if let Some(upload) = self.upload.take() {
            self.body.go_on(upload);
        }
    }

    async fn departed(&self) -> Rejection {
        self.body.departed().await;
        CLIENT_GONE
    }
}
