//! Records that leave the user-space outlet, each opened with the client's half of the keys.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

mod harness;

use std::io::{ErrorKind, Read};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use harness::{
    ALERT, ALL, APPLICATION_DATA, HANDSHAKE, LIMITS, Record, content, data_of, file_of, finish, keys,
    open_all, pair, run, send,
};
use penstock_egress::{Outlet, OutletLimits, Part, SendError, SocketSource, Step, Transmission};
use penstock_sys::ConnectedSocket;
use penstock_sys::aead::Cipher;
use penstock_sys::file::Extent;
use penstock_sys::traffic::ProtocolVersion;
use tokio::net::{TcpListener, TcpStream};

#[test]
fn every_cipher_of_both_versions_carries_head_and_file_unchanged() {
    for (version, cipher) in ALL {
        let body = content(700_001);
        let (_kept, file) = file_of(&body);
        let received = run(async {
            let (socket, reader) = pair(Duration::ZERO).await;
            let mut outlet = Outlet::user_space(Rc::clone(&socket), keys(version, cipher), LIMITS).unwrap();
            let parts = vec![Part::Owned(b"head".to_vec()), Part::Extent(Extent::whole(file))];
            send(&mut outlet, &socket, parts).await.unwrap();
            outlet.alert(0);
            finish(outlet, socket).await;
            reader
        });
        let records = open_all(keys(version, cipher), &received.join().unwrap());
        assert_eq!(data_of(&records), [b"head", &body[..]].concat(), "{version:?} {cipher:?}");
        assert_eq!(records.last(), Some(&Record { kind: ALERT, plaintext: vec![1, 0] }));
    }
}

#[test]
fn a_reader_that_drains_slowly_gets_every_byte_once() {
    let body = content(6_000_000);
    let (_kept, file) = file_of(&body);
    let received = run(async {
        let (socket, reader) = pair(Duration::from_micros(300)).await;
        socket2::SockRef::from(&*socket).set_send_buffer_size(16 * 1024).unwrap();
        let keys = keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm);
        let mut outlet = Outlet::user_space(Rc::clone(&socket), keys, LIMITS).unwrap();
        send(&mut outlet, &socket, vec![Part::Extent(Extent::whole(file))]).await.unwrap();
        finish(outlet, socket).await;
        reader
    });
    let records = open_all(keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm), &received.join().unwrap());
    assert_eq!(data_of(&records), body);
}

#[test]
fn the_first_records_fit_a_packet_and_later_ones_are_full() {
    let body = content(300_000);
    let (_kept, file) = file_of(&body);
    let received = run(async {
        let (socket, reader) = pair(Duration::ZERO).await;
        let keys = keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm);
        let mut outlet = Outlet::user_space(Rc::clone(&socket), keys, LIMITS).unwrap();
        let parts = vec![Part::Owned(vec![b'h'; 300]), Part::Extent(Extent::whole(file))];
        send(&mut outlet, &socket, parts).await.unwrap();
        finish(outlet, socket).await;
        reader
    });
    let records = open_all(keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm), &received.join().unwrap());
    assert_eq!(records[0].plaintext.len(), 1360, "the head shares its record with the body");
    let small = records.iter().take_while(|record| record.plaintext.len() == 1360).count();
    assert_eq!(small, (64 * 1024usize).div_ceil(1360));
    assert_eq!(records[small].plaintext.len(), 16 * 1024);
    assert_eq!(data_of(&records).len(), 300 + 300_000);
}

#[test]
fn a_small_response_is_one_record() {
    let body = content(1000);
    let (_kept, file) = file_of(&body);
    let received = run(async {
        let (socket, reader) = pair(Duration::ZERO).await;
        let keys = keys(ProtocolVersion::Tls12, Cipher::Aes256Gcm);
        let mut outlet = Outlet::user_space(Rc::clone(&socket), keys, LIMITS).unwrap();
        let parts = vec![Part::Owned(vec![b'h'; 300]), Part::Extent(Extent::whole(file))];
        send(&mut outlet, &socket, parts).await.unwrap();
        finish(outlet, socket).await;
        reader
    });
    let records = open_all(keys(ProtocolVersion::Tls12, Cipher::Aes256Gcm), &received.join().unwrap());
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].plaintext.len(), 1300);
}

