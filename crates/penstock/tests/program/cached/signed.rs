//! Signed URLs: a request is verified before anything is looked up.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use penstock_testkit::origin::Origin;
use penstock_testkit::{Client, Server, Setup, Tool, until};
use rustix::process::Signal;
use tempfile::TempDir;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn write_key(directory: &Path, name: &str, secret: &str) -> String {
    let file = directory.join(name);
    fs::write(&file, format!("{secret}\n")).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    file.display().to_string()
}

/// A setup whose site needs signatures, with the files it is made of.
struct Signed {
    keys: TempDir,
    memory: TempDir,
}

impl Signed {
    fn new() -> Self {
        let this = Self { keys: tempfile::tempdir().unwrap(), memory: penstock_testkit::memory_directory() };
        write_key(this.keys.path(), "a.key", SECRET);
        this
    }

    fn key(&self, id: &str) -> String {
        self.keys.path().join(format!("{id}.key")).display().to_string()
    }

    fn setup(&self, origin: &str, ids: &[&str]) -> Setup {
        let keys: Vec<String> =
            ids.iter().map(|id| format!("{{id: {id}, file: {}}}", self.key(id))).collect();
        let site = format!(
            "- {origin}\n  signed_urls: {{keys: [{}], cookie: pass}}\n  headers: {{cors: \"*\"}}",
            keys.join(", ")
        );
        let directory = self.memory.path().display();
        Setup::new()
            .sites(&site)
            .section(&format!("cache: {{slice: 64KiB, memory: {{directory: {directory}, size: 4MiB}}}}"))
    }

    /// The output of `penstock sign`.
    fn sign(&self, id: &str, arguments: &[&str]) -> String {
        let (key, common) = (self.key(id), ["sign", "--key-id", id, "--key-file"]);
        let tool = Tool::penstock().args(common).arg(key).args(arguments);
        tool.run().ok().text().trim().to_owned()
    }
}

fn counted(server: &Server, outcome: &str) -> f64 {
    server.metrics().sum("penstock_signed_urls_total", &[&format!("outcome=\"{outcome}\"")])
}

#[test]
fn a_signed_url_is_served_and_its_token_stays_here() {
    let origin = Origin::answering("200 OK", "Cache-Control: max-age=600\r\n", "x");
    let signed = Signed::new();
    let server = signed.setup(origin.sites().trim_start_matches("- "), &["a"]).start();
    let mut client = Client::plain(&server);
    assert_eq!(client.get("/vod/a.mp4?v=1").status, 403);
    assert!(origin.asked().is_empty(), "an unsigned request does not reach the origin");
    let query = signed.sign("a", &["/vod/a.mp4?v=1", "--expires", "1h"]);
    let path = signed.sign("a", &["/vod/a.mp4?v=1", "--expires", "1h", "--prefix", "/vod/", "--in", "path"]);
    let cookie =
        signed.sign("a", &["/", "--expires", "1h", "--prefix", "/", "--in", "cookie", "--parameter", "pass"]);
    for target in [&query, &path] {
        assert_eq!(client.get(target).text(), "x", "{target}");
    }
    let (cookie, attributes) = cookie.split_once(';').unwrap();
    assert!(attributes.contains("Path=/;") && attributes.contains("Max-Age=3600"), "{attributes}");
    assert_eq!(client.get_with("/vod/a.mp4?v=1", &format!("Cookie: {cookie}\r\n")).text(), "x");
    let asked = origin.asked();
    assert_eq!(asked.len(), 1, "all three are one object: {asked:?}");
    assert!(asked[0].starts_with("GET /vod/a.mp4?v=1 ") && !asked[0].contains("hmac"), "{}", asked[0]);
    assert_eq!(client.get(&query.replacen("a.mp4", "b.mp4", 1)).status, 403);
    assert_eq!((counted(&server, "accepted"), counted(&server, "missing")), (3.0, 1.0));
    assert_eq!(counted(&server, "other_path"), 1.0);
}

