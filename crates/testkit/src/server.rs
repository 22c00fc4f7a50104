//! The program under test: started with a configuration of its own in a directory of its own, and stopped.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use penstock_sys::lock::Unpoisoned;
use rustix::process::{Pid, Signal};
use serde_json::Value;
use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::content::Content;
use crate::deadline::{DEADLINE, until};
use crate::metrics::Metrics;
use crate::ports::ReservedAddress;
use crate::process::send_signal;
use crate::program::{disk_directory, link_program, program, replace_program};
use crate::running::Program;
use crate::setup::Setup;
use crate::sockets::Sockets;

/// A running server.
pub struct Server {
    directory: TempDir,
    certificates: Certificates,
    ports: Mutex<Ports>,
    program: Mutex<Program>,
    listeners: Vec<Listener>,
    expected: Mutex<Vec<String>>,
    tolerated: Mutex<Vec<String>>,
    files: AtomicU64,
    environment: Vec<(String, String)>,
}

/// The addresses that a server's configurations name, each once however often they are written.
#[derive(Default)]
struct Ports {
    listeners: Vec<ReservedAddress>,
    admin: Option<ReservedAddress>,
}

impl Ports {
    /// The text of a configuration. Its n-th `127.0.0.1:0` becomes the n-th reserved address.
    fn fill(&mut self, setup: &Setup) -> String {
        let yaml = setup.yaml(self.admin.get_or_insert_with(ReservedAddress::reserve).address());
        let mut pieces = yaml.split("127.0.0.1:0");
        let mut filled = pieces.next().unwrap().to_owned();
        for (place, piece) in pieces.enumerate() {
            if place == self.listeners.len() {
                self.listeners.push(ReservedAddress::reserve());
            }
            filled.push_str(&self.listeners[place].to_string());
            filled.push_str(piece);
        }
        filled
    }
}

/// Something the server listens on, in the order of the configuration; `admin` is the last.
struct Listener {
    address: SocketAddr,
    /// `HTTPS`, `HTTP` or `admin`.
    kind: String,
}

/// The warnings that the guest kernel of the kTLS tests may cause: it shares the machine's time and measures what it
/// is left.
const MEASURED_IN_GUEST: &str = "AES-GCM is slower than ChaCha20-Poly1305";

impl Setup {
    /// Starts the server and waits until it serves.
    pub fn start(&self) -> Server {
        Server::start(self)
    }
}

impl Server {
    /// Starts the program and waits until it serves.
    pub fn start(setup: &Setup) -> Self {
        let directory = disk_directory();
        let certificates = Certificates::make(directory.path());
        fs::create_dir(directory.path().join("root")).unwrap();
        let file = directory.path().join("penstock.yaml");
        let mut ports = Ports::default();
        fs::write(&file, ports.fill(setup)).unwrap();
        let own = setup.replaceable.then(|| link_program(directory.path()));
        let own = own.unwrap_or_else(|| program().to_owned());
        let (program, listeners) = start_serving(&own, &file, setup.unprivileged, &setup.environment);
        Self {
            directory,
            certificates,
            ports: Mutex::new(ports),
            program: Mutex::new(program),
            listeners,
            expected: Mutex::default(),
            tolerated: Mutex::default(),
            files: AtomicU64::new(0),
            environment: setup.environment.clone(),
        }
    }

    /// Ends the program with this signal and starts it again with the same configuration and ports. What it said
    /// before is forgotten.
    pub fn start_again(&mut self, signal: Signal) {
        // Unless it has ended already.
        if self.program().try_wait().is_none() {
            self.signal(signal);
            self.wait();
        }
        self.program().kill();
        let file = self.directory().join("penstock.yaml");
        let (program, listeners) = start_serving(program(), &file, false, &self.environment);
        self.program = Mutex::new(program);
        self.listeners = listeners;
    }

    /// The directory with the configuration, certificates and logs.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The directory that is served.
    pub fn root(&self) -> PathBuf {
        self.directory().join("root")
    }

    /// Where a file of the served directory lies.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Makes a file of so many bytes, different from those of every other file of this server.
    pub fn file(&self, name: &str, len: u64) -> Content {
        let content = Content::new(self.files.fetch_add(1, Ordering::Relaxed), len);
        content.write_to(&self.path(name));
        content
    }

    /// Makes a file with these bytes.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// The certificates that were made for it.
    pub fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    /// Puts another configuration in force, and waits until it is.
    pub fn reload(&self, setup: &Setup) {
        let applied = || self.metrics().sum("penstock_reloads_total", &["outcome=\"applied\""]);
        let before = applied();
        self.configure(setup);
        self.signal(Signal::HUP);
        until("the reload", || (applied() > before).then_some(()));
    }

