//! Responses of an origin that are relayed without the cache.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use penstock_config::template::Variable;
use penstock_http::caching::is_of_connection;
use penstock_http::{Fields, HttpVersion, ResponseHead, Status};
use penstock_origin::http::{Fetch, OriginError, Upgraded};

use crate::fault::{BodyError, FillFault, origin_status};
use crate::fill::RelayedBody;
use crate::networks::NetworkEntry;
use crate::origin::{client_request, name_client};
use crate::origins::passed_fields;
use crate::peers::passed_through;
use crate::request_id::REQUEST_ID;
use crate::response::{Body, ChunkSource, Exchange, Response, Tunnel};
use crate::served::Tier;
use crate::site::{HttpSite, Permit, SentCmcd, TokenVerifier, change_request};
use crate::site_table::Site;

/// Fields that each response has from this server, and Alt-Svc, which names addresses of the origin.
const NOT_PASSED_ON: [&str; 3] = ["alt-svc", "content-length", "server"];

/// Relays the response of a server.
pub(crate) async fn relay_response(exchange: &Exchange<'_>, site: &Site, http: &Arc<HttpSite>) -> Response {
    let (context, request) = (exchange.context, exchange.request);
    let Ok(place) = context.enter_fetch(exchange.requester) else {
        return exchange.page(Status::TooManyRequests);
    };
    let Some(fetch) = client_fetch(exchange, site, http) else {
        return exchange.page(Status::BadRequest);
    };
    let upgrade = http.upgrade_of(request).cloned();
    let fetch = Fetch { bare: true, interim: exchange.interim(), upgrade, ..fetch };
    let spread = http.spread.as_ref().map(|spread| (spread, spread.key(request)));
    let by_key = spread.map(|(spread, key)| move |loads: &[Option<u64>]| spread.order(&key, loads));
    let order = by_key.as_ref().map(|order| order as _);
    match context.origins.relay(http.origin(), &fetch, order).await {
        Ok(mut response) => {
            context.metrics.origin("answered");
            exchange.tier.set(Some(Tier::Origin));
            let head = RelayedHead {
                status: response.status(),
                fields: response.fields().clone(),
                announced: response.announced_length(),
            };
            if let Some(connection) = response.take_switched() {
                return switched(&head, http, fetch.upgrade, connection, place);
            }
            let may_move =
                !site.is_paced() && !matches!(request.version(), HttpVersion::Http2 | HttpVersion::Http3);
            let body = RelayedBody::of_server(response, may_move, http.max_unannounced, place);
            respond_with(exchange, &head, body).await
        }
        Err(error) => {
            context.metrics.origin(error.label());
            fault_page(exchange, error)
        }
    }
}

/// The response of a server that has switched its connection to the protocol that was asked for.
fn switched(
    head: &RelayedHead,
    http: &HttpSite,
    protocol: Option<Arc<str>>,
    connection: Upgraded,
    place: NetworkEntry,
) -> Response {
    let fields = passed_to_client(&head.fields);
    let idle = http.upgrades.as_ref().map_or(Duration::ZERO, |upgrades| upgrades.idle);
    let protocol = protocol.unwrap_or_default();
    let tunnel = Box::new(Tunnel { connection, protocol, idle, _place: place });
    let head = ResponseHead { status: head.status, fields };
    Response { head, body: Body::Tunnel(tunnel), cache_status: None, permit: Permit::default() }
}

/// The fields of a response that a client gets.
fn passed_to_client(fields: &HeaderMap) -> Fields {
    let mut fields = passed_fields(fields, |name| NOT_PASSED_ON.contains(&name) || is_of_connection(name));
    fields.field("Via", "1.1 penstock");
    fields
}