#[test]
fn a_key_update_takes_effect_with_the_next_record() {
    let received = run(async {
        let (socket, reader) = pair(Duration::ZERO).await;
        let keys = keys(ProtocolVersion::Tls13, Cipher::ChaCha20Poly1305);
        let mut outlet = Outlet::user_space(Rc::clone(&socket), keys, LIMITS).unwrap();
        for text in [b"one", b"two"] {
            send(&mut outlet, &socket, vec![Part::Shared(Arc::from(&text[..]))]).await.unwrap();
            outlet.update_keys().unwrap();
        }
        send(&mut outlet, &socket, vec![Part::Owned(b"three".to_vec())]).await.unwrap();
        finish(outlet, socket).await;
        reader
    });
    let records = open_all(keys(ProtocolVersion::Tls13, Cipher::ChaCha20Poly1305), &received.join().unwrap());
    let kinds: Vec<u8> = records.iter().map(|record| record.kind).collect();
    assert_eq!(kinds, [APPLICATION_DATA, HANDSHAKE, APPLICATION_DATA, HANDSHAKE, APPLICATION_DATA]);
    assert_eq!(data_of(&records), b"onetwothree");
}

#[test]
fn worn_out_keys_are_changed_in_tls13_and_end_the_connection_in_tls12() {
    let limits = OutletLimits { records_per_key: 10, small_record_phase_bytes: 0, ..LIMITS };
    for version in [ProtocolVersion::Tls13, ProtocolVersion::Tls12] {
        let body = content(50 * 16 * 1024);
        let (_kept, file) = file_of(&body);
        let (received, outcome) = run(async {
            let (socket, reader) = pair(Duration::ZERO).await;
            let keys = keys(version, Cipher::Aes128Gcm);
            let mut outlet = Outlet::user_space(Rc::clone(&socket), keys, limits).unwrap();
            let outcome = send(&mut outlet, &socket, vec![Part::Extent(Extent::whole(file))]).await;
            finish(outlet, socket).await;
            (reader, outcome)
        });
        let records = open_all(keys(version, Cipher::Aes128Gcm), &received.join().unwrap());
        match version {
            ProtocolVersion::Tls13 => {
                outcome.unwrap();
                assert_eq!(data_of(&records), body);
                let updates = records.iter().filter(|record| record.kind == HANDSHAKE).count();
                assert_eq!(updates, 50 / 9, "each generation carries nine records and its KeyUpdate");
            }
            ProtocolVersion::Tls12 => {
                assert!(matches!(outcome, Err(SendError::KeysWornOut)));
                assert!(records.len() < 10);
            }
        }
    }
}

#[test]
fn a_file_truncated_under_way_ends_the_transmission_and_sends_nothing_of_the_hole() {
    let body = content(3_000_000);
    let (kept, file) = file_of(&body);
    let (received, outcome) = run(async {
        let (socket, reader) = pair(Duration::ZERO).await;
        let keys = keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm);
        let mut outlet = Outlet::user_space(Rc::clone(&socket), keys, LIMITS).unwrap();
        let mut transmission = Transmission::new(vec![Part::Extent(Extent::whole(file))]);
        let mut steps = 0;
        let outcome = loop {
            match outlet.advance(&mut transmission, Instant::now()) {
                Ok(Step::Done) => break Ok(()),
                Ok(Step::Sent(_)) => {
                    steps += 1;
                    if steps == 2 {
                        kept.as_file().set_len(4096).unwrap();
                    }
                }
                Ok(Step::Blocked) => socket.writable().await.unwrap(),
                Ok(Step::Cold(rest)) => transmission.warmed(rest.len),
                Ok(Step::Starved) => unreachable!("there is no source"),
                Err(error) => break Err(error),
            }
        };
        // The record that failed has used up its number, so even a goodbye would be unreadable.
        outlet.alert(0);
        finish(outlet, socket).await;
        (reader, outcome)
    });
    assert!(matches!(outcome, Err(SendError::Truncated)), "{outcome:?}");
    let sent = data_of(&open_all(keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm), &received.join().unwrap()));
    assert!(!sent.is_empty() && sent.len() < body.len());
    assert_eq!(sent, body[..sent.len()]);
}

