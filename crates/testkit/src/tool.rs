//! Programs of other projects: curl, wget, openssl, ffmpeg.

use std::ffi::OsStr;
use std::io::{ErrorKind, Read, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::deadline::{DEADLINE, until};
use crate::process::Process;
use crate::program::program;
use crate::server::Server;

/// A program about to run.
pub struct Tool {
    command: Command,
    time_limit: Duration,
}

/// A program that runs.
pub struct Started {
    child: Process,
    /// Closed by dropping it.
    pub stdin: Option<ChildStdin>,
    stdout: JoinHandle<Vec<u8>>,
    stderr: JoinHandle<Vec<u8>>,
    shown: String,
    time_limit: Duration,
}

/// A program that has ended.
pub struct Finished {
    /// The exit code; -1 after a signal.
    pub code: i32,
    /// The output on stdout.
    pub stdout: Vec<u8>,
    /// The output on stderr.
    pub stderr: String,
    shown: String,
}

impl Tool {
    /// A program with no settings of this machine or its user. No directory can be made below its `HOME`, not even by root.
    pub fn new(program: &str) -> Self {
        let mut command = Command::new(program);
        command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.env("LC_ALL", "C.UTF-8").env("HOME", "/dev/null");
        Self { command, time_limit: DEADLINE }
    }

    /// The program under test.
    pub fn penstock() -> Self {
        Self::new(program())
    }

    /// curl that speaks HTTP/1.1 unless it is told otherwise, trusts this server's authority, prints nothing but bodies and
    /// errors, and fails only on failures of transport.
    pub fn curl(server: &Server) -> Self {
        let curl = Self::new("curl").args(["--disable", "--silent", "--show-error", "--max-time", "50"]);
        curl.arg("--http1.1").arg("--cacert").arg(server.certificates().authority())
    }

    /// `openssl s_client` to the first HTTPS listener; it trusts this server's authority and insists on it. It sends
    /// no server name unless it is told to.
    pub fn s_client(server: &Server) -> Self {
        let tool = Self::new("openssl").args(["s_client", "-verify_return_error"]);
        tool.arg("-connect")
            .arg(server.https().to_string())
            .arg("-CAfile")
            .arg(server.certificates().authority())
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets how long it may run: [`DEADLINE`] if this is not called.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Sets the working directory.
    pub fn directory(mut self, directory: &std::path::Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Runs it to its end, with nothing to read.
    pub fn run(self) -> Finished {
        self.run_with_input(b"")
    }

    /// Runs it to its end. The input must be small.
    pub fn run_with_input(self, input: &[u8]) -> Finished {
        let mut started = self.start();
        let mut stdin = started.stdin.take().unwrap();
        // A program may end before it has read everything.
        drop(stdin.write_all(input));
        drop(stdin);
        started.finish()
    }

    /// Starts it.
    pub fn start(self) -> Started {
        self.start_reading_slowly_until(|| true)
    }

    /// Starts it and takes what it prints a little at a time, so that it stays busy, until this is true.
    pub fn start_reading_slowly_until(mut self, done: impl Fn() -> bool + Send + 'static) -> Started {
        let shown = format!("{:?}", self.command);
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = Process::spawn(&mut self.command);
        let mut child = match started {
            Ok(child) => child,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let program = self.command.get_program().to_str().unwrap();
                let package = match program {
                    "ffprobe" => "ffmpeg",
                    "h2load" | "nghttp" => "nghttp2-client",
                    "softhsm2-util" => "softhsm2",
                    "gnutls-cli" => "gnutls-bin",
                    "testssl" => "testssl.sh",
                    other => other,
                };
                panic!("{program} is missing: apt-get install {package}")
            }
            Err(error) => panic!("{shown}: {error}"),
        };
        let stdin = child.stdin.take();
        let stdout = drain(child.stdout.take().unwrap(), done);
        let stderr = drain(child.stderr.take().unwrap(), || true);
        Started { child, stdin, stdout, stderr, shown, time_limit: self.time_limit }
    }
}

impl Started {
    /// Types a line.
    pub fn say(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(text.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// Waits for its end.
    pub fn finish(mut self) -> Finished {
        let deadline = Instant::now() + self.time_limit;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > deadline => {
                    panic!("{} did not end in {:?}", self.shown, self.time_limit)
                }
                None => thread::sleep(Duration::from_millis(2)),
            }
        };
        until("the end of what it says", || {
            (self.stdout.is_finished() && self.stderr.is_finished()).then_some(())
        });
        let stdout = self.stdout.join().unwrap();
        let stderr = String::from_utf8_lossy(&self.stderr.join().unwrap()).into_owned();
        Finished { code: status.code().unwrap_or(-1), stdout, stderr, shown: self.shown }
    }
}

impl Finished {
    /// Fails with what the program said unless it ended with this code.
    #[track_caller]
    pub fn exits_with(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\n{}\n{}", self.shown, self.text(), self.stderr);
        self
    }

    /// Fails with what the program said unless it ended well.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.exits_with(0)
    }

    /// The output; bytes that are not UTF-8 become U+FFFD.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

fn drain(
    mut pipe: impl Read + Send + 'static,
    done: impl Fn() -> bool + Send + 'static,
) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        while !done() {
            if (&mut pipe).take(8192).read_to_end(&mut bytes).unwrap() == 0 {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        pipe.read_to_end(&mut bytes).unwrap();
        bytes
    })
}
