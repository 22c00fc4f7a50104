//! Answers to challenges of a certificate authority (http-01, RFC 8555 section 8.3).

use std::rc::Rc;
use std::sync::Arc;

use penstock_config::{Acme, limits};
use penstock_egress::Part;
use penstock_http::{BodyFraming, Method, Status};
use penstock_sys::small_file;

use crate::context::Context;
use crate::response::{ClientRequest, Response};

/// What the paths of such requests begin with.
const PREFIX: &str = "/.well-known/acme-challenge/";

/// Whether a request can be that of an authority: it asks over plain HTTP.
pub(crate) fn is_asked(client: ClientRequest<'_>) -> bool {
    let request = client.head;
    let asks = matches!(request.method(), Method::Get | Method::Head) && request.body() == BodyFraming::None;
    asks && !client.secure && request.raw_path().starts_with(PREFIX)
}

/// The answer in the storage; `None` if no challenge with the token of the request is under way. Read by an I/O thread.
pub(crate) async fn response(
    context: &Rc<Context>,
    orders: &Arc<Acme>,
    client: ClientRequest<'_>,
) -> Option<Response> {
    let token = client.head.raw_path().strip_prefix(PREFIX)?;
    let path = orders.http_answer(token)?;
    let read = context.io.run(move || small_file::read(&path, limits::ACME_ANSWER_BYTES)).ok()?;
    let answer = read.await.ok()?.ok()?;
    let mut response = Response::page_of(Status::Ok, "application/octet-stream", Part::Owned(answer));
    response.head.fields.field("Cache-Control", "no-store");
    if client.head.method() == Method::Head {
        response.withhold_body();
    }
    Some(response)
}
