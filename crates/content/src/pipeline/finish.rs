//! Finish: what a site puts on every response, pages of this server included.

use crate::pipeline::field_rules::change_response;
use crate::response::{Exchange, Response};

/// The start of the names of all fields of CORS, as the lines of an origin have them.
const CORS: &[u8] = b"access-control-";
const HSTS: &[u8] = b"strict-transport-security:";

/// Adds the fields of the site. What the site says replaces what its origin says. Strict-Transport-Security goes to clients
/// over TLS only (RFC 6797 §7.2).
pub(super) fn finish(exchange: &Exchange<'_>, response: &mut Response) {
    let Some(site) = exchange.site else { return };
    let secure = exchange.client.secure;
    if site.cors.is_some() {
        response.fields.remove(CORS);
    }
    if site.hsts.is_some() || !secure {
        response.fields.remove(HSTS);
    }
    let mut head = response.fields.writer();
    if let Some(cors) = &site.cors {
        cors.write(exchange.request, &site.allowed, &mut head);
    }
    if let (Some(policy), true) = (&site.hsts, secure) {
        head.field("Strict-Transport-Security", policy);
    }
    if !site.response_rules.is_empty() {
        change_response(&site.response_rules, exchange, response.cache_status, &mut response.fields);
    }
}
