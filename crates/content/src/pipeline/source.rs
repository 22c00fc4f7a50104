//! Source: where a response comes from. Method and origin of the site decide, here and nowhere else.

use std::pin::pin;
use std::sync::Arc;

use penstock_config::{FixedResponse, Redirect};
use penstock_http::caching::is_of_connection;
use penstock_http::{Method, Rejection, ResponseHead, Status};
use penstock_origin::http::InterimHead;

use crate::cache_status::CacheStatus;
use crate::origins::passed_fields;
use crate::peers::is_internal;
use crate::pipeline::cached::from_cache;
use crate::pipeline::forwarded::forward;
use crate::pipeline::redirect::{fixed, redirected};
use crate::pipeline::relayed::relay_response;
use crate::pipeline::request_body::RequestBody;
use crate::response::{Exchange, FileRepresentation, Representation, Response};
use crate::site::HttpSite;
use crate::site_table::{Site, SiteOrigin};
use crate::store::Store;

/// Where the response to one request comes from.
enum Source<'s> {
    /// This server: it describes what the site allows.
    Options,
    /// The status says it all.
    Page(Status),
    /// This server: the route is elsewhere.
    Redirect(&'s Redirect),
    /// This server: the configuration has the response.
    Fixed(&'s FixedResponse),
    /// A file, the cache, or an origin without the cache: the body of the request is not used.
    Read,
    /// An origin, which gets the body of the request; with the cache, for what the response changes in it.
    Forwarded(&'s Arc<HttpSite>, Option<&'s Arc<Store>>),
}

/// The response to an admitted request.
///
/// # Errors
/// What is wrong with its body, or that the client has left.
pub(super) async fn source(
    exchange: &Exchange<'_>,
    site: &Site,
    body: &mut impl RequestBody,
) -> Result<Response, Rejection> {
    let response = match source_of(exchange, site) {
        Source::Read => {
            body.pass_over().await?;
            let mut reading = pin!(read(exchange, site));
            let response = loop {
                let event = tokio::select! {
                    biased;
                    response = &mut reading => break response,
                    // Boxed when it is first waited for: most responses are there at once.
                    event = async { Box::pin(next_event(exchange, body)).await } => event,
                };
                // Not beside the response: what has begun is sent to its end.
                Box::pin(send_interim(event?, body)).await;
            };
            while let Some(interim) = exchange.take_interim() {
                Box::pin(send_interim(interim, body)).await;
            }
            return Ok(response);
        }
        Source::Forwarded(http, store) => {
            return Box::pin(forward(exchange, site, http, store, body)).await;
        }
        Source::Options => exchange.options(site),
        Source::Page(status) => exchange.page(status),
        Source::Redirect(redirect) => redirected(exchange, redirect),
        Source::Fixed(response) => fixed(exchange, response),
    };
    // The response does not depend on the body. One that cannot be read past ends the connection.
    let _is_unread = body.pass_over().await;
    Ok(response)
}

/// Sends an interim response without the fields of its connection.
async fn send_interim(interim: InterimHead, body: &mut impl RequestBody) {
    let InterimHead { status, fields } = interim;
    let fields = passed_fields(&fields, |name| is_of_connection(name) || is_internal(name));
    body.send_interim(ResponseHead { status, fields }).await;
}

/// Waits for an interim response.
///
/// # Errors
/// The client has left.
async fn next_event(exchange: &Exchange<'_>, body: &impl RequestBody) -> Result<InterimHead, Rejection> {
    tokio::select! {
        biased;
        gone = body.departed() => Err(gone),
        interim = exchange.next_interim() => Ok(interim),
    }
}

fn source_of<'s>(exchange: &Exchange<'_>, site: &'s Site) -> Source<'s> {
    let request = exchange.request;
    let forwarded = match &site.origin {
        // A preflight follows no redirect.
        SiteOrigin::Redirect(_) | SiteOrigin::Fixed(_)
            if request.method() == Method::Options && site.cors.is_some() =>
        {
            return Source::Options;
        }
        SiteOrigin::Redirect(redirect) => return Source::Redirect(redirect),
        SiteOrigin::Fixed(response) => return Source::Fixed(response),
        SiteOrigin::Directory(_) => None,
        SiteOrigin::Http(http, store) => Some((http, Some(store))),
        SiteOrigin::Relayed(http) => Some((http, None)),
    };
    if forwarded.is_some() && request.url_path().is_err() && !request.is_server_wide() {
        return Source::Page(Status::NotFound);
    }
    match (request.method(), forwarded) {
        // A connection that has switched may carry anything: RFC 8470 allows none of it in early data.
        (Method::Get, Some((http, _))) if exchange.client.early && http.upgrade_of(request).is_some() => {
            Source::Page(Status::TooEarly)
        }
        (Method::Get | Method::Head, _) => Source::Read,
        (Method::Options, Some((http, store))) if site.forwards_options() && !request.is_server_wide() => {
            Source::Forwarded(http, store)
        }
        (Method::Options, _) => Source::Options,
        (Method::Other(method), Some((http, store))) if site.methods.iter().any(|known| known == method) => {
            Source::Forwarded(http, store)
        }
        (Method::Other(_), _) => Source::Page(Status::MethodNotAllowed),
    }
}

/// The response to a request whose body is not used.
async fn read(exchange: &Exchange<'_>, site: &Site) -> Response {
    match &site.origin {
        SiteOrigin::Directory(directory) => {
            match FileRepresentation::open(exchange, site, directory).await {
                // A file is opened once for a response, so it is never outdated.
                Ok(file) => Representation::File(file)
                    .respond(exchange)
                    .await
                    .unwrap_or_else(|_| exchange.page(Status::BadGateway)),
                Err(response) => response,
            }
        }
        // Boxed, as all that waits for an origin: most responses do not.
        SiteOrigin::Relayed(origin) => Box::pin(relay_response(exchange, site, origin)).await,
        SiteOrigin::Http(origin, _) if origin.bypasses(exchange.request) => {
            let mut response = Box::pin(relay_response(exchange, site, origin)).await;
            response.head.fields.field("Cache-Status", "penstock; fwd=bypass");
            exchange.context.metrics.cached(CacheStatus::Bypass.label());
            response.cache_status = Some(CacheStatus::Bypass);
            response
        }
        SiteOrigin::Http(origin, store) => from_cache(exchange, origin, store).await,
        SiteOrigin::Redirect(redirect) => redirected(exchange, redirect),
        SiteOrigin::Fixed(response) => fixed(exchange, response),
    }
}

#[cfg(test)]
mod tests {
    use penstock_config::Cors;

    use super::*;
    use crate::pipeline::facts::{Facts, LEFT, RecordedBody};
    use crate::tests::fixture::{read as read_body, run, run_with_files};
    use crate::tests::scripted::{Gate, Reply};

    fn label(source: &Source<'_>) -> String {
        match source {
            Source::Options => "options".to_owned(),
            Source::Page(status) => status.code().to_string(),
            Source::Redirect(_) | Source::Fixed(_) => "here".to_owned(),
            Source::Read => "read".to_owned(),
            Source::Forwarded(_, Some(_)) => "forwarded, cached".to_owned(),
            Source::Forwarded(_, None) => "forwarded".to_owned(),
        }
    }

    #[test]
    fn method_and_origin_decide_where_a_response_comes_from() {
        run(async {
            let methods = || vec!["POST".to_owned()];
            let cached = Facts::cached(|site| site.methods = methods());
            let relayed = Facts::relayed(|site| site.methods = methods());
            let files = Facts::files(|site| site.methods = methods());
            let own = Facts::cached(|site| site.headers.cors = Some(Cors::same("*")));
            for (line, expected) in [
                ("GET /x", ["read", "read", "read", "read"]),
                ("HEAD /x", ["read", "read", "read", "read"]),
                ("POST /x", ["forwarded, cached", "forwarded", "405", "405"]),
                ("PUT /x", ["405", "405", "405", "405"]),
                ("OPTIONS /x", ["forwarded, cached", "forwarded", "options", "options"]),
                ("OPTIONS *", ["options", "options", "options", "options"]),
                ("GET /a%00b", ["404", "404", "read", "404"]),
            ] {
                for (facts, expected) in [&cached, &relayed, &files, &own].into_iter().zip(expected) {
                    let found = facts.ask(line, "", async |asked| label(&source_of(asked, facts.site())));
                    assert_eq!(found.await, expected, "{line} {:?}", facts.site().origin);
                }
            }
        });
    }

    #[test]
    fn a_body_that_is_not_used_is_read_past_before_the_response_and_its_fault_is_the_answer() {
        run(async {
            let facts = Facts::cached(|_| {});
            facts.fixture.origin.reply(Reply::ok(&[("cache-control", "max-age=60")], b"kept"));
            for line in ["GET /x", "PUT /x"] {
                let mut body = RecordedBody::default();
                let status = facts.ask(line, "", async |asked| {
                    source(asked, facts.site(), &mut body).await.map(|response| response.head.status)
                });
                assert_eq!(status.await, Ok(if line == "GET /x" { 200 } else { 405 }));
                assert_eq!(body.calls, ["pass_over"], "{line}");
            }
            let mut body = RecordedBody { rejection: Some(LEFT), ..RecordedBody::default() };
            let asked = facts.ask("GET /x", "", async |asked| {
                source(asked, facts.site(), &mut body).await.map(|response| response.head.status)
            });
            assert_eq!(asked.await, Err(LEFT));
            let mut body = RecordedBody { rejection: Some(LEFT), ..RecordedBody::default() };
            let page = facts.ask("PUT /x", "", async |asked| {
                source(asked, facts.site(), &mut body).await.map(|response| response.head.status)
            });
            assert_eq!(page.await, Ok(405), "the page does not depend on the body");
        });
    }

    #[test]
    fn a_client_that_leaves_ends_the_wait_for_its_response() {
        run(async {
            let facts = Facts::cached(|_| {});
            let gate = Gate::new();
            facts
                .fixture
                .origin
                .reply(Reply::ok(&[("cache-control", "max-age=60")], b"kept").head_after(&gate));
            let mut body = RecordedBody { has_left: true, ..RecordedBody::default() };
            let asked = facts.ask("GET /x", "", async |asked| {
                source(asked, facts.site(), &mut body).await.map(|response| response.head.status)
            });
            assert_eq!(asked.await, Err(LEFT));
            gate.open();
        });
    }

    #[test]
    fn a_missing_file_is_not_found_and_a_directory_is_redirected() {
        run_with_files(async {
            let facts = Facts::files(|_| {});
            // The cache of the fixture is below the directory of its files.
            for (line, status, location) in [
                ("GET /absent", 404, ""),
                ("GET /memory?a=1", 301, "/memory/?a=1"),
                ("GET /memory/", 404, ""),
            ] {
                let response = facts.ask(line, "", async |asked| read(asked, facts.site()).await).await;
                let answer = read_body(&facts.fixture.context, response).await;
                assert_eq!((answer.status, answer.field("location").as_str()), (status, location), "{line}");
            }
        });
    }
}
