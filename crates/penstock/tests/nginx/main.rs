//! Configurations of nginx are translated; nginx and Penstock with the translation give the same answers.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

mod guards;

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use penstock_testkit::origin::{Origin, answer, field, range, target};
use penstock_testkit::{Client, Process, ReservedAddress, Response, Server, Setup, Tool, until};
use tempfile::TempDir;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");

/// Requests to each of the three configurations.
const REQUESTS: usize = 170;

fn example(name: &str) -> PathBuf {
    Path::new(EXAMPLES).join("nginx").join(name)
}

/// The translation of a file, and its remarks.
fn translated(file: &Path) -> String {
    Tool::penstock().args(["config", "from-nginx"]).arg(file).run().ok().text()
}

/// The content of a target: as many bytes as the number in its name says, and no two targets alike.
fn content(target: &str) -> Vec<u8> {
    let digits: String = target.chars().filter(char::is_ascii_digit).collect();
    let length: usize = digits.parse().unwrap_or(0);
    target.bytes().cycle().take(length).collect()
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("m3u8") => "application/vnd.apple.mpegurl",
        Some("mp4" | "m4s") => "video/mp4",
        _ => "application/octet-stream",
    }
}

/// An origin with ranges, entity tags and 404.
fn origin() -> Origin {
    Origin::start(|head, _, stream| {
        let path = target(head).split('?').next().unwrap();
        if path.contains("missing") {
            return answer(stream, "404 Not Found", "Content-Type: text/plain\r\n", b"no");
        }
        let body = content(path);
        let fields = format!(
            "Content-Type: {}\r\nETag: \"{}\"\r\nLast-Modified: Tue, 03 Nov 2026 10:00:00 GMT\r\nAccept-Ranges: bytes\r\n\
             X-Powered-By: test\r\n",
            media_type(path),
            path.trim_start_matches('/').replace('/', "-")
        );
        if field(head, "if-none-match").is_some() {
            return answer(stream, "304 Not Modified", &fields, b"");
        }
        match range(head).filter(|(first, _)| *first < body.len()) {
            Some((first, last)) => {
                let last = last.min(body.len() - 1);
                let fields = format!("Content-Range: bytes {first}-{last}/{}\r\n{fields}", body.len());
                answer(stream, "206 Partial Content", &fields, &body[first..=last])
            }
            None => answer(stream, "200 OK", &fields, &body),
        }
    })
}

/// nginx with a configuration, stopped with this.
struct Nginx {
    _process: Process,
    _directory: TempDir,
}

impl Nginx {
    /// Starts it and waits until it accepts connections at `address`.
    fn start(text: &str, address: SocketAddr) -> Self {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("nginx.conf");
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("    {kind}_temp_path {}/{kind};\n", directory.path().display()));
        fs::write(&file, text.replacen("http {\n", &format!("http {{\n{}", temporary.concat()), 1)).unwrap();
        // One process, as the user of the test: it reads what the test has written.
        let global = format!(
            "daemon off; master_process off; pid {0}/pid; error_log {0}/error.log;",
            directory.path().display()
        );
        let mut command = Command::new("nginx");
        command.arg("-p").arg(directory.path()).arg("-c").arg(&file).args(["-g", &global]);
        let process = Process::spawn(&mut command).unwrap();
        until("nginx to listen", || TcpStream::connect(address).ok());
        Self { _process: process, _directory: directory }
    }
}

/// A place for the files that both servers use, and the text of a configuration that uses it.
struct Place {
    directory: TempDir,
    text: String,
}

impl Place {
    fn new(name: &str, changes: &[(&str, &str)]) -> Self {
        let mut text = fs::read_to_string(example(name)).unwrap();
        for (from, to) in changes {
            assert!(text.contains(from), "{name} has no {from}");
            text = text.replace(from, to);
        }
        Self::of(&text)
    }

    fn of(text: &str) -> Self {
        let directory = TempDir::new().unwrap();
        for below in ["video/new", "files", "cache/nginx", "log/nginx"] {
            fs::create_dir_all(directory.path().join(below)).unwrap();
        }
        let root = directory.path().display();
        let text = text
            .replace("/var/cache/nginx", &format!("{root}/cache/nginx"))
            .replace("/var/log/nginx", &format!("{root}/log/nginx"))
            .replace("/srv/", &format!("{root}/"));
        Self { directory, text }
    }