    /// Waits until the sum of these series is exactly this.
    ///
    /// # Panics
    /// If it has not changed for [`DEADLINE`]: a sum that grows on a busy machine is waited for.
    #[track_caller]
    pub fn counted(&self, name: &str, labels: &[&str], value: f64) {
        let mut last = f64::NAN;
        let mut deadline = Instant::now() + DEADLINE;
        loop {
            let sum = self.metrics().sum(name, labels);
            if sum == value {
                return;
            }
            if sum != last {
                println!("{name} {labels:?}: {sum}");
                last = sum;
                deadline = Instant::now() + DEADLINE;
            }
            assert!(Instant::now() < deadline, "{name} {labels:?} is {sum}, not {value}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until no connection with the admin listener is open: one that asked for metrics ends in its own time.
    pub fn wait_for_quiet_admin(&self) {
        let port = self.admin().port();
        until("the admin connections to end", || (Sockets::of_port(port).open == 0).then_some(()));
    }

    /// The first HTTPS listener.
    pub fn https(&self) -> SocketAddr {
        self.first("HTTPS")
    }

    /// The first plain listener.
    pub fn http(&self) -> SocketAddr {
        self.first("HTTP")
    }

    /// The admin listener.
    pub fn admin(&self) -> SocketAddr {
        self.first("admin")
    }

    fn first(&self, kind: &str) -> SocketAddr {
        let found = self.listeners.iter().find(|listener| listener.kind == kind);
        found.unwrap_or_else(|| panic!("there is no {kind} listener")).address
    }

    /// A listener by its place in the configuration.
    pub fn listener(&self, place: usize) -> SocketAddr {
        self.listeners[place].address
    }

    /// `https://localhost:PORT` and a path.
    pub fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.https().port())
    }

    /// `http://localhost:PORT` and a path.
    pub fn plain_url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.http().port())
    }

    /// The metrics of the server. Some counters are gathered once a second: use [`until`] for those.
    pub fn metrics(&self) -> Metrics {
        let mut stream = TcpStream::connect_timeout(&self.admin(), DEADLINE).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, text) = answer.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        Metrics::parse(text)
    }

    /// The lines of the access log so far; each must be JSON.
    pub fn access_log(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.directory().join("access.jsonl")).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        whole.lines().map(parse).collect()
    }

    /// Waits for a line of the access log with this target, and gives the last one.
    pub fn logged(&self, target: &str) -> Value {
        let find = || self.access_log().into_iter().rfind(|line| line["target"] == target);
        until(&format!("a line for {target} in the access log"), find)
    }

    /// Announces that the server is going to say this at WARN or ERROR. It then has to.
    pub fn expect_warning(&self, fragment: &str) {
        self.expected.lock().unwrap().push(fragment.to_owned());
    }

    /// Lets the server say this at WARN or ERROR, if the machine is so slow that it comes to that.
    pub fn tolerate_warning(&self, fragment: &str) {
        self.tolerated.lock().unwrap().push(fragment.to_owned());
    }

    /// Waits until the server has logged a line with these words, and gives the first.
    pub fn wait_for_log(&self, fragment: &str) -> String {
        let line = self.program().wait_for(fragment);
        line.unwrap_or_else(|said| panic!("no '{fragment}' in:\n{said}"))
    }

    /// Waits until the server has logged so many lines with these words.
    ///
    /// # Panics
    /// If it has logged more.
    #[track_caller]
    pub fn logs(&self, fragment: &str, times: usize) {
        let count = || self.log().iter().filter(|line| line.contains(fragment)).count();
        until("the lines of the log", || (count() >= times).then_some(()));
        assert_eq!(count(), times, "lines with '{fragment}': {:?}", self.log());
    }

    /// The log of the server so far. A line may come later than what it tells of can be seen.
    pub fn log(&self) -> Vec<String> {
        self.program().said()
    }

    /// Writes another configuration; [`Self::signal`] with `HUP` puts it in force.
    pub fn configure(&self, setup: &Setup) {
        let yaml = self.ports.lock().unwrap().fill(setup);
        fs::write(self.directory().join("penstock.yaml"), yaml).unwrap();
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        send_signal(self.pid(), signal);
    }

    /// Puts another file in place of the program: the next successor is started from it.
    pub fn replace_program(&self, other: &Path) {
        replace_program(self.directory(), other);
    }

    /// Puts the program under test there again.
    pub fn restore_program(&self) {
        link_program(self.directory());
    }

    /// Has a new process succeed the one that serves, and waits until it has. Returns the id of the one before.
    pub fn hand_over(&self) -> Pid {
        let before = self.pid();
        let taken_over = || self.log().iter().filter(|line| line.contains("has taken over")).count();
        let times = taken_over();
        self.signal(Signal::USR2);
        until("the successor", || (taken_over() > times).then_some(()));
        let log = self.log();
        let line = log.iter().rfind(|line| line.contains("has taken over")).unwrap();
        let words = line.split_once("process ").and_then(|(_, rest)| rest.split_once(' '));
        let id = words.and_then(|(id, _)| Pid::from_raw(id.parse().ok()?)).expect("the id of the successor");
        self.program().adopt(id);
        before
    }

    /// Follows a process that succeeds the one that serves.
    pub fn adopt(&self, successor: Pid) {
        self.program().adopt(successor);
    }

    /// Waits until the process before the one that serves has ended.
    pub fn wait_for_predecessor(&self) -> ExitStatus {
        until("the end of the process before", || self.program().try_wait_before())
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        self.program().id()
    }

    /// Waits until the program has ended.
    pub fn wait(&self) -> ExitStatus {
        until("the end of the program", || self.program().try_wait())
    }

    fn program(&self) -> MutexGuard<'_, Program> {
        self.program.lock().unpoisoned()
    }

    /// Warnings that were not announced, and announced ones that did not come.
    fn surprises(&self) -> Vec<String> {
        let expected = self.expected.lock().unwrap();
        let tolerated = self.tolerated.lock().unwrap();
        let lines = self.log();
        let in_guest = std::env::var_os("PENSTOCK_GUEST").is_some();
        let is_fault =
            |line: &str| [" WARN ", " ERROR ", "panicked at"].iter().any(|word| line.contains(word));
        let is_allowed = |line: &str| {
            expected.iter().chain(&*tolerated).any(|fragment| line.contains(fragment.as_str()))
                || OF_THE_TESTS.iter().any(|fragment| line.contains(fragment))
                || (in_guest && line.contains(MEASURED_IN_GUEST))
        };
        let bad = |line: &&String| is_fault(line) && !is_allowed(line);
        let missing = |fragment: &&String| !lines.iter().any(|line| line.contains(fragment.as_str()));
        let surprises = lines.iter().filter(bad).cloned();
        surprises.chain(expected.iter().filter(missing).map(|one| format!("it never said: {one}"))).collect()
    }
}

