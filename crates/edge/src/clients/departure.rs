//! Clients that leave while the server waits for an origin.
//!
//! A client that has closed its sending direction still gets its response (RFC 9112 §9.6, RFC 8446 §6.1). From the end of
//! that direction alone the server cannot tell it from a client that has left, so its patience is bounded.

use std::time::Duration;

use penstock_config::limits;
use penstock_sys::ConnectedSocket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::Interest;
use tokio::time::sleep;

/// How often the server looks whether the client has closed its sending direction: bytes of a next request may lie in front
/// of its end, unread.
const LOOK: Duration = Duration::from_secs(limits::HALF_CLOSED_LOOK_SECONDS);
/// For how long a client that has done so is waited for.
const PATIENCE: Duration = Duration::from_secs(limits::HALF_CLOSED_SECONDS);

/// Waits until the connection was reset, or until its client has closed its sending direction for
/// [`limits::HALF_CLOSED_SECONDS`].
pub(crate) async fn departure(socket: &ConnectedSocket) {
    tokio::select! {
        // An end of the client's direction alone does not set it.
        _ = socket.ready(Interest::ERROR) => {}
        () = half_closed(socket, LOOK, PATIENCE) => {}
    }
}

async fn half_closed(socket: &ConnectedSocket, look: Duration, patience: Duration) {
    // Most responses come before the first look.
    sleep(look).await;
    while !is_half_closed(socket) {
        sleep(look).await;
    }
    sleep(patience).await;
}

fn is_half_closed(socket: &ConnectedSocket) -> bool {
    let mut watched = [PollFd::new(socket, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut watched, Some(&now)).is_ok() && watched[0].revents().contains(PollFlags::RDHUP)
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, TcpListener, TcpStream};

    use rustix::net::sockopt::set_socket_linger;
    use tokio::task::yield_now;

    use super::*;

    const MOMENT: Duration = Duration::from_millis(1);

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    }

    fn pair() -> (TcpStream, ConnectedSocket) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, ConnectedSocket::accept(&listener).unwrap().0)
    }

    #[test]
    fn a_reset_is_a_departure_also_of_a_half_closed_client() {
        for half_closed_before in [false, true] {
            run(async {
                let (client, server) = pair();
                if half_closed_before {
                    client.shutdown(Shutdown::Write).unwrap();
                }
                set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
                drop(client);
                let ready = server.ready(Interest::ERROR).await.unwrap();
                assert!(ready.is_error());
                departure(&server).await;
            });
        }
    }

    #[test]
    fn a_half_closed_client_is_given_up_after_a_while_and_a_silent_one_never() {
        run(async {
            let (client, server) = pair();
            let mut leaving = std::pin::pin!(half_closed(&server, MOMENT, MOMENT));
            for _ in 0..100 {
                tokio::select! {
                    biased;
                    () = &mut leaving => panic!("it is still there"),
                    () = yield_now() => {}
                }
            }
            client.shutdown(Shutdown::Write).unwrap();
            leaving.await;
        });
    }
}
