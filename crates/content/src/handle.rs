//! The one entry of the content path: for every carrier, and for clients as for other nodes.

use std::rc::Rc;
use std::sync::Arc;

use penstock_config::Acme;
use penstock_http::{Rejection, Status};

use crate::challenge;
use crate::context::Context;
use crate::health::HealthCheck;
use crate::nodes::{PeerService, respond_to_peer};
use crate::pipeline::{Handled, Refusal, RequestBody, handle_client, to_https};
use crate::response::{ClientRequest, Response};
use crate::site_table::{ListenerRules, SiteTable};

/// Who sends the requests of a listener, and what answers them.
#[derive(Clone, Copy, Debug)]
pub enum Audience<'s> {
    /// Clients.
    Clients(Clients<'s>),
    /// Other nodes of the cluster; `None` if there is none any more.
    Nodes(Option<PeerService<'s>>),
}

/// What answers the requests of clients.
#[derive(Clone, Copy, Debug)]
pub struct Clients<'s> {
    /// The sites.
    pub sites: &'s SiteTable,
    /// The rules of the listener, if it has any.
    pub listener: Option<&'s ListenerRules>,
    /// Orders of certificates, whose challenges are answered on plain HTTP; `None` if there are none.
    pub orders: Option<&'s Arc<Acme>>,
    /// Whether the server is about to stop, so that health checks fail.
    pub is_leaving: bool,
}

impl<'s> Clients<'s> {
    /// Sites behind a listener without rules.
    pub fn of(sites: &'s SiteTable) -> Self {
        Self { sites, listener: None, orders: None, is_leaving: false }
    }
}

/// Answers a request. What of its body is not used is read past.
pub async fn handle(
    context: &Rc<Context>,
    audience: Audience<'_>,
    request: ClientRequest<'_>,
    body: &mut impl RequestBody,
) -> Handled {
    let handled = match audience {
        Audience::Clients(clients) => {
            // Boxed: most requests have no such response.
            let answered = match clients.orders {
                Some(orders) if challenge::is_asked(request) => {
                    Box::pin(challenge::response(context, orders, request)).await.map(Box::new)
                }
                _ => None,
            };
            let ruled = || {
                clients.listener.and_then(|rules| {
                    let path = rules.health.as_deref();
                    let check = path.map(|path| HealthCheck { path, is_healthy: !clients.is_leaving });
                    let checked = check.and_then(|check| check.response(context, request));
                    // Boxed: most requests have no such response.
                    checked.or_else(|| Some(to_https(context, request, rules.redirect?))).map(Box::new)
                })
            };
            match answered.or_else(ruled) {
                Some(response) => {
                    // The response does not depend on the body. One that cannot be read past ends the connection.
                    let _is_read = body.pass_over().await;
                    Handled::without_site(*response)
                }
                None => {
                    let listener = clients.listener.and_then(|rules| rules.name.as_deref());
                    handle_client(context, (clients.sites, listener), request, body).await
                }
            }
        }
        Audience::Nodes(None) => Handled::refused(context, request, Refusal::NoCluster),
        Audience::Nodes(Some(service)) => {
            // Boxed: most requests are those of clients.
            Box::pin(handle_node(context, service, request, body)).await
        }
    };
    if let Some(reason) = handled.refusal.and_then(Refusal::rejection) {
        context.metrics.rejected(reason);
    }
    if request.early {
        let refused = handled.response.head.status == Status::TooEarly.code();
        context.metrics.early_request(if refused { "refused" } else { "answered" });
    }
    handled
}

/// Answers bytes that are no request, and counts them: a page that says no more than its status. `is_head`: whether their method
/// is HEAD, if it is known.
pub fn handle_rejected(context: &Context, rejection: Rejection, is_head: bool) -> Response {
    context.metrics.rejected(rejection.reason);
    let mut page = Response::page(rejection.status);
    if is_head {
        page.withhold_body();
    }
    page
}

async fn handle_node(
    context: &Rc<Context>,
    service: PeerService<'_>,
    request: ClientRequest<'_>,
    body: &mut impl RequestBody,
) -> Handled {
    let answered = async {
        body.pass_over().await?;
        tokio::select! {
            biased;
            response = respond_to_peer(context, service, request) => Ok(response),
            gone = body.departed() => Err(gone),
        }
    };
    match answered.await {
        Ok(response) => Handled::without_site(response),
        Err(rejection) => Handled::refused(context, request, Refusal::Body(rejection)),
    }
}
