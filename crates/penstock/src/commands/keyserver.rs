//! `penstock keyserver`: signs TLS handshakes of other servers.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use penstock_config::{Admin, Fault, KeyserverConfig};
use penstock_console::{AdminSocket, Backend, Console, OrderError, Readiness, Token};
use penstock_edge::PurgeOrder;
use penstock_keyserver::{Keyserver, StartError};

use crate::admin_socket;
use crate::arguments::KeyserverArgs;
use crate::console_limits::console_limits;
use crate::control::{Control, Service};
use crate::failure::Failure;
use crate::ports::wait_while_in_use;
use crate::{descriptors, logging, systemd, terminal};

pub(crate) fn run(arguments: &KeyserverArgs) -> Result<(), Failure> {
    let config = KeyserverConfig::load(&arguments.config).map_err(Failure::Config)?;
    if arguments.check {
        config.warnings.iter().for_each(|warning| terminal::complain(&format!("{warning} (warning)")));
        terminal::say_well(&format!("{}: fine", arguments.config.display()));
        return Ok(());
    }
    descriptors::raise();
    config.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    // Signals first, so that none is lost during the start.
    let control = Control::new().map_err(Failure::machine("listen for signals"))?;
    logging::detach().map_err(Failure::machine("start a thread"))?;
    let admin = config.admin.iter().filter_map(|admin| admin.address.tcp());
    wait_while_in_use(admin.chain([config.address]));
    let admin_socket = config.admin.as_ref().map(|admin| bind(admin, arguments)).transpose()?;
    let keyserver = Keyserver::start(&config).map_err(|error| start_failure(error, arguments))?;
    let keyserver = Arc::new(keyserver);
    let console = match (admin_socket, &config.admin) {
        (Some(socket), Some(admin)) => Some(console(socket, admin, &keyserver)?),
        _ => None,
    };
    tracing::info!("listening on {}, keyserver", keyserver.address());
    if let Some((_, console)) = &console {
        tracing::info!("listening on {}, admin", console.address());
    }
    tracing::info!("ready, private keys: {}, threads: {}", keyserver.keys(), config.threads);
    systemd::ready();
    control.run(Running { keyserver, console, file: arguments.config.clone(), address: config.address });
    Ok(())
}

fn fault(arguments: &KeyserverArgs, what: String, cause: Option<&io::Error>) -> Failure {
    let file = arguments.config.clone();
    Failure::of_start(Fault { file, line: 0, column: 0, what, instead: String::new() }, cause)
}

fn bind(admin: &Admin, arguments: &KeyserverArgs) -> Result<AdminSocket, Failure> {
    admin_socket::bind(admin).map_err(|error| {
        let what = format!("cannot listen on {} for the admin listener: {error}", admin.address);
        fault(arguments, what, Some(&error))
    })
}

/// Attributes a start error to the configuration or to the machine.
fn start_failure(error: StartError, arguments: &KeyserverArgs) -> Failure {
    match error {
        StartError::Thread(source) => Failure::Machine { action: "start a thread".to_owned(), source },
        StartError::Listen(_, ref cause)
        | StartError::Directory(_, ref cause)
        | StartError::AccessLog(_, ref cause) => fault(arguments, error.to_string(), Some(cause)),
        StartError::Tls(_) => fault(arguments, error.to_string(), None),
    }
}

fn console(
    socket: AdminSocket,
    admin: &Admin,
    keyserver: &Arc<Keyserver>,
) -> Result<(Arc<KeyserverBackend>, Console), Failure> {
    let backend = Arc::new(KeyserverBackend {
        keyserver: Arc::clone(keyserver),
        draining: AtomicBool::new(false),
        hosts: admin.hosts.clone(),
        token: admin.token.as_ref().map(|token| Token::new(token.expose())),
    });
    let console = Console::start(socket, Arc::clone(&backend) as Arc<dyn Backend>, console_limits());
    Ok((backend, console.map_err(Failure::machine("start the admin listener"))?))
}

/// The keyserver as the console sees it.
struct KeyserverBackend {
    keyserver: Arc<Keyserver>,
    draining: AtomicBool,
    /// DNS names of the admin listener.
    hosts: Vec<String>,
    token: Option<Token>,
}

impl Backend for KeyserverBackend {
    fn metrics(&self) -> String {
        self.keyserver.metrics()
    }

    fn status(&self) -> serde_json::Value {
        self.keyserver.status()
    }

    fn readiness(&self) -> Readiness {
        if self.draining.load(Ordering::Relaxed) { Readiness::Draining } else { Readiness::Ready }
    }

    fn chacha20(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    fn set_chacha20(&self, _mode: &str) -> Result<serde_json::Value, String> {
        Err("a keyserver chooses no ciphers; write to the admin listener of a server".to_owned())
    }

    fn purge(&self, _order: &PurgeOrder, _confirm: bool) -> Result<serde_json::Value, OrderError> {
        Err(OrderError::Wrong("a keyserver has no cache".to_owned()))
    }

    fn revoke(
        &self,
        _ids: &[String],
        _expires: &str,
        _confirm: bool,
    ) -> Result<serde_json::Value, OrderError> {
        Err(OrderError::Wrong("a keyserver has no sites".to_owned()))
    }

    fn token(&self) -> Option<Token> {
        self.token
    }

    fn is_own_name(&self, name: &str) -> bool {
        self.hosts.iter().any(|own| own == name)
    }
}

struct Running {
    keyserver: Arc<Keyserver>,
    console: Option<(Arc<KeyserverBackend>, Console)>,
    file: PathBuf,
    address: SocketAddr,
}

impl Service for Running {
    fn reload(&mut self) {
        let outcome =
            KeyserverConfig::load(&self.file).map_err(|faults| Failure::Config(faults).to_string()).and_then(
                |config| self.keyserver.reload(&config).map(|()| config).map_err(|error| error.to_string()),
            );
        match outcome {
            Ok(config) => {
                config.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
                if config.address != self.address {
                    tracing::warn!("address changes only with a restart");
                }
                tracing::info!("reloaded {}", self.file.display());
            }
            Err(faults) => {
                faults.lines().for_each(|line| tracing::error!("{line}"));
                tracing::error!("kept the running configuration");
            }
        }
    }

    fn reopen_logs(&mut self) {
        self.keyserver.reopen_logs();
        tracing::info!("reopening the access log");
    }

    fn drain(&mut self) -> Duration {
        // A successor needs the admin port at once.
        if let Some((backend, _console)) = self.console.take() {
            backend.draining.store(true, Ordering::Relaxed);
        }
        self.keyserver.drain()
    }

    fn wait(&mut self) -> impl FnOnce() + Send + 'static {
        let keyserver = Arc::clone(&self.keyserver);
        move || keyserver.wait()
    }

    fn stop(&mut self) {
        self.keyserver.stop();
    }
}
