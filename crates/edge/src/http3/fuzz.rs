//! The body of the fuzz target for the socket that the kernel gives a datagram to.
#![expect(clippy::unwrap_used, reason = "in a fuzz target it is the assertion")]

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use penstock_http3::{ConnectionId, Datagram, MAX_DATAGRAM_BYTES};
use penstock_sys::socket::Binding;
use penstock_sys::udp::{bind, steer_by_connection_id};

/// Sockets of a group.
const WORKERS: u16 = 3;

/// The shortest id that a client may choose (RFC 9000 §7.2): shorter ones name no worker.
const CHOSEN_ID_BYTES_MIN: usize = 8;

const BUFFER_BYTES: usize = 1 << 16;

thread_local! {
    static GROUP: Group = Group::new();
}

struct Group {
    sockets: Vec<UdpSocket>,
    client: UdpSocket,
    address: SocketAddr,
}

impl Group {
    fn new() -> Self {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let first = bind(any_port, Binding::Present, BUFFER_BYTES).unwrap();
        let address = first.local_addr().unwrap();
        let others = (1..WORKERS).map(|_| bind(address, Binding::Present, BUFFER_BYTES).unwrap());
        let sockets: Vec<_> = std::iter::once(first).chain(others).collect();
        steer_by_connection_id(&sockets[0], WORKERS).unwrap();
        Self { sockets, client: bind(any_port, Binding::Present, BUFFER_BYTES).unwrap(), address }
    }

    /// The sockets that get a datagram. Over loopback it has arrived when it is sent.
    fn receivers(&self, datagram: &[u8]) -> Vec<u16> {
        self.client.send_to(datagram, self.address).unwrap();
        let mut buffer = [0; 2 * MAX_DATAGRAM_BYTES];
        let mut has_received = |socket: &UdpSocket| match socket.recv(&mut buffer) {
            Ok(length) => {
                assert!(buffer[..length] == *datagram);
                true
            }
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                false
            }
        };
        let numbered = (0..).zip(&self.sockets);
        numbered.filter(|(_, socket)| has_received(socket)).map(|(number, _)| number).collect()
    }
}

/// The body of the fuzz target `quic_steering`: a datagram reaches one socket of a group, and that of the worker whom the connection id
/// names, as the parser of the program reads it.
pub fn fuzz_quic_steering(input: &[u8]) {
    let input = &input[..input.len().min(MAX_DATAGRAM_BYTES)];
    let receivers = GROUP.with(|group| group.receivers(input));
    let [receiver] = receivers[..] else { panic!("{receivers:?} have received the datagram") };
    let parsed = Datagram::parse(&mut input.to_vec());
    let long_enough = |id: &&ConnectionId| id.as_bytes().len() >= CHOSEN_ID_BYTES_MIN;
    if let Some(id) = parsed.destination().filter(long_enough) {
        assert_eq!(id.worker(WORKERS), receiver);
    }
}
