//! Asking servers of DNS over UDP, and over TCP what does not fit.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use super::message::{DnsAnswer, Kind, UDP_ANSWER_BYTES, query};

/// How long a server may take to answer, over UDP and again over TCP.
const ANSWER: Duration = Duration::from_secs(2);

/// Servers of /etc/resolv.conf that are asked in turn.
const SERVERS_MAX: usize = 3;

/// Length in bytes of /etc/resolv.conf as far as it is read.
const RESOLV_CONF_BYTES: u64 = 65_536;

/// The code of a name that does not exist (RFC 1035 section 4.1.1).
const NO_SUCH_NAME: u8 = 3;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'n> {
    /// The name, from the root.
    pub name: &'n str,
    /// The kind of records.
    pub kind: Kind,
}

impl Question<'_> {
    /// Asks these servers in turn, until one of them gives an answer that `read` accepts: of the query and the bytes of the
    /// answer. Blocks for some seconds at most.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]: the name does not exist. Others: what the last server did.
    pub fn ask<T>(
        self,
        servers: &[SocketAddr],
        read: impl Fn(&[u8], &[u8]) -> Option<DnsAnswer<T>>,
    ) -> io::Result<T> {
        let mut outcome = Err(io::Error::other("there is no DNS server"));
        for server in servers {
            outcome = self.ask_one(*server, &read);
            match &outcome {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {}
                _ => break,
            }
        }
        outcome
    }

    fn ask_one<T>(
        self,
        server: SocketAddr,
        read: &impl Fn(&[u8], &[u8]) -> Option<DnsAnswer<T>>,
    ) -> io::Result<T> {
        let id = penstock_tls::random_number().to_le_bytes();
        let query = query(u16::from_le_bytes([id[0], id[1]]), self.name, self.kind);
        let query = query.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it is not a name"))?;
        let read = |answer: &[u8]| read(&query, answer);
        let answer = match over_udp(&query, server, &read)? {
            DnsAnswer::Truncated => over_tcp(&query, server, &read)?,
            answer => answer,
        };
        match answer {
            DnsAnswer::Records(records) => Ok(records),
            DnsAnswer::Truncated => Err(io::Error::other("the answer is truncated")),
            DnsAnswer::Failed(NO_SUCH_NAME) => {
                Err(io::Error::new(io::ErrorKind::NotFound, "the name does not exist"))
            }
            DnsAnswer::Failed(code) => {
                Err(io::Error::other(format!("the DNS server answers with code {code}")))
            }
        }
    }
}

fn over_udp<T>(
    query: &[u8],
    server: SocketAddr,
    read: &impl Fn(&[u8]) -> Option<DnsAnswer<T>>,
) -> io::Result<DnsAnswer<T>> {
    let socket = connected(server)?;
    socket.send(query)?;
    let deadline = Instant::now() + ANSWER;
    let mut bytes = [0; UDP_ANSWER_BYTES as usize];
    loop {
        socket.set_read_timeout(Some(left_until(deadline)?))?;
        let length = socket.recv(&mut bytes)?;
        // An answer to another question: the right one may still come.
        if let Some(answer) = read(&bytes[..length]) {
            return Ok(answer);
        }
    }
}

fn over_tcp<T>(
    query: &[u8],
    server: SocketAddr,
    read: &impl Fn(&[u8]) -> Option<DnsAnswer<T>>,
) -> io::Result<DnsAnswer<T>> {
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "the answer is damaged");
    let deadline = Instant::now() + ANSWER;
    let mut stream = TcpStream::connect_timeout(&server, ANSWER)?;
    stream.set_write_timeout(Some(ANSWER))?;
    let length = u16::try_from(query.len()).map_err(|_| malformed())?;
    stream.write_all(&[&length.to_be_bytes(), query].concat())?;
    let mut length = [0; 2];
    read_exact(&mut stream, &mut length, deadline)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    read_exact(&mut stream, &mut answer, deadline)?;
    read(&answer).ok_or_else(malformed)
}

fn read_exact(stream: &mut TcpStream, mut bytes: &mut [u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_read_timeout(Some(left_until(deadline)?))?;
        match stream.read(bytes)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => bytes = &mut bytes[count..],
        }
    }
    Ok(())
}

fn left_until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// A socket that takes packets of this server alone, on a port that the system chooses.
fn connected(server: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(server)?;
    Ok(socket)
}

/// Whether this machine can send to an address. No packet is sent.
pub(super) fn has_route(address: IpAddr) -> bool {
    connected(SocketAddr::new(address, 53)).is_ok()
}

