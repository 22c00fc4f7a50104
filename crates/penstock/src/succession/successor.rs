//! The process that succeeds this one.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_console::AdminSocket;
use penstock_edge::{GivenTier, Inheritance, ListenSocket, Server};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use rustix::thread::{CapabilitySet, capabilities, configure_capability_in_ambient_set, set_capabilities};

use super::VARIABLE;
use super::message::{Channel, DESCRIPTORS_MAX};

/// Variables that a service manager meant for this process.
const OWN_VARIABLES: [&str; 4] = ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "WATCHDOG_PID"];

const ENDED_EARLY: &str = "the new process has ended before it was ready";

/// How this process was started, as it was then: an upgrade puts another file at the same path.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    arguments: Vec<OsString>,
}

impl Program {
    /// The program of this process.
    ///
    /// # Errors
    /// When `/proc` is not mounted.
    pub(crate) fn of_this_process() -> io::Result<Self> {
        Ok(Self { path: env::current_exe()?, arguments: env::args_os().collect() })
    }
}

/// A successor that starts.
pub(crate) struct Successor {
    channel: Channel,
    child: Child,
    /// How long it may take.
    limit: Duration,
}

/// A successor that accepts connections.
pub(crate) struct Accepted {
    channel: Channel,
    child: Child,
    pub(crate) id: u32,
}

impl Successor {
    /// Starts the successor.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn start(program: &Program, limit: Duration) -> io::Result<Self> {
        let (own, its) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let channel = Channel(own);
        channel.set_patience(Some(limit))?;
        let (name, arguments) = program.arguments.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(&program.path);
        command.arg0(name).args(arguments).stdin(Stdio::from(its));
        command.env(VARIABLE, std::process::id().to_string());
        for variable in OWN_VARIABLES {
            command.env_remove(variable);
        }
        let child = with_port_capability(|| command.spawn())?;
        Ok(Self { channel, child, limit })
    }

    /// The id of its process.
    pub(crate) fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Hands over, and waits until the successor accepts connections. Blocks.
    ///
    /// # Errors
    /// What went wrong. The successor has ended then, and the server uses everything again.
    pub(crate) fn hand_over(
        mut self,
        server: &Server,
        admin: Option<AdminSocket>,
    ) -> Result<Accepted, String> {
        let deadline = Instant::now() + self.limit;
        let begun = self.wait_for("begin", deadline).and_then(|()| {
            let inheritance = server.begin_hand_over();
            let given = self.give(&inheritance, admin.as_ref());
            given.map_err(|error| match error.kind() {
                io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => ENDED_EARLY.to_owned(),
                _ => format!("cannot hand over: {error}"),
            })?;
            self.wait_for("ready", deadline)?;
            // It may have said so and ended at once.
            match self.child.try_wait() {
                Ok(Some(_)) => Err("the new process has ended as soon as it was ready".to_owned()),
                Ok(None) | Err(_) => Ok(()),
            }
        });
        let id = self.child.id();
        match begun {
            Ok(()) => Ok(Accepted { channel: self.channel, child: self.child, id }),
            Err(why) => {
                let ended = self.end();
                server.cancel_hand_over();
                Err(format!("{why}{ended}"))
            }
        }
    }

    fn wait_for(&self, subject: &str, deadline: Instant) -> Result<(), String> {
        loop {
            match self.channel.receive() {
                Ok(Some(message)) if message.subject() == subject => return Ok(()),
                Ok(Some(_)) if Instant::now() < deadline => {}
                Ok(None) => return Err(ENDED_EARLY.to_owned()),
                Ok(Some(_)) | Err(_) => {
                    return Err(format!("the new process was not ready within {:?}", self.limit));
                }
            }
        }
    }

    /// Ends the process, if it has not ended; returns how it did.
    fn end(&mut self) -> String {
        // It may have ended already.
        let _has_ended = self.child.kill();
        match self.child.wait() {
            Ok(status) => format!(" ({status})"),
            Err(_) => String::new(),
        }
    }

    fn give(&self, inheritance: &Inheritance, admin: Option<&AdminSocket>) -> io::Result<()> {
        let sockets = &inheritance.sockets;
        let of_listener = |socket: &'_ ListenSocket| match socket {
            ListenSocket::Tcp(_) => "tcp",
            ListenSocket::Udp(_) => "udp",
        };
        let of_manager = sockets.of_manager.iter().map(|socket| ("manager", socket.as_fd()));
        let listeners = sockets.of_predecessor.iter().map(|socket| (of_listener(socket), socket.as_fd()));
        let admin = admin.iter().map(|socket| match socket {
            AdminSocket::Tcp(_) => ("admin", socket.as_fd()),
            AdminSocket::Unix(_) => ("admin-unix", socket.as_fd()),
        });
        let all: Vec<(&str, BorrowedFd<'_>)> = of_manager.chain(listeners).chain(admin).collect();
        for part in all.chunks(DESCRIPTORS_MAX) {
            let words: Vec<&str> =
                ["sockets"].into_iter().chain(part.iter().map(|(word, _)| *word)).collect();
            let words = words.join(" ");
            let descriptors: Vec<_> = part.iter().map(|(_, descriptor)| *descriptor).collect();
            self.channel.send(&words, &descriptors)?;
        }
        for part in sockets.passages.chunks(DESCRIPTORS_MAX) {
            let words = part.iter().map(|passage| format!(" {}/{}", passage.listener, passage.worker));
            let words = format!("quic{}", words.collect::<String>());
            let descriptors: Vec<_> = part.iter().map(|passage| passage.socket.as_fd()).collect();
            self.channel.send(&words, &descriptors)?;
        }
        if let Some(keys) = &inheritance.ticket_keys {
            self.channel.send_bytes("tickets", keys.expose(), &[])?;
        }
        if let Some(GivenTier { slices, busy }) = &inheritance.tier {
            self.channel.send_bytes("tier", &busy.encode(), &[slices.as_fd()])?;
        }
        self.channel.send("all", &[])
    }
}

