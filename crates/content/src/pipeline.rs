//! From a client's request to its response, in stages of one fixed order.
//!
//! | stage | decides | file |
//! |---|---|---|
//! | site | which site answers for the authority of the request, and which of its routes | `SiteTable::find`, `RoutedSite::route` |
//! | maintenance | whether the site is out of service | `Maintenance::is_on` |
//! | redirect | whether the request should use HTTPS or another host | `redirect` |
//! | steering | whether it asks for the steering manifest of the site, which needs no token | `steered` |
//! | admit | whether the request may be answered: address, page, limits, password (`admit::guard`), loop, early data, token | `admit` |
//! | rewrite | which path the origin is asked for | `rewrite` |
//! | source | where the response comes from: the method and the origin of the site | `source`, then `cached`, `relayed` or `forwarded` |
//! | finish | what the site puts on every response, and how fast it is sent | `finish`, `Body::paced` |

mod admit;
mod cached;
#[cfg(test)]
mod facts;
mod field_rules;
mod finish;
mod forwarded;
mod next_object;
mod redirect;
mod relayed;
mod request_body;
mod rewrite;
mod source;

use std::rc::Rc;
use std::time::Instant;

use penstock_http::cmcd::Cmcd;
use penstock_http::{Method, Rejection, Request};

use crate::context::Context;
use crate::request_id::RequestId;
use crate::response::{BytePace, ClientRequest, Exchange, GivenFields, Response};
use crate::served::Served;
use crate::site::{Admitted, Permit, Steering, UnsignedTarget, without_cmcd};
use crate::site_table::{RouteNumber, Site, SiteNumber, SiteTable};

pub use admit::Refusal;
use admit::{admit, count, guard, refusal_page};
pub(crate) use cached::{from_cache, from_object};
use finish::finish;
use next_object::next_object;
use redirect::to_canonical;
pub(crate) use redirect::to_https;
pub use request_body::RequestBody;
use rewrite::rewritten;
use source::source;

/// The response to a request, and what is recorded with it.
pub struct Handled {
    /// The response.
    pub response: Response,
    /// The site; `None` if no site answers for the authority, and for other nodes.
    pub site: Option<SiteNumber>,
    /// The route of the site; `None` if none matches.
    pub route: Option<RouteNumber>,
    /// Why the request was refused.
    pub refusal: Option<Refusal>,
    /// The name of the request, if its site has given it one.
    pub id: Option<RequestId>,
    /// Where the response came from.
    pub served: Served,
    /// What the player says of itself to the site.
    pub said: Option<Box<Cmcd>>,
}

impl Handled {
    /// The page for a refused request, without what a site adds.
    pub(crate) fn refused(context: &Rc<Context>, client: ClientRequest<'_>, refusal: Refusal) -> Self {
        let response = Exchange::new(context, &client, None).page(refusal.status());
        Self { refusal: Some(refusal), ..Self::without_site(response) }
    }

    /// A response that no site gives.
    pub(crate) fn without_site(response: Response) -> Self {
        let served = Served::default();
        Self { response, site: None, route: None, refusal: None, id: None, served, said: None }
    }

    /// Whether the connection has to end behind the response, because the end of the request is not known.
    pub fn ends_connection(&self) -> bool {
        matches!(self.refusal, Some(Refusal::Body(Rejection { close: true, .. })))
    }
}

