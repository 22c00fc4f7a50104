//! Bytes that leave the plain outlet.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use penstock_egress::{Outlet, OutletLimits, Part, SendError, SocketSource, Step, Transmission};
use penstock_sys::ConnectedSocket;
use penstock_sys::file::{Extent, OpenFile};

const LIMITS: OutletLimits = OutletLimits {
    batch_bytes_min: 64 * 1024,
    batch_bytes_max: 512 * 1024,
    plain_bytes_max: 1024 * 1024,
    small_record_bytes: 1360,
    small_record_phase_bytes: 64 * 1024,
    idle: Duration::from_secs(1),
    records_per_key: 1 << 24,
};

/// Sends parts of a file of `length` bytes that `change` changes before its second window.
fn send_file(length: usize, change: impl Fn(&std::fs::File)) -> (Vec<u8>, Vec<u8>, Result<(), SendError>) {
    let body: Vec<u8> = (0..length).map(|i| u8::try_from(i % 253).unwrap()).collect();
    let kept = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(kept.path(), &body).unwrap();
    let fd = std::fs::File::open(kept.path()).unwrap().as_fd().try_clone_to_owned().unwrap();
    let file = Arc::new(OpenFile::from_fd(fd).unwrap().with_other_writers());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (reader, outcome) = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let arrived = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&arrived);
        let reader = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            let (mut all, mut piece) = (Vec::new(), vec![0; 64 * 1024]);
            loop {
                match stream.read(&mut piece).unwrap() {
                    0 => return all,
                    read => all.extend_from_slice(&piece[..read]),
                }
                count.store(all.len(), Ordering::Release);
            }
        });
        let (socket, _) = ConnectedSocket::accept(&listener).unwrap();
        let socket = Rc::new(socket);
        let mut outlet = Outlet::plain(Rc::clone(&socket), LIMITS);
        let parts = vec![
            Part::Owned(b"head".to_vec()),
            Part::Extent(Extent::new(Arc::clone(&file), 10, 5).unwrap()),
            Part::Shared(Arc::from(&b"middle"[..])),
            Part::Extent(Extent::whole(file)),
        ];
        let mut transmission = Transmission::new(parts);
        let mut sent = 0;
        let outcome = loop {
            match outlet.advance(&mut transmission, Instant::now()) {
                Ok(Step::Done) => break Ok(()),
                Ok(Step::Sent(count)) => sent += count,
                Ok(Step::Blocked) => socket.writable().await.unwrap(),
                Ok(Step::Cold(rest)) => {
                    if rest.offset > 0 && rest.offset != 10 {
                        // Pages that wait in the socket would be sent as they are then.
                        while arrived.load(Ordering::Acquire) < sent {
                            std::thread::yield_now();
                        }
                        change(kept.as_file());
                    }
                    transmission.warmed(rest.len.min(256 * 1024));
                }
                Ok(Step::Starved) => unreachable!("there is no source"),
                Err(error) => break Err(error),
            }
        };
        (reader, outcome)
    });
    let expected = [b"head", &body[10..15], b"middle", &body].concat();
    (reader.join().unwrap(), expected, outcome)
}

#[test]
fn memory_and_extents_leave_in_order() {
    let (received, expected, outcome) = send_file(2_000_003, |_| {});
    outcome.unwrap();
    assert!(received == expected, "other bytes were sent");
}

#[test]
fn a_head_and_a_short_file_are_one_step_and_a_long_one_follows_its_head_at_once() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for length in [1, 4096, 4097, 200_000] {
        let body: Vec<u8> = (0..length).map(|i| u8::try_from(i % 253).unwrap()).collect();
        let kept = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(kept.path(), &body).unwrap();
        let file = Arc::new(OpenFile::from_fd(kept.reopen().unwrap().into()).unwrap());
        let (steps, received) = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (socket, _) = ConnectedSocket::accept(&listener).unwrap();
            let socket = Rc::new(socket);
            let mut outlet = Outlet::plain(Rc::clone(&socket), LIMITS);
            let parts = vec![Part::Owned(b"head".to_vec()), Part::Extent(Extent::whole(file))];
            let mut response = Transmission::new(parts);
            response.end_connection();
            let mut steps = Vec::new();
            loop {
                match outlet.advance(&mut response, Instant::now()).unwrap() {
                    Step::Done => break,
                    Step::Sent(count) => steps.push(count),
                    Step::Cold(rest) => response.warmed(rest.len),
                    other => unreachable!("{other:?}"),
                }
            }
            drop((outlet, socket));
            let mut received = Vec::new();
            client.read_to_end(&mut received).unwrap();
            (steps, received)
        });
        assert_eq!(steps, [4 + length]);
        assert!(received == [b"head", &body[..]].concat(), "other bytes of {length} were sent");
    }
}

