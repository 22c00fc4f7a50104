//! The PROXY protocol header, versions 1 and 2, that a balancer in front puts before the client's bytes.
//!
//! Specification: HAProxy, `doc/proxy-protocol.txt`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ppp::{HeaderResult, PartialResult, v1, v2};

const V1_START: &[u8] = b"PROXY";
const V2_START: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The longest line of version 1, CRLF included.
const V1_BYTES_MAX: usize = 107;

/// Contents of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// The client behind the balancer; `None` for connections of the balancer itself (its health checks) and for
    /// transports without addresses.
    pub client: Option<SocketAddr>,
    /// Bytes of the header; the client's own begin behind them.
    pub length: usize,
}

/// The bytes are no PROXY header: the client did not connect through the balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotProxied;

/// Reads the header at the start of `bytes`; `None` if more bytes are needed, which may be so up to `limit_bytes`.
///
/// # Errors
/// [`NotProxied`] if no header can come of these bytes, or none within the limit.
pub fn read(bytes: &[u8], limit_bytes: usize) -> Result<Option<ProxyHeader>, NotProxied> {
    // A line that is still growing would already be judged as if it were whole.
    if bytes.starts_with(V1_START) && !bytes.windows(2).any(|pair| pair == b"\r\n") {
        return if bytes.len() < V1_BYTES_MAX.min(limit_bytes) { Ok(None) } else { Err(NotProxied) };
    }
    let header = HeaderResult::parse(bytes);
    if header.is_incomplete() {
        return if bytes.len() < limit_bytes { Ok(None) } else { Err(NotProxied) };
    }
    match header {
        HeaderResult::V1(Ok(header)) => {
            Ok(Some(ProxyHeader { client: client_of_v1(&header), length: header.header.len() }))
        }
        HeaderResult::V2(Ok(header)) => {
            let length = header.as_bytes().len();
            if length > limit_bytes {
                Err(NotProxied)
            } else {
                Ok(Some(ProxyHeader { client: client_of_v2(&header), length }))
            }
        }
        HeaderResult::V1(Err(_)) | HeaderResult::V2(Err(_)) => Err(NotProxied),
    }
}

fn client_of_v1(header: &v1::Header<'_>) -> Option<SocketAddr> {
    match header.addresses {
        v1::Addresses::Tcp4(pair) => Some((IpAddr::V4(pair.source_address), pair.source_port).into()),
        v1::Addresses::Tcp6(pair) => Some((IpAddr::V6(pair.source_address), pair.source_port).into()),
        v1::Addresses::Unknown => None,
    }
}

fn client_of_v2(header: &v2::Header<'_>) -> Option<SocketAddr> {
    if header.command == v2::Command::Local {
        return None;
    }
    match header.addresses {
        v2::Addresses::IPv4(pair) => Some((IpAddr::V4(pair.source_address), pair.source_port).into()),
        v2::Addresses::IPv6(pair) => Some((IpAddr::V6(pair.source_address), pair.source_port).into()),
        v2::Addresses::Unspecified | v2::Addresses::Unix(_) => None,
    }
}

/// Writes a header of version 2: for a connection on behalf of the client, from its address to that of the server, or for one
/// of this program itself (`LOCAL`). Addresses of different families are written as those of the client's, the server's as
/// unspecified.
pub fn v2_header(addresses: Option<(SocketAddr, SocketAddr)>) -> Vec<u8> {
    const LOCAL: u8 = 0x20;
    const PROXY: u8 = 0x21;
    const TCP_OVER_IPV4: u8 = 0x11;
    const TCP_OVER_IPV6: u8 = 0x21;
    let mut header = V2_START.to_vec();
    let Some((client, server)) = addresses else {
        header.extend([LOCAL, 0, 0, 0]);
        return header;
    };
    let ports = [client.port().to_be_bytes(), server.port().to_be_bytes()].concat();
    match (client.ip().to_canonical(), server.ip().to_canonical()) {
        (IpAddr::V4(client), server) => {
            let server = if let IpAddr::V4(server) = server { server } else { Ipv4Addr::UNSPECIFIED };
            header.extend([PROXY, TCP_OVER_IPV4, 0, 12]);
            header.extend([client.octets(), server.octets()].concat());
        }
        (IpAddr::V6(client), server) => {
            let server = if let IpAddr::V6(server) = server { server } else { Ipv6Addr::UNSPECIFIED };
            header.extend([PROXY, TCP_OVER_IPV6, 0, 36]);
            header.extend([client.octets(), server.octets()].concat());
        }
    }
    header.extend(ports);
    header
}

