//! What this server proves to itself without keeping state: Retry tokens (RFC 9000 §8.1.2) and tokens of stateless resets
//! (§10.3).

use std::net::{IpAddr, SocketAddr};

use boring::hash::hmac_sha256;

use crate::datagram::Initial;
use crate::id::{ConnectionId, fill_random};

/// Seconds for which a Retry token is valid.
const TOKEN_SECONDS: u64 = 30;

const MAC_BYTES: usize = 32;

/// Bytes of the token at the end of a stateless reset.
const RESET_TOKEN_BYTES: usize = 16;

/// The shortest stateless reset that looks like a packet (RFC 9000 §10.3).
const RESET_BYTES_MIN: usize = 21;

/// The longest one. A client with packets of this length learns nothing from more.
const RESET_BYTES_MAX: usize = 43;

/// The key of tokens. All workers share it.
#[derive(Clone)]
pub struct IdKey([u8; 32]);

impl std::fmt::Debug for IdKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdKey").finish_non_exhaustive()
    }
}

/// The beginning of a connection that was continued after a Retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryOrigin {
    /// The id that the client chose for its first packet.
    pub original: ConnectionId,
    /// The id that this server chose in its Retry.
    pub retried: ConnectionId,
}

impl IdKey {
    /// A new key.
    pub fn random() -> Self {
        let mut key = [0; 32];
        fill_random(&mut key);
        Self(key)
    }

    fn mac(&self, purpose: u8, parts: &[&[u8]]) -> Option<[u8; MAC_BYTES]> {
        let mut message = vec![purpose];
        for part in parts {
            message.extend_from_slice(&(part.len() as u64).to_be_bytes());
            message.extend_from_slice(part);
        }
        hmac_sha256(&self.0, &message).ok()
    }

    /// The token of the stateless reset of a connection with this id.
    pub fn reset_token(&self, id: &ConnectionId) -> u128 {
        let mac = self.mac(b'r', &[id.as_bytes()]).unwrap_or([0; MAC_BYTES]);
        u128::from_be_bytes(std::array::from_fn(|at| mac[at]))
    }

    /// A stateless reset for a packet of `bytes` with this id, for a client whose connection is gone. It is shorter than that
    /// packet, so that two servers that reset each other end. `None` for a packet that is too short.
    pub fn stateless_reset(&self, id: &ConnectionId, bytes: usize) -> Option<Vec<u8>> {
        let length = bytes.saturating_sub(1).min(RESET_BYTES_MAX);
        if length < RESET_BYTES_MIN {
            return None;
        }
        let mut packet = vec![0; length];
        fill_random(&mut packet);
        packet[0] = packet[0] & 0x3f | 0x40;
        packet[length - RESET_TOKEN_BYTES..].copy_from_slice(&self.reset_token(id).to_be_bytes());
        Some(packet)
    }

    /// A Retry with the id `new` for the client at `client`, to be sent at `now`, in seconds of any clock.
    pub fn retry(
        &self,
        initial: &Initial,
        new: &ConnectionId,
        client: SocketAddr,
        now: u64,
    ) -> Option<Vec<u8>> {
        let mac = self.retry_mac(&initial.destination, new, client, now)?;
        let token = [&now.to_be_bytes()[..], &mac, initial.destination.as_bytes()].concat();
        let mut packet = vec![0; 64 + token.len() + 3 * 20];
        let (source, destination) = (initial.source.quic(), initial.destination.quic());
        let length =
            quiche::retry(&source, &destination, &new.quic(), &token, initial.version, &mut packet).ok()?;
        packet.truncate(length);
        Some(packet)
    }

    /// The origin of a connection, if the token of `initial` is one that this server gave to this client not long ago.
    pub fn origin(&self, initial: &Initial, client: SocketAddr, now: u64) -> Option<RetryOrigin> {
        let (time, rest) = initial.token.split_first_chunk::<8>()?;
        let (mac, original) = rest.split_first_chunk::<MAC_BYTES>()?;
        let time = u64::from_be_bytes(*time);
        let original = ConnectionId::new(original)?;
        let retried = initial.destination;
        let expected = self.retry_mac(&original, &retried, client, time)?;
        let is_valid = boring::memcmp::eq(mac, &expected) && now.checked_sub(time)? <= TOKEN_SECONDS;
        is_valid.then_some(RetryOrigin { original, retried })
    }

    fn retry_mac(
        &self,
        original: &ConnectionId,
        retried: &ConnectionId,
        client: SocketAddr,
        time: u64,
    ) -> Option<[u8; MAC_BYTES]> {
        let address = match client.ip() {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let (address, port) = (address.octets(), client.port().to_be_bytes());
        let parts = [original.as_bytes(), retried.as_bytes(), &address, &port, &time.to_be_bytes()];
        self.mac(b't', &parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn initial(destination: &[u8], token: Vec<u8>) -> Initial {
        let (destination, source) =
            (ConnectionId::new(destination).unwrap(), ConnectionId::new(b"client").unwrap());
        Initial { destination, source, token, version: quiche::PROTOCOL_VERSION, can_begin: true }
    }

    #[test]
    fn a_token_is_valid_for_its_client_its_id_and_its_time() {
        let key = IdKey::random();
        let client: SocketAddr = "192.0.2.1:5000".parse().unwrap();
        let new = ConnectionId::random(0, 1);
        let mut packet = key.retry(&initial(b"original", Vec::new()), &new, client, 100).unwrap();
        let header = quiche::Header::from_slice(&mut packet, 16).unwrap();
        assert_eq!((&*header.scid, header.ty), (new.as_bytes(), quiche::Type::Retry));
        let second = |destination: &[u8]| initial(destination, header.token.clone().unwrap());
        let origin = RetryOrigin { original: ConnectionId::new(b"original").unwrap(), retried: new };
        assert_eq!(key.origin(&second(new.as_bytes()), client, 100), Some(origin));
        assert_eq!(key.origin(&second(new.as_bytes()), client, 130), Some(origin));
        assert_eq!(key.origin(&second(new.as_bytes()), client, 131), None, "too old");
        assert_eq!(key.origin(&second(new.as_bytes()), client, 99), None, "from the future");
        assert_eq!(key.origin(&second(b"another id"), client, 100), None);
        let other = "192.0.2.1:5001".parse().unwrap();
        assert_eq!(key.origin(&second(new.as_bytes()), other, 100), None, "another port");
        assert_eq!(IdKey::random().origin(&second(new.as_bytes()), client, 100), None, "another server");
        for token in [vec![], vec![0; 8], vec![0; 40], vec![0; 61], vec![0; 300]] {
            assert_eq!(key.origin(&initial(new.as_bytes(), token), client, 100), None);
        }
    }

    #[test]
    fn a_stateless_reset_is_shorter_than_its_packet_and_ends_in_the_token_of_the_id() {
        let (key, id) = (IdKey::random(), ConnectionId::random(0, 1));
        assert_eq!(key.stateless_reset(&id, 21), None);
        for bytes in [22, 30, 44, 1200] {
            let packet = key.stateless_reset(&id, bytes).unwrap();
            assert!(packet.len() < bytes && (21..=43).contains(&packet.len()));
            assert_eq!(packet[0] & 0xc0, 0x40, "a short header");
            assert_eq!(packet[packet.len() - 16..], key.reset_token(&id).to_be_bytes());
        }
        assert_ne!(key.reset_token(&id), key.reset_token(&ConnectionId::random(0, 1)));
    }
}
