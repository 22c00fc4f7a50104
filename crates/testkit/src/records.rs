//! A TLS 1.3 client that seals its own records, and so can send what no library would.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use boring::ssl::{
    ErrorCode, Ssl, SslAlert, SslContext, SslInfoCallbackMode, SslInfoCallbackValue, SslMethod, SslStream,
    SslVersion,
};
use penstock_sys::aead::{Cipher, NONCE_BYTES, Plaintext, SealingKey, TAG_BYTES};
use penstock_sys::traffic::{Secret, TrafficKeys};

use crate::client::Client;
use crate::server::Server;

/// The bytes in front of a record, and those inside it behind the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentType {
    /// `change_cipher_spec`.
    ChangeCipherSpec = 20,
    /// `alert`.
    Alert = 21,
    /// `handshake`.
    Handshake = 22,
    /// `application_data`.
    ApplicationData = 23,
    /// A value of no content type.
    Unknown = 99,
}

/// A connection whose handshake a library has done. Writing seals application data; reading is the library's.
pub struct Records {
    stream: SslStream<TcpStream>,
    keys: TrafficKeys,
    noted: Arc<Noted>,
}

#[derive(Default)]
struct Noted {
    secret: Mutex<Option<Secret>>,
    /// The last alert that came.
    alert: Mutex<Option<SslAlert>>,
}

impl Records {
    /// Connects to the server's first HTTPS listener and does not check the certificate.
    pub fn connect(server: &Server) -> Client<Self> {
        let noted = Arc::new(Noted::default());
        let mut context = SslContext::builder(SslMethod::tls()).unwrap();
        context.set_min_proto_version(Some(SslVersion::TLS1_3)).unwrap();
        let notes = Arc::clone(&noted);
        context.set_keylog_callback(move |_, line| {
            if let Some(fields) = line.strip_prefix("CLIENT_TRAFFIC_SECRET_0 ") {
                let (_, hex) = fields.split_once(' ').unwrap();
                *notes.secret.lock().unwrap() = Some(Secret::new(from_hex(hex)));
            }
        });
        let notes = Arc::clone(&noted);
        context.set_info_callback(move |_, mode, value| {
            if let (SslInfoCallbackMode::READ_ALERT, SslInfoCallbackValue::Alert(alert)) = (mode, value) {
                *notes.alert.lock().unwrap() = Some(alert.alert());
            }
        });
        let socket = Client::connect(server.https()).stream;
        let stream = Ssl::new(&context.build()).unwrap().connect(socket).unwrap();
        let cipher = match stream.ssl().current_cipher().unwrap().standard_name().unwrap() {
            "TLS_AES_128_GCM_SHA256" => Cipher::Aes128Gcm,
            "TLS_AES_256_GCM_SHA384" => Cipher::Aes256Gcm,
            _ => Cipher::ChaCha20Poly1305,
        };
        let secret = noted.secret.lock().unwrap().take().unwrap();
        let keys = TrafficKeys::tls13(cipher, secret, 0).unwrap();
        Client::over(Self { stream, keys, noted })
    }

    /// One record, not sent.
    pub fn seal(&mut self, content: ContentType, plaintext: &[u8]) -> Vec<u8> {
        let sealed = plaintext.len() + 1 + TAG_BYTES;
        let mut record = vec![ContentType::ApplicationData as u8, 3, 3];
        record.extend(u16::try_from(sealed).unwrap().to_be_bytes());
        let head = record.clone();
        record.resize(head.len() + sealed, 0);
        let mut nonce = [0; NONCE_BYTES];
        nonce[4..].copy_from_slice(&self.keys.sequence.to_be_bytes());
        nonce.iter_mut().zip(self.keys.iv.expose()).for_each(|(byte, iv)| *byte ^= iv);
        let key = SealingKey::new(self.keys.cipher, self.keys.key.expose()).unwrap();
        let out = &mut record[head.len()..];
        key.seal(&nonce, &head, Plaintext::Memory(plaintext), &[content as u8], out).unwrap();
        self.keys.sequence += 1;
        record
    }

    /// A KeyUpdate, not sent; what is sealed afterwards is sealed with the next keys.
    pub fn seal_key_update(&mut self, answer_wanted: bool) -> Vec<u8> {
        let record = self.seal(ContentType::Handshake, &[24, 0, 0, 1, u8::from(answer_wanted)]);
        self.keys = self.keys.next_generation().unwrap();
        record
    }

    /// Sends one record.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn send(&mut self, content: ContentType, plaintext: &[u8]) -> io::Result<()> {
        let record = self.seal(content, plaintext);
        self.socket().write_all(&record)
    }

    /// The TCP connection, for bytes that are no record.
    pub fn socket(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    /// The alert that the server has sent, once reading has come to it.
    pub fn alert(&self) -> Option<SslAlert> {
        *self.noted.alert.lock().unwrap()
    }
}

impl Read for Records {
    /// Zero after close_notify; another alert or an end without one is an error.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.stream.ssl_read(into) {
                Ok(count) => return Ok(count),
                Err(error) if error.code() == ErrorCode::ZERO_RETURN => return Ok(0),
                Err(error) if error.code() == ErrorCode::WANT_READ && error.io_error().is_none() => {}
                Err(error) => return Err(error.into_io_error().unwrap_or_else(io::Error::other)),
            }
        }
    }
}

impl Write for Records {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(16 * 1024);
        self.send(ContentType::ApplicationData, &bytes[..count])?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn from_hex(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}
