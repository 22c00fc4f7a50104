//! A server of one worker for tests.
#![allow(dead_code, reason = "each test program uses a part")]

use std::net::{Ipv4Addr, SocketAddr, TcpStream as ClientSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use penstock_sys::ConnectedSocket;
use penstock_sys::traffic::ProtocolVersion;
use penstock_tls::certificate::Certificate;
use penstock_tls::{
    Acceptor, AcceptorSettings, ConnectingClient, DefaultFor, Established, Group, HandshakeFailure,
    HttpVersions, OfferedCertificate, SUITES, SigningLimiter,
};
use tokio::net::TcpListener;

/// Limit on ClientHellos of [`settings`].
pub(crate) const HELLO_BYTES_MAX: usize = 64 * 1024;

/// Settings with self-signed certificates of these names; tickets and session storage are off.
pub(crate) fn settings(names: &[&str]) -> AcceptorSettings {
    let offered = |name: &&str| OfferedCertificate::loaded(&certificate(name), DefaultFor::Unmarked);
    AcceptorSettings {
        certificates: names.iter().map(offered).collect(),
        prepared_certificates: 1,
        oldest: ProtocolVersion::Tls12,
        legacy: None,
        newest: ProtocolVersion::Tls13,
        client_hello_bytes_max: HELLO_BYTES_MAX,
        groups: vec![Group::X25519],
        asks_for_best_group: false,
        ja4: false,
        suites: SUITES.iter().collect(),
        chacha20: Arc::default(),
        tickets: None,
        session_lifetime: Duration::from_secs(3600),
        session_storage: None,
        compressions: Vec::new(),
        compressed_bytes_max: 0,
        staples: Arc::default(),
        early_data: None,
        client_certificates: None,
        key_log: None,
    }
}

fn certificate(name: &str) -> Arc<Certificate> {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let key = made.signing_key.serialize_pem();
    Arc::new(Certificate::from_pem(made.cert.pem().as_bytes(), key.as_bytes()).unwrap())
}

/// One worker that performs handshakes.
pub(crate) struct TestServer {
    acceptor: Acceptor,
    limiter: SigningLimiter,
    listener: Option<TcpListener>,
    /// Bytes that a socket takes at once, if not as many as the system says.
    pub(crate) send_buffer: Option<usize>,
}

impl TestServer {
    pub(crate) fn new(settings: AcceptorSettings) -> Self {
        let limiter = SigningLimiter::new(16);
        Self { acceptor: Acceptor::new(settings).unwrap(), limiter, listener: None, send_buffer: None }
    }

    /// Runs a test on one thread, like a worker.
    pub(crate) fn run(mut self, test: impl AsyncFnOnce(&Self)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            self.listener = Some(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap());
            test(&self).await;
        });
    }

    fn address(&self) -> SocketAddr {
        self.listener.as_ref().unwrap().local_addr().unwrap()
    }

    /// Performs the handshake of a connection that `client` opens on another thread, and sends the tickets.
    pub(crate) async fn accept<T: Send + 'static>(
        &self,
        client: impl FnOnce(ClientSocket) -> T + Send + 'static,
    ) -> (Result<Established, HandshakeFailure>, JoinHandle<T>) {
        let address = self.address();
        let client = thread::spawn(move || client(ClientSocket::connect(address).unwrap()));
        let socket = self.listener.as_ref().unwrap().accept().await.unwrap().0.into_std().unwrap();
        if let Some(bytes) = self.send_buffer {
            rustix::net::sockopt::set_socket_send_buffer_size(&socket, bytes).unwrap();
        }
        let socket = Rc::new(ConnectedSocket::from(socket));
        let accepted = self
            .acceptor
            .accept(
                Rc::clone(&socket),
                Vec::new(),
                HttpVersions::H1,
                &self.limiter,
                ConnectingClient::default(),
            )
            .await;
        if let Ok(established) = &accepted {
            // A new socket takes a few hundred bytes at once.
            assert_eq!(socket.try_send(&established.tickets).unwrap(), established.tickets.len());
        }
        (accepted, client)
    }
}
