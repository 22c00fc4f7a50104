//! Asking an origin for bytes of an object whose metadata are known.

use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

use penstock_cache::Object;
use penstock_config::{Forwarded, limits};
use penstock_http::Request;
use penstock_http::cmcd::is_field;
use penstock_origin::http::{Fetch, OriginError};
use tokio::time::sleep;

use crate::context::Context;
use crate::fault::FillFault;
use crate::object::ObjectMetadata;
use crate::origin::content_range::content_range;
use crate::origin::upstream::{Wanted, ask};
use crate::origins::OriginBody;
use crate::requester::Requester;
use crate::site::{TokenFields, without_cookies};

/// Adds fields of the client's request to a request for the origin.
pub(crate) fn forward_fields(fields: &[(String, String)], fetch: &mut Fetch) {
    for (name, value) in fields {
        fetch.pass(name, value.as_bytes());
    }
}

/// The request for a part of an object.
pub(crate) fn part_request(metadata: &ObjectMetadata, wanted: &Range<u64>) -> Fetch {
    let mut fetch = Fetch {
        range: Some((wanted.start, wanted.end - 1)),
        known: metadata.same_version_condition(),
        preferred: metadata.server(),
        ..Fetch::get(metadata.target())
    };
    forward_fields(metadata.request_fields(), &mut fetch);
    fetch
}

/// Waits before the next request for bytes of a body that broke off: longer after each attempt without progress.
pub(crate) async fn wait_before_retry(attempts_without_progress: usize) {
    let exponent = u32::try_from(attempts_without_progress).unwrap_or(u32::MAX).min(8);
    sleep(Duration::from_millis(limits::FILL_RETRY_MILLISECONDS << exponent)).await;
}

/// Counts a response of the origin; those of other nodes are counted by node.
pub(crate) fn count_answer(context: &Context, answer: &dyn OriginBody) {
    if answer.peer().is_none() {
        context.metrics.origin("answered");
    }
}

/// Asks for bytes of an object. Returns the response and the byte of the object at which its body begins: the first of
/// `wanted`, or 0 if the origin ignores Range. A part may end before the last byte of `wanted`.
///
/// # Errors
/// See [`FillFault`].
pub(crate) async fn ask_for<'f>(
    context: &'f Context,
    object: &Object<ObjectMetadata>,
    requester: Requester,
    fetch: &Fetch,
    wanted: &Range<u64>,
) -> Result<(Box<dyn OriginBody + 'f>, u64), FillFault> {
    let metadata = object.metadata();
    let asked =
        Wanted { target: metadata.target(), first_byte: wanted.start, requester, loops: None, cmcd: None };
    let mut answer = ask(context, &metadata.site, &asked, fetch).await?;
    if answer.status() == 412 && fetch.known.is_some() {
        // The origin does not know the condition. The validators of its response tell the version as well.
        drop(answer);
        let unconditional = Fetch { known: None, ..fetch.clone() };
        answer = ask(context, &metadata.site, &asked, &unconditional).await?;
    }
    match answer.status() {
        206 => {
            let (first, last, total) =
                content_range(&*answer, answer.length()).ok_or(OriginError::Malformed)?;
            if Some(total) != object.length() || !metadata.is_same_version(&*answer) {
                return Err(FillFault::Changed);
            }
            if first != wanted.start || last >= wanted.end {
                return Err(OriginError::Malformed.into());
            }
            count_answer(context, &*answer);
            Ok((answer, wanted.start))
        }
        200 => {
            if answer.length() != object.length() || !metadata.is_same_version(&*answer) {
                return Err(FillFault::Changed);
            }
            count_answer(context, &*answer);
            Ok((answer, 0))
        }
        404 | 410 | 412 | 416 => Err(FillFault::Changed),
        _ => Err(FillFault::ServerError),
    }
}

/// The request to an origin for a client's: its method, and the fields that are not of its connection. What has `tokens` is
/// left out, and so is what its player says of itself. `None` if its method is no method.
pub(crate) fn client_request(
    request: &Request<'_>,
    target: String,
    is_early: bool,
    tokens: Option<&TokenFields>,
) -> Option<Fetch> {
    let mut fetch = Fetch { early: is_early, ..Fetch::get(target) };
    fetch.method = request.method().name().parse().ok()?;
    let connection: Vec<String> = request
        .values("connection")
        .map(|value| String::from_utf8_lossy(value).to_ascii_lowercase())
        .collect();
    let of_connection =
        |name: &str| connection.iter().any(|list| list.split(',').any(|option| option.trim() == name));
    for (name, value) in request.fields() {
        let lower = name.to_ascii_lowercase();
        match (lower.as_str(), tokens) {
            (name, _) if of_connection(name) || is_field(name) => {}
            (name, Some(tokens)) if tokens.field.as_deref() == Some(name) => {}
            ("referer", Some(tokens)) if tokens.are_in(value) => {}
            ("cookie", Some(tokens)) => {
                let rest = without_cookies(value, &tokens.cookies);
                if !rest.is_empty() {
                    fetch.pass("cookie", rest.as_bytes());
                }
            }
            (name, _) => drop(fetch.pass(name, value)),
        }
    }
    Some(fetch)
}

/// Names the client and the host it asked (RFC 7239).
pub(crate) fn name_client(fetch: &mut Fetch, how: Forwarded, host: &str, address: IpAddr, is_secure: bool) {
    let scheme = if is_secure { "https" } else { "http" };
    match how {
        Forwarded::XForwarded => {
            // Several lines are one list: the clients of earlier proxies stay in front.
            fetch.pass("x-forwarded-for", address.to_string().as_bytes());
            fetch.fields.remove("x-forwarded-proto");
            fetch.fields.remove("x-forwarded-host");
            fetch.pass("x-forwarded-proto", scheme.as_bytes());
            fetch.pass("x-forwarded-host", host.as_bytes());
        }
        Forwarded::Standard => {
            let node = if address.is_ipv6() { format!("\"[{address}]\"") } else { address.to_string() };
            let element = format!("for={node};proto={scheme};host=\"{host}\"");
            fetch.pass("forwarded", element.as_bytes());
        }
        Forwarded::Off => {}
    }
}