#[test]
fn files_of_a_directory_need_signatures_too_and_redirects_keep_them() {
    let signed = Signed::new();
    let server = signed.setup("origin: {directory: root}", &["a"]).start();
    fs::create_dir(server.root().join("vod")).unwrap();
    let film = server.file("vod/film.mp4", 5_000);
    server.write("vod/index.html", "index");
    let mut client = Client::tls(&server);
    assert_eq!(client.get("/vod/film.mp4").status, 403);
    let path = signed.sign("a", &["/vod/film.mp4", "--expires", "1h", "--prefix", "/", "--in", "path"]);
    film.assert_range(0..5_000, &client.get(&path).body);
    let redirect = client.get(path.trim_end_matches("/film.mp4"));
    let location = redirect.field("Location").unwrap().to_owned();
    assert_eq!((redirect.status, client.get(&location).text()), (301, "index"));
    let query = signed.sign("a", &["/vod", "--expires", "1h"]);
    let redirect = client.get(&query);
    assert!(redirect.field("Location").unwrap().contains("hmac"), "{}", redirect.head);
    let preflight = client.request("OPTIONS /vod/film.mp4 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(preflight.status, 204, "browsers have no token to show when they ask whether they may ask");
}

#[test]
fn a_token_made_by_openssl_in_a_shell_is_good_until_it_expires() {
    let signed = Signed::new();
    let server = signed.setup("origin: {directory: root}", &["a"]).start();
    fs::create_dir(server.root().join("vod")).unwrap();
    server.file("vod/film.mp4", 10);
    let script = r#"
        text="exp=$1~key=a~path=/vod/"
        hmac=$(printf %s "$text" | openssl dgst -sha256 -hmac "$(cat "$2")" | sed 's/.* //')
        echo "/vod/film.mp4?token=$text~hmac=$hmac""#;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let made = |expires: Duration| {
        let arguments = [script, "sh", &expires.as_secs().to_string(), &signed.key("a")].map(str::to_owned);
        Tool::new("sh").arg("-c").args(arguments).run().ok().text().trim().to_owned()
    };
    let mut client = Client::plain(&server);
    assert_eq!(client.get(&made(now + Duration::from_secs(3600))).status, 200);
    assert_eq!(client.get(&made(now - Duration::from_secs(1))).status, 403);
    assert_eq!(counted(&server, "expired"), 1.0);
}

#[test]
fn keys_rotate_by_a_reload_while_both_are_good() {
    let signed = Signed::new();
    write_key(signed.keys.path(), "b.key", "fedcba9876543210fedcba9876543210");
    let server = signed.setup("origin: {directory: root}", &["a"]).start();
    server.file("film.mp4", 10);
    let (old, new) = (
        signed.sign("a", &["/film.mp4", "--expires", "1h"]),
        signed.sign("b", &["/film.mp4", "--expires", "1h"]),
    );
    let mut client = Client::plain(&server);
    assert_eq!((client.get(&old).status, client.get(&new).status), (200, 403));
    let mut reloaded = |ids: &[&str], wanted: (u16, u16)| {
        server.configure(&signed.setup("origin: {directory: root}", ids));
        server.signal(Signal::HUP);
        until("the new keys", || {
            ((client.get(&old).status, client.get(&new).status) == wanted).then_some(())
        });
    };
    reloaded(&["a", "b"], (200, 200));
    reloaded(&["b"], (403, 200));
    // The same names, another content.
    write_key(signed.keys.path(), "b.key", "another secret than the one before");
    reloaded(&["b"], (403, 403));
}

#[test]
fn a_url_that_cannot_be_signed_is_refused_with_a_reason() {
    let signed = Signed::new();
    let refused = |arguments: &[&str]| {
        let tool = Tool::penstock();
        let tool = tool.args(["sign", "--key-id", "a", "--expires", "1h", "--key-file"]).arg(signed.key("a"));
        let finished = tool.args(arguments).run().exits_with(2);
        finished.stderr
    };
    assert!(refused(&["film.mp4"]).contains("is not a URL"));
    assert!(refused(&["/vod/film.mp4", "--prefix", "/vod"]).contains("slashes at both ends"));
    assert!(refused(&["/vod/film.mp4", "--prefix", "/live/"]).contains("does not lie below"));
    assert!(refused(&["/vod/film.mp4", "--subject", "ann"]).contains("--format jwt or cat"));
    write_key(signed.keys.path(), "a.key", "short");
    assert!(refused(&["/film.mp4"]).contains("less than 16 bytes"));
}