/// Body of the fuzz target: no input panics, and the header lies inside the input.
#[cfg(any(test, feature = "fuzz"))]
pub fn fuzz_proxy_header(input: &[u8]) {
    if let Ok(Some(header)) = read(input, 4096) {
        assert!(header.length <= input.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 4096;

    fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
        bytes.extend([command, family]);
        bytes.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
        bytes.extend(body);
        bytes
    }

    #[test]
    fn version_1_names_the_client_and_leaves_its_bytes() {
        let header = b"PROXY TCP4 192.0.2.7 198.51.100.1 56324 443\r\n";
        let mut bytes = header.to_vec();
        bytes.extend(b"GET / HTTP/1.1\r\n");
        let read = read(&bytes, LIMIT).unwrap().unwrap();
        assert_eq!(read.client, Some("192.0.2.7:56324".parse().unwrap()));
        assert_eq!(read.length, header.len());
    }

    #[test]
    fn version_2_names_an_ipv6_client_behind_additions() {
        let mut body = Vec::new();
        body.extend("2001:db8::7".parse::<Ipv6Addr>().unwrap().octets());
        body.extend("2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
        body.extend([0xdc, 0x04, 0x01, 0xbb]);
        body.extend([0x04, 0, 1, 0]); // PP2_TYPE_NOOP
        let bytes = v2(0x21, 0x21, &body);
        let read = read(&bytes, LIMIT).unwrap().unwrap();
        assert_eq!(read.client, Some("[2001:db8::7]:56324".parse().unwrap()));
        assert_eq!(read.length, bytes.len());
    }

    #[test]
    fn a_header_that_is_written_is_read_back() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        for (client, server) in [
            ("192.0.2.7:56324", "198.51.100.1:443"),
            ("[2001:db8::7]:56324", "[2001:db8::1]:443"),
            ("192.0.2.7:1", "[2001:db8::1]:443"),
            ("[2001:db8::7]:1", "192.0.2.1:443"),
        ] {
            let header = v2_header(Some((address(client), address(server))));
            let expected = ProxyHeader { client: Some(address(client)), length: header.len() };
            assert_eq!(read(&header, LIMIT), Ok(Some(expected)), "{client}");
        }
        let mapped = v2_header(Some((address("[::ffff:192.0.2.7]:5"), address("198.51.100.1:443"))));
        assert_eq!(read(&mapped, LIMIT).unwrap().unwrap().client, Some(address("192.0.2.7:5")));
        let local = v2_header(None);
        assert_eq!(read(&local, LIMIT), Ok(Some(ProxyHeader { client: None, length: local.len() })));
    }

    #[test]
    fn health_checks_of_the_balancer_have_no_client() {
        assert_eq!(read(b"PROXY UNKNOWN\r\n", LIMIT).unwrap().unwrap().client, None);
        assert_eq!(read(&v2(0x20, 0, &[]), LIMIT).unwrap().unwrap().client, None);
    }

    #[test]
    fn every_prefix_of_a_header_asks_for_more() {
        let first = b"PROXY TCP4 192.0.2.7 198.51.100.1 56324 443\r\n".to_vec();
        let second = v2(0x21, 0x11, &[192, 0, 2, 7, 198, 51, 100, 1, 0xdc, 4, 1, 0xbb]);
        for header in [first, second] {
            for cut in 0..header.len() {
                assert_eq!(read(&header[..cut], LIMIT), Ok(None), "{cut} of {header:?}");
            }
        }
    }

    #[test]
    fn anything_else_is_refused_at_once() {
        for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x16\x03\x01\x02\x00\x01", b"PROXY TCP9 a b c d\r\n"]
        {
            assert_eq!(read(bytes, LIMIT), Err(NotProxied), "{bytes:?}");
        }
    }

    #[test]
    fn a_header_that_never_ends_is_refused_at_the_limit() {
        let body = vec![0; 65_000];
        assert_eq!(read(&v2(0x21, 0x11, &body)[..LIMIT], LIMIT), Err(NotProxied));
        assert_eq!(read(&v2(0x21, 0x11, &body), LIMIT), Err(NotProxied));
    }
}
