//! Requests that are forwarded to an origin with their body: POST and others.

use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;

use penstock_content::{ClientRequest, Context, Forward, NetworkEntry, NetworkFull, Response};
use penstock_http::{BodyFraming, Rejection, Request, Status};
use penstock_origin::http::request_body;

use crate::clients::{ClientBody, Upload};
use crate::settings::Settings;
use crate::worker::Worker;

/// The client has left before its response came.
pub(crate) const CLIENT_GONE: Rejection =
    Rejection { status: Status::RequestTimeout, reason: "client_gone", close: true };

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
    // The response may begin before all of the body has come. The rest is sent on until the response ends.
    let mut upload = Box::new(Upload::new(sender, &settings.limits));
    let (head, mut is_whole) = tokio::select! {
        biased;
        head = pending.head() => (head, false),
        sent = upload.run(body) => {
            sent?;
            tokio::select! {
                biased;
                head = pending.head() => (head, true),
                () = body.departed() => return Err(CLIENT_GONE),
            }
        }
    };
    let mut responding = pin!(forward.respond(content, client, head));
    let response = tokio::select! {
        biased;
        response = &mut responding => response,
        sent = upload.run(body), if !is_whole => {
            sent?;
            is_whole = true;
            responding.await
        }
    };
    if !is_whole {
        body.go_on(upload);
    }
    Ok((response, is_whole))
}

fn announced_length(request: &Request<'_>) -> Option<u64> {
    match request.body() {
        BodyFraming::None => Some(0),
        BodyFraming::Length(length) => Some(length),
        BodyFraming::Chunked => None,
    }
}