    fn file(&self, name: &str, bytes: &[u8]) {
        let path = self.directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Penstock with the translation, in which it listens elsewhere than nginx; and the translation.
    fn penstock(&self, addresses: &[SocketAddr]) -> (Server, String) {
        let file = self.directory.path().join("nginx.conf");
        fs::write(&file, &self.text).unwrap();
        let translation = translated(&file);
        let mut yaml = translation.clone();
        for address in addresses {
            assert!(yaml.contains(&format!("\"{address}\"")), "it listens at {address}:\n{translation}");
            yaml = yaml.replace(&format!("\"{address}\""), "\"127.0.0.1:0\"");
        }
        // The secret of links, which the translation leaves to its reader.
        let yaml = yaml
            .replace("key: secure-link", &format!("key: {}/secure-link", self.directory.path().display()));
        let own = "\ncache: {memory: {directory: memory, size: 64MiB}}\n";
        let yaml = match yaml.contains("\ncache:") {
            true => yaml.replacen("\ncache:\n", "\ncache:\n  memory: {directory: memory, size: 64MiB}\n", 1),
            false => yaml + own,
        };
        let server = Setup::new().whole(&format!("{yaml}\nadmin: {{address: ADMIN}}\n")).start();
        // nginx takes what the machine allows without a word.
        server.tolerate_warning("this process may open");
        (server, translation)
    }
}

/// What has to be alike: the status, fields, and for successes the bytes. Pages of errors are each server's own.
fn facts<'r>(response: &'r Response, fields: &[&str]) -> (u16, Vec<Option<&'r str>>, &'r [u8]) {
    let of_body = ["Content-Length", "Content-Type"];
    let (fields, body): (Vec<&&str>, &[u8]) = match response.status {
        200..=206 => (fields.iter().collect(), &response.body),
        300..=399 => (fields.iter().filter(|name| !of_body.contains(name)).collect(), b""),
        _ => (Vec::new(), b""),
    };
    (
        response.status,
        fields.into_iter().map(|name| response.field(name).map(without_own_host)).collect(),
        body,
    )
}

/// A reference to the site itself, without scheme and host, which nginx writes in front of a path.
fn without_own_host(value: &str) -> &str {
    let own = value.strip_prefix("http://www.example.com");
    own.and_then(|rest| Some(&rest[rest.find('/')?..])).unwrap_or(value)
}

/// Sends the same requests to both.
fn compare(nginx: SocketAddr, penstock: SocketAddr, requests: &[(String, String)], fields: &[&str]) {
    assert!(requests.len() >= REQUESTS, "{} requests", requests.len());
    compare_each(nginx, penstock, requests, fields);
}

fn compare_each(nginx: SocketAddr, penstock: SocketAddr, requests: &[(String, String)], fields: &[&str]) {
    let (mut theirs, mut ours) = (Client::connect(nginx), Client::connect(penstock));
    for (line, more) in requests {
        let request = format!("{line} HTTP/1.1\r\n{more}\r\n");
        let (one, other) = (theirs.request(&request), ours.request(&request));
        assert!(
            facts(&one, fields) == facts(&other, fields),
            "{request}nginx:\n{}\npenstock:\n{}\n{} and {} bytes",
            one.head,
            other.head,
            one.body.len(),
            other.body.len()
        );
    }
}

/// Requests for each of these paths, again and again, with the variants of players.
fn requests(host: &str, paths: &[&str]) -> Vec<(String, String)> {
    let variants = [
        ("GET", ""),
        ("GET", "Range: bytes=0-9\r\n"),
        ("GET", "Range: bytes=5-\r\n"),
        ("GET", "Range: bytes=-7\r\n"),
        ("HEAD", ""),
        ("GET", "If-Modified-Since: Tue, 03 Nov 2026 10:00:00 GMT\r\n"),
        ("GET", "Accept-Encoding: identity\r\n"),
    ];
    let mut made = Vec::new();
    while made.len() < REQUESTS {
        for path in paths {
            for (method, more) in variants {
                made.push((format!("{method} {path}"), format!("Host: {host}\r\n{more}")));
            }
        }
    }
    made
}

/// Whether nginx is here; without it the test says that it was skipped.
#[expect(clippy::print_stderr, reason = "a test that was skipped must say so")]
fn has_nginx() -> bool {
    let found = Command::new("nginx").arg("-v").output().is_ok();
    if !found {
        eprintln!("SKIPPED: nginx is not installed, so its answers are not compared");
    }
    found
}

#[test]
fn a_site_with_slices_answers_as_in_nginx() {
    if !has_nginx() {
        return;
    }
    let (origin, address, plain) = (origin(), ReservedAddress::reserve(), ReservedAddress::reserve());
    let own = origin.url();
    let own = own.strip_prefix("http://").unwrap();
    let place = Place::new(
        "vod.conf",
        &[
            ("listen 443 ssl http2", &format!("listen {address}")),
            ("listen 80", &format!("listen {plain}")),
            // Without TLS on both sides, so that one client asks both.
            ("ssl_certificate /etc/penstock/tls/fullchain.pem;", ""),
            ("ssl_certificate_key /etc/penstock/tls/privkey.pem;", ""),
            ("server 192.0.2.11:8080;", ""),
            ("192.0.2.10:8080", own),
            ("192.0.2.12:8080", &penstock_testkit::unused_address().to_string()),
            ("max_size=100g", "max_size=64m"),
        ],
    );
    let _nginx = Nginx::start(&place.text, address.address());
    let (penstock, _) = place.penstock(&[plain.address(), address.address()]);
    let paths = ["/film/100.mp4", "/film/1200000.mp4", "/film/70000.mp4?a=1", "/missing/1.mp4"];
    let fields = [
        "Content-Length",
        "Content-Type",
        "Content-Range",
        "ETag",
        "Last-Modified",
        "X-Powered-By",
        "Access-Control-Allow-Origin",
    ];
    compare(address.address(), penstock.listener(1), &requests("video.example.com", &paths), &fields);
    assert!(origin.asked().iter().all(|head| field(head, "host") == Some("origin.example.com")));
}

