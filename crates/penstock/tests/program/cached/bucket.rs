//! A bucket of a real S3-compatible store as origin: versitygw, which `scripts/install-needs s3` builds.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use penstock_testkit::{Client, Content, Process, until, unused_address};
use tempfile::TempDir;

use super::Edge;

const BUILT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/versitygw");
const ACCESS: &str = "an-access-key";
const SECRET: &str = "a/secret+key==";

/// A running store with one bucket, `video`.
struct Store {
    _process: Process,
    address: SocketAddr,
    directory: TempDir,
}

impl Store {
    /// `None` if it was not built.
    fn start() -> Option<Self> {
        let program = PathBuf::from(BUILT);
        if !program.exists() {
            println!("SKIPPED: no S3 store to test with; scripts/install-needs s3 builds one, given Go");
            return None;
        }
        let directory = penstock_testkit::disk_directory();
        for name in ["data", "keys"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        fs::write(directory.path().join("keys/access"), format!("{ACCESS}\n")).unwrap();
        fs::write(directory.path().join("keys/secret"), SECRET).unwrap();
        Command::new("chmod").arg("600").arg(directory.path().join("keys/secret")).status().unwrap();
        let address = unused_address();
        let process = Process::spawn(
            Command::new(program)
                .args(["--quiet", "--port", &address.to_string(), "posix"])
                .arg(directory.path().join("data"))
                .env("ROOT_ACCESS_KEY", ACCESS)
                .env("ROOT_SECRET_KEY", SECRET)
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        )
        .unwrap();
        let store = Self { _process: process, address, directory };
        until("the store", || TcpStream::connect(address).ok());
        store.curl("", &["-X", "PUT"]);
        Some(store)
    }

    /// Has curl send a signed request.
    fn curl(&self, path: &str, arguments: &[&str]) {
        let done = Command::new("curl")
            .args(["--silent", "--show-error", "--fail", "--aws-sigv4", "aws:amz:us-east-1:s3"])
            .args(["--user", &format!("{ACCESS}:{SECRET}"), "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD"])
            .args(arguments)
            .arg(format!("http://{}/video{path}", self.address))
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    fn put(&self, path: &str, content: &Content) {
        let file = self.directory.path().join("upload");
        content.write_to(&file);
        self.curl(path, &["-T", file.to_str().unwrap()]);
    }

    fn keys(&self) -> PathBuf {
        self.directory.path().join("keys")
    }

    /// A server in front of it, with this secret key.
    fn edge(&self, secret: &Path) -> Edge {
        self.edge_below("vod", secret)
    }

    /// The same below a prefix.
    fn edge_below(&self, prefix: &str, secret: &Path) -> Edge {
        let access = self.keys().join("access");
        Edge::before(&format!(
            "- origin: {{s3: {{endpoint: \"http://{}\", bucket: video, prefix: \"{prefix}\", access_key_file: {}, \
             secret_key_file: {}}}}}",
            self.address,
            access.display(),
            secret.display()
        ))
    }
}

#[test]
fn objects_of_a_bucket_are_fetched_with_signatures_and_cached() {
    let Some(store) = Store::start() else { return };
    let (film, other) = (Content::new(51, 300_000), Content::new(52, 1000));
    store.put("/vod/a%20film%2B%C3%A9.mp4", &film);
    store.put("/private.mp4", &other);
    let edge = store.edge(&store.keys().join("secret"));
    let mut client = Client::tls(&edge.server);
    // What a viewer adds must not turn the request into another one.
    for target in ["/a%20film+%C3%A9.mp4", "/a%20film%2b%c3%a9.mp4?acl"] {
        let got = client.get(target);
        assert_eq!(got.status, 200, "{}", got.head);
        film.assert_range(0..300_000, &got.body);
        film.assert_range(250_000..250_100, &client.get_range(target, 250_000, 250_099).body);
    }
    let again = client.get("/a%20film+%C3%A9.mp4");
    assert!(again.field("Cache-Status").unwrap().contains("hit"), "{}", again.head);
    assert_eq!(client.get("/none.mp4").status, 404);
    for outside in ["/private.mp4", "/../private.mp4", "/%2e%2e/private.mp4"] {
        assert_eq!(client.get(outside).status, 404, "{outside}");
    }
}

#[test]
fn no_request_lists_the_bucket() {
    let Some(store) = Store::start() else { return };
    let film = Content::new(56, 1000);
    store.put("/film.mp4", &film);
    store.put("/vod/film.mp4", &film);
    let secret = store.keys().join("secret");
    for prefix in ["", "/", "vod"] {
        let edge = store.edge_below(prefix, &secret);
        let mut client = Client::plain(&edge.server);
        for target in ["/", "/?list-type=2", "//", "/%2F", "/.", "/./", "/%2e", "/", "/?location"] {
            let answer = client.get(target);
            assert_eq!(answer.status, 404, "`{prefix}` {target}: {}", answer.head);
            assert!(!String::from_utf8_lossy(&answer.body).contains("film"), "`{prefix}` {target}");
            // A 404 of the store is kept for a moment.
            let cache_status = answer.field("Cache-Status").unwrap_or_default();
            assert!(prefix == "vod" || !cache_status.contains("; hit"), "{target}: {cache_status}");
        }
        // The server is still in, and objects are found.
        film.assert_range(0..1000, &client.get("/film.mp4").body);
    }
}

#[test]
fn a_wrong_key_is_refused_by_the_store_and_nothing_is_kept() {
    let Some(store) = Store::start() else { return };
    store.put("/vod/film.mp4", &Content::new(53, 1000));
    let wrong = store.keys().join("wrong");
    fs::write(&wrong, "another").unwrap();
    Command::new("chmod").arg("600").arg(&wrong).status().unwrap();
    let edge = store.edge(&wrong);
    assert_eq!(Client::plain(&edge.server).get("/film.mp4").status, 403);
    let again = Client::plain(&edge.server).get("/film.mp4");
    assert!(!again.field("Cache-Status").unwrap().contains("; hit"), "{}", again.head);
}

#[test]
fn an_object_that_is_written_anew_between_two_slices_is_told_by_the_store() {
    let Some(store) = Store::start() else { return };
    let (old, new) = (Content::new(54, 300_000), Content::new(55, 300_000));
    store.put("/vod/film.mp4", &old);
    let edge = store.edge(&store.keys().join("secret"));
    let mut client = Client::plain(&edge.server);
    old.assert_range(0..10, &client.get_range("/film.mp4", 0, 9).body);
    store.put("/vod/film.mp4", &new);
    let answer = client.get_range("/film.mp4", 250_000, 250_099);
    assert_eq!(answer.status, 206, "{}", answer.head);
    new.assert_range(250_000..250_100, &answer.body);
    assert_eq!(edge.fetched("changed"), 1.0);
}
