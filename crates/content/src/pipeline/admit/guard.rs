//! Whether a client may use a site now: its address, the page that refers to it, the limits of the site, its password or token. A site
//! without such rules costs two comparisons.

use penstock_http::Method;

use super::Refusal;
use crate::context::Context;
use crate::response::{ClientRequest, Exchange, Response};
use crate::site::{AccessRefusal, Limits, Permit};
use crate::site_table::Site;

/// Applies the rules in the order of what they cost. `permit` counts the request until its response has been sent. Returns the limits
/// that [`count`] still has to count the request for: its subject may be in a token of `tokens`, which is read later.
///
/// # Errors
/// The first rule that refuses the request.
pub(in crate::pipeline) async fn guard<'s>(
    context: &Context,
    site: &'s Site,
    client: ClientRequest<'_>,
    permit: &mut Permit,
) -> Result<Option<&'s Limits>, Refusal> {
    if let Some(access) = &site.access {
        access.address(client.address.ip(), &context.io, context.now()).map_err(Refusal::Access)?;
        access.certificate(client.certificate).map_err(Refusal::Access)?;
        access.referer(single(client, "referer")).map_err(Refusal::Access)?;
    }
    let address = client.address.ip();
    let by_subject = site.limits.as_deref().filter(|limits| limits.is_by_subject());
    match (by_subject, &site.limits) {
        (None, Some(limits)) => {
            *permit = limits.admit(address, None, context.now()).map_err(Refusal::Limit)?;
        }
        // An address that has shown too many wrong tokens.
        (Some(limits), _) => limits.look(address, context.now()).map_err(Refusal::Limit)?,
        (None, None) => {}
    }
    // A CORS preflight carries no password and no token.
    let Some(access) = site.access.as_ref().filter(|_| client.head.method() != Method::Options) else {
        return Ok(by_subject);
    };
    if let Some(passwords) = &access.passwords {
        let authorization = single(client, "authorization");
        // Boxed: most sites have none.
        let admitted = Box::pin(passwords.admit(authorization, &context.io, context.now())).await;
        if admitted.is_err() {
            count(context, client, by_subject, None, permit)?;
        }
        admitted.map_err(Refusal::Access)?;
    }
    let Some(tokens) = &access.tokens else { return Ok(by_subject) };
    let authorization = single(client, "authorization");
    let now = (context.now(), context.clock.wall());
    let admitted = tokens.admit(client.head, authorization, &context.io, now);
    count(context, client, by_subject, admitted.as_ref().ok().and_then(Option::as_deref), permit)?;
    admitted.map_err(Refusal::Access)?;
    Ok(None)
}

/// Counts a request for the subject of its token, or for its address if it shows none.
///
/// # Errors
/// A limit is reached.
pub(in crate::pipeline) fn count(
    context: &Context,
    client: ClientRequest<'_>,
    by_subject: Option<&Limits>,
    subject: Option<&str>,
    permit: &mut Permit,
) -> Result<(), Refusal> {
    if let Some(limits) = by_subject {
        *permit = limits.admit(client.address.ip(), subject, context.now()).map_err(Refusal::Limit)?;
    }
    Ok(())
}

/// The page for a refused request.
pub(in crate::pipeline) fn refusal_page(exchange: &Exchange<'_>, refusal: Refusal) -> Response {
    let status = refusal.status();
    let passwords = exchange.site.and_then(|site| site.access.as_ref()?.passwords.as_ref());
    match (refusal, passwords) {
        (Refusal::Access(AccessRefusal::Credentials), Some(passwords)) => {
            exchange.page_with(status, |head| {
                head.field("WWW-Authenticate", &passwords.challenge);
            })
        }
        (Refusal::Access(AccessRefusal::TokenMissing), _) => exchange.page_with(status, |head| {
            head.field("WWW-Authenticate", "Bearer");
        }),
        (Refusal::Access(AccessRefusal::TokenInvalid), _) => exchange.page_with(status, |head| {
            head.field("WWW-Authenticate", "Bearer error=\"invalid_token\"");
        }),
        (Refusal::Limit(limit), _) => exchange.page_until(status, limit.retry_after),
        _ => exchange.page(status),
    }
}

/// The value of a field that a request has once. An empty one stands for several, which no rule takes.
fn single<'r>(client: ClientRequest<'r>, name: &str) -> Option<&'r [u8]> {
    let mut values = client.head.values(name);
    let first = values.next()?;
    Some(if values.next().is_some() { b"" } else { first })
}
