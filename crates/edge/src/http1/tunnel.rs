//! A connection that has switched to another protocol (RFC 9110 §7.8): bytes both ways until each side has ended its own.
//!
//! Each direction holds one piece of at most [`limits::UPGRADE_PIECE_BYTES`], or what came behind the request head, and reads
//! the next one when that has been sent: a side that takes nothing holds the other one back.

use std::rc::Rc;
use std::time::Instant;

use penstock_config::limits;
use penstock_content::Tunnel;
use penstock_egress::{Part, Step, Transmission};
use penstock_origin::http::{Moved, Outgoing};
use penstock_sys::ConnectedSocket;
use rustix::net::Shutdown;
use tokio::io::Interest;
use tokio::time::sleep_until;

use crate::carrier::{Sent, short_reason};
use crate::connection::{CLOSE_NOTIFY, Connection, ReadOutcome, UNEXPECTED_MESSAGE};
use crate::metrics::ShortReason;

/// How far one direction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Open,
    /// Its sender has ended it, which the receiver does not know yet.
    Ending,
    Ended,
}

/// A tunnel while it is used.
struct Passing<'c> {
    connection: &'c mut Connection,
    tunnel: Box<Tunnel>,
    /// Bytes for the server, of which the first `written` have been sent.
    outgoing: Vec<u8>,
    written: usize,
    from_client: Direction,
    /// Bytes for the client.
    incoming: Option<Transmission>,
    from_server: Direction,
    /// Whether the client's socket is full.
    is_blocked: bool,
    /// When bytes moved last.
    moved: Instant,
    sent: &'c mut Sent,
}

/// Passes bytes until both sides have ended, one breaks off, none come for too long, or the drain deadline.
pub(super) async fn pass(connection: &mut Connection, tunnel: Box<Tunnel>, sent: &mut Sent) {
    let worker = Rc::clone(&connection.worker);
    let outgoing = std::mem::take(&mut connection.inbox);
    let mut passing = Passing {
        connection,
        tunnel,
        outgoing,
        written: 0,
        from_client: Direction::Open,
        incoming: None,
        from_server: Direction::Open,
        is_blocked: false,
        moved: Instant::now(),
        sent,
    };
    let mut short = None;
    let is_whole = worker.send_unless_aborted(async { short = passing.run().await }).await;
    if !is_whole {
        short = Some(ShortReason::Drain);
    }
    if short == Some(ShortReason::Origin) {
        // The end that the server did not confirm must not look like one that it did.
        passing.connection.break_off();
    }
    // What the client sends from now on is no request.
    passing.connection.inbox = Vec::new();
    passing.sent.short = short;
}

