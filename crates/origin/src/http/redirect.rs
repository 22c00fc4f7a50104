//! Redirections (RFC 9110 §15.4): the meaning of Location, and what they say of the response that they lead to.

use std::time::{Duration, SystemTime};

use hyper::header::{self, HeaderMap, HeaderValue};
use penstock_http::OriginUrl;
use penstock_http::caching::{HopBound, Response, limited};
use penstock_http::uri::without_dots;

/// A server, and path and query there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) server: OriginUrl,
    pub(super) target: String,
}

/// Whether a status is a redirection that is followed. 303 redirects a GET to another GET; 300 and 304 do not.
pub(super) fn is_redirection(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

impl Location {
    /// Resolves a reference (RFC 3986 §5.2). None leads from TLS to plain HTTP.
    pub(super) fn resolve(&self, location: &str) -> Option<Self> {
        let location = location.split('#').next()?;
        let secure = self.server.is_secure();
        let scheme = if secure { "https" } else { "http" };
        if let Some(rest) = location.strip_prefix("//") {
            return self.resolve(&format!("{scheme}://{rest}"));
        }
        let (server, target) = if has_scheme(location) {
            let authority = location.split_once("://")?.1;
            let end = authority.find(['/', '?']).unwrap_or(authority.len());
            let (server, target) = location.split_at(location.len() - authority.len() + end);
            let server = OriginUrl::parse(&server.to_ascii_lowercase()).ok()?;
            if secure && !server.is_secure() {
                return None;
            }
            (server, if target.starts_with('/') { target.to_owned() } else { format!("/{target}") })
        } else {
            (self.server.clone(), self.target_of(location)?)
        };
        let target = match target.split_once('?') {
            Some((path, query)) => format!("{}?{query}", without_dots(path)),
            None => without_dots(&target),
        };
        Some(Self { server, target }).filter(Self::is_sendable)
    }

    /// The target on this server that a reference without scheme and authority means, with its dot segments.
    fn target_of(&self, reference: &str) -> Option<String> {
        let path = self.target.split('?').next()?;
        match reference {
            "" => None,
            absolute if absolute.starts_with('/') => Some(absolute.to_owned()),
            query if query.starts_with('?') => Some(format!("{path}{query}")),
            relative => Some(format!("{}/{relative}", path.rsplit_once('/')?.0)),
        }
    }

    /// Whether it can stand in a request line.
    fn is_sendable(&self) -> bool {
        self.target.bytes().all(|byte| byte.is_ascii_graphic())
    }
}

/// What the redirections say that led to a response.
#[derive(Debug, Default)]
pub(super) struct Hops {
    bound: HopBound,
    vary: Vec<HeaderValue>,
}

impl Hops {
    /// Adds a redirection.
    pub(super) fn add(&mut self, status: u16, fields: &HeaderMap, now: SystemTime) {
        self.bound = self.bound.min(read(status, fields).as_hop(now));
        self.vary.extend(fields.get_all(header::VARY).iter().cloned());
    }

    /// The longest freshness of what they lead to; `None` if they name none.
    pub(super) fn freshness(&self) -> Option<Duration> {
        match self.bound {
            HopBound::NotStored => Some(Duration::ZERO),
            HopBound::Fresh(most) => Some(most),
            HopBound::Unbounded => None,
        }
    }

    /// Changes the fields of the response that they led to: no cache keeps it longer than each of them allows, and it varies by
    /// all that they vary by.
    pub(super) fn apply(&self, status: u16, fields: &mut HeaderMap, now: SystemTime) {
        for value in &self.vary {
            fields.append(header::VARY, value.clone());
        }
        let most = match self.bound {
            HopBound::Unbounded => return,
            HopBound::NotStored => None,
            HopBound::Fresh(most) => match read(status, fields).excess(most, now) {
                Some(most) => Some(most),
                None => return,
            },
        };
        let targeted = "cdn-cache-control";
        let control = match most {
            Some(most) => {
                let all = |name: &str| fields.get_all(name).iter().map(HeaderValue::as_bytes);
                limited(all("cache-control"), most)
            }
            None => b"no-store".to_vec(),
        };
        fields.remove(targeted);
        fields.remove(header::EXPIRES);
        if let Ok(control) = HeaderValue::from_bytes(&control) {
            fields.insert(header::CACHE_CONTROL, control);
        }
    }
}

fn read(status: u16, fields: &HeaderMap) -> Response<'_> {
    let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_ref(), value.as_bytes())).collect();
    Response::read(status, fields.iter().copied())
}

/// Whether a reference begins with a scheme (RFC 3986 §3.1).
fn has_scheme(reference: &str) -> bool {
    let is_scheme = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_alphabetic())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    reference.split_once(':').is_some_and(|(before, _)| is_scheme(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_resolved_and_never_lead_out_of_tls() {
        let here = |scheme: &str| Location {
            server: OriginUrl::parse(&format!("{scheme}://a:8080")).unwrap(),
            target: "/x/y.mp4?q=1".to_owned(),
        };
        for (location, leads) in [
            ("/z?b#c", Some("http://a:8080 /z?b")),
            ("z.mp4", Some("http://a:8080 /x/z.mp4")),
            ("?q=2", Some("http://a:8080 /x/y.mp4?q=2")),
            ("https://B.example/s?t=1", Some("https://b.example /s?t=1")),
            ("//b", Some("http://b /")),
            ("http://b?x=1", Some("http://b /?x=1")),
            ("ftp://b/", None),
            ("http://user@b/", None),
            ("/with space", None),
            ("", None),
            ("z.mp4?next=https://x/", Some("http://a:8080 /x/z.mp4?next=https://x/")),
            ("?next=https://x/", Some("http://a:8080 /x/y.mp4?next=https://x/")),
            ("z/https://x/", Some("http://a:8080 /x/z/https://x/")),
            ("1://x/", Some("http://a:8080 /x/1://x/")),
            ("mailto:a@b", None),
            ("https:z", None),
            ("../z.mp4?a=../b", Some("http://a:8080 /z.mp4?a=../b")),
            ("../../../z.mp4", Some("http://a:8080 /z.mp4")),
            ("./z/./../w/", Some("http://a:8080 /x/w/")),
            ("..", Some("http://a:8080 /")),
            (".", Some("http://a:8080 /x/")),
            ("/a/../b", Some("http://a:8080 /b")),
            ("https://b/a/../c/./d?e", Some("https://b /c/d?e")),
            ("//b/../c", Some("http://b /c")),
        ] {
            let found =
                here("http").resolve(location).map(|found| format!("{} {}", found.server, found.target));
            assert_eq!(found.as_deref(), leads, "{location}");
        }
        assert_eq!(here("https").resolve("http://a:8080/x"), None);
        assert!(here("https").resolve("//b/x").unwrap().server.is_secure());
    }
}
