//! Which requests are refused because a web page in a browser may have caused them.
//!
//! The admin listener has no password, and a browser on the same machine reaches it.

use std::net::IpAddr;

use hyper::header::{self, HeaderName};
use hyper::{Request, Response, StatusCode};

use crate::backend::Backend;
use crate::response::plain;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The refusal of a request that a page of another origin may have sent; `None` if none did.
///
/// Browsers send `Origin` with every request that changes something, and `Sec-Fetch-Site` with all (Fetch Metadata).
pub(crate) fn refuse_web_page<B>(request: &Request<B>) -> Option<Response<String>> {
    let site = request.headers().get(SEC_FETCH_SITE);
    let is_foreign = site.is_some_and(|site| site != "same-origin" && site != "none");
    let refused = is_foreign || request.headers().contains_key(header::ORIGIN);
    refused.then(|| plain(StatusCode::FORBIDDEN, "not from a web page\n"))
}

/// The refusal of a request whose Host is a foreign DNS name; `None` for `localhost`, IP addresses and own names.
///
/// A page can point its own name at this address (DNS rebinding) and then read every answer.
pub(crate) fn refuse_foreign_host<B>(
    request: &Request<B>,
    backend: &dyn Backend,
) -> Option<Response<String>> {
    let fields = request.headers().get_all(header::HOST).iter().map(|value| value.to_str().unwrap_or(""));
    let target = request.uri().authority().map(|authority| authority.as_str());
    let foreign = fields.chain(target).any(|authority| !is_own(authority, backend));
    foreign.then(|| {
        let text = "this Host is not a name of the admin listener: use its address, or add the name to admin.hosts\n";
        plain(StatusCode::MISDIRECTED_REQUEST, text)
    })
}

fn is_own(authority: &str, backend: &dyn Backend) -> bool {
    let host = without_port(authority);
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if bare.parse::<IpAddr>().is_ok() {
        return true;
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    name == "localhost" || backend.is_own_name(&name)
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_cut_off_and_an_ipv6_address_is_not() {
        for (authority, host) in [
            ("localhost", "localhost"),
            ("localhost:9600", "localhost"),
            ("localhost:", "localhost"),
            ("[2001:db8::1]:9600", "[2001:db8::1]"),
            ("[2001:db8::1]", "[2001:db8::1]"),
        ] {
            assert_eq!(without_port(authority), host);
        }
    }
}
