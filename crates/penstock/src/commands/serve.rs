//! `penstock serve`: starts all parts in order, then waits for signals.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use penstock_config::{Admin, Config, Fault, Fleet};
use penstock_console::AdminSocket;
use penstock_edge::{Inheritance, InheritedSockets, ListenSocket, Server, StartError};
use penstock_sys::machine::{Machine, TlsModule};
use penstock_sys::socket::given_listeners;
use tokio::sync::oneshot;

use crate::advice::Circumstances;
use crate::arguments::ServeArgs;
use crate::control::{Control, HandOverOutcome, Service};
use crate::failure::Failure;
use crate::succession::{Accepted, Estate, Predecessor, PredecessorEnd, Program, WaitStop};
use crate::{descriptors, findings, logging, ports, privileges, self_signed, systemd, terminal};

mod admin;
mod calibration;
mod domain;
mod hand_over;
mod log_pipe;
mod revocation_end;

use admin::AdminListener;
use hand_over::SuccessorState;

/// The port without a configuration file.
const DEFAULT_PORT: u16 = 8443;

/// How much longer than its own responses a process that stops waits for the one before it.
const PREDECESSOR_MARGIN: Duration = Duration::from_secs(5);

pub(crate) fn run(arguments: &ServeArgs) -> Result<(), Failure> {
    let program = Program::of_this_process();
    let predecessor = Predecessor::of_this_process();
    let predecessor = predecessor.map_err(Failure::machine("speak with the process before"))?;
    let config = configuration(arguments)?;
    let given = given_listeners().map_err(Failure::machine("take the sockets of LISTEN_FDS"))?;
    let of_manager = given.into_iter().map(ListenSocket::from).collect();
    let sockets = InheritedSockets { of_manager, ..InheritedSockets::default() };
    descriptors::raise();
    if arguments.from.config.is_some() {
        descriptors::compare_with(&config);
    }
    let circumstances = Circumstances::read();
    warn(&config, &circumstances);

    // Signals first, so that none is lost during the start.
    let control = Control::new().map_err(Failure::machine("listen for signals"))?;
    privileges::give_up(&config)?;
    logging::detach().map_err(Failure::machine("start a thread"))?;
    let log_pipe = log_pipe::hold(&config)?;
    let estate = match &predecessor {
        Some(predecessor) => {
            predecessor.begin().map_err(Failure::machine("take over from the process before"))?
        }
        None => Estate { inheritance: Inheritance { sockets, ..Inheritance::default() }, admin: None },
    };
    if arguments.from.config.is_some() && estate.is_empty() {
        ports::wait_while_in_use(ports::addresses(&config));
    }
    let Estate { inheritance, admin: admin_socket } = estate;
    let open = |admin| admin::inherit(admin, admin_socket).map_or_else(|| admin::bind(admin, &config), Ok);
    let admin_socket = config.admin.as_ref().map(open).transpose()?;
    let server = Server::succeed(&config, inheritance).map_err(|error| start_failure(error, &config))?;
    drop(log_pipe);
    let server = Arc::new(server);
    let admin = match (admin_socket, &config.admin) {
        (Some(socket), Some(admin)) => Some(AdminListener::start(socket, admin, &server)?),
        _ => None,
    };
    log_start(arguments, &config, &server, admin.as_ref());
    // It tells the service manager which process is the main one.
    let predecessor = predecessor.map(|predecessor| predecessor.succeed(&server)).transpose();
    let predecessor = predecessor.map_err(Failure::machine("start a thread"))?;
    if predecessor.is_none() {
        systemd::ready();
    }
    if config.listeners.iter().any(|listener| listener.tls) {
        calibration::start(Arc::clone(server.collector()));
    }
    let file = arguments.from.config.clone();
    let successor = SuccessorState::None;
    let wait_stop = None;
    control.run(Running { server, admin, file, config, program, predecessor, wait_stop, successor });
    Ok(())
}

fn warn(config: &Config, circumstances: &Circumstances) {
    for found in findings::at_start(config, circumstances) {
        tracing::warn!("{}", found.fault);
    }
}

