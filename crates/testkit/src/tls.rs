//! A TLS client of which every detail can be set, on the library that the server uses too.
//!
//! Tests of interoperability with another library use curl and OpenSSL.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use boring::ssl::{
    ErrorCode, HandshakeError, Ssl, SslContext, SslMethod, SslRef, SslStream, SslVerifyMode, SslVersion,
};

use crate::certificates::Certificates;
use crate::server::Server;

/// A TLS connection that tells a clean end from a cut.
pub struct TlsStream<S = TcpStream>(SslStream<S>);

/// The client's offer; `None` is the default of the library.
#[derive(Clone, Default)]
pub struct TlsOptions {
    /// The only version offered.
    pub version: Option<SslVersion>,
    /// Ciphers of TLS 1.2, by OpenSSL's names.
    pub ciphers: Option<&'static str>,
    /// Suites of TLS 1.3, by their numbers in the IANA registry.
    pub suites: &'static [u16],
    /// Groups, best first, such as `X25519:P-256`.
    pub groups: Option<&'static str>,
    /// Signature algorithms, such as `RSA-PSS+SHA256`.
    pub signatures: Option<&'static str>,
    /// ALPN names.
    pub alpn: &'static [&'static str],
    /// Server name, `localhost` if absent; empty sends none.
    pub name: Option<&'static str>,
}

impl TlsOptions {
    /// Offers only this version.
    pub fn version(version: SslVersion) -> Self {
        Self { version: Some(version), ..Self::default() }
    }

    /// Shakes hands over a connected socket, or what wraps one; the certificate is checked.
    ///
    /// # Errors
    /// The error of the library.
    pub fn handshake<S: Read + Write>(&self, server: &Server, socket: S) -> Result<TlsStream<S>, String> {
        self.handshake_trusting(server.certificates(), socket)
    }

    /// The same with something else than a server that has one of these certificates.
    ///
    /// # Errors
    /// The error of the library.
    pub fn handshake_trusting<S: Read + Write>(
        &self,
        certificates: &Certificates,
        socket: S,
    ) -> Result<TlsStream<S>, String> {
        let mut context = SslContext::builder(SslMethod::tls()).unwrap();
        context.set_ca_file(certificates.authority()).unwrap();
        context.set_verify(SslVerifyMode::PEER);
        if self.version.is_some() {
            context.set_min_proto_version(self.version).unwrap();
            context.set_max_proto_version(self.version).unwrap();
        }
        if let Some(ciphers) = self.ciphers {
            context.set_strict_cipher_list(ciphers).unwrap();
        }
        if let Some(groups) = self.groups {
            context.set_curves_list(groups).unwrap();
        }
        if let Some(signatures) = self.signatures {
            context.set_sigalgs_list(signatures).unwrap();
        }
        let mut ssl = Ssl::new(&context.build()).unwrap();
        if !self.alpn.is_empty() {
            let names = self
                .alpn
                .iter()
                .flat_map(|name| std::iter::once(u8::try_from(name.len()).unwrap()).chain(name.bytes()));
            ssl.set_alpn_protos(&names.collect::<Vec<u8>>()).unwrap();
        }
        if !self.suites.is_empty() {
            penstock_sys::ssl::set_tls13_suites(&mut ssl, self.suites).unwrap();
        }
        match self.name.unwrap_or("localhost") {
            "" => {}
            name => ssl.set_hostname(name).unwrap(),
        }
        match ssl.connect(socket) {
            Ok(stream) => Ok(TlsStream(stream)),
            Err(HandshakeError::Failure(failed)) => Err(failed.error().to_string()),
            Err(other) => Err(other.to_string()),
        }
    }
}

/// The first flight of a client with these options.
pub fn client_hello(server: &Server, options: &TlsOptions) -> Vec<u8> {
    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);
    impl Read for Captured {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }
    }
    impl Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let captured = Captured::default();
    assert!(options.handshake(server, captured.clone()).is_err());
    let hello = captured.0.lock().unwrap().clone();
    assert_eq!(hello[0], 22, "a handshake record");
    hello
}

impl<S> From<SslStream<S>> for TlsStream<S> {
    /// A handshake that a test has made by itself.
    fn from(stream: SslStream<S>) -> Self {
        Self(stream)
    }
}

impl<S: Read + Write> TlsStream<S> {
    /// The parameters of the session.
    pub fn facts(&self) -> &SslRef {
        self.0.ssl()
    }

    /// Sends a KeyUpdate with the next bytes that are written, which may ask the server for one of its own.
    pub fn update_keys(&mut self, ask_server_too: bool) {
        penstock_sys::ssl::update_keys(self.0.ssl_mut(), ask_server_too).unwrap();
    }

    /// The connection below.
    pub fn socket(&self) -> &S {
        self.0.get_ref()
    }

    /// Sends close_notify.
    pub fn close(&mut self) {
        self.0.shutdown().unwrap();
    }
}

impl<S: Read + Write> Read for TlsStream<S> {
    /// Zero only after close_notify; a connection that ends without one was cut: `ConnectionAborted`.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.ssl_read(into) {
                Ok(count) => return Ok(count),
                Err(error) if error.code() == ErrorCode::ZERO_RETURN => return Ok(0),
                Err(error) if error.code() == ErrorCode::WANT_READ && error.io_error().is_none() => {}
                Err(error) if error.code() == ErrorCode::SYSCALL && error.io_error().is_none() => {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                Err(error) => {
                    return Err(error.into_io_error().unwrap_or_else(io::Error::other));
                }
            }
        }
    }
}

impl<S: Read + Write> Write for TlsStream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
