//! Following redirections, where the operator asks for it (RFC 9110 §15.4).

use std::sync::Arc;

use hyper::body::Bytes;
use penstock_http::OriginUrl;

use super::OriginError;
use super::answer::Answer;
use super::connections::Connections;
use super::fetch::Fetch;
use super::target::HttpOrigin;

/// The body of a redirection that is read so that its connection can be used again.
const BODY_BYTES_MAX: usize = 16 * 1024;

/// Where a redirection leads: a server, and path and query there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) server: OriginUrl,
    pub(super) target: String,
}

/// Follows as often as the origin allows. Other answers come back as they are.
pub(super) async fn follow<'c>(
    connections: &'c Connections,
    origin: &Arc<HttpOrigin>,
    fetch: &Fetch,
    mut answer: Answer<'c>,
) -> Result<Answer<'c>, OriginError> {
    let mut left = origin.limits().redirects;
    let Some(first) = answer.server(origin) else { return Ok(answer) };
    let mut here = Place { target: format!("{}{}", first.base(), fetch.target), server: first.at_root() };
    while is_redirection(answer.status()) {
        if left == 0 {
            return Err(OriginError::Redirects);
        }
        left -= 1;
        let next = answer.field("location").and_then(|location| here.lead(location));
        here = next.ok_or(OriginError::Redirects)?;
        discard(answer).await;
        answer = connections.at(origin, &here, fetch).await?;
    }
    Ok(answer)
}

/// 303 is a redirection of a GET to another GET; 300 and 304 are none.
fn is_redirection(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

async fn discard(mut answer: Answer<'_>) {
    let mut read = 0;
    while let Ok(Some(piece)) = answer.next().await {
        let piece: Bytes = piece;
        read += piece.len();
        if read > BODY_BYTES_MAX {
            return;
        }
    }
}

impl Place {
    /// Resolves Location (RFC 3986 §5.2). Nothing leads from TLS to where there is none.
    fn lead(&self, location: &str) -> Option<Self> {
        let location = location.split('#').next()?;
        let secure = self.server.is_secure();
        let scheme = if secure { "https" } else { "http" };
        if let Some(rest) = location.strip_prefix("//") {
            return self.lead(&format!("{scheme}://{rest}"));
        }
        if location.contains("://") && !location.starts_with('/') {
            let authority = location.split_once("://")?.1;
            let end = authority.find(['/', '?']).unwrap_or(authority.len());
            let (server, target) = location.split_at(location.len() - authority.len() + end);
            let server = OriginUrl::parse(&server.to_ascii_lowercase()).ok()?;
            let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
            return (server.is_secure() || !secure)
                .then_some(Self { server, target })
                .filter(Self::is_sendable);
        }
        let path = self.target.split('?').next()?;
        let target = match location {
            "" => return None,
            absolute if absolute.starts_with('/') => absolute.to_owned(),
            query if query.starts_with('?') => format!("{path}{query}"),
            relative => format!("{}/{relative}", path.rsplit_once('/')?.0),
        };
        Some(Self { server: self.server.clone(), target }).filter(Self::is_sendable)
    }

    /// Whether it can stand in a request line.
    fn is_sendable(&self) -> bool {
        self.target.bytes().all(|byte| byte.is_ascii_graphic())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_resolved_and_never_lead_out_of_tls() {
        let here = |scheme: &str| Place {
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
        ] {
            let found = here("http").lead(location).map(|place| format!("{} {}", place.server, place.target));
            assert_eq!(found.as_deref(), leads, "{location}");
        }
        assert_eq!(here("https").lead("http://a:8080/x"), None);
        assert!(here("https").lead("//b/x").unwrap().server.is_secure());
    }
}
