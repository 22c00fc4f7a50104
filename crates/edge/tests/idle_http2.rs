//! Memory of connections of HTTP/2 that are idle, as the worker asks for it.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

mod settled;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use penstock_config::Config;
use penstock_edge::Server;
use penstock_sys::heap::{Counting, live_bytes_of_all_threads};
use settled::settled;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
/// HEADERS of a GET for `/a` of the authority `a`, with END_STREAM and END_HEADERS. The fields enter the table for decoding.
const BLOCK: &[u8] = b"\x82\x86\x44\x02/a\x41\x01a\x7a\x10penstock's tests";

const FEW: usize = 20;
const MANY: usize = 220;

/// The bytes that an idle connection may hold. The kernel's share and the state of TLS that is left behind a handshake
/// are not among them: TLS is another allocator's.
const IDLE_BYTES_MAX: isize = 7 * 1024;

const DEADLINE: Duration = Duration::from_secs(30);

/// Connects, sends `requests` at once, and reads the server's SETTINGS and all responses.
fn served(address: SocketAddr, requests: u32) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    socket.write_all(PREFACE).unwrap();
    socket.write_all(SETTINGS).unwrap();
    for number in 0..requests {
        let [_, length @ ..] = u32::try_from(BLOCK.len()).unwrap().to_be_bytes();
        socket.write_all(&length).unwrap();
        socket.write_all(&[1, 5]).unwrap();
        socket.write_all(&(2 * number + 1).to_be_bytes()).unwrap();
        socket.write_all(BLOCK).unwrap();
    }
    let (mut header, mut payload) = ([0; 9], [0; 16 * 1024]);
    let (mut ended, mut has_settings) = (0, false);
    while ended < requests || !has_settings {
        socket.read_exact(&mut header).unwrap();
        let length = usize::from(header[0]) << 16 | usize::from(header[1]) << 8 | usize::from(header[2]);
        socket.read_exact(&mut payload[..length]).unwrap();
        has_settings |= header[3] == 4;
        // END_STREAM of HEADERS or DATA.
        ended += u32::from(header[3] <= 1 && header[4] & 1 != 0);
    }
    socket
}

#[test]
fn an_idle_connection_holds_few_kilobytes() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a"), [b'a'; 1024]).unwrap();
    let text = format!(
        "workers: 1\nlisteners: [{{address: '127.0.0.1:0', protocols: [h1, h2]}}]\n\
         sites: [{{hosts: ['*'], origin: {{directory: {}}}}}]\n",
        directory.path().display()
    );
    let config = Config::from_text(&text, Path::new("test.yaml")).unwrap();
    let server = Server::start(&config).unwrap();
    let address = server.addresses()[0];
    for requests in [0, 1, 20] {
        let mut held = Vec::with_capacity(MANY);
        held.extend((0..FEW).map(|_| served(address, requests)));
        let before = settled(isize::MAX, live_bytes_of_all_threads);
        held.extend((FEW..MANY).map(|_| served(address, requests)));
        let more = isize::try_from(MANY - FEW).unwrap();
        let after = settled(before + more * IDLE_BYTES_MAX, live_bytes_of_all_threads);
        let each = (after - before) / more;
        assert!(each <= IDLE_BYTES_MAX, "{each} bytes for each connection after {requests} requests");
        assert!(each >= 1024, "{each}: the connections are not there");
    }
    server.stop();
    server.wait();
}