/// The request of a client as one for an origin, with the whole query. `None` if its method is no method.
pub(super) fn client_fetch(exchange: &Exchange<'_>, site: &Site, http: &HttpSite) -> Option<Fetch> {
    let (request, client) = (exchange.request, exchange.client);
    let target = match request.query() {
        Some(query) => format!("{}?{query}", request.raw_path()),
        None => request.raw_path().to_owned(),
    };
    let tokens = site.tokens.as_ref().map(TokenVerifier::fields);
    let mut fetch = client_request(request, target, client.early, tokens)?;
    (fetch.host, fetch.client) = (http.host_for(request), Some(client.address));
    http.loop_member.add_to(&mut fetch, passed_through(request).as_deref());
    fetch.trace = Some(exchange.upstream());
    fetch.counters = Some(http.counters.clone());
    if site.cmcd.to_origin
        && let Some(cmcd) = SentCmcd::of(client.head)
    {
        cmcd.add_to(&mut fetch);
    }
    if let Some(id) = exchange.told_id() {
        fetch.fields.remove(REQUEST_ID);
        fetch.pass(REQUEST_ID, id.as_bytes());
    }
    name_client(&mut fetch, site.forwarded, request.authority(), client.address.ip(), client.secure);
    if !http.request_rules.is_empty() {
        change_request(&http.request_rules, &mut fetch, |variable, out| match variable {
            // The one that the origin is asked for.
            Variable::Path => out.push_str(request.raw_path()),
            other => exchange.write_variable(other, out),
        });
    }
    Some(fetch)
}

/// The head of a response.
pub(crate) struct RelayedHead {
    pub(crate) status: u16,
    pub(crate) fields: HeaderMap,
    /// The length that it announces, also of a response without a body.
    pub(crate) announced: Option<u64>,
}

/// The page for a server that gave no response.
pub(crate) fn fault_page(exchange: &Exchange<'_>, error: OriginError) -> Response {
    exchange.page_with(origin_status(error), |head| {
        head.field("Cache-Status", format!("penstock; fwd=bypass; detail={}", error.label()));
    })
}

