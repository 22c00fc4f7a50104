//! Control messages (cmsg(3)): the length of the datagrams of a train, and the local address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of the header of a control message.
const HEADER_BYTES: usize = size_of::<libc::cmsghdr>();

/// Control messages begin at multiples of this.
const ALIGNMENT: usize = size_of::<usize>();

/// Space for the messages that this program sends and receives.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Control([u8; 96]);

impl Default for Control {
    fn default() -> Self {
        Self([0; 96])
    }
}

/// What came with a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) to: Option<IpAddr>,
    pub(super) datagram_bytes: Option<usize>,
}

impl Control {
    /// Messages for sending, and how many bytes they take.
    pub(super) fn of(split: Option<usize>, from: Option<IpAddr>) -> (Self, usize) {
        let mut control = Self::default();
        let mut end = 0;
        if let Some(split) = split {
            let split = u16::try_from(split).unwrap_or(u16::MAX).to_ne_bytes();
            end = control.put(end, libc::SOL_UDP, libc::UDP_SEGMENT, &split);
        }
        match from {
            // struct in_pktinfo: interface, address to send from, destination
            Some(IpAddr::V4(from)) => {
                let mut info = [0; 12];
                info[4..8].copy_from_slice(&from.octets());
                end = control.put(end, libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            // struct in6_pktinfo: address, interface
            Some(IpAddr::V6(from)) => {
                let mut info = [0; 20];
                info[..16].copy_from_slice(&from.octets());
                end = control.put(end, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
            None => {}
        }
        (control, end)
    }

    /// Adds a message at `start`, and returns where the next one begins.
    fn put(&mut self, start: usize, level: libc::c_int, kind: libc::c_int, data: &[u8]) -> usize {
        let length = HEADER_BYTES + data.len();
        let fields = [&length.to_ne_bytes()[..], &level.to_ne_bytes(), &kind.to_ne_bytes(), data];
        let mut at = start;
        for field in fields {
            self.0[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        }
        start + length.next_multiple_of(ALIGNMENT)
    }
}

/// Reads the messages that came, `length` bytes.
pub(super) fn read_control(control: &Control, length: usize) -> Received {
    let mut received = Received::default();
    let mut rest = &control.0[..length.min(control.0.len())];
    while let Some((header, _)) = rest.split_at_checked(HEADER_BYTES) {
        let (message_bytes, kind) = header.split_at(size_of::<usize>());
        let message_bytes = message_bytes.try_into().map_or(0, usize::from_ne_bytes);
        let Some(data) = rest.get(HEADER_BYTES..message_bytes) else { break };
        let (level, kind) = kind.split_at(size_of::<libc::c_int>());
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, libc::c_int::from_ne_bytes);
        match (number(level), number(kind), data) {
            (libc::SOL_UDP, libc::UDP_GRO, &[a, b, c, d, ..]) => {
                received.datagram_bytes = usize::try_from(i32::from_ne_bytes([a, b, c, d])).ok();
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO, data) => {
                let to = data.get(8..12).and_then(|to| <[u8; 4]>::try_from(to).ok());
                received.to = to.map(|to| Ipv4Addr::from(to).into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, data) => {
                let to = data.get(..16).and_then(|to| <[u8; 16]>::try_from(to).ok());
                received.to = to.map(|to| Ipv6Addr::from(to).into());
            }
            _ => {}
        }
        rest = rest.get(message_bytes.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
    }
    received
}
