//! Finish: what a site puts on every response, pages of this server included.

use crate::response::{Exchange, Response};

/// The start of the names of all fields of CORS.
const CORS: &[u8] = b"access-control-";
const HSTS: &str = "Strict-Transport-Security";

/// Adds the fields of the site. What the site says replaces what its origin says. Strict-Transport-Security goes to clients
/// over TLS only (RFC 6797 §7.2).
pub(super) fn finish(exchange: &Exchange<'_>, response: &mut Response) {
    let Some(site) = exchange.site else { return };
    let secure = exchange.client.secure;
    let fields = &mut response.head.fields;
    if site.cors.is_some() {
        fields.remove(|name| name.get(..CORS.len()).is_some_and(|start| start.eq_ignore_ascii_case(CORS)));
    }
    if site.hsts.is_some() || !secure {
        fields.remove(|name| name.eq_ignore_ascii_case(HSTS.as_bytes()));
    }
    if let Some(cors) = &site.cors {
        cors.write(exchange.request, &site.allowed, fields);
    }
    if let (Some(policy), true) = (&site.hsts, secure) {
        fields.field(HSTS, policy);
    }
}