#[test]
fn after_an_alert_nothing_more_is_sent() {
    run(async {
        let (socket, _reader) = pair(Duration::ZERO).await;
        let keys = keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm);
        let mut outlet = Outlet::user_space(Rc::clone(&socket), keys, LIMITS).unwrap();
        outlet.alert(0);
        let outcome = send(&mut outlet, &socket, vec![Part::Owned(b"late".to_vec())]).await;
        assert!(matches!(outcome, Err(SendError::Gone)));
    });
}

#[test]
fn the_last_response_of_a_connection_ends_in_close_notify() {
    run(async {
        let (socket, reader) = pair(Duration::ZERO).await;
        let keys = keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm);
        let mut outlet = Outlet::user_space(Rc::clone(&socket), keys.clone(), LIMITS).unwrap();
        let mut response =
            Transmission::new(vec![Part::Owned(b"head".to_vec()), Part::Owned(b"body".to_vec())]);
        response.end_connection();
        assert!(matches!(outlet.advance(&mut response, Instant::now()), Ok(Step::Sent(8))));
        assert!(matches!(outlet.advance(&mut response, Instant::now()), Ok(Step::Done)));
        // Neither a second alert nor another response.
        outlet.alert(0);
        assert!(outlet.flush().unwrap());
        let mut next = Transmission::new(vec![Part::Owned(b"next".to_vec())]);
        assert!(matches!(outlet.advance(&mut next, Instant::now()), Err(SendError::Gone)));
        drop((outlet, socket));
        let records = open_all(keys, &reader.join().unwrap());
        let kinds: Vec<(u8, &[u8])> =
            records.iter().map(|record| (record.kind, &record.plaintext[..])).collect();
        assert_eq!(kinds, [(APPLICATION_DATA, &b"headbody"[..]), (ALERT, &[1, 0][..])]);
    });
}

#[test]
fn the_last_record_leaves_with_the_end_of_the_connection() {
    run(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = Rc::new(ConnectedSocket::accept(&listener).unwrap().0);
        let keys = keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm);
        let mut outlet = Outlet::user_space(Rc::clone(&socket), keys.clone(), LIMITS).unwrap();
        outlet.begin_with(b"tickets".to_vec());
        assert!(outlet.has_unsent());
        outlet.alert(0);
        assert!(outlet.flush().unwrap());
        assert!(!outlet.has_unsent());
        client.set_nonblocking(true).unwrap();
        assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop((outlet, socket));
        client.set_nonblocking(false).unwrap();
        let mut received = Vec::new();
        client.read_to_end(&mut received).unwrap();
        let records = open_all(keys, received.strip_prefix(b"tickets").unwrap());
        assert_eq!(records, [Record { kind: ALERT, plaintext: vec![1, 0] }]);
    });
}

#[test]
fn a_body_that_is_given_up_has_no_close_notify_behind_it() {
    run(async {
        let (socket, reader) = pair(Duration::ZERO).await;
        let keys = keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm);
        let mut outlet = Outlet::user_space(Rc::clone(&socket), keys.clone(), LIMITS).unwrap();
        let (_kept, file) = file_of(b"body");
        let mut response =
            Transmission::new(vec![Part::Owned(b"head".to_vec()), Part::Extent(Extent::whole(file))]);
        response.end_connection();
        assert_eq!(response.give_up_body(), Some(4));
        assert!(matches!(outlet.advance(&mut response, Instant::now()), Ok(Step::Sent(4))));
        drop((outlet, socket));
        let records = open_all(keys, &reader.join().unwrap());
        assert_eq!(records.len(), 1, "{records:?}");
    });
}

