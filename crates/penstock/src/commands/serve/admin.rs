//! The admin listener: the console shows what the observatory has counted.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use penstock_config::{Admin, Config, limits};
use penstock_console::{Console, Health, Limits, Purge, PurgeError, Source};
use penstock_edge::metrics::Observatory;
use penstock_edge::{ChaCha20Status, PurgeFailure, PurgeOrder, PurgeWhat, Server};

use crate::failure::Failure;

/// Answers until it is dropped.
#[derive(Debug)]
pub(super) struct AdminListener {
    draining: Arc<AtomicBool>,
    console: Console,
}

/// Takes the port, if the configuration has an admin listener.
pub(super) fn bind(config: &Config) -> Result<Option<TcpListener>, Failure> {
    let Some(Admin { address }) = config.admin else { return Ok(None) };
    let socket = TcpListener::bind(address).map_err(|error| {
        let what =
            format!("cannot listen on {address} for the admin listener: {error}; choose another address");
        Failure::Config(vec![config.fault_at(Some(address), what)])
    })?;
    Ok(Some(socket))
}

impl AdminListener {
    /// Begins to answer.
    pub(super) fn start(socket: TcpListener, server: &Arc<Server>) -> Result<Self, Failure> {
        let draining = Arc::new(AtomicBool::new(false));
        let source = Shown {
            observatory: Arc::clone(server.observatory()),
            server: Arc::clone(server),
            draining: Arc::clone(&draining),
        };
        let limits = Limits {
            connections: limits::ADMIN_CONNECTIONS,
            deadline: Duration::from_secs(limits::ADMIN_DEADLINE_SECONDS),
            head_bytes: limits::ADMIN_HEAD_BYTES,
            accept_retry: Duration::from_millis(limits::ADMIN_ACCEPT_RETRY_MILLISECONDS),
        };
        let console = penstock_console::start(socket, Arc::new(source), limits);
        let console = console.map_err(Failure::machine("start the admin listener"))?;
        Ok(Self { draining, console })
    }

    /// Where it answers, with the port that the system chose.
    pub(super) fn address(&self) -> SocketAddr {
        self.console.address()
    }

    /// From now on load balancers are told to stay away.
    pub(super) fn set_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }
}

fn shown(status: ChaCha20Status) -> serde_json::Value {
    serde_json::json!({
        "mode": status.mode.name(),
        "set_by": if status.ordered { "admin" } else { "configuration" },
        "last_choice": status.is_last,
    })
}

/// What the console shows.
struct Shown {
    observatory: Arc<Observatory>,
    server: Arc<Server>,
    draining: Arc<AtomicBool>,
}

impl Source for Shown {
    fn metrics(&self) -> String {
        self.observatory.render()
    }

    fn status(&self) -> serde_json::Value {
        self.observatory.status()
    }

    fn chacha20(&self) -> serde_json::Value {
        shown(self.observatory.chacha20().status())
    }

    fn set_chacha20(&self, mode: &str) -> Result<serde_json::Value, String> {
        self.observatory.chacha20().order(mode).map(shown).map_err(|unknown| unknown.to_string())
    }

    fn purge(&self, purge: &Purge<'_>) -> Result<serde_json::Value, PurgeError> {
        let value = purge.value.to_owned();
        let what = match purge.kind {
            "url" => PurgeWhat::Url(value),
            "prefix" => PurgeWhat::Prefix(value),
            "tag" => PurgeWhat::Tag(value),
            _ => PurgeWhat::Everything,
        };
        match self.server.purge(&PurgeOrder { what, soft: purge.soft }) {
            Ok(purged) => Ok(serde_json::json!({"purged": purged.objects, "soft": purge.soft})),
            Err(PurgeFailure::Wrong(what)) => Err(PurgeError::Wrong(what)),
            Err(failure) => Err(PurgeError::Failed(failure.to_string())),
        }
    }

    fn health(&self) -> Health {
        if self.draining.load(Ordering::Relaxed) { Health::Draining } else { Health::Ready }
    }
}
