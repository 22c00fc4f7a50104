//! Sockets of a thread that are closed together.
//!
//! The last packet of a short connection leaves when its socket is closed. If several connections end while the tasks of a
//! thread run once, their packets follow each other, and the core that receives them is interrupted once.

use std::cell::RefCell;
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::task::{Poll, Waker};

/// Sockets that wait to be closed, at most.
pub const CLOSING_SOCKETS_MAX: usize = 64;

thread_local! {
    static CLOSING: RefCell<Option<Closing>> = const { RefCell::new(None) };
}

struct Closing {
    sockets: Vec<OwnedFd>,
    closer: Waker,
}

/// Closes connected sockets of this thread together, until it is dropped: those that are dropped from now on wait until the
/// tasks that are ready have run, or until there are 64 of them. Refused connections, which nothing was sent to, do not wait.
pub async fn close_together() {
    let _stop = Stop;
    poll_fn(|context| {
        CLOSING.with_borrow_mut(|closing| match closing {
            Some(closing) => {
                closing.sockets.clear();
                closing.closer.clone_from(context.waker());
            }
            None => {
                let sockets = Vec::with_capacity(CLOSING_SOCKETS_MAX);
                *closing = Some(Closing { sockets, closer: context.waker().clone() });
            }
        });
        Poll::Pending
    })
    .await
}

struct Stop;

impl Drop for Stop {
    fn drop(&mut self) {
        drop(CLOSING.take());
    }
}

/// Closes a socket together with others if [`close_together`] runs on this thread, otherwise at once.
pub(crate) fn close(socket: OwnedFd) {
    let mut socket = Some(socket);
    // A thread that ends has no list any more.
    let _ended = CLOSING.try_with(|closing| {
        let mut closing = closing.borrow_mut();
        let Some(closing) = closing.as_mut() else { return };
        if closing.sockets.is_empty() {
            closing.closer.wake_by_ref();
        }
        closing.sockets.extend(socket.take());
        if closing.sockets.len() == CLOSING_SOCKETS_MAX {
            closing.sockets.clear();
        }
    });
    drop(socket);
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::io::Read;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use tokio::task::{LocalSet, spawn_local, yield_now};

    use super::*;

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(LocalSet::new().run_until(test));
    }

    fn pair() -> (UnixStream, OwnedFd) {
        let (client, socket) = UnixStream::pair().unwrap();
        client.set_nonblocking(true).unwrap();
        (client, socket.into())
    }

    fn is_closed(mut client: &UnixStream) -> bool {
        matches!(client.read(&mut [0]), Ok(0))
    }

    #[test]
    fn sockets_are_closed_when_the_tasks_that_are_ready_have_run() {
        run(async {
            let closing = spawn_local(close_together());
            yield_now().await;
            for _ in 0..3 {
                let ((first, one), (second, other)) = (pair(), pair());
                close(one);
                close(other);
                assert!(!is_closed(&first) && !is_closed(&second));
                yield_now().await;
                assert!(is_closed(&first) && is_closed(&second));
            }
            closing.abort();
        });
    }

    #[test]
    fn no_more_than_the_bound_wait() {
        run(async {
            let _closing = spawn_local(close_together());
            yield_now().await;
            let (clients, sockets): (Vec<_>, Vec<_>) = (0..=CLOSING_SOCKETS_MAX).map(|_| pair()).unzip();
            sockets.into_iter().for_each(close);
            let open: Vec<usize> =
                (0..=CLOSING_SOCKETS_MAX).filter(|&number| !is_closed(&clients[number])).collect();
            assert_eq!(open, [CLOSING_SOCKETS_MAX]);
        });
    }

    #[test]
    fn without_it_and_after_it_sockets_are_closed_at_once() {
        let (client, socket) = pair();
        close(socket);
        assert!(is_closed(&client));
        run(async {
            let closing = spawn_local(close_together());
            yield_now().await;
            let (waiting, socket) = pair();
            close(socket);
            closing.abort();
            assert!(closing.await.unwrap_err().is_cancelled());
            assert!(is_closed(&waiting));
            let (client, socket) = pair();
            close(socket);
            assert!(is_closed(&client));
        });
    }
}
