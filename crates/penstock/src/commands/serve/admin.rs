//! The admin listener: connects the console with the server.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, SystemTime};

use penstock_config::{Admin, AdminAddress, Config, limits};
use penstock_console::{AdminSocket, Backend, Console, Look, OrderError, Readiness, Token};
use penstock_edge::metrics::Watch;
use penstock_edge::{
    ChaCha20Status, FleetReport, NodeSummary, PeerOutcome, PeerStatus, PurgeFailure, PurgeOrder, Server,
};
use penstock_sys::lock::Unpoisoned;

use crate::admin_socket;
use crate::commands::serve::revocation_end::revocation_end;
use crate::console_limits::console_limits;
use crate::failure::Failure;

/// Serves until it is dropped.
#[derive(Debug)]
pub(super) struct AdminListener {
    /// For a successor.
    socket: io::Result<AdminSocket>,
    backend: Arc<ServerBackend>,
    console: Console,
}

/// The socket of the process before, if it has the address of the admin listener.
pub(super) fn inherit(admin: &Admin, socket: Option<AdminSocket>) -> Option<AdminSocket> {
    let socket = socket?;
    let is_same = match (&admin.address, &socket) {
        (AdminAddress::Tcp(wanted), AdminSocket::Tcp(socket)) => {
            let address = socket.local_addr().ok()?;
            match wanted.port() {
                0 => address.ip() == wanted.ip(),
                _ => address == *wanted,
            }
        }
        (AdminAddress::Unix(_), AdminSocket::Unix(_)) => socket.name().ok()? == admin.address.to_string(),
        (AdminAddress::Tcp(_) | AdminAddress::Unix(_), _) => false,
    };
    is_same.then_some(socket)
}

/// Opens the socket of the admin listener.
pub(super) fn bind(admin: &Admin, config: &Config) -> Result<AdminSocket, Failure> {
    let address = &admin.address;
    admin_socket::bind(admin).map_err(|error| {
        let what =
            format!("cannot listen on {address} for the admin listener: {error}; choose another address");
        Failure::of_start(config.fault_at(address.tcp(), what), Some(&error))
    })
}

impl AdminListener {
    /// Starts to serve on a socket.
    pub(super) fn start(socket: AdminSocket, admin: &Admin, server: &Arc<Server>) -> Result<Self, Failure> {
        let backend = Arc::new(ServerBackend {
            server: Arc::clone(server),
            draining: AtomicBool::new(false),
            access: RwLock::new(Access::of(admin)),
        });
        let for_successor = socket.try_clone();
        let console = Console::start(socket, Arc::clone(&backend) as Arc<dyn Backend>, console_limits());
        let console = console.map_err(Failure::machine("start the admin listener"))?;
        Ok(Self { socket: for_successor, backend, console })
    }

    /// Its socket, for a successor.
    ///
    /// # Errors
    /// When the system has no further descriptor.
    pub(super) fn socket(&self) -> io::Result<AdminSocket> {
        match &self.socket {
            Ok(socket) => socket.try_clone(),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        }
    }

    /// Where it listens, with the port that the system chose.
    pub(super) fn address(&self) -> &str {
        self.console.address()
    }

    /// Puts other names and another token of the listener in force.
    pub(super) fn set_access(&self, admin: &Admin) {
        *self.backend.access.write().unpoisoned() = Access::of(admin);
    }

    /// Makes health checks fail from now on.
    pub(super) fn set_draining(&self) {
        self.backend.draining.store(true, Ordering::Relaxed);
    }
}

fn shown_node(node: &PeerStatus, summary: Option<&NodeSummary>) -> serde_json::Value {
    let outcomes = PeerOutcome::ALL.map(PeerOutcome::label).into_iter().zip(node.requests);
    let requests: serde_json::Map<_, _> =
        outcomes.map(|(outcome, count)| (outcome.to_owned(), count.into())).collect();
    serde_json::json!({
        "name": node.name,
        "self": node.own,
        "weight": node.weight,
        "up": node.up,
        "leaving": node.leaving,
        "load": node.load.requests,
        "connections": node.load.connections,
        "busy": node.load.busy as f64 / 1000.0,
        "purges_missed": node.purges_missed,
        "fault": if node.up { "" } else { &node.fault },
        "requests": requests,
        "summary": summary.map(NodeSummary::status),
    })
}

fn shown(status: ChaCha20Status) -> serde_json::Value {
    serde_json::json!({
        "mode": status.mode.name(),
        "set_by": if status.ordered { "admin" } else { "configuration" },
        "last_choice": status.is_last,
    })
}

