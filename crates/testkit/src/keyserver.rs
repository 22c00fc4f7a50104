//! A running keyserver beside a server.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use rustix::process::Signal;
use serde_json::Value;

use crate::deadline::{DEADLINE, until};
use crate::metrics::Metrics;
use crate::ports::ReservedAddress;
use crate::process::send_signal;
use crate::running::Program;
use crate::server::Server;

/// A keyserver with the keys of a server's certificates `ec` and `rsa`. Its own certificate is `ec`; its client is
/// `other`, which may use all keys.
pub struct Keyserver {
    directory: PathBuf,
    address: ReservedAddress,
    admin: ReservedAddress,
    program: Program,
}

impl Keyserver {
    /// Starts a keyserver with files below the server's directory, in a folder of this name.
    pub fn start(server: &Server, name: &str) -> Self {
        Self::with(server, name, "clients: [{name: other, keys: [\"*\"]}]")
    }

    /// The same with other clients, and whatever else is written.
    pub fn with(server: &Server, name: &str, yaml: &str) -> Self {
        let directory = server.directory().join(name);
        fs::create_dir_all(directory.join("keys")).unwrap();
        for key in ["ec.key", "rsa.key"] {
            fs::copy(server.certificates().path(key), directory.join("keys").join(key)).unwrap();
        }
        let (address, admin) = (ReservedAddress::reserve(), ReservedAddress::reserve());
        configure(&directory, &address, &admin, yaml);
        let program = start_serving(&directory);
        Self { directory, address, admin, program }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address.address()
    }

    /// The directory of its keys.
    pub fn keys(&self) -> PathBuf {
        self.directory.join("keys")
    }

    /// Writes another configuration; [`Self::signal`] with `HUP` puts it in force.
    pub fn configure(&self, yaml: &str) {
        configure(&self.directory, &self.address, &self.admin, yaml);
    }

    /// Kills it, and starts it again at the same address.
    pub fn start_again(&mut self) {
        self.program.kill();
        self.program = start_serving(&self.directory);
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.program.kill();
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        send_signal(self.program.id(), signal);
    }

    /// Stops it with SIGTERM; `None` if it has not ended by the deadline.
    pub fn stop(&mut self) -> Option<ExitStatus> {
        self.program.stop()
    }

    /// What it has logged so far.
    pub fn log(&self) -> Vec<String> {
        self.program.said()
    }

    /// Waits until it has logged a line with these words.
    pub fn wait_for_log(&self, fragment: &str) -> String {
        self.program.wait_for(fragment).unwrap_or_else(|said| panic!("no '{fragment}' in:\n{said}"))
    }

    /// Its metrics.
    pub fn metrics(&self) -> Metrics {
        Metrics::parse(&self.ask_admin("/metrics"))
    }

    /// The body of an answer of its admin listener.
    pub fn ask_admin(&self, path: &str) -> String {
        let mut stream = TcpStream::connect_timeout(&self.admin.address(), DEADLINE).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, text) = answer.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        text.to_owned()
    }

    /// Waits until the sum of these series is at least this.
    #[track_caller]
    pub fn counted(&self, name: &str, labels: &[&str], least: f64) {
        until(&format!("{name} {labels:?} to be {least}"), || {
            (self.metrics().sum(name, labels) >= least).then_some(())
        });
    }

    /// Lines of its access log.
    pub fn access_log(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.directory.join("access.jsonl")).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn configure(directory: &Path, address: &ReservedAddress, admin: &ReservedAddress, yaml: &str) {
    let keys = if yaml.starts_with("keys:") { "" } else { "keys: [{directory: keys}]\n" };
    let yaml = format!(
        "address: {}\nchain: ../ec.crt\nkey: ../ec.key\nca: ../authority.crt\n{keys}\
         admin: {{address: {}}}\nlog: {{access: access.jsonl}}\n{yaml}\n",
        address.address(),
        admin.address(),
    );
    fs::write(directory.join("keyserver.yaml"), yaml).unwrap();
}

fn start_serving(directory: &Path) -> Program {
    let program = Program::start(&["keyserver", "-c"], &directory.join("keyserver.yaml"), false);
    program.wait_until_it_says("ready, private keys");
    program
}
