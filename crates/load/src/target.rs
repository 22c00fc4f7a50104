//! URLs of servers and objects.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// An `http` or `https` URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetUrl {
    /// Whether it is `https`.
    pub tls: bool,
    /// The host name or IP address, IPv6 without brackets.
    pub host: String,
    /// The port; by default that of the scheme.
    pub port: u16,
    /// Path and query, starting with a slash.
    pub path: String,
}

impl FromStr for TargetUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (tls, rest) = match text.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            _ => return Err("write a URL that begins with https:// or http://".to_owned()),
        };
        if text.bytes().any(|byte| byte.is_ascii_control() || byte == b' ' || !byte.is_ascii()) {
            return Err("write spaces and letters beyond ASCII as %20 and its like".to_owned());
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err("write the URL without a user name; use --header 'Authorization: …'".to_owned());
        }
        let (host, port) = split_authority(authority)?;
        let port = match port {
            None | Some("") => {
                if tls {
                    443
                } else {
                    80
                }
            }
            Some(port) => port.parse().map_err(|_| format!("`{port}` is no port: write 1 to 65535"))?,
        };
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { tls, host: host.to_owned(), port, path })
    }
}

/// Splits host, without brackets, and port.
fn split_authority(authority: &str) -> Result<(&str, Option<&str>), String> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or("an IPv6 address needs its closing ]")?;
            (host, rest.strip_prefix(':'))
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() { Err("the URL names no host".to_owned()) } else { Ok((host, port)) }
}

impl TargetUrl {
    /// The value of the Host field: with the port unless it is that of the scheme.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let usual = if self.tls { 443 } else { 80 };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }

    /// Whether a connection to the server of `other` can carry requests for this URL.
    pub fn same_server(&self, other: &Self) -> bool {
        self.tls == other.tls && self.port == other.port && self.host.eq_ignore_ascii_case(&other.host)
    }

    /// Resolves a reference in a document at this URL (RFC 3986 §5.2). Characters that no request line may have are
    /// percent-encoded.
    ///
    /// # Errors
    /// If the result is not a usable URL.
    pub fn join(&self, reference: &str) -> Result<Self, String> {
        let reference = &percent_encoded(reference);
        let is_scheme =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        if reference.split_once("://").is_some_and(|(scheme, _)| is_scheme(scheme)) {
            return reference.parse();
        }
        let reference = reference.split('#').next().unwrap_or_default();
        let path = if let Some(rest) = reference.strip_prefix("//") {
            return format!("{}://{rest}", if self.tls { "https" } else { "http" }).parse();
        } else if reference.starts_with('/') {
            reference.to_owned()
        } else {
            let base = self.path.split('?').next().unwrap_or_default();
            if reference.starts_with('?') || reference.is_empty() {
                format!("{base}{reference}")
            } else {
                let folder = base.rfind('/').map_or("/", |slash| &base[..=slash]);
                format!("{folder}{reference}")
            }
        };
        Ok(Self { path: without_dots(&path), ..self.clone() })
    }
}

/// Encodes control characters, spaces and characters beyond ASCII (RFC 3986 §2.1).
fn percent_encoded(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Cow::Borrowed(text);
    }
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_graphic() {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    Cow::Owned(encoded)
}

/// Removes `.` and `..` from a path (RFC 3986 §5.2.4). The query stays.
fn without_dots(path: &str) -> String {
    let (path, query) = match path.find('?') {
        Some(at) => path.split_at(at),
        None => (path, ""),
    };
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            other => kept.push(other),
        }
    }
    format!("/{}{query}", kept.join("/"))
}

impl fmt::Display for TargetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> TargetUrl {
        text.parse().unwrap()
    }

    #[test]
    fn a_url_comes_apart_and_together() {
        for (text, tls, host, port, path) in [
            ("https://127.0.0.1:8443/1k.bin", true, "127.0.0.1", 8443, "/1k.bin"),
            ("http://video.example/", false, "video.example", 80, "/"),
            ("https://[::1]:8443/a?b=c", true, "::1", 8443, "/a?b=c"),
        ] {
            let target = target(text);
            assert_eq!((target.tls, target.host.as_str(), target.port), (tls, host, port), "{text}");
            assert_eq!(target.path, path, "{text}");
            assert_eq!(target.to_string(), text);
        }
        assert_eq!(target("https://a").to_string(), "https://a/");
        assert_eq!(target("https://a?q#f").path, "/?q");
    }

    #[test]
    fn malformed_urls_are_refused_with_a_remedy() {
        for (text, part) in [
            ("localhost:8443", "begins with https://"),
            ("ftp://a/", "begins with https://"),
            ("https:///a", "names no host"),
            ("https://a:x/", "no port"),
            ("https://[::1/", "closing ]"),
            ("https://me@a/", "user name"),
            ("https://a/b c", "%20"),
        ] {
            let said = text.parse::<TargetUrl>().unwrap_err();
            assert!(said.contains(part), "{text}: {said}");
        }
    }

    #[test]
    fn references_are_resolved_as_in_rfc_3986() {
        let base = target("http://a/b/c/d;p?q");
        for (reference, wanted) in [
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g/"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("g?u=http://x/", "http://a/b/c/g?u=http://x/"),
            ("..", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../../g", "http://a/g"),
            ("../../../g", "http://a/g"),
            ("g/../h", "http://a/b/c/h"),
            ("https://x/y", "https://x/y"),
        ] {
            assert_eq!(base.join(reference).unwrap().to_string(), wanted, "{reference}");
        }
    }

    #[test]
    fn a_reference_cannot_break_the_request_line_or_the_terminal() {
        let base = target("http://a/b/c");
        for (reference, wanted) in [
            ("d e", "http://a/b/d%20e"),
            ("d\r\nX: y", "http://a/b/d%0D%0AX:%20y"),
            ("\u{1b}[2J", "http://a/b/%1B[2J"),
            ("/ä", "http://a/%C3%A4"),
            ("https://x/y\nz", "https://x/y%0Az"),
        ] {
            let found = base.join(reference).unwrap();
            assert_eq!(found.to_string(), wanted);
            assert_eq!(target(wanted), found);
        }
    }
}
