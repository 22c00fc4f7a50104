//! Where requests go: a URL taken apart.

use std::fmt;
use std::str::FromStr;

/// An `http` or `https` URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Whether it is `https`.
    pub tls: bool,
    /// A name or an IP address, IPv6 without brackets.
    pub host: String,
    /// The port, that of the scheme if none is written.
    pub port: u16,
    /// Path and query, beginning with a slash.
    pub path: String,
}

impl FromStr for Target {
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

/// Host without brackets, and what stands behind the colon.
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

impl Target {
    /// What the Host field says: the port only where it is not the scheme's.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let usual = if self.tls { 443 } else { 80 };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }

    /// Whether a connection to the other target could be used for this one.
    pub fn same_server(&self, other: &Self) -> bool {
        self.tls == other.tls && self.port == other.port && self.host.eq_ignore_ascii_case(&other.host)
    }

    /// The target that a reference in a document at this target means (RFC 3986 §5.2).
    ///
    /// # Errors
    /// When it is a URL that cannot be used.
    pub fn join(&self, reference: &str) -> Result<Self, String> {
        if reference.contains("://") {
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

/// Removes `.` and `..` (RFC 3986 §5.2.4) from a path, and leaves the query alone.
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

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Target {
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
    fn what_is_no_url_is_refused_with_what_to_write() {
        for (text, part) in [
            ("localhost:8443", "begins with https://"),
            ("ftp://a/", "begins with https://"),
            ("https:///a", "names no host"),
            ("https://a:x/", "no port"),
            ("https://[::1/", "closing ]"),
            ("https://me@a/", "user name"),
            ("https://a/b c", "%20"),
        ] {
            let said = text.parse::<Target>().unwrap_err();
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
}
