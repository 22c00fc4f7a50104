//! A TCP forwarder for programs that know one address only: it spreads connections over servers, and delays answers.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::ports::ReservedAddress;

/// Forwards every connection until it is dropped: the first one to the first server, the next to the next.
pub struct Forwarder {
    address: ReservedAddress,
    shared: Arc<ForwarderState>,
    thread: Option<JoinHandle<()>>,
}

struct ForwarderState {
    servers: Vec<SocketAddr>,
    next: AtomicUsize,
    /// Milliseconds that each byte of a server is held back.
    delay: AtomicU64,
    has_ended: AtomicBool,
}

/// Pieces that wait for their time; the next ones stay in the socket.
const PIECES: usize = 64;

impl Forwarder {
    /// Forwards to these servers, without a delay.
    pub fn to(servers: &[SocketAddr]) -> Self {
        let address = ReservedAddress::reserve();
        let listener = address.listen();
        let shared = Arc::new(ForwarderState {
            servers: servers.to_vec(),
            next: AtomicUsize::new(0),
            delay: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        let thread = thread::spawn(move || accept(&listener, &own));
        Self { address, shared, thread: Some(thread) }
    }

    /// The address to connect to.
    pub fn address(&self) -> SocketAddr {
        self.address.address()
    }

    /// Holds back what servers send from now on, on all connections.
    pub fn delay(&self, delay: Duration) {
        self.shared.delay.store(u64::try_from(delay.as_millis()).unwrap(), Relaxed);
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.shared.next.load(Relaxed)
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Relaxed);
        // Wakes the thread, which then ends.
        drop(TcpStream::connect(self.address()));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<ForwarderState>) {
    for client in listener.incoming() {
        if shared.has_ended.load(Relaxed) {
            return;
        }
        let place = shared.next.fetch_add(1, Relaxed);
        // Without the server the client's connection ends, as it would without a forwarder.
        let (Ok(client), Ok(server)) =
            (client, TcpStream::connect(shared.servers[place % shared.servers.len()]))
        else {
            continue;
        };
        let (from_client, to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        thread::spawn(move || copy(from_client, to_server));
        let shared = Arc::clone(shared);
        thread::spawn(move || copy_late(server, client, &shared));
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    drop(std::io::copy(&mut from, &mut to));
    drop(to.shutdown(Shutdown::Write));
}

fn copy_late(mut from: TcpStream, mut to: TcpStream, shared: &ForwarderState) {
    let (pieces, late) = mpsc::sync_channel::<(Instant, Vec<u8>)>(PIECES);
    let writer = thread::spawn(move || {
        for (due, piece) in late {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&piece).is_err() {
                break;
            }
        }
        drop(to.shutdown(Shutdown::Both));
    });
    let mut buffer = vec![0; 65_536];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let due = Instant::now() + Duration::from_millis(shared.delay.load(Relaxed));
        if pieces.send((due, buffer[..length].to_vec())).is_err() {
            break;
        }
    }
    drop(pieces);
    drop(writer.join());
    drop(from.shutdown(Shutdown::Both));
}
