//! The authority of a request: Host, or the authority of an absolute-form target (RFC 3986 §3.2).

use std::net::Ipv6Addr;

/// The longest host name that DNS can hold, in bytes.
const HOST_BYTES_MAX: usize = 255;

/// The authority of a request and the host in it: one value, so that no two parts of the program can ask for two hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Authority<'h> {
    /// Host and port, as sent.
    pub(super) text: &'h str,
    /// The host, without port and without a final dot. It is empty if and only if `text` is.
    pub(super) host: &'h str,
}

impl<'h> Authority<'h> {
    /// Parses host and port; `None` if they are malformed.
    pub(super) fn parse(text: &'h str) -> Option<Self> {
        Some(Self { text, host: host_of(text)? })
    }

    /// The same for an authority that must name a host.
    pub(super) fn parse_named(text: &'h str) -> Option<Self> {
        Self::parse(text).filter(|authority| !authority.host.is_empty())
    }
}

/// The host in `authority`, without port and without a final dot; `None` if it is malformed. User
/// information is malformed here. Empty hosts pass: the caller knows whether one is allowed.
fn host_of(authority: &str) -> Option<&str> {
    let (host, port) = if authority.starts_with('[') {
        let end = authority.find(']')? + 1;
        let (host, rest) = authority.split_at(end);
        host[1..end - 1].parse::<Ipv6Addr>().ok()?;
        (host, if rest.is_empty() { "" } else { rest.strip_prefix(':')? })
    } else {
        let length = authority.bytes().position(|byte| !HOST_BYTES[usize::from(byte)]);
        let (host, rest) = authority.split_at_checked(length.unwrap_or(authority.len()))?;
        (host, if rest.is_empty() { "" } else { rest.strip_prefix(':')? })
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    let dots_are_fine = host.is_empty() == authority.is_empty() && !host.starts_with('.');
    (is_port(port) && dots_are_fine && host.len() <= HOST_BYTES_MAX).then_some(host)
}

/// Whether `text` is a port, or empty.
fn is_port(text: &str) -> bool {
    let add = |number: u16, digit: u8| {
        let digit = char::from(digit).to_digit(10)?;
        number.checked_mul(10)?.checked_add(u16::try_from(digit).ok()?)
    };
    text.bytes().try_fold(0, add).is_some()
}

/// By octet, whether it is one of [`is_host_byte`].
static HOST_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0u8;
    while byte < 0x80 {
        table[byte as usize] = is_host_byte(byte);
        byte += 1;
    }
    table
};

/// The characters of a registered name (RFC 3986 §3.2.2) but for percent-encoding and sub-delimiters,
/// which no DNS name has; the underscore occurs in practice.
const fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

#[cfg(test)]
mod tests {
    use super::host_of;

    #[test]
    fn hosts_lose_port_and_final_dot() {
        for (authority, host) in [
            ("example.com", "example.com"),
            ("Example.COM:8443", "Example.COM"),
            ("example.com.", "example.com"),
            ("example.com.:443", "example.com"),
            ("example.com:", "example.com"),
            ("127.0.0.1:80", "127.0.0.1"),
            ("[::1]", "[::1]"),
            ("[2001:db8::1]:8443", "[2001:db8::1]"),
            ("[::ffff:10.0.0.1]:", "[::ffff:10.0.0.1]"),
            ("cdn_7.example", "cdn_7.example"),
            ("", ""),
        ] {
            assert_eq!(host_of(authority), Some(host), "{authority}");
        }
    }

    #[test]
    fn text_that_is_no_host_is_refused() {
        let long = "a".repeat(256);
        for authority in [
            "exa mple.com",
            "a/b",
            "user@host",
            "a,b",
            "a\u{e9}",
            "a%41",
            "a:b",
            "a:65536",
            "a:-1",
            "a:+1",
            "a:80:80",
            "::1",
            "[::1",
            "[::1]x",
            "[::1]:x",
            "[zz]",
            "[]",
            "[fe80::1%25eth0]",
            ".",
            "..",
            ":80",
            ".com",
            "a?b",
            "a#b",
            "a\\b",
            "a\"b",
            "<a>",
            "a;b",
            "a=b",
            "'a'",
            long.as_str(),
        ] {
            assert_eq!(host_of(authority), None, "{authority}");
        }
    }
}