/// Answers a client's request, over a listener of this name.
pub(crate) async fn handle_client(
    context: &Rc<Context>,
    (sites, listener): (&SiteTable, Option<&str>),
    client: ClientRequest<'_>,
    body: &mut impl RequestBody,
) -> Handled {
    let found = sites.find(client.head.host(), listener).ok_or(Refusal::NoSite);
    let site = found.and_then(|site| site.route(client.head).map_err(|_| Refusal::AmbiguousPath));
    let mut exchange = Exchange::new(context, &client, site.ok());
    let wants_next = site.is_ok_and(|site| site.cmcd.prefetch);
    let mut said = site.ok().and_then(|_| Cmcd::of(client.head, wants_next)).map(Box::new);
    let (target, admitted);
    let mut permit = Permit::default();
    let prepared = match site {
        Ok(site) => prepare(&exchange, site, &mut permit).await.map(|prepared| (site, prepared)),
        Err(refusal) => Err(refusal),
    };
    let sourced = match prepared {
        Err(refusal) => Err(refusal),
        Ok((_, Prepared::Response(response))) => {
            let _is_unread = body.pass_over().await;
            Ok(*response)
        }
        Ok((site, Prepared::Request(other))) => {
            if let (true, Ok(sites), Some(said)) = (wants_next, found, &mut said) {
                exchange.next = next_object(&exchange, sites, site, said).map(Box::new);
            }
            if let Some(other) = other {
                admitted = other;
                // Boxed: most requests keep their target.
                target = Box::new(client.head.with_target(&admitted.path, admitted.query.as_deref()));
                exchange.request = &target;
            }
            source(&exchange, site, body).await.map_err(Refusal::Body)
        }
    };
    let (mut response, refusal) = match sourced {
        Ok(response) => (response, None),
        Err(refusal) => {
            if !matches!(refusal, Refusal::Body(_)) {
                // The page says enough. A body that cannot be read past ends the connection.
                let _is_unread = body.pass_over().await;
            }
            (refusal_page(&exchange, refusal), Some(refusal))
        }
    };
    finish(&exchange, &mut response);
    let pace = match exchange.site.and_then(|site| site.pace) {
        // Boxed: few sites have one.
        Some(pace) => Box::pin(BytePace::of(context, pace, &response.body)).await,
        None => None,
    };
    let shared = permit.take_bandwidth();
    if pace.is_some() || shared.is_some() {
        response.body = response.body.paced(pace, shared, Instant::now());
    }
    response.permit = permit;
    let (site, id) = (exchange.site, exchange.take_id());
    let (site, route, served) = (site.map(Site::number), site.and_then(Site::route), exchange.served());
    Handled { response, site, route, refusal, id, served, said }
}

/// The steering manifest, if a request asks for it. It needs no token: it names pathways, and no content.
fn steered(exchange: &Exchange<'_>, steering: &Steering) -> Option<Response> {
    let request = exchange.client.head;
    if !matches!(request.method(), Method::Get | Method::Head) {
        return None;
    }
    let manifest = steering.manifest(request.raw_path(), request.query())?;
    let mut response = Response::text(manifest);
    response.head.fields.remove(|name| name.eq_ignore_ascii_case(b"Content-Type"));
    response.head.fields.field("Content-Type", "application/json").field("Cache-Control", "no-store");
    if !exchange.wants_body() {
        response.withhold_body();
    }
    Some(response)
}

/// The target of a request without what its player says of itself, for sites with an HTTP origin.
fn for_origin<'r>(
    site: &Site,
    request: &'r Request<'r>,
    unsigned: Option<UnsignedTarget<'r>>,
) -> Option<UnsignedTarget<'r>> {
    if site.http().is_some() { without_cmcd(request, unsigned) } else { unsigned }
}

/// What the stages before the source make of a request.
enum Prepared<'r> {
    /// A response without a source. Boxed: most requests have one.
    Response(Box<Response>),
    /// A request with another target than the client's, if there is one.
    Request(Option<UnsignedTarget<'r>>),
}

/// Takes a request through the stages in front of the source. `permit` counts the request until its response has been sent.
///
/// # Errors
/// The first rule that refuses it.
async fn prepare<'r>(
    exchange: &Exchange<'r>,
    site: &Site,
    permit: &mut Permit,
) -> Result<Prepared<'r>, Refusal> {
    let (context, client) = (exchange.context, *exchange.client);
    if let Some(maintenance) = &site.maintenance
        && Box::pin(maintenance.is_on(&context.io, context.now())).await
    {
        return Err(Refusal::Maintenance);
    }
    // In front of passwords, which are asked for over HTTPS if the site wants that.
    if let Some(response) = to_canonical(exchange, site) {
        return Ok(Prepared::Response(Box::new(response)));
    }
    let by_subject = guard(context, site, client, permit).await?;
    if let Some(steering) = &site.steering
        && let Some(response) = steered(exchange, steering)
    {
        count(context, client, by_subject, None, permit)?;
        return Ok(Prepared::Response(Box::new(response)));
    }
    let admitted = admit(context, site, client);
    let subject = admitted.as_ref().ok().and_then(|admitted| admitted.as_ref()?.subject.as_deref());
    count(context, client, by_subject, subject, permit)?;
    let unsigned = admitted?.map(|Admitted { target, given, .. }| {
        if !given.is_empty() {
            // The cell is empty: this is the only place that fills it.
            let _is_set = exchange.given.set(Box::new(GivenFields(given)));
        }
        target
    });
    let unsigned = for_origin(site, client.head, unsigned);
    match &site.rewrite {
        None => Ok(Prepared::Request(unsigned)),
        Some(rewrite) => rewritten(rewrite, client.head, unsigned).map(Prepared::Request),
    }
}