/// The response of a server, as soon as the first bytes of its body are there.
pub(crate) async fn respond_with(
    exchange: &Exchange<'_>,
    head: &RelayedHead,
    mut body: RelayedBody,
) -> Response {
    let RelayedHead { status, announced, .. } = *head;
    let head = ResponseHead { status, fields: passed_to_client(&head.fields) };
    if matches!(status, 204 | 304) {
        return Response::without_content(head);
    }
    let body = if exchange.wants_body() {
        match body.next(exchange.context).await {
            Ok(Some(first)) => Body::Stream(announced, Box::new((first, ChunkSource::Relayed(body)))),
            Ok(None) => Body::Empty,
            Err(BodyError::Gone(Some(FillFault::Origin(error)))) => return fault_page(exchange, error),
            Err(_) => return exchange.page(Status::BadGateway),
        }
    } else {
        Body::Withheld(announced)
    };
    Response { head, body, cache_status: None, permit: Permit::default() }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use penstock_config::{Forwarded, RequestIds, TokenRules};

    use super::*;
    use crate::origin::relay;
    use crate::pipeline::facts::Facts;
    use crate::tests::fixture::{read, run};

    fn fields(known: &[(&'static str, &'static str)]) -> HeaderMap {
        known
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    async fn fetch_of(facts: &Facts, line: &str, more: &str) -> Option<Fetch> {
        facts
            .ask(line, more, async |asked| client_fetch(asked, facts.site(), facts.site().http().unwrap()))
            .await
    }

    #[test]
    fn a_server_is_asked_for_the_whole_target_with_the_fields_of_the_client() {
        run(async {
            let facts = Facts::relayed(|site| site.forwarded = Forwarded::XForwarded);
            let more = "X-A: 1\r\nConnection: x-b\r\nX-B: 2\r\nCDN-Loop: other\r\n";
            let fetch = fetch_of(&facts, "PATCH /a/../x?b=%20&c", more).await.unwrap();
            assert_eq!((fetch.method.as_str(), fetch.target.as_str()), ("PATCH", "/x?b=%20&c"));
            assert_eq!(fetch.host.as_deref(), Some("media.example"));
            assert_eq!(fetch.client.unwrap().ip().to_string(), "192.0.2.1");
            let value = |name| fetch.fields.get(name).map(|value| value.to_str().unwrap());
            assert_eq!((value("x-a"), value("x-b")), (Some("1"), None));
            assert_eq!(
                ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"].map(value),
                [Some("192.0.2.1"), Some("https"), Some("media.example")]
            );
            let passed = value("cdn-loop").unwrap();
            assert!(passed.starts_with("other, penstock; site=\""), "{passed}");
        });
    }

    #[test]
    fn a_server_gets_one_id_for_each_request_of_a_site_that_gives_one() {
        run(async {
            for (ids, expected) in [
                (RequestIds::Off, &["a b", "c"][..]),
                (RequestIds::Generate, &["32 digits"]),
                (RequestIds::Preserve, &["32 digits"]),
            ] {
                let facts = Facts::relayed(|site| site.request_id = ids);
                let fields = "X-Request-Id: a b\r\nX-Request-Id: c\r\n";
                let fetch = fetch_of(&facts, "GET /x", fields).await.unwrap();
                let sent = fetch.fields.get_all("x-request-id").iter().map(|id| id.to_str().unwrap());
                let sent: Vec<_> = sent.map(|id| if id.len() == 32 { "32 digits" } else { id }).collect();
                assert_eq!(sent, expected, "{ids:?}");
            }
        });
    }

    #[test]
    fn cookie_and_field_with_the_token_of_a_site_stay_here() {
        run(async {
            let facts = Facts::relayed(|site| {
                let rules = TokenRules::signed_urls(Vec::new(), "token", Some("pass"));
                site.tokens = Some(TokenRules { field: Some("x-token".to_owned()), ..rules });
            });
            for (sent, passed) in [("pass=1; a=2", Some("a=2")), ("pass=1", None), ("a=2", Some("a=2"))] {
                let fields = format!("Cookie: {sent}\r\nX-Token: 1\r\n");
                let fetch = fetch_of(&facts, "GET /x", &fields).await.unwrap();
                assert!(fetch.fields.get("x-token").is_none());
                for (url, is_passed) in [
                    ("https://a.example/vod/a.m3u8?token=1", false),
                    ("https://a.example/token=1/vod/a.m3u8", false),
                    ("https://a.example/tokens?a=token", true),
                ] {
                    let fetch = fetch_of(&facts, "GET /x", &format!("Referer: {url}\r\n")).await.unwrap();
                    assert_eq!(fetch.fields.get("referer").is_some(), is_passed, "{url}");
                }
                assert_eq!(fetch.fields.get("cookie").map(|value| value.to_str().unwrap()), passed, "{sent}");
            }
        });
    }

    /// The response to a server's that has these fields and no bytes.
    async fn responded(line: &str, status: u16, known: &[(&'static str, &'static str)]) -> Response {
        let facts = Facts::relayed(|_| {});
        let head = RelayedHead { status, fields: fields(known), announced: Some(7) };
        facts
            .ask(line, "", async |asked| {
                let (sender, receiver) = relay();
                drop(sender);
                respond_with(asked, &head, RelayedBody::of_task(receiver, Some(7))).await
            })
            .await
    }

    #[test]
    fn fields_of_the_connection_of_a_server_and_of_this_one_are_not_passed_on() {
        run(async {
            let known = [
                ("server", "other"),
                ("content-length", "7"),
                ("alt-svc", "h3"),
                ("connection", "x-b"),
                ("x-b", "2"),
                ("x-a", "1"),
                ("x-a", "2"),
            ];
            let response = responded("HEAD /x", 200, &known).await;
            let lines = response.head.fields.to_lines();
            assert_eq!(lines.escape_ascii().to_string(), "x-a: 1\\r\\nx-a: 2\\r\\nVia: 1.1 penstock\\r\\n");
            assert!(matches!(response.body, Body::Withheld(Some(7))));
        });
    }

    #[test]
    fn statuses_without_content_have_none_and_a_body_that_breaks_off_at_once_is_a_fault() {
        run(async {
            for status in [204, 304] {
                let response = responded("GET /x", status, &[]).await;
                assert_eq!(response.head.status, status);
                assert!(matches!(response.body, Body::None), "{status}");
            }
            assert_eq!(responded("GET /x", 200, &[]).await.head.status, 502);
        });
    }

    #[test]
    fn the_page_for_a_server_without_response_names_the_fault() {
        run(async {
            let facts = Facts::relayed(|_| {});
            for (error, status) in [(OriginError::Unreachable, 502), (OriginError::Busy, 503)] {
                let page = facts.ask("GET /x", "", async |asked| fault_page(asked, error)).await;
                let answer = read(&facts.fixture.context, page).await;
                let detail = format!("penstock; fwd=bypass; detail={}", error.label());
                assert_eq!((answer.status, answer.field("cache-status")), (status, detail));
            }
        });
    }
}
