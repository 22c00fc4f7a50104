//! A child process that ends with the test that started it.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};

use crate::deadline::until;

/// Sends a signal to a process. Behind SIGSTOP it waits until all threads stand still: until then the process may answer.
///
/// # Panics
/// If the process has ended.
pub(crate) fn send_signal(process: &Child, signal: Signal) {
    kill_process(Pid::from_child(process), signal).unwrap();
    if signal == Signal::STOP {
        until("the process to stop", || is_stopped(process.id()).then_some(()));
    }
}

/// Whether no thread of a process runs.
fn is_stopped(process: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    threads.filter_map(Result::ok).all(|thread| {
        // The state follows the name, which may have any bytes.
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['T', 't']))
    })
}

/// A running child process: killed, by its own handle, when this is dropped, also by a test that panics.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts a command.
    ///
    /// # Errors
    /// As [`Command::spawn`].
    pub fn spawn(command: &mut Command) -> std::io::Result<Self> {
        command.spawn().map(Self)
    }
}

impl Deref for Process {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended before.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
