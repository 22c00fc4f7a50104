//! A server with files, a cached origin and both tiers, clients of them, and one call of it that fails.

use std::io::{Read, Write};
use std::net::TcpStream;

use penstock_testkit::origin::Origin;
use penstock_testkit::{
    Client, Content, DEADLINE, Server, Setup, Strace, TlsOptions, disk_directory, memory_directory, until,
};
use tempfile::TempDir;

const SLICE: u64 = 64 * 1024;

/// The server and what it serves.
pub(crate) struct Scene {
    server: Server,
    film: Content,
    file: Content,
    origin: Origin,
    _tiers: [TempDir; 2],
}

/// The result of one request.
enum Outcome {
    Whole,
    /// An error status, or a response that broke off with the right bytes before: which it was.
    Failed(String),
}

impl Outcome {
    fn failed(why: &str) -> Self {
        Self::Failed(why.to_owned())
    }
}

impl Scene {
    fn start() -> Self {
        let film = Content::new(81, 4 * SLICE + 321);
        // A connection for each slice, so that calls on connections to the origin are made often.
        let fields = "ETag: \"v1\"\r\nCache-Control: max-age=600\r\nConnection: close\r\n";
        let origin = Origin::with_file(&film, fields);
        let tiers = [memory_directory(), disk_directory()];
        let [memory, disk] = tiers.each_ref().map(|directory| directory.path().display());
        let cache = format!(
            "cache: {{slice: 64KiB, memory: {{directory: {memory}, size: 1MiB}}, \
             disk: [{{directory: {disk}, size: 16MiB}}]}}"
        );
        let sites = format!(
            "- hosts: [\"files.example\"]\n  origin: {{directory: root}}\n- hosts: [\"localhost\"]\n  {}",
            origin.sites().trim_start_matches("- ")
        );
        let server = Setup::new().sites(&sites).section(&cache).start();
        // That calls fail may be said, in whatever words.
        server.tolerate_warning(" ");
        let file = server.file("file.mp4", 300_001);
        Self { server, film, file, origin, _tiers: tiers }
    }

    /// One request on a connection of its own. Fails on wrong bytes.
    fn ask(&self, tls: bool, host: &str, path: &str, content: &Content) -> Outcome {
        let address = if tls { self.server.https() } else { self.server.http() };
        let Ok(socket) = TcpStream::connect(address) else { return Outcome::failed("no connection") };
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        if !tls {
            return Self::exchange(socket, host, path, content);
        }
        match TlsOptions::default().handshake(&self.server, socket) {
            Ok(stream) => Self::exchange(stream, host, path, content),
            Err(error) => Outcome::failed(&error),
        }
    }

    fn exchange(stream: impl Read + Write, host: &str, path: &str, content: &Content) -> Outcome {
        let mut client = Client::over(stream);
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        if client.stream.write_all(request.as_bytes()).and_then(|()| client.stream.flush()).is_err() {
            return Outcome::failed("the request was not taken");
        }
        let Ok(head) = client.response_to_head() else { return Outcome::failed("no head") };
        if head.status != 200 {
            return Outcome::failed(&head.head);
        }
        assert_eq!(head.field("Content-Length"), Some(content.len.to_string().as_str()), "{}", head.head);
        let whole = client.body(content.len);
        let got = whole.unwrap_or_else(|_| client.take_unread());
        content.assert_range(0..got.len() as u64, &got);
        if got.len() as u64 == content.len { Outcome::Whole } else { Outcome::failed("cut") }
    }

    /// Requests of every kind; those that were not answered whole, and why.
    fn ask_all(&self, round: &str) -> Vec<String> {
        let fresh = format!("/{round}.mp4");
        let requests = [
            (false, "files.example", "/file.mp4", &self.file),
            (true, "files.example", "/file.mp4", &self.file),
            (false, "localhost", "/film.mp4", &self.film),
            (true, "localhost", "/film.mp4", &self.film),
            (false, "localhost", fresh.as_str(), &self.film),
            (true, "localhost", fresh.as_str(), &self.film),
        ];
        let mut failed = Vec::new();
        for (tls, host, path, content) in requests {
            if let Outcome::Failed(why) = self.ask(tls, host, path, content) {
                failed.push(format!("TLS {tls}, {host}{path}: {why}"));
            }
        }
        failed
    }

    fn assert_recovered(&self, what: &str) {
        let mut round = 0;
        let mut last = Vec::new();
        until(&format!("every byte to be served after {what}"), || {
            round += 1;
            let failed = self.ask_all(&format!("after-{round}"));
            if failed != last {
                println!("after {what}, round {round}: {failed:#?}");
                last.clone_from(&failed);
            }
            failed.is_empty().then_some(())
        });
        self.server.counted("penstock_connections", &[], 0.0);
        assert_eq!(self.server.metrics().sum("penstock_worker_panics_total", &[]), 0.0, "{what}");
        let log = self.server.log();
        assert!(!log.iter().any(|line| line.contains("panicked")), "{what}:\n{}", log.join("\n"));
        assert!(!self.origin.asked().is_empty());
    }
}

/// Every `step`-th of these calls fails in each thread, beginning with the first, while clients ask; then none does.
pub(crate) fn fails(calls: &str, error: &str, step: u32) {
    let what = format!("{calls}: {error}, one of {step}");
    let scene = Scene::start();
    assert_eq!(scene.ask_all("before"), [""; 0], "before any call fails");
    let trace = scene.server.directory().join("trace");
    let arguments = [format!("trace={calls}"), format!("inject={calls}:{error}:when=1+{step}")];
    let Some(strace) = Strace::attach(&scene.server, &["-e", &arguments[0], "-e", &arguments[1]], &trace)
    else {
        return;
    };
    let failed: usize = (0..3).map(|round| scene.ask_all(&format!("during-{round}")).len()).sum();
    strace.detach();
    let injected = std::fs::read_to_string(&trace).unwrap().matches("(INJECTED)").count();
    println!("{what}: {injected} calls failed, {failed} of 18 responses");
    assert!(injected > 0, "{what}: no such call was made");
    scene.assert_recovered(&what);
}