/// How long an order waits for the other edges of the fleet.
fn patience(confirm: bool) -> Duration {
    Duration::from_millis(if confirm { limits::FLEET_CONFIRMATION_MILLISECONDS } else { 0 })
}

/// How far an order got in the fleet.
fn far(report: &FleetReport) -> serde_json::Value {
    let missing = report.edges.iter().filter(|(_, applied)| !applied).map(|(edge, _)| {
        serde_json::json!({"name": edge.name, "present": edge.is_present, "seen_seconds_ago": edge.seen_seconds})
    });
    serde_json::json!({
        "published": report.is_published,
        "edges": report.edges.len(),
        "applied": report.edges.iter().filter(|(_, applied)| *applied).count(),
        "missing": missing.collect::<Vec<_>>(),
    })
}

/// The server as the console sees it.
struct ServerBackend {
    server: Arc<Server>,
    draining: AtomicBool,
    access: RwLock<Access>,
}

/// Which requests are answered.
struct Access {
    /// DNS names of the admin listener.
    hosts: Vec<String>,
    token: Option<Token>,
}

impl Access {
    fn of(admin: &Admin) -> Self {
        let token = admin.token.as_ref().map(|token| Token::new(token.expose()));
        Self { hosts: admin.hosts.clone(), token }
    }
}

impl fmt::Debug for ServerBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBackend").finish_non_exhaustive()
    }
}

impl Backend for ServerBackend {
    fn metrics(&self) -> String {
        self.server.collector().render()
    }

    fn status(&self) -> serde_json::Value {
        let mut status = self.server.collector().status();
        status["fleet"] = self.server.collector().fleet_status();
        let nodes = self.server.nodes();
        if !nodes.is_empty() {
            let summaries = self.server.collector().node_summaries();
            let shown = |node: &PeerStatus| shown_node(node, summaries.get(&node.name));
            status["cluster"] = nodes.iter().map(shown).collect();
        }
        status
    }

    fn chacha20(&self) -> serde_json::Value {
        shown(self.server.collector().chacha20().status())
    }

    fn set_chacha20(&self, mode: &str) -> Result<serde_json::Value, String> {
        self.server.collector().chacha20().order(mode).map(shown).map_err(|unknown| unknown.to_string())
    }

    fn purge(&self, order: &PurgeOrder, confirm: bool) -> Result<serde_json::Value, OrderError> {
        match self.server.purge(order, patience(confirm)) {
            Ok((purged, report)) => {
                let mut answer = serde_json::json!({"purged": purged.objects, "soft": order.soft});
                if let Some(nodes) = purged.cluster {
                    answer["cluster"] =
                        serde_json::json!({"confirmed": nodes.confirmed, "missing": nodes.missing});
                }
                if let Some(report) = report {
                    answer["fleet"] = far(&report);
                }
                Ok(answer)
            }
            Err(PurgeFailure::Wrong(what)) => Err(OrderError::Wrong(what)),
            Err(failure) => Err(OrderError::Failed(failure.to_string())),
        }
    }

    fn revoke(&self, ids: &[String], expires: &str, confirm: bool) -> Result<serde_json::Value, OrderError> {
        let end = revocation_end(expires, SystemTime::now()).map_err(OrderError::Wrong)?;
        if ids.len() > limits::REVOKED_IDS_PER_ORDER {
            let most = limits::REVOKED_IDS_PER_ORDER;
            return Err(OrderError::Wrong(format!("{} ids; {most} are possible at once", ids.len())));
        }
        let Some(report) = self.server.revoke(ids, end, patience(confirm)) else {
            let what = "there is no fleet: add fleet: {valkey: URL, secret: FILE}, or write ids to the file of tokens.revoked";
            return Err(OrderError::Wrong(what.to_owned()));
        };
        Ok(serde_json::json!({"revoked": ids.len(), "expires": end, "fleet": far(&report)}))
    }

    fn series(&self) -> Vec<&'static str> {
        Watch::series()
    }

    fn second(&self) -> Vec<f32> {
        self.server.collector().look()
    }

    fn look(&self) -> Option<Look> {
        let server = Arc::clone(&self.server);
        Some(Box::new(move || server.collector().look_at_work()))
    }

    fn token(&self) -> Option<Token> {
        self.access.read().unpoisoned().token
    }

    fn readiness(&self) -> Readiness {
        if self.draining.load(Ordering::Relaxed) { Readiness::Draining } else { Readiness::Ready }
    }

    fn is_own_name(&self, name: &str) -> bool {
        self.access.read().unpoisoned().hosts.iter().any(|own| own == name)
    }
}
