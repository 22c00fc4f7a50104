//! A client that sends early data, and whose bytes can be replayed from another connection.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use boring::ssl::{Ssl, SslContext, SslMethod, SslSessionCacheMode, SslVersion};
use penstock_sys::ssl::client::{early_data_accepted, offer_older_session, send_early_data, session_bytes};
use penstock_sys::traffic::Secret;

use crate::client::Client;
use crate::server::Server;
use crate::tls::TlsStream;

/// A connection whose bytes are kept.
#[derive(Debug)]
pub struct Tapped {
    socket: TcpStream,
    tap: Arc<Tap>,
}

/// The bytes sent so far, and the changes to make to them.
#[derive(Debug, Default)]
pub struct Tap {
    sent: Mutex<Vec<u8>>,
    spoil: AtomicBool,
}

impl Tap {
    /// Spoils the last byte of all that is sent from here on.
    pub fn spoil(&self) {
        self.spoil.store(true, Ordering::Relaxed);
    }

    /// Sends to the server what the client has sent so far, from another connection.
    pub fn replay(&self, server: &Server) -> TcpStream {
        let mut socket = Client::connect(server.https()).stream;
        socket.write_all(&self.sent.lock().unwrap()).unwrap();
        socket
    }
}

impl Read for Tapped {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.socket.read(into)
    }
}

impl Write for Tapped {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut bytes = bytes.to_vec();
        if self.tap.spoil.load(Ordering::Relaxed) {
            *bytes.last_mut().unwrap() ^= 1;
        }
        self.socket.write_all(&bytes)?;
        self.tap.sent.lock().unwrap().extend_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// A session that allows early data.
pub fn session(server: &Server) -> Secret {
    let kept = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&kept);
    let mut context = SslContext::builder(SslMethod::tls()).unwrap();
    context.set_min_proto_version(Some(SslVersion::TLS1_3)).unwrap();
    context.set_session_cache_mode(SslSessionCacheMode::CLIENT | SslSessionCacheMode::NO_INTERNAL);
    context.set_new_session_callback(move |_, session| *keep.lock().unwrap() = session_bytes(&session));
    let mut ssl = Ssl::new(&context.build()).unwrap();
    ssl.set_hostname("localhost").unwrap();
    let stream = ssl.connect(Client::connect(server.https()).stream).unwrap();
    let mut client = Client::over(TlsStream::from(stream));
    // The tickets come with the first answer.
    client.assert_open();
    kept.lock().unwrap().take().unwrap()
}

/// A client that resumes this session and sends `early` before it has received anything.
pub fn connect(server: &Server, session: &Secret, early: &[u8]) -> (Client<TlsStream<Tapped>>, Arc<Tap>) {
    connect_ahead(server, session, early, 0)
}

/// The same by a client whose clock has gone ahead.
pub fn connect_ahead(
    server: &Server,
    session: &Secret,
    early: &[u8],
    seconds: u64,
) -> (Client<TlsStream<Tapped>>, Arc<Tap>) {
    let mut context = SslContext::builder(SslMethod::tls()).unwrap();
    context.set_min_proto_version(Some(SslVersion::TLS1_3)).unwrap();
    let mut ssl = Ssl::new(&context.build()).unwrap();
    ssl.set_hostname("localhost").unwrap();
    assert!(offer_older_session(&mut ssl, session.expose(), seconds));
    send_early_data(&mut ssl);
    let tap = Arc::new(Tap::default());
    let tapped = Tapped { socket: Client::connect(server.https()).stream, tap: Arc::clone(&tap) };
    let mut stream = ssl.connect(tapped).unwrap();
    stream.write_all(early).unwrap();
    (Client::over(TlsStream::from(stream)), tap)
}

/// Whether the server took the early data; known once something has been read.
pub fn taken(client: &Client<TlsStream<Tapped>>) -> bool {
    early_data_accepted(client.stream.facts())
}
