//! Performs handshakes for a tool that counts the instructions of the server's part:
//!
//! ```text
//! cargo build --release --package penstock-tls --example handshakes
//! objcopy --strip-debug target/release/examples/handshakes handshakes
//! valgrind --tool=callgrind --collect-atstart=no --toggle-collect='*server_step*' ./handshakes full 200
//! callgrind_annotate callgrind.out.*
//! ```
//!
//! The first argument is `full`, `resumed`, `full12` or `resumed12`; the second is the number of handshakes. `resumed12` counts a
//! full handshake before each of them. Valgrind 3.19 cannot read the debug information of newer compilers.
#![expect(clippy::print_stdout, reason = "this is what it is for")]
#![expect(clippy::unwrap_used, reason = "a tool stops where it cannot go on")]

use std::future::poll_fn;
use std::io::Read;
use std::net::{Ipv4Addr, TcpStream as ClientSocket};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use boring::ssl::{Ssl, SslContext, SslMethod, SslSession, SslSessionCacheMode, SslVersion};
use penstock_sys::ConnectedSocket;
use penstock_sys::ssl::client;
use penstock_sys::traffic::ProtocolVersion;
use penstock_tls::certificate::Certificate;
use penstock_tls::tickets::{TicketKeyring, TicketPolicy};
use penstock_tls::{
    Acceptor, AcceptorSettings, ConnectingClient, DefaultFor, Established, Group, HandshakeFailure,
    HttpVersions, OfferedCertificate, SUITES, SigningLimiter,
};
use tokio::net::TcpListener;

const HOUR: Duration = Duration::from_secs(3600);

fn acceptor() -> Acceptor {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = made.signing_key.serialize_pem();
    let certificate = Certificate::from_pem(made.cert.pem().as_bytes(), key.as_bytes()).unwrap();
    let policy = TicketPolicy { rotate: HOUR, keep: 2, introduction: Duration::ZERO };
    let keyring = TicketKeyring::new(policy, &[], Instant::now(), SystemTime::now()).unwrap();
    Acceptor::new(AcceptorSettings {
        certificates: vec![OfferedCertificate::loaded(&Arc::new(certificate), DefaultFor::Unmarked)],
        prepared_certificates: 1,
        oldest: ProtocolVersion::Tls12,
        legacy: None,
        newest: ProtocolVersion::Tls13,
        client_hello_bytes_max: 64 * 1024,
        groups: vec![Group::X25519],
        asks_for_best_group: false,
        ja4: false,
        suites: SUITES.iter().collect(),
        chacha20: Arc::default(),
        tickets: Some(Arc::new(keyring)),
        session_lifetime: HOUR,
        session_storage: None,
        compressions: Vec::new(),
        compressed_bytes_max: 0,
        staples: Arc::default(),
        early_data: None,
        client_certificates: None,
        key_log: None,
    })
    .unwrap()
}

/// One step of the server; the tool looks for this name.
#[inline(never)]
fn server_step<F: Future<Output = Result<Established, HandshakeFailure>>>(
    accepting: Pin<&mut F>,
    context: &mut Context<'_>,
) -> Poll<F::Output> {
    accepting.poll(context)
}

/// A client that closes when the server does. Returns its new session.
fn connect(socket: ClientSocket, version: SslVersion, session: Option<&SslSession>) -> Option<SslSession> {
    let mut context = SslContext::builder(SslMethod::tls()).unwrap();
    context.set_max_proto_version(Some(version)).unwrap();
    context.set_session_cache_mode(SslSessionCacheMode::CLIENT);
    let issued = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&issued);
    context.set_new_session_callback(move |_, session| *kept.lock().unwrap() = Some(session));
    let mut ssl = Ssl::new(&context.build()).unwrap();
    ssl.set_hostname("localhost").unwrap();
    if let Some(session) = session {
        client::offer_live_session(&mut ssl, session).unwrap();
    }
    let mut stream = ssl.connect(socket).ok()?;
    drop(stream.read_to_end(&mut Vec::new()));
    issued.lock().unwrap().take()
}

async fn perform(version: SslVersion, resumes: bool, count: usize) {
    let acceptor = acceptor();
    // No handshake waits for a permit: nothing here renews them.
    let limiter = SigningLimiter::new(count.max(1));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (mut session, mut resumed) = (None, 0);
    for _ in 0..count {
        let offered = session.take();
        let client = thread::spawn(move || {
            connect(ClientSocket::connect(address).unwrap(), version, offered.as_ref())
        });
        let socket = listener.accept().await.unwrap().0.into_std().unwrap();
        let socket = Rc::new(ConnectedSocket::from(socket));
        let accepting = acceptor.accept(
            Rc::clone(&socket),
            Vec::new(),
            HttpVersions::H1,
            &limiter,
            ConnectingClient::default(),
        );
        let mut accepting = pin!(accepting);
        let established = poll_fn(|context| server_step(accepting.as_mut(), context)).await.unwrap();
        socket.try_send(&established.tickets).unwrap();
        resumed += usize::from(established.facts.resumed);
        drop((established, socket));
        session = client.join().unwrap().filter(|_| resumes);
    }
    println!("{count} handshakes, {resumed} of them resumed");
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().unwrap_or_else(|| "full".to_owned());
    let count = arguments.next().map_or(100, |count| count.parse().unwrap());
    let version = if kind.ends_with("12") { SslVersion::TLS1_2 } else { SslVersion::TLS1_3 };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(perform(version, kind.starts_with("resumed"), count));
}
