//! How much lies unsent in the socket of a connection that is paced.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

mod harness;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use harness::{LIMITS, content, finish, pair, run, send};
use penstock_egress::{Outlet, Part};

#[test]
fn a_connection_over_loopback_gets_the_low_water_of_its_listener() {
    const LOW_WATER: u32 = 300_000;
    const RESPONSE_BYTES: usize = 4 << 20;
    run(async {
        // Slow enough to fill the socket.
        let (socket, reader) = pair(Duration::from_millis(20)).await;
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
    });
}
