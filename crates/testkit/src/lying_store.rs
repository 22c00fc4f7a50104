//! A store that answers every request with bytes without an end.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::ports::ReservedAddress;

/// Accepts connections until it is dropped.
pub struct LyingStore {
    address: ReservedAddress,
    has_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What a [`LyingStore`] sends after the first bytes of a request.
#[derive(Clone, Copy, Debug)]
pub struct Lie {
    /// Sent once.
    pub begin: &'static str,
    /// Sent again and again.
    pub rest: &'static str,
    /// Between two of these; zero sends as fast as the client reads.
    pub pause: Duration,
}

/// Bytes after which a connection says nothing more.
const BYTES: usize = 64 << 20;

/// Bytes of one write.
const PIECE: usize = 64 << 10;

impl LyingStore {
    /// Listens on an address of its own.
    pub fn start(lie: Lie) -> Self {
        let address = ReservedAddress::reserve();
        let listener = address.listen();
        let has_ended = Arc::new(AtomicBool::new(false));
        let own = Arc::clone(&has_ended);
        let thread = thread::spawn(move || accept(&listener, lie, &own));
        Self { address, has_ended, thread: Some(thread) }
    }

    /// The address to connect to.
    pub fn address(&self) -> SocketAddr {
        self.address.address()
    }
}

impl Drop for LyingStore {
    fn drop(&mut self) {
        self.has_ended.store(true, Relaxed);
        // Wakes the thread, which then ends.
        drop(TcpStream::connect(self.address()));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn accept(listener: &TcpListener, lie: Lie, has_ended: &Arc<AtomicBool>) {
    for client in listener.incoming().map_while(Result::ok) {
        if has_ended.load(Relaxed) {
            return;
        }
        let has_ended = Arc::clone(has_ended);
        // The client may leave at any time.
        thread::spawn(move || drop(send(client, lie, &has_ended)));
    }
}

fn send(mut client: TcpStream, lie: Lie, has_ended: &AtomicBool) -> std::io::Result<()> {
    let _asked = client.read(&mut [0; 4096])?;
    client.write_all(lie.begin.as_bytes())?;
    let piece =
        if lie.pause.is_zero() { lie.rest.repeat(PIECE / lie.rest.len()) } else { lie.rest.to_owned() };
    let mut sent = 0;
    while sent < BYTES && !has_ended.load(Relaxed) {
        thread::sleep(lie.pause);
        client.write_all(piece.as_bytes())?;
        sent += piece.len();
    }
    Ok(())
}
