//! The process that this one succeeds.

use std::env;
use std::fs::File;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use penstock_console::AdminSocket;
use penstock_edge::{BusySlots, GivenTier, Inheritance, ListenSocket, QuicPassage, Server};
use penstock_sys::traffic::Secret;

use super::message::{Channel, Message};
use super::{START_LIMIT, VARIABLE};

/// The process that this one succeeds, as long as it runs.
pub(crate) struct Predecessor(Channel);

/// What a predecessor leaves.
#[derive(Default)]
pub(crate) struct Estate {
    pub(crate) inheritance: Inheritance,
    /// The socket of the admin listener.
    pub(crate) admin: Option<AdminSocket>,
}

impl Predecessor {
    /// The predecessor that has started this process; `None` if another program has.
    ///
    /// # Errors
    /// When the system has no further descriptor.
    pub(crate) fn of_this_process() -> io::Result<Option<Self>> {
        if env::var_os(VARIABLE).is_none() {
            return Ok(None);
        }
        Ok(Some(Self(Channel(io::stdin().as_fd().try_clone_to_owned()?))))
    }

    /// Takes over what it leaves. From now on it caches nothing new. If it ends before it has said everything, the rest is missing,
    /// as after an end of its own.
    ///
    /// # Errors
    /// It is silent for too long, or what the system said.
    pub(crate) fn begin(&self) -> io::Result<Estate> {
        self.0.set_patience(Some(START_LIMIT))?;
        let mut estate = Estate::default();
        // It may have ended meanwhile.
        let _has_ended = self.0.send("begin", &[]).is_err();
        while let Some(message) = self.0.receive()? {
            if message.subject() == "all" {
                return Ok(estate);
            }
            estate.take(message)?;
        }
        // It has ended: its lock on the tier is gone, and its tier can be opened as any other.
        estate.inheritance.tier = None;
        Ok(estate)
    }

    /// Tells it that this process accepts connections, and follows what it still reads, on a thread, until it has ended.
    ///
    /// # Errors
    /// When the system has no space for a thread.
    pub(crate) fn succeed(self, server: &Arc<Server>) -> io::Result<PredecessorEnd> {
        let server = Arc::clone(server);
        let thread = thread::Builder::new().name("predecessor".to_owned());
        let end = PredecessorEnd::new();
        let stop = end.wait_stop();
        thread.spawn(move || {
            self.follow(&server);
            stop.stop();
        })?;
        Ok(end)
    }

    fn follow(self, server: &Server) {
        let _has_ended = self.0.send("ready", &[]).is_err();
        // It may take as long as its last response.
        if let Err(error) = self.0.set_patience(None) {
            tracing::error!("cannot wait for the process before: {error}");
        }
        loop {
            match self.0.receive() {
                Ok(Some(message)) => match message.subject() {
                    "leaving" => server.take_purges_of_predecessor(),
                    "changed" => {
                        let changes = message.file_bytes().unwrap_or_default();
                        server.take_changes_of_predecessor(&String::from_utf8_lossy(&changes));
                    }
                    "busy" => {
                        let busy = message.file_bytes().ok().and_then(|bytes| BusySlots::decode(&bytes));
                        // Without a list that can be read, what it has said before holds.
                        if let Some(busy) = busy {
                            server.set_predecessor(Some(&busy));
                        }
                    }
                    _ => {}
                },
                Ok(None) => break,
                Err(error) => {
                    // It may still read: what it has stays as it is.
                    tracing::error!("cannot hear the process before: {error}");
                    return;
                }
            }
        }
        // Nodes and edges have told it of purges until its end.
        server.take_purges_of_predecessor();
        server.set_predecessor(None);
        tracing::info!("the process before has ended");
    }
}

/// Tells when the predecessor has ended.
pub(crate) struct PredecessorEnd {
    /// A message at its end, and at [`WaitStop::stop`].
    stops: mpsc::Receiver<()>,
    sender: mpsc::Sender<()>,
}

/// Ends a wait for the predecessor.
pub(crate) struct WaitStop(mpsc::Sender<()>);

