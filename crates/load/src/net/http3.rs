//! A connection of HTTP/3 that several requests share, over a UDP socket of its own. QUIC and QPACK are those of `quiche`.
//!
//! A task receives, and sends once for all that has come together: the requests that follow a response leave with its
//! acknowledgement.

mod context;
mod exchange;
mod state;

use std::cell::RefCell;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use boring::error::ErrorStack;
use boring::ssl::SslRef;
use penstock_sys::udp::{self, Inlet};
use tokio::io::Interest;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{sleep_until, timeout};

pub(super) use self::context::QuicContext;
use self::state::ConnectionState;
use super::link::{ConnectFault, HandshakeFacts, protocol_of};
use super::sessions::SessionPool;
use crate::failure::LoadFailure;
use crate::plan::ConnectionEnding;

/// Bytes that are asked for the socket's receive buffer.
const BUFFER_BYTES: usize = 2 * 1024 * 1024;
/// Calls that receive before others of the thread get their turn.
const CALLS_PER_TURN: usize = 4;
/// The longest datagram that is sent: what fits into an Ethernet frame with IPv6.
const DATAGRAM_BYTES: usize = 1452;
/// How often something is looked for that the task of a connection may have received.
const TASK_PERIOD: Duration = Duration::from_millis(1);
/// `H3_NO_ERROR` of RFC 9114 §8.1.
const NO_ERROR: u64 = 0x100;

thread_local! {
    // Where the datagrams of a thread are received.
    static INLET: RefCell<Inlet> = RefCell::default();
}

/// An open connection; clones share it.
#[derive(Clone)]
pub(crate) struct Http3Connection {
    shared: Rc<ConnectionShared>,
    driver: Rc<Driver>,
}

/// The task that receives and sends. It ends with the last clone of the connection.
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct ConnectionShared {
    state: RefCell<ConnectionState>,
    socket: tokio::net::UdpSocket,
    local: SocketAddr,
    server: SocketAddr,
    /// Something is to be sent.
    wake: Notify,
    /// The connection, or the number of streams that the server allows, has changed.
    changed: Notify,
    /// The most packets for which one acknowledgement is sent.
    ack_every: usize,
}

impl Http3Connection {
    /// Opens a connection and completes the handshake; with early data it returns before the server has answered. `prepare`
    /// names the server to the library.
    pub(super) async fn connect(
        context: &QuicContext,
        server: SocketAddr,
        (session, sessions): (Option<Vec<u8>>, Option<Arc<SessionPool>>),
        prepare: impl FnOnce(&mut SslRef) -> Result<(), ErrorStack>,
        limit: Duration,
    ) -> Result<Self, ConnectFault> {
        let failed = |error: io::Error| (LoadFailure::of_connect(&error), error.to_string());
        let socket = udp::connect(server, BUFFER_BYTES).map_err(failed)?;
        let local = socket.local_addr().map_err(failed)?;
        let mut state = context.connection((local, server), session, sessions).ok_or_else(|| {
            (LoadFailure::HandshakeInvalid, "the session is none of this library".to_owned())
        })?;
        prepare(state.quic.as_mut()).map_err(|error| (LoadFailure::HandshakeInvalid, error.to_string()))?;
        let shared = Rc::new(ConnectionShared::new(context, state, socket, server).map_err(failed)?);
        shared.flush();
        shared.state.borrow_mut().follow();
        let driver = tokio::task::spawn_local(ConnectionShared::drive(Rc::clone(&shared)));
        let connection = Self { shared, driver: Rc::new(Driver(driver)) };
        match timeout(limit, connection.shared.until(ConnectionState::may_send)).await {
            Ok(Ok(())) => Ok(connection),
            Ok(Err(())) => Err(connection.shared.state.borrow_mut().handshake_fault()),
            Err(_) => {
                let failure = match connection.shared.state.borrow().quic.stats().recv {
                    0 => LoadFailure::ConnectTimeout,
                    _ => LoadFailure::HandshakeTimeout,
                };
                Err((failure, format!("{limit:?} were not enough")))
            }
        }
    }

    /// Whether the connection takes more requests.
    pub(crate) fn is_open(&self) -> bool {
        self.shared.state.borrow().is_open()
    }

