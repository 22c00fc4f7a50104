//! What players say (CMCD), what they are told (CMSD, steering), and what is fetched ahead for them.

mod cmcd;
mod cmsd;
mod prefetch;
mod steering;

use penstock_testkit::origin::Origin;
use penstock_testkit::{Server, Setup};
use tempfile::TempDir;

/// A server with a cache of its own.
struct Edge {
    server: Server,
    _memory: TempDir,
}

impl Edge {
    fn before(sites: &str) -> Self {
        let memory = penstock_testkit::memory_directory();
        let directory = memory.path().display();
        let cache = format!("cache: {{slice: 64KiB, memory: {{directory: {directory}, size: 8MiB}}}}");
        let server = Setup::new().sites(sites).section(&cache).start();
        Self { server, _memory: memory }
    }
}

/// The targets that an origin was asked for.
fn targets(origin: &Origin) -> Vec<String> {
    origin.asked().iter().map(|head| penstock_testkit::origin::target(head).to_owned()).collect()
}

/// What a player says in the query: the list, percent-encoded.
fn in_query(list: &str) -> String {
    let encoded: String = list.bytes().map(|byte| format!("%{byte:02X}")).collect();
    format!("CMCD={encoded}")
}