fn configuration(arguments: &ServeArgs) -> Result<Config, Failure> {
    if let Some(file) = &arguments.from.config {
        return Config::load(file).map_err(Failure::Config);
    }
    if let (Some(root), false) = (&arguments.from.root, arguments.domain.domain.is_empty()) {
        let mut config =
            domain::configuration(root, &arguments.domain, &arguments.listen).map_err(Failure::Config)?;
        change(&mut config, arguments);
        return Ok(config);
    }
    let addresses = listen_addresses(&arguments.listen);
    let certificate = if arguments.plain {
        None
    } else {
        let made = self_signed::certificate(&addresses, SystemTime::now());
        Some(made.map_err(|error| Failure::machine("make a certificate")(io::Error::other(error)))?)
    };
    // Clap asks for one of the two, so the root is there; an empty path would be reported as missing.
    let root = arguments.from.root.as_deref().unwrap_or_else(|| Path::new(""));
    let mut config =
        Config::for_directory(root, &addresses, certificate).map_err(|fault| Failure::Config(vec![fault]))?;
    change(&mut config, arguments);
    Ok(config)
}

/// Applies the options that stand for keys of a configuration file.
fn change(config: &mut Config, arguments: &ServeArgs) {
    config.workers = arguments.workers.unwrap_or(config.workers);
    config.admin = arguments.admin.clone().map(Admin::at);
}

/// Both loopback addresses unless others are given: `localhost` may mean either.
fn listen_addresses(given: &[SocketAddr]) -> Vec<SocketAddr> {
    if !given.is_empty() {
        return given.to_vec();
    }
    let loopback: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let exists = |ip: &IpAddr| TcpListener::bind((*ip, 0)).is_ok();
    let found: Vec<IpAddr> = loopback.into_iter().filter(exists).collect();
    let usable = if found.is_empty() { &loopback[..1] } else { &found };
    usable.iter().map(|ip| SocketAddr::new(*ip, DEFAULT_PORT)).collect()
}

/// Attributes a start error to the configuration or to the machine.
fn start_failure(error: StartError, config: &Config) -> Failure {
    match error {
        StartError::Thread(source) => Failure::Machine { action: "start a thread".to_owned(), source },
        StartError::Randomness(error) => {
            let source = io::Error::other(error.to_string());
            Failure::Machine { action: "make a session ticket key".to_owned(), source }
        }
        StartError::Listen(error) => Failure::of_start(ports::fault(config, &error), Some(&error.source)),
        StartError::Kernel(_) => Failure::Config(vec![kernel_fault(error.to_string(), config)]),
        StartError::Storage(_) => {
            let instead =
                "let this user write there, or name another directory: storage of tls.acme, or --storage";
            let fault = config.fault_at(None, error.to_string());
            Failure::of_start(Fault { instead: instead.to_owned(), ..fault }, error.system_error())
        }
        StartError::UnusedSocket(_)
        | StartError::Site(_)
        | StartError::RemoteKeys(_)
        | StartError::SelfSigned(_)
        | StartError::Cache(_)
        | StartError::Tls(_)
        | StartError::KeyLog { .. }
        | StartError::AccessLog { .. } => {
            Failure::of_start(config.fault_at(None, error.to_string()), error.system_error())
        }
    }
}

/// The remedy of a kernel without TLS depends on whether its module is installed.
fn kernel_fault(what: String, config: &Config) -> Fault {
    match Machine::read().kernel_tls.module {
        TlsModule::Missing => Fault {
            instead: "write kernel: auto or off, or boot a kernel with CONFIG_TLS".to_owned(),
            ..config.fault_at(
                None,
                "tls.kernel is `on`, but this kernel has no TLS, nor a module for it".to_owned(),
            )
        },
        TlsModule::Present | TlsModule::Loadable | TlsModule::Unknown => config.fault_at(None, what),
    }
}

/// Announces the addresses: in the log with a configuration file, as clickable URLs without one.
fn log_start(arguments: &ServeArgs, config: &Config, server: &Server, admin: Option<&AdminListener>) {
    let addresses = server.addresses();
    let Some(root) = &arguments.from.root else {
        for (address, listener) in addresses.iter().zip(&config.listeners) {
            tracing::info!("listening on {address}, {}", if listener.tls { "HTTPS" } else { "HTTP" });
        }
        if let Some(cluster) = &config.cluster {
            tracing::info!("listening on {}, nodes of the cluster", cluster.listener.address);
        }
        if let Some(admin) = admin {
            tracing::info!("listening on {}, admin", admin.address());
        }
        tracing::info!("ready, workers: {}", config.workers);
        return;
    };
    for name in &arguments.domain.domain {
        terminal::say(&format!("Serving {} at https://{name}/", root.display()));
    }
    for address in addresses.into_iter().filter(|_| arguments.domain.domain.is_empty()) {
        terminal::say(&format!("Serving {} at {}", root.display(), url(address, !arguments.plain)));
    }
    if let Some(admin) = admin {
        let address = admin.address();
        terminal::say(&match address.strip_prefix("unix:") {
            Some(path) => format!("Metrics: curl --unix-socket {path} http://localhost/metrics"),
            None => format!("Metrics at http://{address}/metrics"),
        });
    }
    if !arguments.domain.domain.is_empty() {
        terminal::say("The certificate is ordered now; until then it is self-signed.");
    } else if !arguments.plain {
        terminal::say("The certificate is self-signed, so browsers ask before they trust it.");
    }
    terminal::say("Ctrl-C stops.");
}

