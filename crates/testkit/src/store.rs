//! A Valkey or Redis store of a test's own.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use crate::deadline::until;
use crate::ports::ReservedAddress;
use crate::process::{Process, send_signal};
use crate::program::disk_directory;
use crate::tool::Tool;

/// A store that keeps everything in memory: one that is started again is empty, unless a SAVE made a snapshot.
pub struct Store {
    address: ReservedAddress,
    directory: TempDir,
    options: Vec<String>,
    program: &'static str,
    process: Option<Process>,
}

impl Store {
    /// Starts a store; `None`, said aloud, if none is installed.
    #[must_use]
    pub fn start(options: &[&str]) -> Option<Self> {
        let is_there = |program: &&str| {
            Command::new(program).arg("--version").output().is_ok_and(|found| found.status.success())
        };
        let Some(program) = ["valkey-server", "redis-server"].into_iter().find(is_there) else {
            crate::not_tested("a store of a fleet, because neither Valkey nor Redis is installed");
            return None;
        };
        let options = options.iter().map(|&option| option.to_owned()).collect();
        let (address, directory) = (ReservedAddress::reserve(), disk_directory());
        let mut store = Self { address, directory, options, program, process: None };
        store.start_again();
        Some(store)
    }

    /// Starts it after [`Self::kill`]: empty, or as it was at the last SAVE.
    pub fn start_again(&mut self) {
        let mut command = Command::new(self.program);
        command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no"]);
        command.args(["--port", &self.address.address().port().to_string()]);
        command.arg("--dir").arg(self.directory.path()).args(&self.options);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.process = Some(Process::spawn(&mut command).unwrap());
        until("the store", || (!self.command(&["PING"]).is_empty()).then_some(()));
    }

    /// `HOST:PORT`
    #[must_use]
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        send_signal(Pid::from_child(self.process.as_ref().expect("it runs")), signal);
    }

    /// What it answers to a command.
    #[must_use]
    pub fn command(&self, words: &[&str]) -> String {
        let port = self.address.address().port().to_string();
        let client = self.program.replace("-server", "-cli");
        Tool::new(&client).args(["-h", "127.0.0.1", "-p", &port]).args(words).run().text()
    }

    /// The names of entries that match, in no order.
    #[must_use]
    pub fn names(&self, pattern: &str) -> Vec<String> {
        self.command(&["--scan", "--pattern", pattern]).lines().map(str::to_owned).collect()
    }

    /// The name of the only entry that matches; waits for it.
    #[must_use]
    pub fn name(&self, pattern: &str) -> String {
        until(&format!("{pattern} in the store"), || {
            let [name] = self.names(pattern).try_into().ok()?;
            Some(name)
        })
    }
}
