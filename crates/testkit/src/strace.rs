//! strace attached to a running server: what its system calls are, or which of them fail.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::deadline::until;
use crate::process::Process;
use crate::server::Server;

/// strace, attached to every thread of a server until this is dropped.
#[derive(Debug)]
pub struct Strace {
    process: Process,
}

impl Strace {
    /// Attaches strace with these arguments; what it prints goes to a file.
    ///
    /// `None`, with a line on stdout, if strace is missing or this user may not trace.
    pub fn attach(server: &Server, arguments: &[&str], output: &Path) -> Option<Self> {
        let pid = server.pid().as_raw_nonzero().to_string();
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-p", &pid, "-o"]).arg(output).args(arguments);
        let refusals = output.with_extension("refusals");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&refusals).unwrap());
        let Ok(process) = Process::spawn(&mut command) else {
            println!("SKIPPED: strace is missing: scripts/install-needs test");
            return None;
        };
        let mut strace = Self { process };
        let attached = until("strace to watch every thread", || {
            if strace.process.try_wait().unwrap().is_some() {
                return Some(false);
            }
            all_traced(&pid).then_some(true)
        });
        if !attached {
            let said = fs::read_to_string(refusals).unwrap_or_default();
            assert!(said.contains("Operation not permitted"), "strace {arguments:?}: {said}");
            println!("SKIPPED: this user may not trace a process: {said}");
            return None;
        }
        Some(strace)
    }

    /// Detaches; the server runs on by itself.
    pub fn detach(mut self) {
        kill_process(Pid::from_child(&self.process), Signal::INT).unwrap();
        until("strace to detach", || self.process.try_wait().unwrap());
    }
}

/// Whether every thread of the process has a tracer.
fn all_traced(pid: &str) -> bool {
    let traced = |entry: fs::DirEntry| {
        let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
    };
    fs::read_dir(format!("/proc/{pid}/task")).unwrap().all(|entry| traced(entry.unwrap()))
}
