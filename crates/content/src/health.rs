//! Health checks on a path of a listener.

use std::rc::Rc;

use penstock_http::{BodyFraming, Method, Status};

use crate::context::Context;
use crate::response::{ClientRequest, Exchange, Response};

/// A path that the server answers itself, whatever the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HealthCheck<'s> {
    /// The path.
    pub(crate) path: &'s str,
    /// False if the server is about to stop.
    pub(crate) is_healthy: bool,
}

impl HealthCheck<'_> {
    /// The response to a health check: 200, or 503 if the server is about to stop. `None` if the request is no check, because
    /// it asks for another path, or does more than ask.
    pub(crate) fn response(self, context: &Rc<Context>, client: ClientRequest<'_>) -> Option<Response> {
        let request = client.head;
        let asks =
            matches!(request.method(), Method::Get | Method::Head) && request.body() == BodyFraming::None;
        if !asks || self.path != request.raw_path() {
            return None;
        }
        let status = if self.is_healthy { Status::Ok } else { Status::ServiceUnavailable };
        Some(Exchange::new(context, &client, None).page_with(status, |head| {
            head.field("Cache-Control", "no-store");
        }))
    }
}
