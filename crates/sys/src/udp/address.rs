//! Socket addresses in the form of the system.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Space for an address of IPv4 or IPv6: the fields of `sockaddr_in6`, whose first two are those of `sockaddr_in`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct RawAddress {
    family: u16,
    /// In network order.
    port: [u8; 2],
    /// IPv4: the address. IPv6: the flow label.
    v4_or_flow: [u8; 4],
    v6: [u8; 16],
    scope: u32,
}

#[expect(clippy::cast_possible_truncation, reason = "the constants are small")]
const V4: u16 = libc::AF_INET as u16;
#[expect(clippy::cast_possible_truncation, reason = "the constants are small")]
const V6: u16 = libc::AF_INET6 as u16;

#[expect(clippy::cast_possible_truncation, reason = "an address has few bytes")]
const V4_BYTES: libc::socklen_t = size_of::<libc::sockaddr_in>() as libc::socklen_t;
#[expect(clippy::cast_possible_truncation, reason = "an address has few bytes")]
const V6_BYTES: libc::socklen_t = size_of::<RawAddress>() as libc::socklen_t;

impl RawAddress {
    /// Bytes of the longest address.
    pub(super) const LENGTH: libc::socklen_t = V6_BYTES;

    pub(super) fn of(address: SocketAddr) -> Self {
        let port = address.port().to_be_bytes();
        match address {
            SocketAddr::V4(address) => {
                Self { family: V4, port, v4_or_flow: address.ip().octets(), ..Self::default() }
            }
            SocketAddr::V6(address) => Self {
                family: V6,
                port,
                v4_or_flow: address.flowinfo().to_ne_bytes(),
                v6: address.ip().octets(),
                scope: address.scope_id(),
            },
        }
    }

    /// Bytes that the system reads.
    pub(super) fn length(&self) -> libc::socklen_t {
        if self.family == V4 { V4_BYTES } else { Self::LENGTH }
    }
}

/// The address that the system has written; `None` if it is of another family.
pub(super) fn read_address(raw: &RawAddress) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(raw.port);
    match raw.family {
        V4 => Some(SocketAddrV4::new(Ipv4Addr::from(raw.v4_or_flow), port).into()),
        V6 => {
            let flow = u32::from_ne_bytes(raw.v4_or_flow);
            Some(SocketAddrV6::new(Ipv6Addr::from(raw.v6), port, flow, raw.scope).into())
        }
        _ => None,
    }
}

const _: () = assert!(size_of::<RawAddress>() == size_of::<libc::sockaddr_in6>());
