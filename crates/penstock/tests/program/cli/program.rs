//! Runs the program that was just built, and files for it to work on.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::{iter, thread};

use penstock_testkit::{DEADLINE, Process, until, unused_address};
use rcgen::generate_simple_self_signed;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// The program, with nothing of the surroundings that could change what it prints.
pub(crate) fn program() -> Command {
    let mut command = Command::new(penstock_testkit::program());
    command.env_remove("PENSTOCK_LOG").env_remove("NOTIFY_SOCKET").env_remove("JOURNAL_STREAM");
    command.stdin(Stdio::null());
    command
}

/// Runs it to its end, which must come soon.
pub(crate) fn run(arguments: &[&str]) -> Output {
    let child = program().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_child(&child);
    let (sender, output) = channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    match output.recv_timeout(DEADLINE) {
        Ok(output) => output.unwrap(),
        Err(_) => {
            kill_process(pid, Signal::KILL).unwrap();
            panic!("penstock {arguments:?} runs on; it said: {:?}", output.recv());
        }
    }
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// All of stderr but the warning that tests run by root get.
pub(crate) fn stderr_of_any_user(output: &Output) -> String {
    let text = stderr(output);
    text.lines().filter(|line| !line.contains("started as root")).map(|line| format!("{line}\n")).collect()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A directory with `video/index.html`, `ec.crt` and `ec.key`, and configurations written into it.
pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("video")).unwrap();
        fs::write(directory.path().join("video/index.html"), "moving pictures\n").unwrap();
        let made = generate_simple_self_signed(vec!["video.example.com".to_owned()]).unwrap();
        fs::write(directory.path().join("ec.crt"), made.cert.pem()).unwrap();
        let key = directory.path().join("ec.key");
        fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        fs::set_permissions(key, PermissionsExt::from_mode(0o600)).unwrap();
        Self(directory)
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.at(name), text).unwrap();
        self.at(name).display().to_string()
    }
}

/// A program that runs until it is told to stop; killed if the test ends before.
pub(crate) struct Running {
    child: Process,
    lines: Receiver<String>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = Process::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped())).unwrap();
        let (sender, lines) = channel();
        let streams: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for stream in streams {
            let sender = sender.clone();
            thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        Self { child, lines }
    }

    /// Waits for a line that contains `part` and gives it back.
    pub(crate) fn line_with(&self, part: &str) -> String {
        self.line_with_one_of(&[part])
    }

    /// Waits for a line that contains one of these parts.
    pub(crate) fn line_with_one_of(&self, parts: &[&str]) -> String {
        let mut before = Vec::new();
        loop {
            match self.lines.recv_timeout(DEADLINE) {
                Ok(line) if parts.iter().any(|part| line.contains(part)) => return line,
                Ok(line) => before.push(line),
                Err(end) => panic!("no line with any of {parts:?} ({end}), but: {before:#?}"),
            }
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        Pid::from_child(&self.child).as_raw_nonzero().get()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// All lines that are still to come, until the program ends.
    pub(crate) fn rest(&self) -> Vec<String> {
        let next = || match self.lines.recv_timeout(DEADLINE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the program does not end"),
        };
        iter::from_fn(next).collect()
    }

    /// The exit code; `None` if a signal ended it.
    pub(crate) fn exit_code(mut self) -> Option<i32> {
        until("the end of the program", || self.child.try_wait().unwrap()).code()
    }
}

/// The whole answer to one plain request for `/`.
pub(crate) fn get(authority: &str) -> String {
    let mut stream = TcpStream::connect(authority).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    exchange(&mut stream, "/")
}

pub(crate) fn exchange(stream: &mut (impl Read + Write), path: &str) -> String {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A port on which nothing listens, for a file that has to name one.
pub(crate) fn free_port() -> u16 {
    unused_address().port()
}