/// Warnings that come from how tests run: as root, with keys that have no permissions of their own.
const OF_THE_TESTS: [&str; 2] = ["started as root", "may be read by every user of this machine"];

/// The memory tier of a configuration without one: all servers of this machine would share it, and it may take half of the memory.
const DEFAULT_TIER: &str = "/dev/shm/penstock/";

/// Whether the program has the default memory tier open.
fn has_default_tier(program: Pid) -> bool {
    let files = fs::read_dir(format!("/proc/{program}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok()).any(|path| path.starts_with(DEFAULT_TIER))
}

impl Drop for Server {
    fn drop(&mut self) {
        let has_default_tier = has_default_tier(self.program().id());
        let status = self.program().stop();
        if thread::panicking() {
            eprintln!("the server said:\n{}", self.log().join("\n"));
            return;
        }
        assert!(status.is_some(), "the server did not end in {DEADLINE:?} after SIGTERM");
        assert!(status.is_some_and(|status| status.success()), "the server ended with {status:?}");
        assert_eq!(self.surprises(), [""; 0], "unexpected on stderr");
        assert!(!has_default_tier, "the configuration of a test has to set cache.memory.directory");
    }
}

/// Starts the program and waits until it serves.
fn start_serving(
    file: &str,
    config: &Path,
    unprivileged: bool,
    environment: &[(String, String)],
) -> (Program, Vec<Listener>) {
    let program = Program::start_file(file, &["serve", "-c"], config, unprivileged, environment);
    program.wait_until_it_says("ready, workers");
    let listeners = program.said().iter().filter_map(|line| Listener::in_line(line)).collect();
    (program, listeners)
}

impl Listener {
    /// The address and protocol in a line such as `listening on 127.0.0.1:8443, HTTPS`.
    fn in_line(line: &str) -> Option<Self> {
        let (_, announced) = line.split_once(" listening on ")?;
        let (address, kind) = announced.split_once(", ")?;
        Some(Self { address: address.parse().ok()?, kind: kind.to_owned() })
    }
}
