//! The disk tier under the real program: what goes there, survives there, and breaks there.

use std::fs;
use std::path::{Path, PathBuf};

use penstock_testkit::origin::{Origin, file};
use penstock_testkit::{Client, Content, Metrics, Server, Setup, until};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::mounted::Mounted;

/// A server in front of an origin with small slices, little memory and a disk.
pub(crate) struct Tiered {
    pub(crate) server: Server,
    memory: TempDir,
    pub(crate) disk: TempDir,
}

const FRESH: &str = "ETag: \"v1\"\r\nCache-Control: max-age=600\r\n";

fn setup(origin: &Origin, memory: &Path, disk: &Path) -> Setup {
    let (memory, disk) = (memory.display(), disk.display());
    let cache = format!(
        "cache: {{slice: 64KiB, memory: {{directory: {memory}, size: 1MiB}}, disk: [{{directory: {disk}, size: 16MiB}}]}}"
    );
    Setup::new().sites(&origin.sites()).section(&cache)
}

impl Tiered {
    pub(crate) fn of(origin: &Origin) -> Self {
        let memory = penstock_testkit::memory_directory();
        let disk = penstock_testkit::disk_directory();
        Self { server: setup(origin, memory.path(), disk.path()).start(), memory, disk }
    }

    fn count(&self, event: &str) -> f64 {
        events(&self.server.metrics(), event)
    }

    /// Asks until the disk has all of it: twice, or more often where little waits to be written at a time.
    pub(crate) fn have_on_disk(&self, path: &str, body: &Content) {
        const SLICE: u64 = 64 * 1024;
        let mut client = Client::plain(&self.server);
        for start in (0..body.len).step_by(64 * 1024) {
            let range = start..body.len.min(start + SLICE);
            let before = self.count("written");
            until("it is on the disk", || {
                let got = client.get_range(path, range.start, range.end - 1);
                assert_eq!(got.status, 206);
                body.assert_range(range.clone(), &got.body);
                (self.count("written") > before).then_some(())
            });
        }
    }

    /// As after a reboot: what was in memory is gone.
    fn start_without_memory(&mut self, origin: &Origin) {
        let memory = penstock_testkit::memory_directory();
        self.server.configure(&setup(origin, memory.path(), self.disk.path()));
        self.server.start_again(Signal::KILL);
        self.memory = memory;
        self.server.wait_for_log("the disk tier in");
    }

    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.disk.path()).unwrap().map(|file| file.unwrap().path());
        files.filter(|path| path.to_str().unwrap().contains("/segment-")).collect()
    }
}

fn events(metrics: &Metrics, event: &str) -> f64 {
    metrics.sum("penstock_cache_disk_slices_total", &[&format!("event=\"{event}\"")])
}

pub(crate) fn film(body: &Content) -> Origin {
    let bytes = body.all();
    Origin::start(move |head, _, stream| file(head, stream, FRESH, &bytes))
}

#[test]
fn an_object_requested_twice_survives_a_reboot_on_disk_and_comes_back_to_memory() {
    let body = Content::new(51, 600_001);
    let origin = film(&body);
    let mut tiered = Tiered::of(&origin);
    tiered.have_on_disk("/film.mp4", &body);
    let asked = origin.asked().len();
    tiered.start_without_memory(&origin);
    let first = Client::tls(&tiered.server).get("/film.mp4");
    assert!(first.field("Cache-Status").unwrap().starts_with("penstock; hit"));
    body.assert_range(0..600_001, &first.body);
    // The only request over TLS so far.
    let line = until("its line in the access log", || {
        tiered.server.access_log().into_iter().find(|line| line["tls"].is_object())
    });
    assert_eq!((&line["tier"], &line["upstream"]), (&"disk".into(), &serde_json::Value::Null), "{line}");
    let range = Client::plain(&tiered.server).get_range("/film.mp4", 300_000, 300_099);
    body.assert_range(300_000..300_100, &range.body);
    assert!(tiered.count("read") >= 10.0);
    body.assert_range(0..600_001, &Client::plain(&tiered.server).get("/film.mp4").body);
    until("it is back in memory", || (tiered.count("promoted") >= 10.0).then_some(()));
    body.assert_range(0..600_001, &Client::tls(&tiered.server).get("/film.mp4").body);
    assert_eq!(origin.asked().len(), asked, "the origin was not asked again");
}

#[test]
fn an_object_requested_once_is_not_written() {
    let body = Content::new(52, 300_000);
    let origin = film(&body);
    let tiered = Tiered::of(&origin);
    for number in 0..10 {
        body.assert_range(0..300_000, &Client::plain(&tiered.server).get(&format!("/{number}")).body);
    }
    assert_eq!(tiered.server.metrics().sum("penstock_cache_disk_slices", &[]), 0.0);
}