/// Ends a successor that has not been ready yet.
pub(crate) fn end_successor(id: Pid) {
    // It may have ended already.
    let _has_ended = kill_process(id, Signal::TERM);
}

impl Accepted {
    /// How it has failed, if it has ended otherwise than by a stop.
    ///
    /// One that was stopped is left to the parent of this process: a service manager learns of its end when this process has ended.
    pub(crate) fn failure(&mut self) -> Option<ExitStatus> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = waitid(WaitId::Pid(Pid::from_child(&self.child)), options).ok()??;
        if ended.exit_status() == Some(0) {
            return None;
        }
        self.child.wait().ok()
    }

    /// Tells it that this process accepts nothing more.
    pub(crate) fn leave(&self) {
        // It may have ended.
        let _has_ended = self.channel.send("leaving", &[]).is_err();
    }

    /// Tells it what clients have changed here.
    pub(crate) fn tell_changes(&self, server: &Server) {
        let changes = server.changes_for_successor();
        if !changes.is_empty() {
            let _has_ended = self.channel.send_bytes("changed", changes.as_bytes(), &[]).is_err();
        }
    }

    /// Tells it what this process still reads.
    pub(crate) fn tell_busy(&self, server: &Arc<Server>) {
        if let Some(busy) = server.busy_slots() {
            let _has_ended = self.channel.send_bytes("busy", &busy.encode(), &[]).is_err();
        }
    }
}

/// Runs `spawn` so that a process which it starts may listen on ports below 1024, if this one may.
fn with_port_capability<T>(spawn: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let port = CapabilitySet::NET_BIND_SERVICE;
    let before = capabilities(None)?;
    if !before.permitted.contains(port) || rustix::process::geteuid().is_root() {
        return spawn();
    }
    let mut raised = before;
    raised.inheritable |= port;
    // A process that cannot get it still has the sockets of this one.
    let is_raised =
        set_capabilities(None, raised).is_ok() && configure_capability_in_ambient_set(port, true).is_ok();
    let spawned = spawn();
    if is_raised {
        configure_capability_in_ambient_set(port, false)?;
        set_capabilities(None, before)?;
    }
    spawned
}
