//! Edges that share a store: sessions, ticket keys, the strike register, purges and revoked tokens, and a store that fails.

mod census;
mod commands;
mod damage;
mod early;
mod hour;
mod interop;
mod lies;
mod logins;
mod purges;
mod revocations;
mod sessions;
mod store;
mod tickets;
mod upgrades;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use penstock_testkit::{Certificates, Server, Setup, Store, Tool, until};
use tempfile::TempDir;

const BODY: &str = "the bytes of a film\n";

/// A store, and what its edges have in common.
pub(crate) struct Fleet {
    pub(crate) store: Store,
    directory: TempDir,
}

impl Fleet {
    /// `None` if no store is installed.
    pub(crate) fn start() -> Option<Self> {
        Self::with(&[])
    }

    /// A fleet whose store has these options.
    fn with(options: &[&str]) -> Option<Self> {
        let fleet = Self { store: Store::start(options)?, directory: penstock_testkit::disk_directory() };
        let secret = fleet.directory.path().join("fleet.key");
        fs::write(&secret, "f".repeat(64)).unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        Some(fleet)
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Where an edge keeps its state.
    fn state(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// An edge of this name. `tls` are lines of that section. Its deadline is long, because this machine may be busy.
    fn setup(&self, name: &str, tls: &str) -> Setup {
        let url = format!("redis://{}", self.store.address());
        self.setup_at(&url, name, tls)
    }

    fn setup_at(&self, url: &str, name: &str, tls: &str) -> Setup {
        self.setup_with(&format!("valkey: \"{url}\", deadline: 1s"), name, tls)
    }

    /// An edge whose section `fleet` has these keys beside secret, name and state.
    fn setup_with(&self, keys: &str, name: &str, tls: &str) -> Setup {
        let state = self.state(name);
        fs::create_dir_all(&state).unwrap();
        fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
        let secret = self.path().join("fleet.key");
        Setup::new().tls(&format!("{}\n{tls}", Certificates::yaml(&["ec"]))).section(&format!(
            "fleet: {{{keys}, secret: {}, name: {name}, state: {}}}",
            secret.display(),
            state.display(),
        ))
    }

    /// Starts an edge and waits until it uses the store.
    pub(crate) fn edge(&self, name: &str, tls: &str) -> Server {
        serving(&self.setup(name, tls))
    }

    /// A file for the session of a client.
    fn session(&self, name: &str) -> String {
        self.path().join(name).to_str().unwrap().to_owned()
    }
}

/// Starts an edge with one small file and waits until it uses the store.
fn serving(setup: &Setup) -> Server {
    let server = setup.start();
    server.write("a.mp4", BODY);
    // A store may be slow on a busy machine, and many of these tests are about one that is not there.
    server.tolerate_warning("fleet: the store ");
    until_connected(&server);
    server
}

fn until_connected(server: &Server) {
    until("the store", || {
        let metrics = server.metrics();
        let up = metrics.sum("penstock_fleet_up", &[]) == 1.0;
        (up && metrics.sum("penstock_fleet_circuit_open", &[]) == 0.0).then_some(())
    });
}

/// Operations of an edge with this outcome.
fn operations(server: &Server, operation: &str, outcome: &str) -> f64 {
    let labels = [format!("operation=\"{operation}\""), format!("outcome=\"{outcome}\"")];
    server.metrics().sum("penstock_fleet_operations_total", &[&labels[0], &labels[1]])
}

/// Fetches the file by `openssl s_client`; says whether the session was `New` or `Reused`.
fn fetch(server: &Server, options: &[&str]) -> String {
    let request = b"GET /a.mp4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let client = Tool::s_client(server).args(["-ign_eof", "-servername", "localhost"]).args(options);
    let text = client.run_with_input(request).ok().text();
    assert!(text.contains(BODY), "{text}");
    let state = text.lines().find_map(|line| line.split_once(", TLSv1.")).unwrap_or_else(|| panic!("{text}"));
    state.0.to_owned()
}
