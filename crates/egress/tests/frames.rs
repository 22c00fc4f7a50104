//! Frames of several responses in one batch, each record opened with the client's half of the keys.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

mod harness;

use std::rc::Rc;
use std::time::{Duration, Instant};

use harness::{ALL, HANDSHAKE, LIMITS, content, data_of, file_of, finish, keys, open_all, pair, run};
use penstock_egress::{
    Available, FrameBatch, FramesStep, Outlet, OutletLimits, Part, SendError, Transmission,
};
use penstock_sys::ConnectedSocket;
use penstock_sys::aead::Cipher;
use penstock_sys::file::Extent;
use penstock_sys::traffic::ProtocolVersion;

/// A header of nine bytes that tells stream and length.
fn header(stream: u8, length: usize) -> [u8; 9] {
    let mut header = [stream; 9];
    header[5..].copy_from_slice(&u32::try_from(length).unwrap().to_be_bytes());
    header
}

/// The contents of the streams, put together from their frames.
fn contents(mut bytes: &[u8], streams: u8) -> Vec<Vec<u8>> {
    let mut found = vec![Vec::new(); usize::from(streams)];
    while let Some((header, rest)) = bytes.split_at_checked(9) {
        let length = u32::from_be_bytes(header[5..].try_into().unwrap()) as usize;
        let (content, rest) = rest.split_at(length);
        assert!(header[..5].iter().all(|byte| *byte == header[0]), "a header: {header:?}");
        found[usize::from(header[0])].extend_from_slice(content);
        bytes = rest;
    }
    assert!(bytes.is_empty(), "{} bytes behind the last frame", bytes.len());
    found
}

/// Puts one frame of each transmission in turn until the batch is full.
fn fill(batch: &mut FrameBatch<'_>, transmissions: &mut [Transmission]) {
    loop {
        let mut any = false;
        for (stream, transmission) in (0..).zip(transmissions.iter_mut()) {
            let space = batch.space().saturating_sub(9);
            if space == 0 {
                return;
            }
            match transmission.available(space) {
                Available::Bytes(count) => {
                    batch.put_content(&header(stream, count), transmission, count).unwrap();
                    any = true;
                }
                Available::Cold(extent) => {
                    transmission.warmed(extent.len.min(100_000));
                    any = true;
                }
                Available::Unknown => panic!("no part has an unknown length"),
                Available::Done => {}
            }
        }
        if !any {
            return;
        }
    }
}

async fn send_all(outlet: &mut Outlet, socket: &ConnectedSocket, mut transmissions: Vec<Transmission>) {
    loop {
        match outlet.send_frames(Instant::now(), |batch| fill(batch, &mut transmissions)).unwrap() {
            FramesStep::Sent(_) => {}
            FramesStep::Blocked => socket.writable().await.unwrap(),
            FramesStep::Idle => return,
        }
    }
}

fn whole(file: &std::sync::Arc<penstock_sys::file::OpenFile>) -> Part {
    Part::Extent(Extent::whole(std::sync::Arc::clone(file)))
}

#[test]
fn frames_of_many_streams_arrive_whole_with_every_cipher_and_without() {
    for suite in ALL.map(Some).into_iter().chain([None]) {
        let bodies = [content(700_001), content(1), content(16_375), content(16_376), content(4096)];
        let files: Vec<_> = bodies.iter().map(|body| file_of(body)).collect();
        let received = run(async {
            let (socket, reader) = pair(Duration::ZERO).await;
            let mut outlet = match suite {
                Some((version, cipher)) => {
                    Outlet::user_space(Rc::clone(&socket), keys(version, cipher), LIMITS).unwrap()
                }
                None => Outlet::plain(Rc::clone(&socket), LIMITS),
            };
            let mut transmissions: Vec<_> =
                files.iter().map(|(_, file)| Transmission::new(vec![whole(file)])).collect();
            let memory = Part::Shared(std::sync::Arc::from(&content(40_000)[..]));
            transmissions.push(Transmission::new(vec![
                Part::Owned(b"range".to_vec()),
                whole(&files[0].1),
                memory,
            ]));
            send_all(&mut outlet, &socket, transmissions).await;
            outlet.alert(0);
            finish(outlet, socket).await;
            reader
        });
        let mut received = received.join().unwrap();
        if let Some((version, cipher)) = suite {
            received = data_of(&open_all(keys(version, cipher), &received));
        }
        let found = contents(&received, 6);
        for (found, body) in found.iter().zip(&bodies) {
            assert_eq!(found, body, "{suite:?}");
        }
        assert_eq!(found[5], [b"range", &bodies[0][..], &content(40_000)].concat());
    }
}

#[test]
fn one_full_frame_fills_one_record_and_small_frames_share_one() {
    let limits = OutletLimits { small_record_phase_bytes: 0, ..LIMITS };
    let (_kept, large) = file_of(&content(3 * 16_375));
    let (_kept_too, small) = file_of(&content(500));
    let received = run(async {
        let (socket, reader) = pair(Duration::ZERO).await;
        let keys = keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm);
        let mut outlet = Outlet::user_space(Rc::clone(&socket), keys, limits).unwrap();
        send_all(&mut outlet, &socket, vec![Transmission::new(vec![whole(&large)])]).await;
        let small = (0..20).map(|_| Transmission::new(vec![whole(&small)])).collect();
        send_all(&mut outlet, &socket, small).await;
        finish(outlet, socket).await;
        reader
    });
    let records = open_all(keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm), &received.join().unwrap());
    let lengths: Vec<usize> = records.iter().map(|record| record.plaintext.len()).collect();
    assert_eq!(lengths, [16 * 1024, 16 * 1024, 16 * 1024, 20 * 509]);
}

