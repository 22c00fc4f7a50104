//! A server that runs a script for each connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use boring::pkey::PKey;
use boring::ssl::{
    HandshakeError, Ssl, SslContext, SslContextBuilder, SslMethod, SslStream, SslVerifyMode, SslVersion,
};
use boring::x509::X509;

/// A listening server. Its thread ends with it.
pub(crate) struct Scripted {
    pub(crate) address: SocketAddr,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Scripted {
    /// Calls `script` with every connection and its number, each on its own thread.
    pub(crate) fn start(script: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let (stop, script) = (Arc::clone(&ended), Arc::new(script));
        let number = AtomicUsize::new(0);
        let thread = thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let (script, number) = (Arc::clone(&script), number.fetch_add(1, Ordering::SeqCst));
                thread::spawn(move || script(stream, number));
            }
        });
        Self { address, ended, thread: Some(thread) }
    }

    /// The same over TLS, with a self-signed certificate.
    pub(crate) fn start_tls(script: impl Fn(SslStream<TcpStream>, usize) + Send + Sync + 'static) -> Self {
        let context = context();
        Self::start(move |stream, number| {
            let ssl = Ssl::new(&context).unwrap();
            if let Ok(stream) = ssl.accept(stream) {
                script(stream, number);
            }
        })
    }

    /// The same, speaking HTTP/2 with clients that offer it: its first frame is an empty SETTINGS.
    pub(crate) fn start_http2() -> Self {
        let context = http2_context();
        Self::start(move |stream, _| {
            if let Ok(mut stream) = Ssl::new(&context).unwrap().accept(stream) {
                read_request(&mut stream);
                drop(stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]));
                drop(stream.read_to_end(&mut Vec::new()));
            }
        })
    }

    /// The same, for clients that show a certificate of any issuer.
    pub(crate) fn start_for_known_clients(version: SslVersion, response: &'static str) -> Self {
        let mut context = context_builder();
        context.set_max_proto_version(Some(version)).unwrap();
        context.set_verify_callback(SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT, |_, _| true);
        let context = context.build();
        Self::start(move |stream, _| match Ssl::new(&context).unwrap().accept(stream) {
            Ok(mut stream) => answer_all(&mut stream, response),
            // Ending at once could reset the connection before the alert is read.
            Err(HandshakeError::Failure(failed)) => {
                drop(failed.into_source_stream().read_to_end(&mut Vec::new()));
            }
            Err(_) => {}
        })
    }

    /// The same, accepting early data on connections for whose number `takes` is true.
    pub(crate) fn start_early(takes: fn(usize) -> bool, response: &'static str) -> Self {
        Self::start_early_with(context(), takes, move |stream| answer_all(stream, response))
    }

    /// The same over HTTP/2.
    pub(crate) fn start_early_http2(
        takes: fn(usize) -> bool,
        script: impl Fn(&mut SslStream<TcpStream>) + Send + Sync + 'static,
    ) -> Self {
        Self::start_early_with(http2_context(), takes, script)
    }

    fn start_early_with(
        context: SslContext,
        takes: fn(usize) -> bool,
        script: impl Fn(&mut SslStream<TcpStream>) + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |stream, number| {
            let mut ssl = Ssl::new(&context).unwrap();
            if takes(number) {
                // The call is the same for clients and servers.
                penstock_sys::ssl::client::send_early_data(&mut ssl);
            }
            if let Ok(mut stream) = ssl.accept(stream) {
                script(&mut stream);
            }
        })
    }

    pub(crate) fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}/object", self.address)
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        // Wakes the thread, which then ends.
        drop(TcpStream::connect(self.address));
        drop(self.thread.take().unwrap().join());
    }
}

fn context() -> SslContext {
    context_builder().build()
}

fn http2_context() -> SslContext {
    let mut context = context_builder();
    context.set_alpn_select_callback(|_, offered| {
        boring::ssl::select_next_proto(b"\x02h2", offered).ok_or(boring::ssl::AlpnError::ALERT_FATAL)
    });
    context.build()
}

fn context_builder() -> SslContextBuilder {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let mut context = SslContext::builder(SslMethod::tls()).unwrap();
    context.set_certificate(&X509::from_pem(made.cert.pem().as_bytes()).unwrap()).unwrap();
    let key = PKey::private_key_from_pem(made.signing_key.serialize_pem().as_bytes()).unwrap();
    context.set_private_key(&key).unwrap();
    context
}

/// Reads a request's head; false at the end of the connection.
pub(crate) fn read_request(stream: &mut impl Read) -> bool {
    read_path(stream).is_some()
}

/// Reads a request's head and returns its path; `None` at the end of the connection.
pub(crate) fn read_path(stream: &mut impl Read) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return None,
        }
    }
    String::from_utf8_lossy(&head).split(' ').nth(1).map(str::to_owned)
}

/// Answers every request of the connection with these bytes.
pub(crate) fn answer_all(stream: &mut (impl Read + Write), response: &str) {
    while read_request(stream) {
        if stream.write_all(response.as_bytes()).is_err() {
            return;
        }
    }
}
