//! What a keyserver answers to bytes of a client that has a certificate and an entry.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpStream};
use std::time::Duration;

use boring::ssl::{SslConnector, SslFiletype, SslMethod, SslStream};
use penstock_keys::protocol::{
    ErrorCode, HEADER_BYTES, Message, Opcode, PADDED_BYTES, decode_body, decode_header, encode,
};
use penstock_testkit::{Keyserver, Server, until};
use penstock_tls::digest_signer::DigestSigner;
use penstock_tls::remote_key::KeyId;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use super::plain;

/// ECDSA over SHA-256.
const ECDSA: Opcode = Opcode(0x15);

struct Edge(SslStream<TcpStream>);

/// An answer: its number, opcode and payload.
type Answer = (u32, Opcode, Vec<u8>);

impl Edge {
    fn connect(server: &Server, keyserver: &Keyserver) -> Self {
        let file = |name: &str| server.certificates().path(name);
        let mut builder = SslConnector::builder(SslMethod::tls()).unwrap();
        builder.set_ca_file(server.certificates().authority()).unwrap();
        builder.set_certificate_chain_file(file("other.crt")).unwrap();
        builder.set_private_key_file(file("other.key"), SslFiletype::PEM).unwrap();
        let socket = TcpStream::connect(keyserver.address()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self(builder.build().connect("localhost", socket).unwrap())
    }

    fn send(&mut self, message: &Message<'_>) {
        self.0.write_all(&encode(message).unwrap()).unwrap();
    }

    /// Every answer has the same size.
    fn answer(&mut self) -> Answer {
        let mut bytes = vec![0; PADDED_BYTES];
        self.0.read_exact(&mut bytes).unwrap();
        let (header, body) = bytes.split_first_chunk::<HEADER_BYTES>().unwrap();
        let header = decode_header(*header).unwrap();
        assert_eq!(header.body_bytes, body.len());
        let message = decode_body(header.id, body).unwrap();
        (message.id, message.opcode, message.payload.to_vec())
    }

    fn ask(&mut self, message: &Message<'_>) -> Answer {
        self.send(message);
        self.answer()
    }

    fn ends(mut self) -> bool {
        matches!(self.0.read(&mut [0]), Ok(0) | Err(_))
    }
}

fn signer(server: &Server, name: &str) -> DigestSigner {
    DigestSigner::from_pem(&fs::read(server.certificates().path(name)).unwrap()).unwrap()
}

fn error(id: u32, code: ErrorCode) -> Answer {
    (id, Opcode::ERROR, vec![code as u8])
}

#[test]
fn each_request_gets_the_answer_of_the_protocol() {
    let server = plain().start();
    let keyserver = Keyserver::start(&server, "one");
    let mut edge = Edge::connect(&server, &keyserver);
    let (ec, rsa) = (signer(&server, "ec.key").id(), signer(&server, "rsa.key").id());
    let digest = [7; 32];
    let with = |id: u32, opcode: Opcode, payload: &'static [u8], key: Option<KeyId>| Message {
        key,
        ..Message::new(id, opcode, payload)
    };
    assert_eq!(edge.ask(&Message::new(1, Opcode::PING, b"there?")), (1, Opcode::PONG, b"there?".to_vec()));
    let (id, opcode, signature) = edge.ask(&Message { key: Some(ec), ..Message::new(2, ECDSA, &digest) });
    assert_eq!((id, opcode, signature[0]), (2, Opcode::RESPONSE, 0x30), "DER");
    for (message, code) in [
        // What could be an oracle: raw RSA by decryption; blobs, calls, functions.
        (with(3, Opcode::RSA_DECRYPT, &[7; 256], Some(rsa)), ErrorCode::BadOpcode),
        (with(4, Opcode(0x21), &[7; 32], Some(rsa)), ErrorCode::BadOpcode),
        (with(5, Opcode(0x24), &[7; 32], Some(rsa)), ErrorCode::BadOpcode),
        (with(6, Opcode(0x03), &[7; 20], Some(rsa)), ErrorCode::BadOpcode),
        // Of another kind of key.
        (with(7, ECDSA, &[7; 32], Some(rsa)), ErrorCode::BadOpcode),
        (with(8, Opcode::RESPONSE, &[7; 32], Some(ec)), ErrorCode::UnexpectedOpcode),
        (with(9, Opcode::ERROR, &[7; 1], Some(ec)), ErrorCode::UnexpectedOpcode),
        (with(10, ECDSA, &[7; 31], Some(ec)), ErrorCode::Cryptography),
        (with(11, ECDSA, &[], Some(ec)), ErrorCode::Cryptography),
        (with(12, ECDSA, &[7; 32], None), ErrorCode::KeyNotFound),
        (with(13, ECDSA, &[7; 32], Some(KeyId([9; 20]))), ErrorCode::KeyNotFound),
    ] {
        assert_eq!(edge.ask(&message), error(message.id, code), "{message:?}");
    }
    // Items that contradict each other are an error of that message only.
    edge.0.write_all(b"\x01\x00\x00\x08\x00\x00\x00\x63\x11\x00\x01\xf1\x11\x00\x01\xf1").unwrap();
    assert_eq!(edge.answer(), error(0x63, ErrorCode::Malformed));
    edge.0.write_all(b"\x01\x00\x00\x00\x00\x00\x00\x64").unwrap();
    assert_eq!(edge.answer(), error(0x64, ErrorCode::Malformed));
    assert_eq!(edge.ask(&Message::new(14, Opcode::PING, b"")), (14, Opcode::PONG, Vec::new()));
    // Behind another version or a body that is too long, messages cannot be told apart.
    edge.0.write_all(b"\x02\x00\x00\x08\x00\x00\x00\x65").unwrap();
    assert_eq!(edge.answer(), error(0, ErrorCode::VersionMismatch));
    assert!(edge.ends());
    let mut edge = Edge::connect(&server, &keyserver);
    edge.0.write_all(b"\x01\x00\xff\xff\x00\x00\x00\x66").unwrap();
    assert_eq!(edge.answer(), error(0, ErrorCode::Malformed));
    assert!(edge.ends());
}