#[test]
fn a_file_cut_short_ends_the_transmission() {
    let (received, expected, outcome) = send_file(2_000_003, |file| file.set_len(4096).unwrap());
    assert!(matches!(outcome, Err(SendError::Truncated)), "{outcome:?}");
    assert!(received == expected[..received.len()], "other bytes were sent");
    assert!(received.len() < expected.len());
}

#[test]
fn a_file_that_was_emptied_and_filled_again_ends_the_transmission_before_other_bytes_are_sent() {
    let rewrite = |file: &std::fs::File| {
        file.set_len(0).unwrap();
        file.set_len(2_000_003).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    };
    let (received, expected, outcome) = send_file(2_000_003, rewrite);
    assert!(matches!(outcome, Err(SendError::Truncated)), "{outcome:?}");
    assert!(received == expected[..received.len()], "other bytes were sent");
    assert!(received.len() < expected.len());
}

#[test]
fn a_file_that_grows_is_sent_as_long_as_it_was() {
    let (received, expected, outcome) =
        send_file(2_000_003, |file| file.set_len(file.metadata().unwrap().len() + 1).unwrap());
    outcome.unwrap();
    assert!(received == expected, "other bytes were sent");
}

#[test]
fn a_response_that_breaks_off_ends_in_a_reset() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = Rc::new(ConnectedSocket::accept(&listener).unwrap().0);
        let mut outlet = Outlet::plain(Rc::clone(&socket), LIMITS);
        let mut transmission = Transmission::new(vec![Part::Owned(b"cut".to_vec())]);
        while !matches!(outlet.advance(&mut transmission, Instant::now()), Ok(Step::Done)) {}
        outlet.break_off();
        drop((outlet, socket));
        client.read_to_end(&mut Vec::new())
    });
    assert_eq!(outcome.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

/// Sends `promised` bytes from a socket on which `arriving` come in pieces; then four more from memory.
fn send_from_a_socket(arriving: Vec<u8>, promised: u64) -> (Vec<u8>, Result<(), SendError>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (reader, outcome) = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            TcpStream::connect(address).unwrap().read_to_end(&mut all).unwrap();
            all
        });
        let socket = listener.accept().await.unwrap().0.into_std().unwrap();
        let socket = Rc::new(ConnectedSocket::from(socket));
        std::thread::spawn(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            for piece in arriving.chunks(99_999) {
                std::thread::sleep(Duration::from_millis(1));
                std::io::Write::write_all(&mut stream, piece).unwrap();
            }
        });
        let source = Rc::new(listener.accept().await.unwrap().0);
        let mut outlet = Outlet::plain(Rc::clone(&socket), LIMITS);
        let parts = vec![
            Part::Source(SocketSource::new(Rc::clone(&source), promised)),
            Part::Owned(b"tail".to_vec()),
        ];
        let mut transmission = Transmission::new(parts);
        let outcome = loop {
            match outlet.advance(&mut transmission, Instant::now()) {
                Ok(Step::Done) => break Ok(()),
                Ok(Step::Sent(_)) => {}
                Ok(Step::Blocked) => socket.writable().await.unwrap(),
                Ok(Step::Starved) => source.readable().await.unwrap(),
                Ok(Step::Cold(_)) => unreachable!("there is no file"),
                Err(error) => break Err(error),
            }
        };
        (reader, outcome)
    });
    (reader.join().unwrap(), outcome)
}

#[test]
fn a_body_from_another_socket_is_spliced_and_no_byte_beyond_it_is_taken() {
    let arriving: Vec<u8> = (0..2_000_003_u32).map(|i| u8::try_from(i % 249).unwrap()).collect();
    let (received, outcome) = send_from_a_socket(arriving.clone(), 2_000_000);
    outcome.unwrap();
    assert_eq!(received, [&arriving[..2_000_000], b"tail"].concat());
}

#[test]
fn a_source_that_ends_early_cuts_the_body() {
    let (received, outcome) = send_from_a_socket(vec![7; 300_000], 300_001);
    assert!(matches!(outcome, Err(SendError::Truncated)), "{outcome:?}");
    assert_eq!(received, vec![7; 300_000]);
}
