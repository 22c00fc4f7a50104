//! The admin listener, interpreted.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use penstock_sys::traffic::Secret;

/// The admin listener: plain HTTP with `/healthz` and `/metrics`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Where it listens.
    pub address: AdminAddress,
    /// Which permissions a Unix socket has, such as 0o600.
    pub mode: u32,
    /// DNS names that clients may use for it, in lowercase letters.
    pub hosts: Vec<String>,
    /// The token that every request but health checks needs; `None` if none is needed.
    pub token: Option<Secret>,
}

impl Admin {
    /// The permissions of a Unix socket unless others are configured: for its owner alone.
    pub const MODE: u32 = 0o600;

    /// A listener without names and token.
    #[must_use]
    pub fn at(address: AdminAddress) -> Self {
        Self { address, mode: Self::MODE, hosts: Vec::new(), token: None }
    }
}

/// Where the admin listener is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminAddress {
    /// An IP address and a port.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

/// In front of the path of a Unix socket.
pub(crate) const UNIX: &str = "unix:";

impl AdminAddress {
    /// The IP address and port, if it has one.
    #[must_use]
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

impl fmt::Display for AdminAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(out),
            Self::Unix(path) => write!(out, "{UNIX}{}", path.display()),
        }
    }
}

impl FromStr for AdminAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix(UNIX) {
            Some("") => Err("write a path behind `unix:`".to_owned()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text
                .parse()
                .map(Self::Tcp)
                .map_err(|_| "write an IP address and a port, or unix:PATH".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_as_it_is_read() {
        for text in ["127.0.0.1:9600", "[::1]:9600", "unix:/run/penstock/admin.sock", "unix:a.sock"] {
            assert_eq!(text.parse::<AdminAddress>().unwrap().to_string(), text);
        }
        for wrong in ["", "unix:", "localhost:9600", "9600", "/run/a.sock"] {
            assert!(wrong.parse::<AdminAddress>().is_err(), "{wrong}");
        }
    }
}