#[test]
fn a_response_that_breaks_off_ends_in_a_fatal_alert_and_not_in_close_notify() {
    let keys = keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm);
    let received = run(async {
        let (socket, reader) = pair(Duration::ZERO).await;
        let mut outlet = Outlet::user_space(Rc::clone(&socket), keys.clone(), LIMITS).unwrap();
        send(&mut outlet, &socket, vec![Part::Owned(b"cut".to_vec())]).await.unwrap();
        outlet.break_off();
        finish(outlet, socket).await;
        reader
    });
    let records = open_all(keys, &received.join().unwrap());
    assert_eq!(records.last(), Some(&Record { kind: 21, plaintext: vec![2, 80] }));
}

#[test]
fn bytes_left_by_the_handshake_are_sent_first() {
    let received = run(async {
        let (socket, reader) = pair(Duration::ZERO).await;
        let keys = keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm);
        let mut outlet = Outlet::user_space(Rc::clone(&socket), keys, LIMITS).unwrap();
        outlet.begin_with(b"tickets".to_vec());
        send(&mut outlet, &socket, vec![Part::Owned(b"answer".to_vec())]).await.unwrap();
        finish(outlet, socket).await;
        reader
    });
    let received = received.join().unwrap();
    let records = received.strip_prefix(b"tickets").expect("the tickets come first");
    assert_eq!(data_of(&open_all(keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm), records)), b"answer");
}

/// A socket on which `bytes` arrive in pieces, and then its end.
async fn source_of(bytes: Vec<u8>) -> Rc<TcpStream> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        for (number, piece) in bytes.chunks(33_333).enumerate() {
            if number % 5 == 2 {
                std::thread::sleep(Duration::from_millis(2));
            }
            std::io::Write::write_all(&mut stream, piece).unwrap();
        }
    });
    Rc::new(listener.accept().await.unwrap().0)
}

#[test]
fn a_body_from_another_socket_is_read_and_sealed() {
    let body = content(1_000_003);
    let wanted = body.clone();
    let received = run(async {
        let (socket, reader) = pair(Duration::ZERO).await;
        let keys = keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm);
        let mut outlet = Outlet::user_space(Rc::clone(&socket), keys, LIMITS).unwrap();
        let source = SocketSource::new(source_of(body).await, 1_000_003);
        let parts = vec![Part::Owned(b"head".to_vec()), Part::Source(source), Part::Owned(b"tail".to_vec())];
        send(&mut outlet, &socket, parts).await.unwrap();
        finish(outlet, socket).await;
        reader
    });
    let records = open_all(keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm), &received.join().unwrap());
    assert_eq!(data_of(&records), [b"head", &wanted[..], b"tail"].concat());
}

#[test]
fn a_source_that_ends_early_cuts_the_body_and_leaves_every_record_readable() {
    let body = content(100_000);
    let wanted = body.clone();
    let received = run(async {
        let (socket, reader) = pair(Duration::ZERO).await;
        let keys = keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm);
        let mut outlet = Outlet::user_space(Rc::clone(&socket), keys, LIMITS).unwrap();
        let source = SocketSource::new(source_of(body).await, 100_001);
        let outcome = send(&mut outlet, &socket, vec![Part::Source(source)]).await;
        assert!(matches!(outcome, Err(SendError::Truncated)), "{outcome:?}");
        outlet.alert(80);
        finish(outlet, socket).await;
        reader
    });
    let records = open_all(keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm), &received.join().unwrap());
    assert_eq!(data_of(&records), wanted);
    let last = records.last().unwrap();
    assert_eq!((last.kind, &last.plaintext[..]), (ALERT, &[2, 80][..]));
}
