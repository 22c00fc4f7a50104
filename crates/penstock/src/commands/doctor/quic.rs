//! What HTTP/3 needs of the machine and the network, gathered before any rating.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use penstock_config::Config;
use penstock_sys::udp;

/// The listeners that speak HTTP/3, and the kernel's part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuicFacts {
    /// Whether the kernel splits trains of datagrams; `None` if that could not be tried.
    pub(crate) splits: Option<bool>,
    pub(crate) listeners: Vec<(SocketAddr, QuicAnswer)>,
}

/// What a listener answers to a datagram of QUIC from this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuicAnswer {
    /// The versions that it speaks.
    Versions,
    /// Nothing, although the port of TCP is open.
    Silence,
    /// Nothing listens, over TCP neither.
    NotRunning,
}

/// How long an answer over loopback may take.
const PATIENCE: Duration = Duration::from_millis(300);

/// Datagrams that are sent; one may be lost.
const TRIES: usize = 2;

/// The shortest datagram that is answered (RFC 9000 §14.1).
const DATAGRAM_BYTES: usize = 1200;

impl QuicFacts {
    /// `None` if no listener speaks HTTP/3.
    pub(super) fn of(config: &Config) -> Option<Self> {
        let listeners = config.listeners.iter().filter(|one| one.protocols.h3 && one.address.port() != 0);
        let listeners: Vec<_> = listeners.map(|one| (one.address, answer(one.address))).collect();
        let speaks = config.listeners.iter().any(|one| one.protocols.h3);
        speaks.then(|| Self { splits: udp::splits_trains().ok(), listeners })
    }
}

fn answer(listener: SocketAddr) -> QuicAnswer {
    let loopback = match listener.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        other => other,
    };
    let address = SocketAddr::new(loopback, listener.port());
    if (0..TRIES).any(|_| asks_for_versions(address).is_ok_and(|is_answer| is_answer)) {
        return QuicAnswer::Versions;
    }
    match TcpStream::connect_timeout(&address, PATIENCE) {
        Ok(_) => QuicAnswer::Silence,
        Err(_) => QuicAnswer::NotRunning,
    }
}

/// Sends a datagram of a version that no server speaks (RFC 9000 §6.3). Returns whether the versions came that it does speak.
fn asks_for_versions(address: SocketAddr) -> io::Result<bool> {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut datagram = vec![0; DATAGRAM_BYTES];
    // A long header, the version, and two connection ids of eight bytes.
    datagram[..6].copy_from_slice(&[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8]);
    datagram[14] = 8;
    socket.send(&datagram)?;
    let mut answer = [0; 64];
    let count = socket.recv(&mut answer)?;
    Ok(count > 5 && answer[0] & 0x80 != 0 && answer[1..5] == [0; 4])
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_port_that_answers_is_told_from_one_that_is_silent_and_one_that_is_closed() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let mut datagram = [0; 1500];
            let (count, from) = socket.recv_from(&mut datagram).unwrap();
            assert_eq!(count, DATAGRAM_BYTES);
            socket.send_to(&[0x80, 0, 0, 0, 0, 8, 0, 0], from).unwrap();
        });
        assert_eq!(answer(address), QuicAnswer::Versions);
        server.join().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(answer(address), QuicAnswer::Silence);
        drop(listener);
        assert_eq!(answer(address), QuicAnswer::NotRunning);
    }
}