/// The URL for a browser on this machine.
fn url(address: SocketAddr, tls: bool) -> String {
    let (scheme, default_port) = if tls { ("https", 443) } else { ("http", 80) };
    let host = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() || ip == Ipv4Addr::LOCALHOST => "localhost".to_owned(),
        IpAddr::V6(ip) if ip.is_unspecified() => "[::1]".to_owned(),
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    match address.port() {
        port if port == default_port => format!("{scheme}://{host}/"),
        port => format!("{scheme}://{host}:{port}/"),
    }
}

/// The running server, and the parts that a reload may replace.
struct Running {
    server: Arc<Server>,
    admin: Option<AdminListener>,
    /// The configuration file; `None` if there is none.
    file: Option<PathBuf>,
    config: Config,
    /// How this process was started.
    program: io::Result<Program>,
    /// Until this process ends.
    predecessor: Option<PredecessorEnd>,
    /// While the process waits for that one.
    wait_stop: Option<WaitStop>,
    successor: SuccessorState,
}

impl Service for Running {
    fn reload(&mut self) {
        let Some(file) = self.file.clone() else {
            tracing::info!("nothing to reload: this server was started without a configuration file");
            return;
        };
        match self.apply(&file) {
            Ok(()) => tracing::info!("reloaded {}", file.display()),
            Err(failure) => {
                failure.to_string().lines().for_each(|line| tracing::error!("{line}"));
                tracing::error!("kept the running configuration");
            }
        }
    }

    fn waits_for_tiers(&self) -> bool {
        self.server.waits_for_tiers()
    }

    fn adopt_tiers(&mut self) {
        match self.server.adopt_tiers(&self.config) {
            Ok(false) => {}
            Ok(true) => tracing::info!("the cache has its tiers: the process before has ended"),
            Err(error) => tracing::error!("cannot use the tiers of the process before: {error}"),
        }
    }

    fn reopen_logs(&mut self) {
        match log_pipe::hold(&self.config) {
            Ok(_pipe) => {
                self.server.reopen_logs();
                tracing::info!("reopening the access log");
            }
            Err(failure) => failure.to_string().lines().for_each(|line| tracing::error!("{line}")),
        }
    }

    fn may_hand_over(&self) -> bool {
        !self.server.waits_for_tiers() && !self.server.has_predecessor()
    }

    fn begin_hand_over(&mut self) -> Option<oneshot::Receiver<HandOverOutcome>> {
        match self.start_successor() {
            Ok(outcome) => Some(outcome),
            Err(error) => {
                tracing::error!(
                    "not handed over: cannot start the new process: {error}; this process goes on"
                );
                None
            }
        }
    }

    fn end_successor(&mut self) {
        self.successor.end();
    }

    fn complete_hand_over(&mut self, successor: Accepted) -> Duration {
        self.leave_to(successor)
    }

    fn has_lost_successor(&mut self) -> bool {
        self.successor.has_failed()
    }

    fn take_back(&mut self) -> bool {
        self.serve_again()
    }

    fn is_empty(&self) -> bool {
        self.server.open_connections() == 0
    }

    fn tell_changes(&mut self) {
        if let SuccessorState::Accepts(successor) = &self.successor {
            successor.tell_changes(&self.server);
        }
    }

    fn tell_successor(&mut self) {
        self.tell_changes();
        if let SuccessorState::Accepts(successor) = &self.successor {
            successor.tell_busy(&self.server);
        }
    }

    fn begin_lame_duck(&mut self) -> Duration {
        let longest = self.config.limits.lame_duck;
        if longest.is_zero() || self.may_drain() {
            return Duration::ZERO;
        }
        if let Some(admin) = &self.admin {
            admin.set_draining();
        }
        self.server.lame_duck();
        longest
    }

    fn may_drain(&self) -> bool {
        // Players that are steered away come with new connections until they know.
        let steers = self.config.cluster.is_some()
            && self.config.sites.iter().any(|site| site.settings.players.steering.is_some());
        let is_checked =
            steers || self.admin.is_some() || self.config.listeners.iter().any(|one| one.health.is_some());
        !is_checked && self.server.open_connections() == 0
    }

