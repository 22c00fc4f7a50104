//! Which addresses are one client, and which clients are of one network: the leading bits that limits and counters go by.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Leading bits of an address, by its version.
struct PrefixLengths {
    v4: u32,
    /// At most 64.
    v6: u32,
}

/// Of one client. A host of IPv6 chooses the last 64 bits of its address itself, and changes them (RFC 8981).
const CLIENT: PrefixLengths = PrefixLengths { v4: 32, v6: 64 };

/// Of the usual network of one customer of a provider, or of a small company (RFC 6177).
const NETWORK: PrefixLengths = PrefixLengths { v4: 24, v6: 56 };

/// The version of an address and its leading bits. An IPv4 address that is mapped into IPv6 is the IPv4 address.
fn leading(address: IpAddr, lengths: &PrefixLengths) -> (u8, u64) {
    match address.to_canonical() {
        IpAddr::V4(ip) => (4, u64::from(ip.to_bits() >> (32 - lengths.v4))),
        IpAddr::V6(ip) => (6, u64::try_from(ip.to_bits() >> (128 - lengths.v6)).unwrap_or(u64::MAX)),
    }
}

/// A number, not 0, that is the same for all addresses of one client: an address of IPv4, a /64 of IPv6.
pub fn client_number(address: IpAddr) -> u128 {
    let (version, bits) = leading(address, &CLIENT);
    u128::from(version) << 64 | u128::from(bits)
}

/// The network of a client: a /24 of IPv4, a /56 of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    version: u8,
    bits: u64,
}

impl Network {
    /// The network of a client.
    pub fn of(client: IpAddr) -> Self {
        let (version, bits) = leading(client, &NETWORK);
        Self { version, bits }
    }

    /// The same; `None` for this machine itself, which is not limited: proxies and tests come from there.
    pub fn of_remote(client: IpAddr) -> Option<Self> {
        (!client.to_canonical().is_loopback()).then(|| Self::of(client))
    }

    /// A number, not 0, that no other network has.
    pub fn number(self) -> u64 {
        u64::from(self.version) << NETWORK.v6 | self.bits
    }
}

/// In the notation of prefixes (RFC 4632).
impl fmt::Display for Network {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.version == 4 {
            let first = u32::try_from(self.bits << (32 - NETWORK.v4)).unwrap_or(u32::MAX);
            write!(out, "{}/{}", Ipv4Addr::from_bits(first), NETWORK.v4)
        } else {
            let first = u128::from(self.bits) << (128 - NETWORK.v6);
            write!(out, "{}/{}", Ipv6Addr::from_bits(first), NETWORK.v6)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_client_is_an_address_of_ipv4_or_a_64_of_ipv6() {
        for (one, same, other) in [
            ("192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"),
            ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "2001:db8:1:3::1"),
            ("::4", "::5", "0.0.0.4"),
            ("ffff:ffff:ffff:ffff::1", "ffff:ffff:ffff:ffff::2", "255.255.255.255"),
        ] {
            assert_eq!(client_number(ip(one)), client_number(ip(same)), "{one} {same}");
            assert_ne!(client_number(ip(one)), client_number(ip(other)), "{one} {other}");
            assert_ne!(client_number(ip(other)), 0);
        }
    }

    #[test]
    fn a_network_is_a_24_of_ipv4_or_a_56_of_ipv6_and_is_written_as_a_prefix() {
        for (one, same, other, written) in [
            ("192.0.2.77", "192.0.2.255", "192.0.3.1", "192.0.2.0/24"),
            ("192.0.2.1", "::ffff:192.0.2.9", "198.51.100.1", "192.0.2.0/24"),
            ("2001:db8:1:2ff::1", "2001:db8:1:200:1:2:3:4", "2001:db8:1:300::1", "2001:db8:1:200::/56"),
            ("0.0.4.1", "0.0.4.2", "0:0:0:400::1", "0.0.4.0/24"),
            ("255.255.255.1", "255.255.255.2", "ffff:ffff:ffff:ffff::1", "255.255.255.0/24"),
        ] {
            let [first, second, third] = [one, same, other].map(|text| Network::of(ip(text)));
            assert_eq!((first, first.number()), (second, second.number()), "{one} {same}");
            assert_ne!(first, third, "{one} {other}");
            assert_ne!(first.number(), third.number(), "{one} {other}");
            assert_eq!(first.to_string(), written);
        }
    }

    #[test]
    fn this_machine_is_not_remote() {
        for own in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(Network::of_remote(ip(own)), None, "{own}");
        }
        assert_eq!(Network::of_remote(ip("192.0.2.1")), Some(Network::of(ip("192.0.2.2"))));
    }
}
