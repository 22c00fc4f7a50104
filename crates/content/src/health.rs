//! Responses of a listener's health path.

use std::rc::Rc;

use penstock_http::{BodyFraming, Method, Status};

use crate::context::Context;
use crate::exchange::{ClientRequest, Exchange};
use crate::response::Response;

/// The response to a health check: 200, or 503 if the server is about to stop. `None` if the request is no check, because
/// it asks for another path than `path`, or does more than ask.
pub fn health_response(
    context: &Rc<Context>,
    client: ClientRequest<'_>,
    path: Option<&str>,
    is_healthy: bool,
) -> Option<Response> {
    let request = client.head;
    let asks = matches!(request.method(), Method::Get | Method::Head) && request.body() == BodyFraming::None;
    if !asks || path != Some(request.raw_path()) {
        return None;
    }
    let status = if is_healthy { Status::Ok } else { Status::ServiceUnavailable };
    Some(Exchange::new(context, client, None).page_with(status, |head| {
        head.field("Cache-Control", "no-store");
    }))
}
