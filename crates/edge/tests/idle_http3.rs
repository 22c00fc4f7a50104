//! Memory of connections of HTTP/3 that are idle, as the worker asks for it.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

mod settled;

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use penstock_config::Config;
use penstock_edge::Server;
use penstock_sys::heap::{Counting, live_bytes, live_bytes_of_all_threads};
use quiche::h3;
use settled::settled;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const FEW: usize = 10;
const MANY: usize = 60;

/// The bytes that a connection without a request may hold. The kernel's share and the state of TLS that is left behind a handshake
/// are not among them: TLS is another allocator's.
const IDLE_BYTES_MAX: isize = 36 * 1024;

/// The same after requests: the library keeps the places of their packets, frames and streams.
const SERVED_BYTES_MAX: isize = 48 * 1024;

const DEADLINE: Duration = Duration::from_secs(30);

struct Client {
    quic: quiche::Connection,
    http: Option<h3::Connection>,
    socket: UdpSocket,
    local: SocketAddr,
    answered: usize,
}

impl Client {
    /// Connects, sends `requests` after each other, and reads all responses.
    fn served(config: &mut quiche::Config, server: SocketAddr, requests: usize) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server).unwrap();
        socket.set_nonblocking(true).unwrap();
        let local = socket.local_addr().unwrap();
        let id = quiche::ConnectionId::from_vec(local.port().to_be_bytes().repeat(8));
        let quic = quiche::connect(Some("localhost"), &id, local, server, config).unwrap();
        let mut client = Self { quic, http: None, socket, local, answered: 0 };
        client.until(|client| client.http.is_some());
        for number in 0..requests {
            let head =
                [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/a")];
            client.http.as_mut().unwrap().send_request(&mut client.quic, &head, true).unwrap();
            client.until(|client| client.answered > number);
        }
        client
    }

    fn until(&mut self, is_done: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !is_done(self) {
            assert!(Instant::now() < deadline, "the server does not answer");
            self.turn();
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// Sends and receives what there is.
    fn turn(&mut self) {
        let mut packet = [0; 1500];
        while let Ok((length, _)) = self.quic.send(&mut packet) {
            self.socket.send(&packet[..length]).unwrap();
        }
        while let Ok(length) = self.socket.recv(&mut packet) {
            let info = quiche::RecvInfo { from: self.socket.peer_addr().unwrap(), to: self.local };
            self.quic.recv(&mut packet[..length], info).unwrap();
            self.read();
        }
        if self.quic.timeout() == Some(Duration::ZERO) {
            self.quic.on_timeout();
        }
    }

    fn read(&mut self) {
        if self.http.is_none() && self.quic.is_established() {
            let config = h3::Config::new().unwrap();
            self.http = Some(h3::Connection::with_transport(&mut self.quic, &config).unwrap());
        }
        let Some(http) = &mut self.http else { return };
        while let Ok((stream, event)) = http.poll(&mut self.quic) {
            match event {
                h3::Event::Data => while http.recv_body(&mut self.quic, stream, &mut [0; 4096]).is_ok() {},
                h3::Event::Finished => self.answered += 1,
                _ => {}
            }
        }
    }
}

/// Settings like those of browsers.
fn client_config() -> quiche::Config {
    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
    config.verify_peer(false);
    config.set_application_protos(&[b"h3"]).unwrap();
    config.set_initial_max_data(10_000_000);
    config.set_initial_max_stream_data_bidi_local(1_000_000);
    config.set_initial_max_stream_data_uni(100_000);
    config.set_initial_max_streams_uni(100);
    config.set_active_connection_id_limit(4);
    config
}

#[test]
fn an_idle_connection_holds_few_kilobytes() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a"), [b'a'; 1024]).unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(directory.path().join("chain.pem"), made.cert.pem()).unwrap();
    std::fs::write(directory.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let text = format!(
        "workers: 1\nlisteners: [{{address: '127.0.0.1:0', tls: true, protocols: [h1, h3]}}]\n\
         tls: {{certificates: [{{chain: {0}/chain.pem, key: {0}/key.pem}}]}}\n\
         sites: [{{hosts: ['*'], origin: {{directory: {0}}}}}]\n",
        directory.path().display()
    );
    let config = Config::from_text(&text, Path::new("test.yaml")).unwrap();
    let server = Server::start(&config).unwrap();
    let address = server.addresses()[0];
    let mut client = client_config();
    let mut held = Vec::new();
    for (requests, most) in [(0, IDLE_BYTES_MAX), (1, SERVED_BYTES_MAX), (10, SERVED_BYTES_MAX)] {
        held.extend((0..FEW).map(|_| Client::served(&mut client, address, requests)));
        let before = settled(isize::MAX, || live(&mut held));
        held.extend((FEW..MANY).map(|_| Client::served(&mut client, address, requests)));
        let more = isize::try_from(MANY - FEW).unwrap();
        let after = settled(before + more * most, || live(&mut held));
        let each = (after - before) / more;
        assert!(each <= most, "{each} bytes for each connection after {requests} requests");
        assert!(each >= 1024, "{each}: the connections are not there");
    }
    server.stop();
    server.wait();
}

/// The bytes of the server's threads, after a turn of each client.
fn live(clients: &mut [Client]) -> isize {
    clients.iter_mut().for_each(Client::turn);
    live_bytes_of_all_threads() - live_bytes()
}
