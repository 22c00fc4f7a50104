//! A successor with the same cache that starts while the process before it drains.

use std::fs::{Permissions, set_permissions};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use penstock_testkit::origin::{Origin, file, target};
use penstock_testkit::{Client, Content, Server, Setup, until};
use rustix::process::Signal;
use tempfile::TempDir;

use super::LARGE;

/// A cache of both tiers in front of an origin with a large and a small film.
struct Succession {
    origin: Origin,
    large: Content,
    small: Content,
    memory: TempDir,
    disk: TempDir,
}

const SMALL: u64 = 300_000;

impl Succession {
    fn new() -> Self {
        let (large, small) = (Content::new(51, LARGE), Content::new(52, SMALL));
        let bodies = (large.all(), small.all());
        let origin = Origin::start(move |head, _, stream| {
            let body = if target(head).starts_with("/large") { &bodies.0 } else { &bodies.1 };
            file(head, stream, "ETag: \"v1\"\r\nCache-Control: max-age=600\r\n", body)
        });
        let memory = penstock_testkit::memory_directory();
        Self { origin, large, small, memory, disk: tempfile::tempdir().unwrap() }
    }

    fn setup(&self) -> Setup {
        let (memory, disk) = (self.memory.path().display(), self.disk.path().display());
        let cache = format!(
            "cache: {{memory: {{directory: {memory}, size: 96MiB}}, disk: [{{directory: {disk}, size: 64MiB}}]}}"
        );
        Setup::new().sites(&self.origin.sites()).section(&cache).limits("drain_deadline: 1m")
    }

    /// Starts a server on the ports of one that drains.
    fn successor(&self, old: &Server) -> Server {
        let is_free = |address| TcpStream::connect(address).is_err().then_some(());
        until("the ports to be free", || {
            [old.https(), old.http(), old.admin()].into_iter().try_for_each(is_free)
        });
        let (https, http) =
            (format!("address: {}, tls: true", old.https()), format!("address: {}", old.http()));
        let ports = self.setup().listeners(&[&https, &http]);
        Setup::new().whole(&ports.yaml(old.admin())).start()
    }

    fn get_small(&self, server: &Server, path: &str) -> String {
        let response = Client::tls(server).get(path);
        self.small.assert_range(0..SMALL, &response.body);
        response.field("Cache-Status").unwrap().to_owned()
    }

    fn asked_for(&self, path: &str) -> usize {
        self.origin.asked().iter().filter(|head| target(head) == path).count()
    }
}

/// Purges a URL and returns the status.
fn purge(server: &Server, url: &str) -> u16 {
    let mut client = Client::connect(server.admin());
    client.send(format!(
        "POST /cache/purge?url={url} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
    ));
    client.response().unwrap().status
}

#[test]
fn a_successor_with_the_same_cache_answers_while_a_slow_download_finishes() {
    let succession = Succession::new();
    let old = succession.setup().start();
    for path in ["/kept.mp4", "/purged.mp4"] {
        assert!(succession.get_small(&old, path).contains("fwd=uri-miss"));
    }
    let mut slow = Client::tls(&old);
    slow.begin("/large.mp4");
    old.signal(Signal::TERM);
    old.wait_for_log("draining");

    let new = succession.successor(&old);
    new.wait_for_log("a process that drains still uses the memory tier");
    new.counted("penstock_cache_waiting", &[], 1.0);
    let status = succession.get_small(&new, "/while.mp4");
    assert!(status.contains("fwd=uri-miss"), "{status}");
    let again = succession.get_small(&new, "/while.mp4");
    assert!(again.starts_with("penstock; hit"), "it has a cache meanwhile: {again}");
    assert_eq!(purge(&new, "/purged.mp4"), 200);
    succession.large.assert_range(0..LARGE, &slow.take(usize::try_from(LARGE).unwrap()).unwrap());
    assert!(old.wait().success());

    new.wait_for_log("the cache has its tiers");
    new.counted("penstock_cache_waiting", &[], 0.0);
    until("each worker to have the tiers", || {
        succession.get_small(&new, "/kept.mp4").starts_with("penstock; hit").then_some(())
    });
    assert!(
        Client::tls(&new).get_range("/large.mp4", 0, 99).field("Cache-Status").unwrap().contains("; hit")
    );
    succession.get_small(&new, "/purged.mp4");
    assert_eq!(succession.asked_for("/purged.mp4"), 2, "a purge while it waited holds in the tiers");
    let list = std::fs::read_to_string(succession.disk.path().join("purges")).unwrap();
    assert!(list.contains(" hard url * /purged.mp4\n"), "also after a loss of the memory tier: {list}");
}

