//! The program under test: started with a configuration of its own in a directory of its own, and stopped.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::certificates::Certificates;
use super::client::PATIENCE;
use super::content::Content;
use super::metrics::Metrics;
use super::setup::Setup;

/// A running server.
pub(crate) struct Server {
    directory: TempDir,
    certificates: Certificates,
    program: Mutex<Program>,
    listeners: Vec<Listener>,
    expected: Mutex<Vec<String>>,
    tolerated: Mutex<Vec<String>>,
    files: AtomicU64,
}

/// The process and what it has said so far. It is killed with this, if it still runs then.
struct Program {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

/// Something the server listens on, in the order of the configuration; `admin` is the last.
struct Listener {
    address: SocketAddr,
    /// `HTTPS`, `HTTP` or `admin`.
    kind: String,
}

/// What the guest kernel of the kTLS tests may make the server say: it shares the machine's time and measures what it
/// is left.
const MEASURED_IN_GUEST: &str = "AES-GCM is slower than ChaCha20-Poly1305";

/// Ports of the system's choice, so that tests never meet.
const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

impl Server {
    /// Starts the program and waits until it serves.
    pub(crate) fn start(setup: &Setup) -> Self {
        let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let certificates = Certificates::make(directory.path());
        fs::create_dir(directory.path().join("root")).unwrap();
        let file = directory.path().join("penstock.yaml");
        fs::write(&file, setup.yaml(ANY_PORT)).unwrap();
        let (program, listeners) = Program::start_serving(&file, setup.unprivileged);
        Self {
            directory,
            certificates,
            program: Mutex::new(program),
            listeners,
            expected: Mutex::default(),
            tolerated: Mutex::default(),
            files: AtomicU64::new(0),
        }
    }

    /// Ends the program with this signal and starts it anew with the same configuration. It has other ports then, and
    /// what it said before is forgotten.
    pub(crate) fn start_again(&mut self, signal: Signal) {
        // Unless somebody has already.
        if self.program().child.try_wait().unwrap().is_none() {
            self.signal(signal);
            self.wait();
        }
        let (program, listeners) = Program::start_serving(&self.directory().join("penstock.yaml"), false);
        self.program = Mutex::new(program);
        self.listeners = listeners;
    }

    /// The directory with the configuration, certificates and logs.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The directory that is served.
    pub(crate) fn root(&self) -> PathBuf {
        self.directory().join("root")
    }

    /// Where a file of the served directory lies.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Makes a file of so many bytes, different from those of every other file of this server.
    pub(crate) fn file(&self, name: &str, len: u64) -> Content {
        let content = Content::new(self.files.fetch_add(1, Ordering::Relaxed), len);
        content.write_to(&self.path(name));
        content
    }

    /// Makes a file with these bytes.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    pub(crate) fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    /// The first HTTPS listener.
    pub(crate) fn https(&self) -> SocketAddr {
        self.first("HTTPS")
    }

    /// The first plain listener.
    pub(crate) fn http(&self) -> SocketAddr {
        self.first("HTTP")
    }

    /// The admin listener.
    pub(crate) fn admin(&self) -> SocketAddr {
        self.first("admin")
    }

    fn first(&self, kind: &str) -> SocketAddr {
        let found = self.listeners.iter().find(|listener| listener.kind == kind);
        found.unwrap_or_else(|| panic!("there is no {kind} listener")).address
    }

    /// A listener by its place in the configuration.
    pub(crate) fn listener(&self, place: usize) -> SocketAddr {
        self.listeners[place].address
    }

    /// `https://localhost:PORT` and a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.https().port())
    }

