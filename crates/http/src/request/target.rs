//! The four forms of a request target (RFC 9112 §3.2).

use super::host::Authority;
use super::line::Method;

/// A target taken apart.
pub(super) struct TargetParts<'h> {
    /// The authority of an absolute-form target.
    pub(super) authority: Option<Authority<'h>>,
    /// The path as sent; without a leading slash if the target is none.
    pub(super) path: &'h str,
    /// The part behind the first `?`.
    pub(super) query: Option<&'h str>,
}

/// Takes `raw` apart; the error is the reason for a 400.
pub(super) fn split<'h>(method: Method<'h>, raw: &'h str) -> Result<TargetParts<'h>, &'static str> {
    if raw.contains('#') {
        return Err("target_fragment");
    }
    if method == Method::Other("CONNECT") {
        let authority = Authority::parse_named(raw).ok_or("target_authority")?;
        return Ok(TargetParts { authority: Some(authority), path: raw, query: None });
    }
    if raw.starts_with('/') {
        let (path, query) = split_query(raw);
        return Ok(TargetParts { authority: None, path, query });
    }
    if raw == "*" && method == Method::Options {
        return Ok(TargetParts { authority: None, path: raw, query: None });
    }
    absolute(method, raw)
}

/// `http://authority/path?query`
fn absolute<'h>(method: Method<'h>, raw: &'h str) -> Result<TargetParts<'h>, &'static str> {
    let (scheme, rest) = raw.split_once("://").ok_or("target_form")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err("target_scheme");
    }
    let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let authority = Authority::parse_named(authority).ok_or("target_authority")?;
    let (path, query) = split_query(rest);
    let path = match path {
        // RFC 9112 §3.2.4: OPTIONS with an absolute target without path or query means `*`.
        "" if method == Method::Options && query.is_none() => "*",
        "" => "/",
        path => path,
    };
    Ok(TargetParts { authority: Some(authority), path, query })
}

fn split_query(target: &str) -> (&str, Option<&str>) {
    match memchr::memchr(b'?', target.as_bytes()) {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    }
}