#[test]
fn the_first_frames_fit_a_packet() {
    let (_kept, file) = file_of(&content(300_000));
    let received = run(async {
        let (socket, reader) = pair(Duration::ZERO).await;
        let keys = keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm);
        let mut outlet = Outlet::user_space(Rc::clone(&socket), keys, LIMITS).unwrap();
        send_all(&mut outlet, &socket, vec![Transmission::new(vec![whole(&file)])]).await;
        finish(outlet, socket).await;
        reader
    });
    let records = open_all(keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm), &received.join().unwrap());
    let small = records.iter().take_while(|record| record.plaintext.len() == 1360).count();
    assert_eq!(small, (64 * 1024usize).div_ceil(1360));
    assert_eq!(records[small].plaintext.len(), 16 * 1024);
}

#[test]
fn a_reader_that_drains_slowly_gets_every_frame_once() {
    for is_sealed in [true, false] {
        let body = content(3_000_000);
        let (_kept, file) = file_of(&body);
        let received = run(async {
            let (socket, reader) = pair(Duration::from_micros(300)).await;
            socket2::SockRef::from(&*socket).set_send_buffer_size(16 * 1024).unwrap();
            let keys = keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm);
            let mut outlet = if is_sealed {
                Outlet::user_space(Rc::clone(&socket), keys, LIMITS).unwrap()
            } else {
                Outlet::plain(Rc::clone(&socket), LIMITS)
            };
            let transmissions = (0..2).map(|_| Transmission::new(vec![whole(&file)])).collect();
            send_all(&mut outlet, &socket, transmissions).await;
            finish(outlet, socket).await;
            reader
        });
        let mut received = received.join().unwrap();
        if is_sealed {
            received = data_of(&open_all(keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm), &received));
        }
        assert_eq!(contents(&received, 2), [body.clone(), body]);
    }
}

#[test]
fn a_truncated_file_ends_its_stream_and_no_other() {
    for length in [2000, 16_000] {
        let limits = OutletLimits { small_record_phase_bytes: 0, ..LIMITS };
        let body = content(50_000);
        let (shortened, lost) = file_of(&content(50_000));
        let (_kept, file) = file_of(&body);
        let received = run(async {
            let (socket, reader) = pair(Duration::ZERO).await;
            let keys = keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm);
            let mut outlet = Outlet::user_space(Rc::clone(&socket), keys, limits).unwrap();
            let mut doomed = Transmission::new(vec![whole(&lost)]);
            doomed.warmed(50_000);
            std::fs::File::options().write(true).open(shortened.path()).unwrap().set_len(0).unwrap();
            let sent = outlet.send_frames(Instant::now(), |batch| {
                batch.put(&[&header(0, 4)[..], b"head"].concat());
                let put = batch.put_content(&header(1, length), &mut doomed, length);
                assert!(matches!(put, Err(SendError::Truncated)), "{put:?}");
                batch.put(&[&header(2, 5)[..], b"reset"].concat());
            });
            assert_eq!(sent.unwrap(), FramesStep::Sent(9 + 4 + 9 + 5));
            send_all(&mut outlet, &socket, vec![Transmission::new(vec![whole(&file)])]).await;
            finish(outlet, socket).await;
            reader
        });
        let records = open_all(keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm), &received.join().unwrap());
        let found = contents(&data_of(&records), 3);
        assert_eq!(found, [[b"head", &body[..]].concat(), Vec::new(), b"reset".to_vec()]);
    }
}

#[test]
fn what_is_available_ends_at_a_cold_page() {
    let (_kept, file) = file_of(&content(10_000));
    let mut transmission =
        Transmission::new(vec![Part::Owned(vec![1; 10]), whole(&file), Part::Owned(vec![2; 5])]);
    assert!(matches!(transmission.available(100), Available::Bytes(10)));
    assert!(matches!(transmission.available(4), Available::Bytes(4)));
    transmission.warmed(6000);
    assert!(
        matches!(transmission.available(10_000), Available::Bytes(10)),
        "the window ends within the frame"
    );
    assert!(matches!(transmission.available(6_010), Available::Bytes(6010)));
    transmission.warmed(10_000);
    assert!(matches!(transmission.available(100_000), Available::Bytes(10_015)));
    let body = Transmission::new(vec![whole(&file)]);
    assert!(matches!(body.available(1), Available::Cold(rest) if rest.len == 10_000));
    assert!(matches!(Transmission::default().available(1), Available::Done));
}

#[test]
fn worn_out_keys_are_changed_between_two_frames() {
    let limits = OutletLimits { records_per_key: 10, small_record_phase_bytes: 0, ..LIMITS };
    let body = content(50 * 16_375);
    let (_kept, file) = file_of(&body);
    let received = run(async {
        let (socket, reader) = pair(Duration::ZERO).await;
        let keys = keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm);
        let mut outlet = Outlet::user_space(Rc::clone(&socket), keys, limits).unwrap();
        send_all(&mut outlet, &socket, vec![Transmission::new(vec![whole(&file)])]).await;
        finish(outlet, socket).await;
        reader
    });
    let records = open_all(keys(ProtocolVersion::Tls13, Cipher::Aes128Gcm), &received.join().unwrap());
    assert_eq!(contents(&data_of(&records), 1), [body]);
    assert_eq!(records.iter().filter(|record| record.kind == HANDSHAKE).count(), 50 / 9);
}
