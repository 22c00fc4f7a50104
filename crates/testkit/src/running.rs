//! A running process of the program, and what it says.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::deadline::DEADLINE;
use crate::process::{Adopted, Process, adopt_orphans};
use crate::program::program;

/// The process and what it has said so far. It is killed with this, if it still runs then, and so are its successors.
pub(crate) struct Program {
    pub(crate) child: Process,
    /// The processes that have succeeded it, the newest last.
    successors: Vec<Adopted>,
    config: PathBuf,
    said: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Program {
    /// Starts it with nothing of this environment but where programs are.
    pub(crate) fn start(arguments: &[&str], config: &Path, unprivileged: bool) -> Self {
        Self::start_file(program(), arguments, config, unprivileged, &[])
    }

    /// The same with another file that has the program, and more in the environment.
    pub(crate) fn start_file(
        program: &str,
        arguments: &[&str],
        config: &Path,
        unprivileged: bool,
        environment: &[(String, String)],
    ) -> Self {
        let mut command = if unprivileged && rustix::process::geteuid().is_root() {
            let mut setpriv = Command::new("setpriv");
            setpriv.args(["--bounding-set", "-dac_override,-dac_read_search", program]);
            setpriv
        } else {
            Command::new(program)
        };
        command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        // Used by the module of SoftHSM only.
        command.env("SOFTHSM2_CONF", config.with_file_name("softhsm2.conf"));
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command.args(arguments).arg(config);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        adopt_orphans();
        let mut child = Process::spawn(&mut command).unwrap();
        let stderr = child.stderr.take().unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&said);
        let reader = thread::spawn(move || {
            for line in BufReader::new(stderr).lines() {
                shared.lock().unwrap().push(line.unwrap());
            }
        });
        Self { child, successors: Vec::new(), config: config.to_owned(), said, reader: Some(reader) }
    }

    /// The process that serves.
    pub(crate) fn id(&self) -> Pid {
        self.successors.last().map_or_else(|| Pid::from_child(&self.child), Adopted::id)
    }

    /// How the process that serves has ended.
    pub(crate) fn try_wait(&mut self) -> Option<ExitStatus> {
        match self.successors.last_mut() {
            Some(successor) => {
                // It becomes a child of this process when the one before has been waited for.
                let status = successor.try_wait();
                drop(self.child.try_wait());
                status
            }
            None => self.child.try_wait().unwrap(),
        }
    }

    /// Follows a process that has succeeded this one.
    pub(crate) fn adopt(&mut self, successor: Pid) {
        self.successors.push(Adopted::new(successor));
    }

    /// How the first process, or a successor that has been succeeded, has ended.
    pub(crate) fn try_wait_before(&mut self) -> Option<ExitStatus> {
        match self.successors.len() {
            0 => None,
            1 => self.child.try_wait().unwrap(),
            count => self.successors[count - 2].try_wait(),
        }
    }

    /// The processes that have its configuration as an argument.
    fn of_this_configuration(&self) -> impl Iterator<Item = Pid> {
        let config = self.config.as_os_str().as_bytes();
        let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        processes.filter_map(move |process| {
            let id = process.file_name().to_str()?.parse().ok()?;
            // It may end meanwhile.
            let arguments = fs::read(process.path().join("cmdline")).ok()?;
            arguments
                .split(|byte| *byte == 0)
                .any(|argument| argument == config)
                .then_some(Pid::from_raw(id)?)
        })
    }

    /// Waits until it has said this.
    ///
    /// # Panics
    /// With what it said instead and its configuration.
    pub(crate) fn wait_until_it_says(&self, fragment: &str) {
        if let Err(said) = self.wait_for(fragment) {
            let yaml = fs::read_to_string(&self.config).unwrap();
            panic!("the program did not start. It said:\n{said}\nwith:\n{yaml}");
        }
    }

    /// What it has said so far, line by line.
    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    /// The first line with these words; all that was said, if the program ends or too much time passes before.
    pub(crate) fn wait_for(&self, fragment: &str) -> Result<String, String> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let silent = self.reader.as_ref().is_none_or(JoinHandle::is_finished);
            if let Some(line) = self.said().into_iter().find(|line| line.contains(fragment)) {
                return Ok(line);
            }
            if silent || Instant::now() > deadline {
                return Err(self.said().join("\n"));
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Stops it as an operator does, with SIGTERM; `None` if it has not ended by the deadline and is killed.
    pub(crate) fn stop(&mut self) -> Option<ExitStatus> {
        if self.try_wait().is_none() {
            kill_process(self.id(), Signal::TERM).unwrap();
        }
        let deadline = Instant::now() + DEADLINE;
        let status = loop {
            match self.try_wait() {
                None if Instant::now() < deadline => thread::sleep(Duration::from_millis(5)),
                status => break status,
            }
        };
        self.kill();
        status
    }

    /// Kills it, if it still runs, and its successors.
    pub(crate) fn kill(&mut self) {
        // It may have ended before.
        drop(self.child.kill());
        drop(self.child.wait());
        self.successors.clear();
        // Once: afterwards another process may have this configuration.
        if let Some(reader) = self.reader.take() {
            // A successor that did not get as far as to be adopted would keep the pipe open.
            self.of_this_configuration().for_each(|process| drop(Adopted::new(process)));
            reader.join().unwrap();
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}