impl WaitStop {
    /// Ends the wait, also one that has not begun.
    pub(crate) fn stop(&self) {
        // It may be over.
        let _is_awaited = self.0.send(()).is_ok();
    }
}

impl PredecessorEnd {
    fn new() -> Self {
        let (sender, stops) = mpsc::channel();
        Self { stops, sender }
    }

    /// Whether it still runs. To be asked once.
    pub(crate) fn is_awaited(&self) -> bool {
        self.stops.try_recv().is_err()
    }

    /// What ends [`Self::wait`].
    pub(crate) fn wait_stop(&self) -> WaitStop {
        WaitStop(self.sender.clone())
    }

    /// Waits for it, at most this long. Blocks.
    pub(crate) fn wait(&self, longest: Duration) {
        if self.stops.recv_timeout(longest).is_err() {
            tracing::warn!("not waiting any longer for the process before, which still sends responses");
        }
    }
}

impl Estate {
    /// Whether it has no socket.
    pub(crate) fn is_empty(&self) -> bool {
        self.inheritance.sockets.of_manager.is_empty() && self.inheritance.sockets.of_predecessor.is_empty()
    }

    fn take(&mut self, message: Message) -> io::Result<()> {
        match message.subject() {
            "sockets" => self.take_sockets(message)?,
            "quic" => self.take_passages(message),
            "tickets" => self.inheritance.ticket_keys = Some(Secret::new(message.file_bytes()?)),
            "tier" => {
                let busy = message.file_bytes().ok().and_then(|bytes| BusySlots::decode(&bytes));
                let slices = message.descriptors.into_iter().next();
                if let (Some(slices), Some(busy)) = (slices, busy) {
                    self.inheritance.tier = Some(GivenTier { slices: File::from(slices), busy });
                }
            }
            // A newer program may say more.
            _ => {}
        }
        Ok(())
    }

    /// One word for each descriptor names its listener and the worker of the process before.
    fn take_passages(&mut self, message: Message) {
        let words: Vec<String> = message.words().map(str::to_owned).collect();
        for (word, socket) in words.iter().zip(message.descriptors) {
            let named = word
                .rsplit_once('/')
                .and_then(|(listener, worker)| Some((listener.parse().ok()?, worker.parse().ok()?)));
            if let Some((listener, worker)) = named {
                let passage = QuicPassage { listener, worker, socket: Arc::new(socket) };
                self.inheritance.sockets.passages.push(passage);
            }
        }
    }

    /// One word for each descriptor says what it is.
    fn take_sockets(&mut self, message: Message) -> io::Result<()> {
        let words: Vec<String> = message.words().map(str::to_owned).collect();
        for (word, descriptor) in words.iter().zip(message.descriptors) {
            let sockets = &mut self.inheritance.sockets;
            match word.as_str() {
                "manager" => sockets.of_manager.push(tcp(descriptor)?.into()),
                "tcp" => sockets.of_predecessor.push(tcp(descriptor)?.into()),
                "udp" => sockets.of_predecessor.push(ListenSocket::from(UdpSocket::from(descriptor))),
                "admin" => self.admin = Some(AdminSocket::Tcp(descriptor.into())),
                "admin-unix" => self.admin = Some(AdminSocket::Unix(descriptor.into())),
                _ => {}
            }
        }
        Ok(())
    }
}

fn tcp(descriptor: OwnedFd) -> io::Result<TcpListener> {
    let socket = TcpListener::from(descriptor);
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use penstock_testkit::DEADLINE;

    use super::*;

    #[test]
    fn a_wait_for_a_process_that_goes_on_can_be_ended() {
        let end = PredecessorEnd::new();
        assert!(end.is_awaited());
        let stop = end.wait_stop();
        let (sender, over) = mpsc::channel();
        thread::spawn(move || {
            end.wait(60 * DEADLINE);
            sender.send(()).unwrap();
        });
        stop.stop();
        over.recv_timeout(DEADLINE).expect("the end of the wait");
    }
}
