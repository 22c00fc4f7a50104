//! What a client that stops reading leaves in the socket buffer.

use std::io::Read;

use penstock_testkit::{Client, Server, Setup, Sockets, has_congestion_control, until};
use socket2::{Domain, Socket, Type};

const LEN: u64 = 256 << 20;
/// What the client reads first, at full speed.
const READ_BYTES: usize = 16 << 20;
/// The largest segment of a path through network cards. Loopback has larger ones.
const SEGMENT_BYTES: u32 = 1448;
/// Between the low water of a fast connection, 32 KiB and a segment, and that of a listener, 512 KiB.
const LITTLE: u64 = 256 << 10;

fn server(congestion_control: &str) -> Server {
    let listener = format!("congestion_control: {congestion_control}");
    let server = Setup::new().listeners(&[&listener]).start();
    server.file("large.mp4", LEN);
    server
}

/// Bytes in the server's socket once a client has read for a while and takes nothing more.
fn unsent(server: &Server) -> u64 {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_tcp_mss(SEGMENT_BYTES).unwrap();
    socket.connect(&server.http().into()).unwrap();
    let mut client = Client::over(std::net::TcpStream::from(socket));
    client.send("GET /large.mp4 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.stream.read_exact(&mut vec![0; READ_BYTES]).unwrap();
    let port = server.http().port();
    until("the server to find the client's window closed", || {
        let sockets = Sockets::of_port(port);
        (sockets.blocked == 1).then_some(sockets.unacknowledged)
    })
}

#[test]
fn a_fast_connection_has_little_unsent_where_bbr_paces_it_and_more_elsewhere() {
    let most = unsent(&server("reno"));
    assert!(most > LITTLE, "{most} bytes");
    if !has_congestion_control("bbr") {
        return;
    }
    // On a busy machine the client may be a slow one for a while.
    until("a fast connection", || {
        let bytes = unsent(&server("bbr"));
        println!("{bytes} bytes with bbr, {most} without");
        (bytes <= LITTLE).then_some(())
    });
}
