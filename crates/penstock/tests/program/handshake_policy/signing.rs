//! The queue of signatures.

use std::io::{Read, Write};
use std::net::TcpStream;

use penstock_testkit::{Client, Server, Setup, TlsOptions, client_hello};
use rustix::process::Signal;

/// A connection whose ClientHello is sent and whose answer is not read yet.
struct Begun(TcpStream);

impl Begun {
    fn begin(server: &Server) -> Self {
        let mut socket = TcpStream::connect(server.https()).unwrap();
        socket.write_all(&client_hello(server, &TlsOptions::default())).unwrap();
        Self(socket)
    }
}

/// The clients that stay are in front and use up the first round; the clients that leave wait behind them.
#[test]
fn a_client_that_leaves_while_others_are_signed_for_costs_no_signature() {
    const STAY: usize = 12;
    const LEAVE: usize = 30;
    let server = Setup::new().workers(1).start();
    server.write("a.txt", "a\n");
    // Everything waits in the kernel until the server can look at it all at once.
    server.signal(Signal::STOP);
    let mut staying: Vec<Begun> = (0..STAY).map(|_| Begun::begin(&server)).collect();
    let leaving: Vec<Begun> = (0..LEAVE).map(|_| Begun::begin(&server)).collect();
    drop(leaving);
    server.signal(Signal::CONT);
    for begun in &mut staying {
        // The ServerHello and what is signed.
        assert_eq!(begun.0.read(&mut [0; 5]).unwrap(), 5);
    }
    drop(staying);
    server.counted("penstock_handshake_failures_total", &[], (STAY + LEAVE) as f64);
    let unsigned =
        server.metrics().sum("penstock_handshake_failures_total", &["reason=\"gone_before_signing\""]);
    assert!(unsigned > 0.0 && unsigned <= LEAVE as f64, "{unsigned}");
    assert_eq!(Client::tls(&server).get("/a.txt").text(), "a\n");
}

#[test]
fn a_crowd_that_connects_at_once_is_served_to_the_last() {
    const CROWD: usize = 40;
    let server = Setup::new().workers(1).start();
    server.write("a.txt", "a\n");
    server.signal(Signal::STOP);
    let sockets: Vec<TcpStream> = (0..CROWD).map(|_| TcpStream::connect(server.https()).unwrap()).collect();
    let served = std::thread::scope(|scope| {
        let clients = sockets.into_iter().map(|socket| {
            let server = &server;
            scope.spawn(move || TlsOptions::default().handshake(server, socket).is_ok())
        });
        let clients: Vec<_> = clients.collect();
        server.signal(Signal::CONT);
        clients.into_iter().map(|client| client.join().unwrap()).filter(|served| *served).count()
    });
    assert_eq!(served, CROWD);
    server.counted("penstock_handshakes_total", &["outcome=\"ok\""], CROWD as f64);
    server.counted("penstock_handshakes_total", &["outcome=\"failed\""], 0.0);
}