    /// `http://localhost:PORT` and a path.
    pub(crate) fn plain_url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.http().port())
    }

    /// What the server has counted. Some counters are gathered once a second: use [`until`] for those.
    pub(crate) fn metrics(&self) -> Metrics {
        let mut stream = TcpStream::connect_timeout(&self.admin(), PATIENCE).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: admin\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, text) = answer.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        Metrics::parse(text)
    }

    /// The lines of the access log so far; each must be JSON.
    pub(crate) fn access_log(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.directory().join("access.jsonl")).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        whole.lines().map(parse).collect()
    }

    /// Waits for a line of the access log with this target, and gives the last one.
    pub(crate) fn logged(&self, target: &str) -> Value {
        let find = || self.access_log().into_iter().rfind(|line| line["target"] == target);
        until(&format!("a line for {target} in the access log"), find)
    }

    /// Announces that the server is going to say this at WARN or ERROR. It then has to.
    pub(crate) fn expect_warning(&self, fragment: &str) {
        self.expected.lock().unwrap().push(fragment.to_owned());
    }

    /// Lets the server say this at WARN or ERROR, if the machine is so slow that it comes to that.
    pub(crate) fn tolerate_warning(&self, fragment: &str) {
        self.tolerated.lock().unwrap().push(fragment.to_owned());
    }

    /// Waits until the server has logged a line with these words, and gives the first.
    pub(crate) fn wait_for_log(&self, fragment: &str) -> String {
        let line = self.program().wait_for(fragment);
        line.unwrap_or_else(|said| panic!("no '{fragment}' in:\n{said}"))
    }

    /// What the server has logged so far.
    pub(crate) fn log(&self) -> Vec<String> {
        self.program().said()
    }

    /// Writes another configuration; [`Self::signal`] with `HUP` puts it in force.
    pub(crate) fn configure(&self, setup: &Setup) {
        fs::write(self.directory().join("penstock.yaml"), setup.yaml(ANY_PORT)).unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.program().child)
    }

    /// Waits until the program has ended.
    pub(crate) fn wait(&self) -> ExitStatus {
        until("the end of the program", || self.program().child.try_wait().unwrap())
    }

    fn program(&self) -> MutexGuard<'_, Program> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lines that nobody announced, and announcements that did not come true.
    fn surprises(&self) -> Vec<String> {
        let expected = self.expected.lock().unwrap();
        let tolerated = self.tolerated.lock().unwrap();
        let lines = self.log();
        let in_guest = std::env::var_os("PENSTOCK_GUEST").is_some();
        let bad = |line: &&String| {
            [" WARN ", " ERROR ", "panicked at"].iter().any(|word| line.contains(word))
                && !expected.iter().chain(&*tolerated).any(|fragment| line.contains(fragment.as_str()))
                && !(in_guest && line.contains(MEASURED_IN_GUEST))
        };
        let missing = |fragment: &&String| !lines.iter().any(|line| line.contains(fragment.as_str()));
        let surprises = lines.iter().filter(bad).cloned();
        surprises.chain(expected.iter().filter(missing).map(|one| format!("it never said: {one}"))).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let status = self.program().stop();
        if thread::panicking() {
            eprintln!("the server said:\n{}", self.log().join("\n"));
            return;
        }
        assert!(status.is_some(), "the server did not end in {PATIENCE:?} after SIGTERM");
        assert!(status.is_some_and(|status| status.success()), "the server ended with {status:?}");
        assert_eq!(self.surprises(), [""; 0], "unexpected on stderr");
    }
}

impl Program {
    /// Starts it and waits until it serves.
    fn start_serving(config: &Path, unprivileged: bool) -> (Self, Vec<Listener>) {
        let program = Self::start(config, unprivileged);
        if let Err(said) = program.wait_for("ready, workers") {
            let yaml = fs::read_to_string(config).unwrap();
            panic!("the server did not start. It said:\n{said}\nwith:\n{yaml}");
        }
        let listeners = program.said().iter().filter_map(|line| Listener::in_line(line)).collect();
        (program, listeners)
    }

    /// Starts it with nothing of this environment but where programs are.
    fn start(config: &Path, unprivileged: bool) -> Self {
        let program = env!("CARGO_BIN_EXE_penstock");
        let mut command = if unprivileged && rustix::process::geteuid().is_root() {
            let mut setpriv = Command::new("setpriv");
            setpriv.args(["--bounding-set", "-dac_override,-dac_read_search", program]);
            setpriv
        } else {
            Command::new(program)
        };
        command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.args(["serve", "-c"]).arg(config);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&said);
        let reader = thread::spawn(move || {
            for line in BufReader::new(stderr).lines() {
                shared.lock().unwrap().push(line.unwrap());
            }
        });
        Self { child, said, reader: Some(reader) }
    }

    fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    /// The first line with these words; all that was said, if the program ends or too much time passes before.
    fn wait_for(&self, fragment: &str) -> Result<String, String> {
        let deadline = Instant::now() + PATIENCE;
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

    /// Has it stop the way an operator would; `None` if it does not within a long while and has to be killed.
    fn stop(&mut self) -> Option<ExitStatus> {
        if self.child.try_wait().unwrap().is_none() {
            kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        }
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            match self.child.try_wait().unwrap() {
                None if Instant::now() < deadline => thread::sleep(Duration::from_millis(5)),
                status => break status,
            }
        };
        self.kill();
        status
    }

    fn kill(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        self.child.wait().unwrap();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Listener {
    /// What a line such as `listening on 127.0.0.1:8443, HTTPS` tells.
    fn in_line(line: &str) -> Option<Self> {
        let (_, announced) = line.split_once(" listening on ")?;
        let (address, kind) = announced.split_once(", ")?;
        Some(Self { address: address.parse().ok()?, kind: kind.to_owned() })
    }
}

/// Asks again and again until there is an answer; fails after a long while. For what the server does in its own time.
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain for {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
