//! Runs the program that was just built, and files for it to work on.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use rcgen::generate_simple_self_signed;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// No step of any test takes this long unless something hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program, with nothing of the surroundings that could change what it prints.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_penstock"));
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
    match output.recv_timeout(PATIENCE) {
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
        fs::write(directory.path().join("ec.key"), made.signing_key.serialize_pem()).unwrap();
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
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
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
        let mut before = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(part) => return line,
                Ok(line) => before.push(line),
                Err(end) => panic!("no line with {part:?} ({end}), but: {before:#?}"),
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// All lines that are still to come, until the program ends.
    pub(crate) fn rest(&self) -> Vec<String> {
        self.lines.iter().collect()
    }

    /// The exit code; `None` if a signal ended it.
    pub(crate) fn exit_code(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already if the test went well.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The whole answer to one plain request for `/`.
pub(crate) fn get(authority: &str) -> String {
    let mut stream = TcpStream::connect(authority).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    exchange(&mut stream, "/")
}

pub(crate) fn exchange(stream: &mut (impl Read + Write), path: &str) -> String {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A port that nobody uses, for a file that has to name one. It lies below the range that the system hands out by
/// itself, so that no connection or listener of another test gets it in the meantime.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Other test programs may run at the same time: each starts somewhere else.
    let start = u16::try_from(std::process::id() % 10_000).unwrap();
    (0..10_000)
        .map(|_| 20_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 10_000)
        .find(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("some port is free")
}
