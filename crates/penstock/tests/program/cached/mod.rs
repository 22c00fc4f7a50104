//! Sites with HTTP origins: cached in slices, filled once, followed while they come.

mod alone;
mod apart;
mod bucket;
mod contents;
mod crowded;
pub(crate) mod disk;
mod faults;
mod fills;
mod freshness;
mod half_close;
mod hits;
mod interim;
mod lies;
mod live;
pub(crate) mod low_latency;
mod names;
mod own_words;
mod packager;
pub(crate) mod passing;
mod paths;
mod policy;
mod purge;
mod query;
mod redirected;
mod restart;
mod secure;
mod servers;
mod signed;
mod targets;
pub(crate) mod unread;
mod uploads;
mod vary;

use penstock_testkit::origin::Origin;
use penstock_testkit::{Server, Setup};
use tempfile::TempDir;

/// A server in front of an origin, with small slices and a memory tier of its own.
struct Edge {
    server: Server,
    memory: TempDir,
}

const SLICE: usize = 64 * 1024;

impl Edge {
    fn before(sites: &str) -> Self {
        Self::with(sites, "4MiB")
    }

    fn with(sites: &str, size: &str) -> Self {
        Self::tuned(sites, size, &[])
    }

    /// The same with limits.
    fn tuned(sites: &str, size: &str, limits: &[&str]) -> Self {
        let memory = penstock_testkit::memory_directory();
        let directory = memory.path().display();
        let cache = format!("cache: {{slice: 64KiB, memory: {{directory: {directory}, size: {size}}}}}");
        let setup = Setup::new().sites(sites).section(&cache);
        let server = limits.iter().fold(setup, |setup, limit| setup.limits(limit)).start();
        // That origins fail is what many of these tests are about.
        server.tolerate_warning("is out: ");
        Self { server, memory }
    }

    fn of(origin: &Origin) -> Self {
        Self::before(&origin.sites())
    }

    /// Requests to the origin that ended so.
    fn fetched(&self, outcome: &str) -> f64 {
        self.server.metrics().sum("penstock_origin_requests_total", &[&format!("outcome=\"{outcome}\"")])
    }
}