impl Passing<'_> {
    /// Returns why the tunnel ended early.
    async fn run(&mut self) -> Option<ShortReason> {
        loop {
            let now = Instant::now();
            if let Some(end) = self.read_client(now) {
                return Some(end);
            }
            if let Some(end) = self.write_client(now) {
                return Some(end);
            }
            if self.from_client == Direction::Ended && self.from_server == Direction::Ended {
                return None;
            }
            if let Some(end) = self.wait().await {
                return Some(end);
            }
        }
    }

    /// Takes the next piece of the client, if the one before has been sent.
    fn read_client(&mut self, now: Instant) -> Option<ShortReason> {
        if self.from_client != Direction::Open || !self.outgoing.is_empty() {
            return None;
        }
        match self.connection.read() {
            ReadOutcome::Bytes => {
                self.outgoing = std::mem::take(&mut self.connection.inbox);
                self.moved = now;
                None
            }
            ReadOutcome::Nothing => None,
            // A reset was read, and the kernel does not report it again. Once both directions have ended, it no longer tells.
            ReadOutcome::Ended
                if self.from_server != Direction::Ended && self.connection.socket.peer_addr().is_err() =>
            {
                Some(ShortReason::ClientClosed)
            }
            ReadOutcome::Ended => {
                self.from_client = Direction::Ending;
                None
            }
            ReadOutcome::KeyUpdates => {
                self.connection.set_closing_alert(Some(UNEXPECTED_MESSAGE));
                Some(ShortReason::KeyUpdates)
            }
            ReadOutcome::Broken(alert) => {
                self.connection.set_closing_alert(alert);
                Some(ShortReason::ClientClosed)
            }
        }
    }

    /// Gives the client as much as its socket takes, and the end of the server's direction behind the last piece.
    fn write_client(&mut self, now: Instant) -> Option<ShortReason> {
        self.is_blocked = false;
        let Connection { outlet, worker, .. } = &mut *self.connection;
        if let Some(incoming) = &mut self.incoming {
            match outlet.advance(incoming, now) {
                Ok(Step::Sent(count)) => {
                    worker.shard.sent(outlet.kind(), count as u64);
                    self.sent.bytes += count as u64;
                    self.moved = now;
                }
                Ok(Step::Done) => {
                    self.incoming = None;
                    self.moved = now;
                }
                Ok(Step::Blocked) => self.is_blocked = true,
                // A piece is memory.
                Ok(Step::Cold(_) | Step::Starved) => return Some(ShortReason::Io),
                Err(error) => return Some(short_reason(&error)),
            }
            return None;
        }
        if self.from_server == Direction::Ending {
            match self.connection.end_sending() {
                Ok(true) => {
                    self.from_server = Direction::Ended;
                    self.moved = now;
                }
                Ok(false) => self.is_blocked = true,
                Err(error) => return Some(short_reason(&error)),
            }
        }
        None
    }

    /// Waits until something can be done for one of the sides. If the client's socket takes more, only until other connections
    /// have had their turn.
    async fn wait(&mut self) -> Option<ShortReason> {
        let socket = Rc::clone(&self.connection.socket);
        let reads_client = self.from_client == Direction::Open && self.outgoing.is_empty();
        let outgoing = match (self.from_client, self.outgoing.get(self.written..)) {
            (_, Some(left)) if !left.is_empty() => Outgoing::Bytes(left),
            (Direction::Ending, _) => Outgoing::End,
            _ => Outgoing::Nothing,
        };
        let reads_server = self.incoming.is_none() && self.from_server == Direction::Open;
        let read_max = if reads_server { limits::UPGRADE_PIECE_BYTES } else { 0 };
        let takes_more = self.incoming.is_some() && !self.is_blocked;
        let idle_end = self.moved + self.tunnel.idle;
        let moved = tokio::select! {
            biased;
            moved = self.tunnel.connection.moved(outgoing, read_max) => moved,
            () = client_ready(&socket, reads_client, self.is_blocked) => return None,
            () = tokio::task::yield_now(), if takes_more => return None,
            _ = socket.ready(Interest::ERROR) => return Some(ShortReason::ClientClosed),
            () = sleep_until(idle_end.into()) => return Some(ShortReason::Idle),
        };
        let Ok(moved) = moved else { return Some(ShortReason::Origin) };
        self.note(moved);
        // A server and a client that are always ready leave turns for other connections.
        tokio::task::coop::consume_budget().await;
        None
    }

    /// Notes what has happened on the server's side.
    fn note(&mut self, moved: Moved) {
        self.moved = Instant::now();
        match moved {
            Moved::Sent(count) => {
                self.written += count;
                if self.written >= self.outgoing.len() {
                    // An idle tunnel has no memory for bytes.
                    (self.outgoing, self.written) = (Vec::new(), 0);
                }
            }
            Moved::SentEnd => self.from_client = Direction::Ended,
            Moved::Refused => {
                (self.outgoing, self.written) = (Vec::new(), 0);
                self.from_client = Direction::Ended;
            }
            Moved::Came(bytes) => {
                self.connection.worker.shard.filled(bytes.len() as u64);
                self.incoming = Some(Transmission::new([Part::Owned(bytes)]));
            }
            Moved::Ended => self.from_server = Direction::Ending,
        }
    }
}

/// Waits until the client's socket is readable, if it is to be read, or writable, if it was full. An error of the socket is
/// found when it is used.
async fn client_ready(socket: &ConnectedSocket, reads: bool, writes: bool) {
    match (reads, writes) {
        (true, true) => drop(socket.readable_or_writable().await),
        (true, false) => drop(socket.readable().await),
        (false, true) => drop(socket.writable().await),
        (false, false) => std::future::pending().await,
    }
}

impl Connection {
    /// Ends the sending direction, with close_notify where there is TLS; false if the socket is full. The client may go on
    /// sending.
    ///
    /// # Errors
    /// See [`SendError`](penstock_egress::SendError).
    fn end_sending(&mut self) -> Result<bool, penstock_egress::SendError> {
        self.alert_once(CLOSE_NOTIFY);
        let is_sent = self.outlet.flush()?;
        if is_sent {
            // Fails only on a connection that is over.
            let _ended = rustix::net::shutdown(&*self.socket, Shutdown::Write);
        }
        Ok(is_sent)
    }
}