    /// Whether both are the same connection.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.shared, &other.shared)
    }

    /// Whether the handshake is incomplete and early data may be sent.
    pub(crate) fn is_in_early_data(&self) -> bool {
        self.shared.state.borrow().quic.is_in_early_data()
    }

    /// The result of the handshake.
    pub(crate) fn facts(&self) -> HandshakeFacts {
        HandshakeFacts::of(self.shared.state.borrow_mut().quic.as_mut())
    }

    /// The protocol of ALPN, if any.
    pub(crate) fn protocol(&self) -> Option<String> {
        protocol_of(self.shared.state.borrow_mut().quic.as_mut()).map(str::to_owned)
    }

    /// Waits until this is true or the connection has ended, while its task receives.
    pub(crate) async fn wait_until(&self, is_enough: impl Fn() -> bool) {
        while !is_enough() && self.is_open() {
            tokio::time::sleep(TASK_PERIOD).await;
        }
    }

    /// Ends the connection, unless other clones still use it.
    pub(crate) fn end(self, ending: ConnectionEnding) {
        if Rc::strong_count(&self.driver) == 1 && ending == ConnectionEnding::CloseNotify {
            // A connection that has ended needs no end.
            let _ended = self.shared.state.borrow_mut().quic.close(true, NO_ERROR, b"");
            self.shared.flush();
        }
    }
}

impl ConnectionShared {
    fn new(
        context: &QuicContext,
        state: ConnectionState,
        socket: UdpSocket,
        server: SocketAddr,
    ) -> io::Result<Self> {
        Ok(Self {
            state: RefCell::new(state),
            local: socket.local_addr()?,
            socket: tokio::net::UdpSocket::from_std(socket)?,
            server,
            wake: Notify::new(),
            changed: Notify::new(),
            ack_every: context.ack_every,
        })
    }

    /// Waits until this is true. An error if the connection ends before.
    async fn until(&self, is_enough: impl Fn(&ConnectionState) -> bool) -> Result<(), ()> {
        loop {
            let changed = self.changed.notified();
            {
                let state = self.state.borrow();
                if is_enough(&state) {
                    return Ok(());
                }
                if state.has_ended() {
                    return Err(());
                }
            }
            changed.await;
        }
    }

    /// Receives and sends until the connection has ended.
    async fn drive(self: Rc<Self>) {
        while !self.state.borrow().has_ended() {
            let due = self.state.borrow().quic.timeout_instant();
            let due = due.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
            tokio::select! {
                biased;
                ready = self.socket.readable() => {
                    if ready.is_err() { break }
                    self.receive();
                }
                () = self.wake.notified() => {}
                () = sleep_until(due.into()) => self.state.borrow_mut().quic.on_timeout(),
            }
            self.state.borrow_mut().follow();
            self.changed.notify_waiters();
            // Requests take what has come, and send their next: all of it leaves with one acknowledgement.
            tokio::task::yield_now().await;
            self.flush();
            self.state.borrow_mut().follow();
        }
        self.state.borrow_mut().wake_all();
        self.changed.notify_waiters();
    }

    /// Takes what has come.
    fn receive(&self) {
        let mut state = self.state.borrow_mut();
        let mut unanswered = 0;
        INLET.with_borrow_mut(|inlet| {
            for _ in 0..CALLS_PER_TURN {
                let receive = || {
                    inlet.receive(&self.socket, |arrival| {
                        for datagram in arrival.bytes.chunks_mut(arrival.datagram_bytes) {
                            let info = quiche::RecvInfo { from: arrival.from, to: self.local };
                            // An error has ended the connection, which its state tells, or concerns this datagram alone.
                            let _told_by_state = state.quic.recv(datagram, info);
                            unanswered += 1;
                            if unanswered == self.ack_every {
                                unanswered = 0;
                                self.send(&mut state);
                            }
                        }
                    })
                };
                match self.socket.try_io(Interest::READABLE, receive) {
                    Ok(Inlet::MESSAGES) => {}
                    Ok(_) => break,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => {
                        state.socket_fault = Some(error);
                        break;
                    }
                }
            }
        });
    }

    /// Sends what there is. What the socket does not take is lost, and QUIC sends it again.
    fn flush(&self) {
        self.send(&mut self.state.borrow_mut());
    }

    fn send(&self, state: &mut ConnectionState) {
        let mut datagram = [0; DATAGRAM_BYTES];
        while let Ok((length, _)) = state.quic.send(&mut datagram) {
            // Without asking the runtime, to which a new socket is not yet writable.
            if let Err(error) = udp::send_train(&self.socket, &datagram[..length], length, self.server, None)
                && error.kind() != io::ErrorKind::WouldBlock
            {
                state.socket_fault = Some(error);
                return;
            }
        }
    }
}