/// The DNS servers of the system.
pub fn system_servers() -> Vec<SocketAddr> {
    let mut text = String::new();
    let file = std::fs::File::open("/etc/resolv.conf");
    if file.and_then(|file| file.take(RESOLV_CONF_BYTES).read_to_string(&mut text)).is_err() {
        return Vec::new();
    }
    named_servers(&text)
}

fn named_servers(text: &str) -> Vec<SocketAddr> {
    let server = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let address = words.next().filter(|word| *word == "nameserver").and_then(|_| words.next())?;
        Some(SocketAddr::new(address.parse().ok()?, 53))
    };
    text.lines().filter_map(server).take(SERVERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::super::message::{AddressRecords, addresses};
    use super::*;

    #[test]
    fn the_servers_of_the_system_are_read() {
        let text = "# nameserver 192.0.2.9\nsearch example.com\nnameserver 192.0.2.1\nnameserver\t2001:db8::1 \n\
            nameserver here\nnameserver 192.0.2.2\nnameserver 192.0.2.3\n";
        let found: Vec<String> = named_servers(text).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["192.0.2.1:53", "[2001:db8::1]:53", "192.0.2.2:53"]);
    }

    const NAME: &str = "origin.example";

    /// The answer to a query, with one address. `edit` changes its bytes.
    fn answer(query: &[u8], edit: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut answer =
            [&query[..2], &[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0], &query[12..query.len() - 11]].concat();
        answer.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7]);
        edit(&mut answer);
        answer
    }

    /// A server that answers one query over UDP with these packets, and one over TCP with these bytes, then waits for its end.
    fn server(packets: fn(&[u8]) -> Vec<Vec<u8>>, over_tcp: fn(&[u8]) -> Vec<u8>) -> SocketAddr {
        let (tcp, udp) = loop {
            let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
            if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()) {
                break (tcp, udp);
            }
        };
        let address = udp.local_addr().unwrap();
        thread::spawn(move || {
            let mut query = [0; 512];
            let (length, client) = udp.recv_from(&mut query).unwrap();
            for packet in packets(&query[..length]) {
                udp.send_to(&packet, client).unwrap();
            }
        });
        thread::spawn(move || {
            let (mut stream, _) = tcp.accept().unwrap();
            let mut query = [0; 512];
            let length = stream.read(&mut query).unwrap();
            stream.write_all(&over_tcp(&query[2..length])).unwrap();
            drop(stream.read(&mut query));
        });
        address
    }

    fn ask(servers: &[SocketAddr]) -> io::Result<AddressRecords> {
        let read = |query: &[u8], answer: &[u8]| addresses(query, answer, 9);
        Question { name: NAME, kind: Kind::A }.ask(servers, read)
    }

    fn no_tcp(_: &[u8]) -> Vec<u8> {
        Vec::new()
    }

    fn truncated(query: &[u8]) -> Vec<Vec<u8>> {
        vec![answer(query, |bytes| bytes[2] |= 2)]
    }

    #[test]
    fn answers_to_other_questions_and_noise_are_passed_over() {
        let lying = server(
            |query| {
                let other_id = answer(query, |bytes| bytes[0] ^= 1);
                let other_name = answer(query, |bytes| bytes[13] ^= 1);
                let other_kind = answer(query, |bytes| bytes[29] = 28);
                let damaged = answer(query, |bytes| bytes.truncate(40));
                let right = answer(query, |_| {});
                vec![other_id, other_name, other_kind, damaged, vec![0xff; 1400], query.to_vec(), right]
            },
            no_tcp,
        );
        assert_eq!(ask(&[lying]).unwrap().addresses, [IpAddr::from([192, 0, 2, 7])]);
    }

    #[test]
    fn what_does_not_fit_is_asked_for_over_tcp() {
        let large = server(truncated, |query| {
            let bytes = answer(query, |_| {});
            [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), &bytes[..]].concat()
        });
        assert_eq!(ask(&[large]).unwrap().addresses, [IpAddr::from([192, 0, 2, 7])]);
        // A length of 65,535 bytes, of which few come.
        let slow = server(truncated, |query| [&[0xff, 0xff], query].concat());
        assert!(ask(&[slow]).is_err());
    }

    #[test]
    fn a_server_that_fails_leads_to_the_next_and_one_that_knows_no_such_name_does_not() {
        let failing = || server(|query| vec![answer(query, |bytes| bytes[3] = 0x82)], no_tcp);
        let good = server(|query| vec![answer(query, |_| {})], no_tcp);
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let servers = [failing(), silent.local_addr().unwrap(), good];
        assert_eq!(ask(&servers).unwrap().ttl, Duration::from_secs(60));
        let unknown = server(|query| vec![answer(query, |bytes| bytes[3] = 0x83)], no_tcp);
        assert_eq!(ask(&[unknown, failing()]).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_ne!(ask(&[failing()]).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_ne!(ask(&[]).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
