//! A datagram of which nothing is known.

use std::cell::RefCell;

use crate::limits::{Http3Limits, QuicConfig};
use crate::peers::{client_address, context, server_address};
use crate::{
    CONNECTION_ID_BYTES, ConnectionId, Datagram, IdKey, Initial, MAX_DATAGRAM_BYTES, NetworkPath,
    RetryOrigin, ServerConnection, version_negotiation,
};

/// The shortest id that a client may choose (RFC 9000 §7.2).
const CHOSEN_ID_BYTES_MIN: usize = 8;

/// The shortest datagram that may begin a connection.
const INITIAL_BYTES_MIN: usize = 1200;

/// What a server may send for each byte of a client whose address is not proven (RFC 9000 §8.1).
const AMPLIFICATION: usize = 3;

/// Seconds of the clock of tokens.
const NOW: u64 = 1000;

thread_local! {
    static SERVER: RefCell<(QuicConfig, IdKey)> = RefCell::new({
        (QuicConfig::new(context(), &Http3Limits::default()).unwrap(), IdKey::random())
    });
}

/// The body of the fuzz target `quic_datagram`: what a client sends without a connection. The ids are those that every version of
/// QUIC has at their places, each answer is shorter than what it answers and is no question, a token opens what it was made
/// for and nothing else, and a connection sends no more than the address of its client allows.
pub fn fuzz_quic_datagram(input: &[u8]) {
    let mut bytes = input.to_vec();
    let parsed = Datagram::parse(&mut bytes);
    assert!(bytes == input, "a datagram is read, not changed");
    if let Some(id) = parsed.destination() {
        let is_long = input[0] & 0x80 != 0;
        let (start, length) = if is_long { (6, usize::from(input[5])) } else { (1, CONNECTION_ID_BYTES) };
        assert_eq!(id.as_bytes(), &input[start..start + length]);
        assert_eq!(is_long, !matches!(parsed, Datagram::Known(_)));
        check_reset(id, input.len());
    }
    match parsed {
        Datagram::OtherVersion { destination, source, .. } => {
            assert!(
                input.len() >= INITIAL_BYTES_MIN && input[1..5] != quiche::PROTOCOL_VERSION.to_be_bytes()
            );
            let mut answer = [0; 64];
            let length = version_negotiation(&destination, &source, &mut answer).unwrap();
            let answer = &mut answer[..length];
            assert!(answer[0] & 0x80 != 0 && answer[1..5] == [0; 4]);
            let ids = [source, destination]
                .map(|id| [&[id.as_bytes().len().to_le_bytes()[0]], id.as_bytes()].concat());
            assert_eq!(answer[5..], [&ids.concat()[..], &quiche::PROTOCOL_VERSION.to_be_bytes()].concat());
            assert!(matches!(Datagram::parse(answer), Datagram::Ignored));
        }
        Datagram::Initial(initial) => {
            assert!(initial.destination.as_bytes().len() >= CHOSEN_ID_BYTES_MIN);
            assert_eq!(initial.can_begin, input.len() >= INITIAL_BYTES_MIN);
            check_token(initial, input.len());
            if input.len() >= INITIAL_BYTES_MIN {
                check_connection(bytes);
            }
        }
        Datagram::Known(_) | Datagram::Handshake(_) | Datagram::Ignored => {}
    }
}

fn check_reset(id: &ConnectionId, bytes: usize) {
    SERVER.with_borrow(|(_, key)| {
        if let Some(mut packet) = key.stateless_reset(id, bytes) {
            assert!(packet.len() < bytes);
            assert!(matches!(Datagram::parse(&mut packet), Datagram::Known(_)), "a short header");
            assert_eq!(packet[packet.len() - 16..], key.reset_token(id).to_be_bytes());
        }
    });
}

fn check_token(mut initial: Initial, bytes: usize) {
    SERVER.with_borrow(|(_, key)| {
        let client = client_address();
        assert_eq!(key.origin(&initial, client, NOW), None, "no token of this server");
        let new = ConnectionId::random(1, 3);
        let mut packet = key.retry(&initial, &new, client, NOW).unwrap();
        assert!(packet.len() < AMPLIFICATION * bytes.max(INITIAL_BYTES_MIN));
        let token = quiche::Header::from_slice(&mut packet, 0).unwrap().token.unwrap();
        assert!(matches!(Datagram::parse(&mut packet), Datagram::Ignored));
        let origin = RetryOrigin { original: initial.destination, retried: new };
        initial.destination = new;
        // What the client has sent as a token says where this server's is changed.
        let place = initial.token.first().map_or(0, |byte| usize::from(*byte)) % token.len();
        let mut changed = token.clone();
        changed[place] ^= initial.token.get(1).map_or(1, |byte| (*byte).max(1));
        initial.token = changed;
        assert_eq!(key.origin(&initial, client, NOW), None);
        initial.token = token;
        assert_eq!(key.origin(&initial, client, NOW), Some(origin));
        assert_eq!(key.origin(&initial, server_address(), NOW), None, "another address");
    });
}

fn check_connection(mut bytes: Vec<u8>) {
    let path = NetworkPath { local: server_address(), client: client_address() };
    let most = AMPLIFICATION * bytes.len();
    let mut connection = SERVER.with_borrow_mut(|(config, _)| {
        ServerConnection::accept(config, (ConnectionId::random(0, 1), 7), None, path).unwrap()
    });
    connection.receive(&mut bytes, path);
    assert!(connection.next_event().is_none(), "without the client's part of the handshake");
    let mut packet = [0; MAX_DATAGRAM_BYTES];
    let mut sent = 0;
    while let Some((length, to)) = connection.packet(&mut packet) {
        sent += length;
        assert!(sent <= most && to == path);
    }
}
