//! Connected sockets, files and records for tests.
#![allow(dead_code, reason = "each test program uses a part")]

use std::io::Read;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use boring::aead::{AeadCtx, Algorithm};
use penstock_egress::{Outlet, OutletLimits, Part, SendError, Step, Transmission};
use penstock_sys::ConnectedSocket;
use penstock_sys::aead::Cipher;
use penstock_sys::file::OpenFile;
use penstock_sys::traffic::{ProtocolVersion, Secret, TrafficKeys};

pub(crate) const LIMITS: OutletLimits = OutletLimits {
    batch_bytes_min: 64 * 1024,
    batch_bytes_max: 512 * 1024,
    plain_bytes_max: 1024 * 1024,
    small_record_bytes: 1360,
    small_record_phase_bytes: 64 * 1024,
    idle: Duration::from_secs(1),
    records_per_key: 1 << 24,
};

pub(crate) const APPLICATION_DATA: u8 = 23;
pub(crate) const HANDSHAKE: u8 = 22;
pub(crate) const ALERT: u8 = 21;

pub(crate) fn keys(version: ProtocolVersion, cipher: Cipher) -> TrafficKeys {
    match version {
        ProtocolVersion::Tls13 => {
            let length = if cipher == Cipher::Aes256Gcm { 48 } else { 32 };
            TrafficKeys::tls13(cipher, Secret::new(vec![7; length]), 2).unwrap()
        }
        ProtocolVersion::Tls12 => {
            let iv = if cipher == Cipher::ChaCha20Poly1305 { 12 } else { 4 };
            let block: Vec<u8> =
                (0..2 * (cipher.key_bytes() + iv)).map(|i| u8::try_from(i).unwrap()).collect();
            TrafficKeys::tls12(cipher, &Secret::new(block), 1).unwrap()
        }
    }
}

pub(crate) fn content(length: usize) -> Vec<u8> {
    (0..length).map(|i| u8::try_from((i * 31 + i / 251) % 256).unwrap()).collect()
}

pub(crate) fn file_of(bytes: &[u8]) -> (tempfile::NamedTempFile, Arc<OpenFile>) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let fd = std::fs::File::open(file.path()).unwrap().as_fd().try_clone_to_owned().unwrap();
    (file, Arc::new(OpenFile::from_fd(fd).unwrap()))
}

/// A connected pair: our end, and a thread that reads the other to its end, `pause` between reads.
pub(crate) async fn pair(pause: Duration) -> (Rc<ConnectedSocket>, std::thread::JoinHandle<Vec<u8>>) {
    accept(&std::net::TcpListener::bind("127.0.0.1:0").unwrap(), pause)
}

/// The same, with segments of at most so many bytes.
pub(crate) async fn pair_with_segments(
    bytes: u32,
    pause: Duration,
) -> (Rc<ConnectedSocket>, std::thread::JoinHandle<Vec<u8>>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    socket2::SockRef::from(&listener).set_tcp_mss(bytes).unwrap();
    accept(&listener, pause)
}

fn accept(
    listener: &std::net::TcpListener,
    pause: Duration,
) -> (Rc<ConnectedSocket>, std::thread::JoinHandle<Vec<u8>>) {
    let address = listener.local_addr().unwrap();
    let reader = std::thread::spawn(move || {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let (mut all, mut piece) = (Vec::new(), vec![0; 64 * 1024]);
        loop {
            match stream.read(&mut piece) {
                Ok(0) | Err(_) => return all,
                Ok(count) => all.extend_from_slice(&piece[..count]),
            }
            std::thread::sleep(pause);
        }
    });
    let (socket, _) = ConnectedSocket::accept(listener).unwrap();
    (Rc::new(socket), reader)
}

/// Drives a transmission to its end, as the edge does.
pub(crate) async fn send(
    outlet: &mut Outlet,
    socket: &ConnectedSocket,
    parts: Vec<Part>,
) -> Result<(), SendError> {
    let mut transmission = Transmission::new(parts);
    loop {
        match outlet.advance(&mut transmission, Instant::now())? {
            Step::Done => return Ok(()),
            Step::Sent(_) => {}
            Step::Blocked => socket.writable().await.unwrap(),
            Step::Cold(rest) => transmission.warmed(rest.len.min(512 * 1024)),
            Step::Starved => {
                let source = Rc::clone(transmission.source().unwrap().socket());
                source.readable().await.unwrap();
            }
        }
    }
}

