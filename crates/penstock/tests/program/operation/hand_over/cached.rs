//! A server with a cache in memory.

use penstock_testkit::origin::{Origin, file, target};
use penstock_testkit::{Client, Content, Server, Setup, until};
use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use crate::operation::players::FILM;

/// A server with a cache in memory, and its origin.
pub(super) struct Cached {
    origin: Origin,
    pub(super) small: Content,
    pub(super) large: Content,
    pub(super) server: Server,
    _memory: TempDir,
}

pub(super) const SMALL: u64 = 200_000;
/// A part of the memory tier, so that many small objects need its place.
pub(super) const CACHED: u64 = 10 << 20;

impl Cached {
    pub(super) fn start() -> Self {
        Self::start_with(|setup| setup)
    }

    /// The same with another setup.
    pub(super) fn start_with(change: impl FnOnce(Setup) -> Setup) -> Self {
        let (small, large) = (Content::new(71, SMALL), Content::new(72, CACHED));
        let (bodies, list) = ((small.all(), large.all()), FILM.as_bytes());
        let origin = Origin::start(move |head, _, stream| {
            let body = match target(head) {
                path if path.starts_with("/large") => &bodies.1,
                "/film/index.m3u8" => list,
                _ => &bodies.0,
            };
            file(head, stream, "Cache-Control: max-age=600\r\n", body)
        });
        let memory = penstock_testkit::memory_directory();
        let cache = format!("cache: {{memory: {{directory: {}, size: 16MiB}}}}", memory.path().display());
        let setup = Setup::new().sites(&origin.sites()).section(&cache);
        let server = change(setup.limits("drain_deadline: 1m, lame_duck: 0")).start();
        Self { origin, small, large, server, _memory: memory }
    }

    /// Asks for a small object; returns its `Cache-Status`.
    pub(super) fn status(&self, path: &str) -> String {
        let answer = Client::plain(&self.server).get(path);
        self.small.assert_range(0..SMALL, &answer.body);
        answer.field("Cache-Status").unwrap().to_owned()
    }

    /// Requests that have reached the origin.
    pub(super) fn asked(&self) -> usize {
        self.origin.asked().len()
    }

    /// Has a successor start, and returns its process without waiting until it is ready.
    pub(super) fn begin(&self, round: usize) -> Pid {
        let line = "handing over to process ";
        let begun = || self.server.log().iter().filter(|said| said.contains(line)).count();
        self.server.signal(Signal::USR2);
        until("the new process", || (begun() >= round).then_some(()));
        let log = self.server.log();
        let said = log.iter().rfind(|said| said.contains(line)).unwrap();
        let successor = said.split(line).nth(1).and_then(|rest| rest.split(',').next()).unwrap();
        Pid::from_raw(successor.parse().unwrap()).unwrap()
    }
}