#[test]
fn a_successor_that_waits_can_be_stopped_and_followed_by_another() {
    let succession = Succession::new();
    let old = succession.setup().start();
    succession.get_small(&old, "/kept.mp4");
    let mut slow = Client::tls(&old);
    slow.begin("/large.mp4");
    old.signal(Signal::TERM);
    old.wait_for_log("draining");
    let mut new = succession.successor(&old);
    new.wait_for_log("a process that drains");
    new.start_again(Signal::TERM);
    new.wait_for_log("a process that drains");
    succession.get_small(&new, "/while.mp4");
    old.signal(Signal::TERM);
    drop(slow);
    assert!(old.wait().success());
    new.wait_for_log("the cache has its tiers");
    let asked = succession.asked_for("/kept.mp4");
    until("each worker to have the tiers", || {
        succession.get_small(&new, "/kept.mp4").starts_with("penstock; hit").then_some(())
    });
    assert!(succession.asked_for("/kept.mp4") <= asked + 1);
}

#[test]
fn a_successor_that_cannot_use_the_tiers_says_so_and_tries_again() {
    let succession = Succession::new();
    let old = succession.setup().start();
    succession.get_small(&old, "/kept.mp4");
    let mut slow = Client::tls(&old);
    slow.begin("/large.mp4");
    old.signal(Signal::TERM);
    old.wait_for_log("draining");
    let new = succession.successor(&old);
    let set_mode = |mode| set_permissions(succession.memory.path(), Permissions::from_mode(mode)).unwrap();
    set_mode(0o777);
    old.signal(Signal::TERM);
    drop(slow);
    assert!(old.wait().success());
    new.expect_warning("keeps its small memory tier and tries again");
    new.wait_for_log("keeps its small memory tier and tries again");
    assert!(succession.get_small(&new, "/while.mp4").contains("fwd=uri-miss"));
    new.counted("penstock_cache_waiting", &[], 1.0);
    set_mode(0o700);
    new.wait_for_log("the cache has its tiers");
    until("each worker to have the tiers", || {
        succession.get_small(&new, "/kept.mp4").starts_with("penstock; hit").then_some(())
    });
}

#[test]
fn a_start_that_fails_for_its_ports_leaves_the_cache_as_it_was() {
    let succession = Succession::new();
    let mut server = succession.setup().start();
    succession.get_small(&server, "/kept.mp4");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let sound = std::fs::read_to_string(server.directory().join("penstock.yaml")).unwrap();
    let https = server.https();
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    let port = taken.local_addr().unwrap();
    let wrong = sound.replace(&https.to_string(), &port.to_string());
    std::fs::write(server.directory().join("wrong.yaml"), wrong).unwrap();
    let ended = penstock_testkit::Tool::penstock()
        .args(["serve", "-c"])
        .arg(server.directory().join("wrong.yaml"))
        .run();
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    std::fs::write(server.directory().join("penstock.yaml"), sound).unwrap();
    server.start_again(Signal::TERM);
    assert!(succession.get_small(&server, "/kept.mp4").starts_with("penstock; hit"));
    assert_eq!(succession.asked_for("/kept.mp4"), 1);
}