pub(crate) async fn finish(mut outlet: Outlet, socket: Rc<ConnectedSocket>) {
    while !outlet.flush().unwrap() {
        socket.writable().await.unwrap();
    }
}

pub(crate) fn run<F: Future>(test: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

/// One opened record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) kind: u8,
    pub(crate) plaintext: Vec<u8>,
}

/// Opens records in order, following KeyUpdates.
pub(crate) fn open_all(mut keys: TrafficKeys, mut bytes: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let length = usize::from(u16::from_be_bytes([bytes[3], bytes[4]]));
        assert!(length <= 16 * 1024 + 256, "a record of {length} bytes");
        let (record, rest) = bytes.split_at(5 + length);
        let opened = open_one(&keys, record);
        keys.sequence += 1;
        if opened.kind == HANDSHAKE {
            assert_eq!(opened.plaintext, [24, 0, 0, 1, 0], "the only handshake message is a KeyUpdate");
            keys = keys.next_generation().unwrap();
        }
        records.push(opened);
        bytes = rest;
    }
    records
}

pub(crate) fn open_one(keys: &TrafficKeys, record: &[u8]) -> Record {
    let algorithm = match keys.cipher {
        Cipher::Aes128Gcm => Algorithm::aes_128_gcm(),
        Cipher::Aes256Gcm => Algorithm::aes_256_gcm(),
        Cipher::ChaCha20Poly1305 => Algorithm::chacha20_poly1305(),
    };
    let (header, payload) = record.split_at(5);
    let sequence = keys.sequence.to_be_bytes();
    let mut nonce = [0; 12];
    let explicit = keys.version == ProtocolVersion::Tls12 && keys.cipher != Cipher::ChaCha20Poly1305;
    let sealed = if explicit {
        nonce[..4].copy_from_slice(keys.iv.expose());
        nonce[4..].copy_from_slice(&payload[..8]);
        &payload[8..]
    } else {
        nonce.copy_from_slice(keys.iv.expose());
        nonce[4..].iter_mut().zip(sequence).for_each(|(byte, other)| *byte ^= other);
        payload
    };
    let additional = match keys.version {
        ProtocolVersion::Tls13 => header.to_vec(),
        ProtocolVersion::Tls12 => {
            let plain = u16::try_from(sealed.len() - 16).unwrap().to_be_bytes();
            [&sequence[..], &header[..3], &plain[..]].concat()
        }
    };
    let (text, tag) = sealed.split_at(sealed.len() - 16);
    let mut plaintext = text.to_vec();
    AeadCtx::new_default_tag(&algorithm, keys.key.expose())
        .unwrap()
        .open_in_place_mut(&nonce, &mut plaintext, tag, &additional)
        .expect("the record opens with the keys in force");
    let kind = match keys.version {
        ProtocolVersion::Tls13 => plaintext.pop().unwrap(),
        ProtocolVersion::Tls12 => header[0],
    };
    Record { kind, plaintext }
}

pub(crate) fn data_of(records: &[Record]) -> Vec<u8> {
    records
        .iter()
        .filter(|record| record.kind == APPLICATION_DATA)
        .flat_map(|r| r.plaintext.clone())
        .collect()
}

pub(crate) const ALL: [(ProtocolVersion, Cipher); 6] = [
    (ProtocolVersion::Tls13, Cipher::Aes128Gcm),
    (ProtocolVersion::Tls13, Cipher::Aes256Gcm),
    (ProtocolVersion::Tls13, Cipher::ChaCha20Poly1305),
    (ProtocolVersion::Tls12, Cipher::Aes128Gcm),
    (ProtocolVersion::Tls12, Cipher::Aes256Gcm),
    (ProtocolVersion::Tls12, Cipher::ChaCha20Poly1305),
];
