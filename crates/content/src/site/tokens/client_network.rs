//! Networks that tokens are bound to.

use std::net::IpAddr;

/// A network in CIDR notation.
#[derive(Clone, Copy)]
pub(super) struct ClientNetwork {
    address: IpAddr,
    bits: u32,
}

impl ClientNetwork {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        Self::new(address, bits.map_or(Some(most), |bits| bits.parse().ok())?)
    }

    pub(super) fn new(address: IpAddr, bits: u32) -> Option<Self> {
        let most = if address.is_ipv4() { 32 } else { 128 };
        (bits <= most).then_some(Self { address, bits })
    }

    pub(super) fn has(self, client: IpAddr) -> bool {
        match (self.address, client) {
            (IpAddr::V4(one), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - self.bits).unwrap_or(0);
                (one.to_bits() ^ other.to_bits()) & mask == 0
            }
            (IpAddr::V6(one), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(128 - self.bits).unwrap_or(0);
                (one.to_bits() ^ other.to_bits()) & mask == 0
            }
            _ => false,
        }
    }
}