    fn drain(&mut self) -> Duration {
        // A successor needs the admin port at once.
        if let Some(admin) = self.admin.take() {
            admin.set_draining();
        }
        self.server.drain();
        self.config.limits.drain_deadline
    }

    fn wait(&mut self) -> impl FnOnce() + Send + 'static {
        let server = Arc::clone(&self.server);
        let predecessor = self.predecessor.take().filter(PredecessorEnd::is_awaited);
        self.wait_stop = predecessor.as_ref().map(PredecessorEnd::wait_stop);
        let longest = self.config.limits.drain_deadline + PREDECESSOR_MARGIN;
        let begin = Instant::now();
        move || {
            server.wait();
            // A service manager ends the rest of its processes as soon as the main one has ended.
            if let Some(predecessor) = predecessor {
                tracing::info!("waiting for the process before, which still sends responses");
                predecessor.wait(longest.saturating_sub(begin.elapsed()));
            }
        }
    }

    fn stop(&mut self) {
        self.server.stop();
        self.wait_stop.iter().for_each(WaitStop::stop);
    }
}

impl Running {
    fn apply(&mut self, file: &Path) -> Result<(), Failure> {
        let config =
            Config::load(file).map_err(Failure::Config).inspect_err(|_| self.server.reload_failed())?;
        let _pipe = log_pipe::hold(&config).inspect_err(|_| self.server.reload_failed())?;
        let admin_socket = self.open_admin(&config).inspect_err(|_| self.server.reload_failed())?;
        if let Err(error) = self.server.reload(&config) {
            drop(admin_socket);
            self.restore_admin();
            return Err(start_failure(error, &config));
        }
        self.apply_admin(&config, admin_socket)?;
        warn(&config, &Circumstances::read());
        if config.user != self.config.user {
            tracing::warn!("user changes only with a restart");
        }
        if (config.workers, config.affinity) != (self.config.workers, self.config.affinity) {
            tracing::warn!("workers and affinity change only with a restart");
        }
        let changed = Fleet::changes(self.config.fleet.as_ref(), config.fleet.as_ref());
        if !changed.is_empty() {
            tracing::warn!("fleet: a change of {} takes effect with a restart only", changed.join(", "));
        }
        self.config = config;
        Ok(())
    }

    /// A socket for the admin listener if its address changed. The old listener is closed if it has the same port, of which the
    /// new address may be a part.
    fn open_admin(&mut self, config: &Config) -> Result<Option<AdminSocket>, Failure> {
        let old = self.config.admin.as_ref().filter(|_| self.admin.is_some());
        let is_open =
            |new: &&Admin| old.is_some_and(|old| (&old.address, old.mode) == (&new.address, new.mode));
        let Some(new) = config.admin.as_ref().filter(|new| !is_open(new)) else {
            return Ok(None);
        };
        let port = |admin: &Admin| admin.address.tcp().map(|address| address.port());
        if old.and_then(port).is_some_and(|old| port(new) == Some(old)) {
            self.admin = None;
        }
        admin::bind(new, config).map(Some).inspect_err(|_| self.restore_admin())
    }

    /// Opens the admin listener of the running configuration again, if it was closed for another one.
    fn restore_admin(&mut self) {
        let Some(admin) = self.config.admin.as_ref().filter(|_| self.admin.is_none()) else { return };
        let opened = admin::bind(admin, &self.config)
            .and_then(|socket| AdminListener::start(socket, admin, &self.server));
        match opened {
            Ok(listener) => self.admin = Some(listener),
            Err(failure) => failure.to_string().lines().for_each(|line| tracing::error!("{line}")),
        }
    }

    fn apply_admin(&mut self, config: &Config, socket: Option<AdminSocket>) -> Result<(), Failure> {
        match (&config.admin, socket) {
            (Some(admin), Some(socket)) => {
                self.admin = Some(AdminListener::start(socket, admin, &self.server)?);
            }
            (Some(admin), None) => {
                if let Some(running) = &self.admin {
                    running.set_access(admin);
                }
            }
            (None, _) => self.admin = None,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_can_be_clicked_on() {
        for (address, tls, wanted) in [
            ("127.0.0.1:8443", true, "https://localhost:8443/"),
            ("0.0.0.0:443", true, "https://localhost/"),
            ("[::]:443", true, "https://[::1]/"),
            ("[::1]:80", false, "http://[::1]/"),
            ("127.0.0.2:80", true, "https://127.0.0.2:80/"),
            ("192.0.2.1:8080", false, "http://192.0.2.1:8080/"),
        ] {
            assert_eq!(url(address.parse().unwrap(), tls), wanted);
        }
    }
}
