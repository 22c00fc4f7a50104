//! HTTP/2 as clients of other authors see it: curl and nghttp (nghttp2), the crate `h2`, Go, httpx (Python), h2spec; and as attackers
//! use it, frame by frame.

mod attacks;
mod bytes;
mod clients;
mod conformance;
mod held;
mod players;

use penstock_testkit::origin::Origin;
use penstock_testkit::{Server, Setup};
use tempfile::TempDir;

/// The usual server, whose plain listener speaks HTTP/2 to clients that know it.
fn setup() -> Setup {
    Setup::new().listeners(&["tls: true", "protocols: [h1, h2]"])
}

/// The directory of a memory tier, which has to outlive its server, and a server in front of an origin.
pub(crate) fn before(origin: &Origin, setup: Setup) -> (TempDir, Server) {
    let memory = penstock_testkit::memory_directory();
    let cache = format!("cache: {{memory: {{directory: {}, size: 32MiB}}}}", memory.path().display());
    let server = setup.sites(&origin.sites()).section(&cache).start();
    (memory, server)
}
