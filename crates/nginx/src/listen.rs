//! `listen`: addresses and what is spoken there.

use crate::parse::Directive;
use crate::remarks::Remarks;

/// A `listen` of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listen {
    /// IP address and port, as Penstock writes them.
    pub(crate) address: String,
    pub(crate) tls: bool,
    pub(crate) proxy_protocol: bool,
    pub(crate) is_default: bool,
    /// Keys of the listener, with their values.
    pub(crate) options: Vec<(&'static str, String)>,
}

impl Listen {
    /// Reads a `listen`; `None` with a remark if it has no counterpart.
    pub(crate) fn read(directive: &Directive, remarks: &mut Remarks) -> Option<Self> {
        let written = directive.argument(0);
        if written.starts_with("unix:") {
            remarks.add(directive, "clients connect to IP addresses only");
            return None;
        }
        let address = address(written)?;
        let mut listen =
            Self { address, tls: false, proxy_protocol: false, is_default: false, options: Vec::new() };
        for option in directive.arguments.iter().skip(1) {
            listen.option(option, directive, remarks)?;
        }
        Some(listen)
    }

    fn option(&mut self, option: &str, directive: &Directive, remarks: &mut Remarks) -> Option<()> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match name {
            "ssl" => self.tls = true,
            "default_server" | "default" => self.is_default = true,
            "proxy_protocol" => self.proxy_protocol = true,
            "backlog" => self.options.push(("backlog", value.to_owned())),
            "fastopen" => self.options.push(("fast_open", value.to_owned())),
            "rcvbuf" => self.options.extend(crate::units::size(value).map(|size| ("receive_buffer", size))),
            "sndbuf" => self.options.extend(crate::units::size(value).map(|size| ("send_buffer", size))),
            "deferred" => self.options.push(("defer_accept", "1s".to_owned())),
            // HTTP/2 is spoken on TLS by default; the workers share a port by themselves.
            "http2" | "reuseport" | "bind" | "ipv6only" | "so_keepalive" => {}
            "quic" | "http3" => {
                remarks.add(directive, "HTTP/3 is not spoken; clients use HTTP/2");
                return None;
            }
            _ => remarks.add(directive, format!("the option {option} has no counterpart")),
        }
        Some(())
    }
}

/// `80`, `*:80`, `[::]:443`, `192.0.2.1`, `localhost:8080` as IP address and port.
fn address(written: &str) -> Option<String> {
    if written.parse::<u16>().is_ok() {
        return Some(format!("0.0.0.0:{written}"));
    }
    let (host, port) = match written.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (written, "80"),
    };
    let host = match host {
        "*" | "" => "0.0.0.0",
        "localhost" => "127.0.0.1",
        other => other,
    };
    Some(format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        for (written, expected) in [
            ("80", "0.0.0.0:80"),
            ("*:80", "0.0.0.0:80"),
            ("[::]:443", "[::]:443"),
            ("[::1]", "[::1]:80"),
            ("192.0.2.1", "192.0.2.1:80"),
            ("192.0.2.1:8080", "192.0.2.1:8080"),
            ("localhost:8080", "127.0.0.1:8080"),
        ] {
            assert_eq!(address(written).as_deref(), Some(expected), "{written}");
        }
    }
}