#[test]
fn a_client_that_reads_no_answers_gets_no_more_than_its_share() {
    const OPERATIONS: usize = 4;
    let server = plain().start();
    let yaml = format!("clients: [{{name: other, keys: [\"*\"], operations: {OPERATIONS}}}]\nthreads: 1");
    let keyserver = Keyserver::with(&server, "one", &yaml);
    let mut silent = Edge::connect(&server, &keyserver);
    let ec = signer(&server, "ec.key").id();
    // Until the keyserver does not read any more.
    silent.0.get_ref().set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let message = encode(&Message { key: Some(ec), ..Message::new(1, ECDSA, &[7; 32]) }).unwrap();
    let sent = (0..100_000).take_while(|_| silent.0.write_all(&message).is_ok()).count();
    assert!(sent < 100_000, "the keyserver has taken 100 MB of requests");
    // Another connection of the same client is answered meanwhile: nothing is under way any more.
    let mut other = Edge::connect(&server, &keyserver);
    until("a signature for the other connection", || {
        let (_, opcode, _) = other.ask(&Message { key: Some(ec), ..Message::new(2, ECDSA, &[7; 32]) });
        (opcode == Opcode::RESPONSE).then_some(())
    });
    until("the end of the silent connection", || {
        let open = keyserver.metrics().sum("penstock_key_connections", &["client=\"other\""]);
        (open == 1.0).then_some(())
    });
}

#[test]
fn messages_come_in_pieces_and_answers_in_any_order() {
    let server = plain().start();
    let keyserver = Keyserver::start(&server, "one");
    let mut edge = Edge::connect(&server, &keyserver);
    let ec = signer(&server, "ec.key").id();
    let mut bytes = Vec::new();
    for id in 1..=20 {
        bytes.extend(encode(&Message { key: Some(ec), ..Message::new(id, ECDSA, &[7; 32]) }).unwrap());
    }
    for piece in bytes.chunks(701) {
        edge.0.write_all(piece).unwrap();
    }
    let mut answered: Vec<u32> = (0..20)
        .map(|_| {
            let (id, opcode, _) = edge.answer();
            assert_eq!(opcode, Opcode::RESPONSE);
            id
        })
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, (1..=20).collect::<Vec<u32>>());
}

/// A connection of the loopback network 127.0.`network`.0/24; that of the other clients is 0.
fn stranger(server: SocketAddr, network: u8) -> TcpStream {
    let stranger = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&stranger, &SocketAddrV4::new([127, 0, network, 1].into(), 0)).unwrap();
    connect(&stranger, &server).unwrap();
    stranger.into()
}

/// An edge connects while strangers of these networks hold as many handshakes as they can.
fn an_edge_finds_a_place_among_strangers_of(networks: u8) {
    let server = plain().start();
    let keyserver = Keyserver::start(&server, "one");
    // More than all places for handshakes, each held until the deadline of a handshake.
    let places = (1..=networks).cycle().take(360);
    let strangers: Vec<TcpStream> = places.map(|network| stranger(keyserver.address(), network)).collect();
    let mut edge = Edge::connect(&server, &keyserver);
    assert_eq!(edge.ask(&Message::new(1, Opcode::PING, b"")), (1, Opcode::PONG, Vec::new()));
    keyserver.counted("penstock_key_network_refused_total", &[], 100.0);
    let waited = keyserver.metrics().sum("penstock_key_handshake_failures_total", &[]);
    assert_eq!(waited, 0.0, "the edge waited for the end of strangers");
    drop(strangers);
}

#[test]
fn strangers_of_one_network_that_say_nothing_leave_handshakes_to_others() {
    an_edge_finds_a_place_among_strangers_of(1);
}

#[test]
fn strangers_of_many_networks_that_say_nothing_leave_handshakes_to_others() {
    an_edge_finds_a_place_among_strangers_of(6);
}