#[test]
fn more_than_memory_holds_is_sent_from_disk() {
    let body = Content::new(53, 3_000_000);
    let origin = film(&body);
    let tiered = Tiered::of(&origin);
    tiered.have_on_disk("/film.mp4", &body);
    let asked = origin.asked().len();
    for _ in 0..3 {
        body.assert_range(0..3_000_000, &Client::tls(&tiered.server).get("/film.mp4").body);
        body.assert_range(0..3_000_000, &Client::plain(&tiered.server).get("/film.mp4").body);
    }
    assert_eq!(origin.asked().len(), asked, "the tiers had it all");
}

#[test]
fn damaged_slices_on_the_disk_are_fetched_again() {
    let body = Content::new(54, 400_000);
    let origin = film(&body);
    let mut tiered = Tiered::of(&origin);
    tiered.have_on_disk("/film.mp4", &body);
    let asked = origin.asked().len();
    tiered.server.signal(Signal::KILL);
    tiered.server.wait();
    for path in tiered.segments() {
        let mut bytes = fs::read(&path).unwrap();
        for place in (1000..bytes.len()).step_by(40_000) {
            bytes[place] ^= 1;
        }
        fs::write(path, bytes).unwrap();
    }
    tiered.start_without_memory(&origin);
    for _ in 0..2 {
        body.assert_range(0..400_000, &Client::plain(&tiered.server).get("/film.mp4").body);
    }
    assert!(origin.asked().len() > asked);
    assert!(tiered.count("damaged") > 0.0);
    assert_eq!(tiered.server.metrics().sum("penstock_cache_disk_in_service", &[]), 1.0);
}

#[test]
fn a_disk_whose_directory_vanishes_is_left_out_and_serving_goes_on() {
    let body = Content::new(55, 300_000);
    let origin = film(&body);
    let tiered = Tiered::of(&origin);
    tiered.have_on_disk("/film.mp4", &body);
    tiered.server.expect_warning("is out of service until the next start");
    fs::remove_dir_all(tiered.disk.path()).unwrap();
    let in_service = || tiered.server.metrics().sum("penstock_cache_disk_in_service", &[]);
    until("it is noticed", || (in_service() == 0.0).then_some(()));
    for number in 0..10 {
        body.assert_range(0..300_000, &Client::plain(&tiered.server).get(&format!("/{number}")).body);
    }
    tiered.server.logs("out of service", 1);
}

#[test]
fn a_disk_that_is_missing_at_the_start_does_not_keep_the_server_from_serving() {
    let body = Content::new(56, 100_000);
    let origin = film(&body);
    let memory = penstock_testkit::memory_directory();
    let server = setup(&origin, memory.path(), Path::new("/proc/nowhere")).start();
    server.expect_warning("is out of service until the next start");
    body.assert_range(0..100_000, &Client::plain(&server).get("/film.mp4").body);
    assert_eq!(server.metrics().sum("penstock_cache_disk_in_service", &[]), 0.0);
}

#[test]
fn a_full_file_system_takes_the_disk_out_and_nothing_else() {
    let Some(mount) = Mounted::new("128k") else { return };
    let body = Content::new(57, 300_000);
    let origin = film(&body);
    let memory = penstock_testkit::memory_directory();
    let server = setup(&origin, memory.path(), &mount.path().join("disk")).start();
    server.expect_warning("cannot write: No space left on device");
    for _ in 0..3 {
        body.assert_range(0..300_000, &Client::plain(&server).get("/film.mp4").body);
    }
    let in_service = || server.metrics().sum("penstock_cache_disk_in_service", &[]);
    until("it is noticed", || (in_service() == 0.0).then_some(()));
    body.assert_range(0..300_000, &Client::tls(&server).get("/film.mp4").body);
}

#[test]
fn downloads_go_past_a_memory_tier_whose_file_system_others_fill() {
    const LENGTH: u64 = 6 << 20;
    let Some(mount) = Mounted::new("16m") else { return };
    let body = Content::new(58, LENGTH);
    let origin = film(&body);
    let directory = mount.path().join("tier");
    let cache =
        format!("cache: {{slice: 64KiB, memory: {{directory: {}, size: 12MiB}}}}", directory.display());
    let server = Setup::new().sites(&origin.sites()).section(&cache).start();
    std::thread::scope(|scope| {
        let mut begun = Vec::new();
        for number in 0..20 {
            let mut client = Client::plain(&server);
            client.begin(&format!("/film{number}.mp4"));
            begun.push((client.take(100_000).unwrap(), client));
        }
        let mut other = fs::File::create(mount.path().join("other")).unwrap();
        while std::io::Write::write_all(&mut other, &[1; 4096]).is_ok() {}
        let body = &body;
        for (mut bytes, mut client) in begun {
            scope.spawn(move || {
                let rest = usize::try_from(LENGTH).unwrap() - bytes.len();
                bytes.extend(client.take(rest).unwrap());
                body.assert_range(0..LENGTH, &bytes);
            });
        }
    });
}