#[test]
fn a_live_site_answers_as_in_nginx() {
    if !has_nginx() {
        return;
    }
    let (origin, address) = (origin(), ReservedAddress::reserve());
    let own = origin.url();
    let place = Place::new(
        "live.conf",
        &[
            ("listen 80", &format!("listen {address}")),
            ("192.0.2.20:8080", own.strip_prefix("http://").unwrap()),
            ("max_size=10g", "max_size=64m"),
        ],
    );
    let _nginx = Nginx::start(&place.text, address.address());
    let (penstock, _) = place.penstock(&[address.address()]);
    let paths = ["/a/300.m3u8", "/a/50000.m4s", "/a/1.m4s", "/missing/2.m4s", "/b/700.m3u8?_x=1"];
    let fields = ["Content-Length", "Content-Range", "ETag", "Last-Modified"];
    compare(address.address(), penstock.listener(0), &requests("live.example.com", &paths), &fields);
}

#[test]
fn a_site_of_files_answers_as_in_nginx() {
    if !has_nginx() {
        return;
    }
    let address = ReservedAddress::reserve();
    let place = Place::new("static.conf", &[("listen 80", &format!("listen {address}"))]);
    place.file("video/index.html", b"<p>hello</p>");
    place.file("video/clips/index.html", b"<p>clips</p>");
    place.file("video/film.mp4", &content("/12345"));
    place.file("video/new/a.txt", b"a text of some length");
    place.file("files/setup.txt", b"a file to download");
    let _nginx = Nginx::start(&place.text, address.address());
    let (penstock, translation) = place.penstock(&[address.address()]);
    let mut paths = vec!["/", "/clips/", "/film.mp4", "/new/a.txt", "/none.txt"];
    if translation.contains("\n    routes:") {
        paths.push("/downloads/setup.txt");
    }
    let fields = ["Content-Length", "Content-Range", "Content-Type", "Last-Modified"];
    compare(address.address(), penstock.listener(0), &requests("www.example.com", &paths), &fields);
    if translation.contains("\n    routes:") {
        let redirects: Vec<(String, String)> = (0..REQUESTS)
            .map(|number| ["/old/a.txt", "/old/b/c.mp4", "/shop/x"][number % 3])
            .map(|path| (format!("GET {path}"), "Host: www.example.com\r\n".to_owned()))
            .collect();
        compare(address.address(), penstock.listener(0), &redirects, &["Location"]);
    }
}

#[test]
fn the_translations_of_the_examples_lack_nothing() {
    for name in ["vod.conf", "live.conf", "static.conf"] {
        let text = translated(&example(name));
        let remarks: Vec<&str> = text.lines().filter(|line| line.starts_with("#   ")).collect();
        assert!(remarks.is_empty(), "{name}: {remarks:?}");
    }
}

#[test]
fn the_moved_example_is_the_translation() {
    let from =
        Tool::penstock().directory(Path::new(EXAMPLES)).args(["config", "from-nginx", "nginx/vod.conf"]);
    let wanted = from.run().ok().text();
    let path = Path::new(EXAMPLES).join("moved-from-nginx.yaml");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &wanted).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(kept, wanted, "run: UPDATE_DOCS=1 cargo test -p penstock --test nginx the_moved_example");
}

#[test]
fn what_keeps_clients_out_and_is_not_translated_is_marked() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("nginx.conf");
    let text = "http { server { listen 80; root /srv/video; location /private/ { auth_basic on; internal; } \
                location /signed/ { secure_link $arg_md5,$arg_expires; } } include more.conf; }";
    fs::write(&file, text).unwrap();
    let missing = Tool::penstock().args(["config", "from-nginx"]).arg(&file).run().exits_with(2).stderr;
    assert!(missing.contains("nginx.conf:1: include: "), "{missing}");
    fs::write(directory.path().join("more.conf"), "server { listen 81; root /srv/more; auth_request /a; }")
        .unwrap();
    let text = translated(&file);
    for caution in ["nginx.conf:1: internal", "nginx.conf:1: auth_basic on", "more.conf:1: auth_request /a"] {
        let marked = |line: &str| line.contains("CAUTION: ") && line.contains(caution);
        assert!(text.lines().any(marked), "{caution}: {text}");
    }
}
