//! Which requests are refused because a web page in a browser may have caused them.
//!
//! A browser on the same machine reaches the admin listener, and sends a password that it knows with each request.

use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};

use crate::backend::{Backend, Token};
use crate::response::{plain, unauthorized};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The refusal of a request that a page of another origin may have sent; `None` if none did.
///
/// Browsers send `Origin` with every request that changes something, and `Sec-Fetch-Site` with all (Fetch Metadata).
pub(crate) fn refuse_web_page<B>(request: &Request<B>) -> Option<Response<String>> {
    let refused = is_of_other_site(request) || request.headers().contains_key(header::ORIGIN);
    refused.then(|| plain(StatusCode::FORBIDDEN, "not from a web page\n"))
}

/// The same for a request whose Host was found to be the listener's own: its own page may send it.
pub(crate) fn refuse_other_pages<B>(request: &Request<B>) -> Option<Response<String>> {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_own = |origin: &HeaderValue| {
        let origin = origin.to_str().unwrap_or_default();
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
    };
    let mut origins = request.headers().get_all(header::ORIGIN).iter();
    let refused = is_of_other_site(request) || !origins.all(is_own);
    refused.then(|| plain(StatusCode::FORBIDDEN, "not from a web page of another origin\n"))
}

fn is_of_other_site<B>(request: &Request<B>) -> bool {
    let site = request.headers().get(SEC_FETCH_SITE);
    site.is_some_and(|site| site != "same-origin" && site != "none")
}

/// The refusal of a request without the token; `None` if it has it or none is needed.
///
/// `Authorization: Bearer TOKEN` (RFC 6750), or the password of any user (RFC 7617), which browsers ask for.
pub(crate) fn refuse_without_token<B>(
    request: &Request<B>,
    token: Option<Token>,
) -> Option<Response<String>> {
    let token = token?;
    let mut fields = request.headers().get_all(header::AUTHORIZATION).iter();
    let is_admitted = match (fields.next(), fields.next()) {
        (Some(only), None) => given(only.as_bytes()).is_some_and(|bytes| token.is(&bytes)),
        _ => false,
    };
    (!is_admitted).then(unauthorized)
}

/// The token in the value of Authorization.
fn given(value: &[u8]) -> Option<Vec<u8>> {
    let (scheme, rest) = std::str::from_utf8(value).ok()?.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.trim_matches(' ').as_bytes().to_vec());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let login = STANDARD.decode(rest.trim_matches(' ')).ok()?;
    let colon = login.iter().position(|byte| *byte == b':')?;
    login.get(colon + 1..).map(<[u8]>::to_vec)
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
    fn a_token_is_given_as_bearer_or_as_the_password_of_any_user() {
        let given = |value: &str| given(value.as_bytes());
        assert_eq!(given("Bearer abc"), Some(b"abc".to_vec()));
        assert_eq!(given("bearer  abc"), Some(b"abc".to_vec()));
        // `ops:a:c`, by base64.
        assert_eq!(given("Basic b3BzOmE6Yw=="), Some(b"a:c".to_vec()));
        for wrong in ["", "Bearer", "abc", "Basic abc", "Basic b3Bz", "Digest abc"] {
            assert_eq!(given(wrong), None, "{wrong}");
        }
    }

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
