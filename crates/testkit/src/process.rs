//! A child process that ends with the test that started it.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::deadline::until;

/// Sends a signal to a process. Behind SIGSTOP it waits until all threads stand still: until then the process may answer.
///
/// # Panics
/// If the process has ended.
pub(crate) fn send_signal(process: Pid, signal: Signal) {
    kill_process(process, signal).unwrap();
    if signal == Signal::STOP {
        until("the process to stop", || is_stopped(process).then_some(()));
    }
}

/// Whether no thread of a process runs.
fn is_stopped(process: Pid) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    threads.filter_map(Result::ok).all(|thread| {
        // The state follows the name, which may have any bytes.
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['T', 't']))
    })
}

/// A process that another process has started, and that becomes a child of this one when that has ended. It is killed when this
/// is dropped.
#[derive(Debug)]
pub(crate) struct Adopted {
    id: Pid,
    ended: Option<ExitStatus>,
}

impl Adopted {
    /// Adopts a process that has just begun.
    pub(crate) fn new(id: Pid) -> Self {
        Self { id, ended: None }
    }

    pub(crate) fn id(&self) -> Pid {
        self.id
    }

    /// How it has ended; `None` while it runs, or while its parent does.
    pub(crate) fn try_wait(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none()
            && let Ok(Some((_, status))) = waitpid(Some(self.id), WaitOptions::NOHANG)
        {
            self.ended = Some(ExitStatus::from_raw(status.as_raw()));
        }
        self.ended
    }
}

impl Drop for Adopted {
    fn drop(&mut self) {
        if self.try_wait().is_none() {
            // It may have ended, as a child of another process.
            let _has_ended = kill_process(self.id, Signal::KILL).is_err();
        }
    }
}

/// Makes this process the parent of processes whose parent ends.
pub(crate) fn adopt_orphans() {
    // Any number but none turns it on.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
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
