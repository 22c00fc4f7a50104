//! How much lies unsent in the socket of a connection that is paced.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

mod harness;

use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use harness::{LIMITS, content, file_of, finish, pair, pair_with_segments, run, send};
use penstock_egress::{Outlet, Part, Step, Transmission};
use penstock_sys::ConnectedSocket;
use penstock_sys::file::Extent;

/// The largest segment of a path through network cards.
const SEGMENT_BYTES: u32 = 1448;

// Both read 64 KiB each 20 ms at most, which fills the socket and is not fast on any machine.
const PAUSE: Duration = Duration::from_millis(20);

#[test]
fn a_connection_over_loopback_gets_the_low_water_of_its_listener() {
    run(async { gets_the_low_water_of_its_listener(pair(PAUSE).await).await });
}

#[test]
fn a_client_that_reads_slowly_gets_the_low_water_of_its_listener() {
    run(async { gets_the_low_water_of_its_listener(pair_with_segments(SEGMENT_BYTES, PAUSE).await).await });
}

async fn gets_the_low_water_of_its_listener((socket, reader): (Rc<ConnectedSocket>, JoinHandle<Vec<u8>>)) {
    const LOW_WATER: u32 = 300_000;
    const RESPONSE_BYTES: usize = 4 << 20;
    let low_water = || socket2::SockRef::from(&*socket).tcp_notsent_lowat().unwrap();
    let before = low_water();
    let mut outlet = Outlet::plain(Rc::clone(&socket), LIMITS);
    outlet.follow_pacing(LOW_WATER);
    let body: Arc<[u8]> = content(RESPONSE_BYTES).into();
    let mut sent = 0;
    while low_water() == before {
        assert!(sent < 64 << 20, "the connection counts as a fast one");
        send(&mut outlet, &socket, vec![Part::Shared(Arc::clone(&body))]).await.unwrap();
        sent += RESPONSE_BYTES;
    }
    assert_eq!(low_water(), LOW_WATER);
    finish(outlet, Rc::clone(&socket)).await;
    drop(socket);
    let received = reader.join().unwrap();
    assert_eq!(received.len(), sent);
    assert!(received.chunks(RESPONSE_BYTES).all(|response| response == &body[..]));
}

#[test]
fn a_file_moves_to_a_paced_socket_in_pieces() {
    run(async {
        let (socket, reader) = pair(Duration::ZERO).await;
        let mut outlet = Outlet::plain(Rc::clone(&socket), LIMITS);
        outlet.follow_pacing(512 * 1024);
        let body = content(1 << 20);
        let (_named, file) = file_of(&body);
        let mut transmission = Transmission::new(vec![Part::Extent(Extent::whole(file))]);
        loop {
            match outlet.advance(&mut transmission, Instant::now()).unwrap() {
                Step::Done => break,
                Step::Sent(count) => assert!(count <= 256 * 1024, "{count} bytes with one call"),
                Step::Blocked => socket.writable().await.unwrap(),
                Step::Cold(rest) => transmission.warmed(rest.len),
                Step::Starved => unreachable!("there is no source"),
            }
        }
        drop((outlet, socket));
        assert!(reader.join().unwrap() == body);
    });
}
