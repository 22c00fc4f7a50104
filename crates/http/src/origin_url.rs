//! One server of an origin, as it stands in the configuration.

use std::fmt;
use std::path::{Path, PathBuf};

/// Where an origin is: `http://host:port` or `https://host:port` with an optional path in front of every request's, or a
/// Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginUrl {
    socket: Option<PathBuf>,
    secure: bool,
    host: String,
    port: u16,
    authority: String,
    base: String,
}

/// The longest path of a socket: `sun_path` of unix(7), without the byte at its end.
const SOCKET_PATH_BYTES: usize = 107;

/// The fault of an origin's URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginUrlFault {
    /// It begins neither with `http://` nor with `https://`.
    Scheme,
    /// Host or port cannot be read.
    Authority,
    /// It has a query, a fragment or characters that belong in no path.
    Path,
}

impl fmt::Display for OriginUrlFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scheme => "does not begin with http:// or https://",
            Self::Authority => "has no host and port that can be read",
            Self::Path => "has more than a path behind its host",
        })
    }
}

impl OriginUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// See [`OriginUrlFault`].
    pub fn parse(url: &str) -> Result<Self, OriginUrlFault> {
        let (secure, rest) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            (None, None) => return Err(OriginUrlFault::Scheme),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let path_byte = |byte: u8| byte.is_ascii_graphic() && !b"?#\\\"<>^`{|}".contains(&byte);
        if !path.bytes().all(path_byte) {
            return Err(OriginUrlFault::Path);
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().ok().filter(|port| *port > 0).ok_or(OriginUrlFault::Authority)?)
            }
            Some(_) | None => (authority, if secure { 443 } else { 80 }),
        };
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let fine = match bare {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => {
                let host_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
                !host.is_empty() && host.bytes().all(host_byte)
            }
        };
        if !fine {
            return Err(OriginUrlFault::Authority);
        }
        Ok(Self {
            socket: None,
            secure,
            host: bare.unwrap_or(host).to_owned(),
            port,
            authority: authority.to_owned(),
            base: path.trim_end_matches('/').to_owned(),
        })
    }

    /// Reads `unix:/path/of/socket`, or `unix:/path/of/socket:/base` with a path in front of every request's. Plain HTTP is
    /// spoken there, and the host is `localhost`. No other text than that of an operator may be read as one.
    ///
    /// # Errors
    /// See [`OriginUrlFault`].
    pub fn parse_socket(text: &str) -> Result<Self, OriginUrlFault> {
        let rest = text.strip_prefix("unix:").ok_or(OriginUrlFault::Scheme)?;
        let (socket, base) = rest.split_once(':').unwrap_or((rest, "/"));
        let is_absolute = socket.starts_with('/') && base.starts_with('/');
        if !is_absolute || socket.len() > SOCKET_PATH_BYTES || socket.contains('\0') {
            return Err(OriginUrlFault::Authority);
        }
        let url = Self::parse(&format!("http://localhost{base}"))?;
        // `unix:///run` has the slashes of a URL.
        let socket = format!("/{}", socket.trim_start_matches('/'));
        Ok(Self { socket: Some(socket.into()), ..url })
    }

    /// The path of the Unix socket, if it is one.
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    /// Whether TLS is spoken.
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// Whether both name the same scheme, host and port, or the same socket.
    pub fn is_same_server(&self, other: &Self) -> bool {
        (self.secure, self.port, &self.socket) == (other.secure, other.port, &other.socket)
            && self.host.eq_ignore_ascii_case(&other.host)
    }

    /// The same server, with nothing in front of its paths.
    pub fn at_root(&self) -> Self {
        Self { base: String::new(), ..self.clone() }
    }

    /// The same with a label in front of the host name; `None` if that cannot be one.
    pub fn below(&self, label: &str) -> Option<Self> {
        let scheme = if self.secure { "https" } else { "http" };
        Self::parse(&format!("{scheme}://{label}.{}{}", self.authority, self.base)).ok()
    }

    /// Name or address to connect to.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Port to connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Host and port as they were written, for the Host field.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The path in front of every request's; without a slash at its end.
    pub fn base(&self) -> &str {
        &self.base
    }
}

impl fmt::Display for OriginUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(socket) = &self.socket {
            let colon = if self.base.is_empty() { "" } else { ":" };
            return write!(f, "unix:{}{colon}{}", socket.display(), self.base);
        }
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_host_port_and_what_stands_in_front() {
        let url = OriginUrl::parse("http://10.0.0.5:8080/vod/").unwrap();
        assert_eq!((url.host(), url.port(), url.base()), ("10.0.0.5", 8080, "/vod"));
        let url = OriginUrl::parse("http://[::1]").unwrap();
        assert_eq!((url.host(), url.port(), url.authority()), ("::1", 80, "[::1]"));
        let url = OriginUrl::parse("https://origin/a/").unwrap();
        assert_eq!((url.is_secure(), url.port(), url.to_string().as_str()), (true, 443, "https://origin/a"));
        let url = OriginUrl::parse("http://[::1]:81").unwrap();
        assert_eq!((url.host(), url.port()), ("::1", 81));
    }

    #[test]
    fn a_socket_is_a_server_that_only_an_operator_can_name() {
        let url = OriginUrl::parse_socket("unix:/run/app.sock:/vod/").unwrap();
        assert_eq!((url.socket(), url.base()), (Some(Path::new("/run/app.sock")), "/vod"));
        assert_eq!((url.authority(), url.is_secure()), ("localhost", false));
        assert_eq!(url.to_string(), "unix:/run/app.sock:/vod");
        assert!(!url.is_same_server(&OriginUrl::parse("http://localhost").unwrap()));
        assert_eq!(OriginUrl::parse_socket("unix:/a").unwrap().to_string(), "unix:/a");
        assert_eq!(OriginUrl::parse_socket("unix:///a").unwrap().to_string(), "unix:/a");
        let long = format!("unix:/{}", "a".repeat(107));
        for (written, fault) in [
            ("http://a", OriginUrlFault::Scheme),
            ("unix:run/app.sock", OriginUrlFault::Authority),
            ("unix://run/app.sock:b", OriginUrlFault::Authority),
            ("unix:/a:/b?c", OriginUrlFault::Path),
            (long.as_str(), OriginUrlFault::Authority),
        ] {
            assert_eq!(OriginUrl::parse_socket(written), Err(fault), "{written}");
        }
        // A redirection is read by the other function.
        assert_eq!(OriginUrl::parse("unix:/run/app.sock"), Err(OriginUrlFault::Scheme));
    }

    #[test]
    fn faults_of_origin_urls_are_named() {
        for (written, fault) in [
            ("10.0.0.5:8080", OriginUrlFault::Scheme),
            ("ftp://origin", OriginUrlFault::Scheme),
            ("http://", OriginUrlFault::Authority),
            ("http://host:0", OriginUrlFault::Authority),
            ("http://host:99999", OriginUrlFault::Authority),
            ("http://user@host", OriginUrlFault::Authority),
            ("http://[::g]", OriginUrlFault::Authority),
            ("http://host/a?b", OriginUrlFault::Path),
            ("http://host/a b", OriginUrlFault::Path),
        ] {
            assert_eq!(OriginUrl::parse(written), Err(fault), "{written}");
        }
    }
}
