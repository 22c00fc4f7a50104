//! `penstock serve`: everything in order, then the signals.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use penstock_config::{Admin, Config};
use penstock_edge::{Server, StartError};

use crate::arguments::Serve;
use crate::control::{Control, Service};
use crate::failure::Failure;
use crate::{descriptors, self_signed, systemd, terminal};

mod admin;
mod calibration;

use admin::AdminListener;

pub(crate) fn run(arguments: &Serve) -> Result<(), Failure> {
    let config = configuration(arguments)?;
    descriptors::raise();
    if arguments.from.config.is_some() {
        descriptors::compare_with(&config);
    }
    config.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));

    // Signals first: one that arrives during the start is then not lost.
    let control = Control::new().map_err(Failure::machine("listen for signals"))?;
    let admin = admin::bind(&config)?;
    let server = Server::start(&config).map_err(|error| start_failure(error, &config))?;
    let server = Arc::new(server);
    let admin = admin.map(|socket| AdminListener::start(socket, &server)).transpose()?;
    announce(arguments, &config, &server, admin.as_ref());
    systemd::ready();
    if config.listeners.iter().any(|listener| listener.tls) {
        calibration::start(Arc::clone(server.observatory()));
    }
    control.run(Running { server, admin, file: arguments.from.config.clone(), config });
    Ok(())
}

fn configuration(arguments: &Serve) -> Result<Config, Failure> {
    if let Some(file) = &arguments.from.config {
        return Config::load(file).map_err(Failure::Config);
    }
    let certificate = if arguments.plain {
        None
    } else {
        let made = self_signed::certificate(arguments.listen.ip(), SystemTime::now());
        Some(made.map_err(|error| Failure::machine("make a certificate")(io::Error::other(error)))?)
    };
    // Clap asks for one of the two, so the root is there; an empty path would be reported as missing.
    let root = arguments.from.root.as_deref().unwrap_or_else(|| Path::new(""));
    let mut config = Config::for_directory(root, arguments.listen, certificate)
        .map_err(|fault| Failure::Config(vec![fault]))?;
    config.workers = arguments.workers.unwrap_or(config.workers);
    config.admin = arguments.admin.map(|address| Admin { address });
    Ok(config)
}

/// What cannot be opened was asked for by the configuration; what cannot be made is the machine's fault.
fn start_failure(error: StartError, config: &Config) -> Failure {
    match error {
        StartError::Thread(source) => Failure::Machine { action: "start a thread".to_owned(), source },
        StartError::Randomness(error) => {
            let source = io::Error::other(error.to_string());
            Failure::Machine { action: "make a session ticket key".to_owned(), source }
        }
        StartError::Listen(ref listen) => {
            Failure::Config(vec![config.fault_at(Some(listen.address), error.to_string())])
        }
        StartError::Site(_)
        | StartError::Cache(_)
        | StartError::Disk(_)
        | StartError::Tls(_)
        | StartError::Kernel(_)
        | StartError::KeyLog { .. }
        | StartError::AccessLog { .. } => Failure::Config(vec![config.fault_at(None, error.to_string())]),
    }
}

/// With a file the log tells where it listens; without one there is a person who wants something to click on.
fn announce(arguments: &Serve, config: &Config, server: &Server, admin: Option<&AdminListener>) {
    let addresses = server.addresses();
    let Some(root) = &arguments.from.root else {
        for (address, listener) in addresses.iter().zip(&config.listeners) {
            tracing::info!("listening on {address}, {}", if listener.tls { "HTTPS" } else { "HTTP" });
        }
        if let Some(admin) = admin {
            tracing::info!("listening on {}, admin", admin.address());
        }
        tracing::info!("ready, workers: {}", config.workers);
        return;
    };
    for address in addresses {
        terminal::say(&format!("Serving {} at {}", root.display(), url(address, !arguments.plain)));
    }
    if let Some(admin) = admin {
        terminal::say(&format!("Metrics at http://{}/metrics", admin.address()));
    }
    if !arguments.plain {
        terminal::say("The certificate was made for this run, so browsers ask before they trust it.");
    }
    terminal::say("Ctrl-C stops.");
}

/// What to type into a browser on this machine.
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

/// The running server with what a reload may replace.
struct Running {
    server: Arc<Server>,
    admin: Option<AdminListener>,
    /// Where the configuration came from; `None` if there was no file.
    file: Option<PathBuf>,
    config: Config,
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

    fn drain(&mut self) {
        if let Some(admin) = &self.admin {
            admin.set_draining();
        }
        self.server.drain();
    }

    fn wait(&self) -> impl FnOnce() + Send + 'static {
        let server = Arc::clone(&self.server);
        move || server.wait()
    }

    fn stop(&mut self) {
        self.server.stop();
    }
}

impl Running {
    fn apply(&mut self, file: &Path) -> Result<(), Failure> {
        let (config, admin) = self.prepare(file).inspect_err(|_| self.server.reload_failed())?;
        self.server.reload(&config).map_err(|error| start_failure(error, &config))?;
        if self.config.admin != config.admin {
            self.admin = admin.map(|socket| AdminListener::start(socket, &self.server)).transpose()?;
        }
        config.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        if (config.workers, config.affinity) != (self.config.workers, self.config.affinity) {
            tracing::warn!("workers and affinity change only with a restart");
        }
        self.config = config;
        Ok(())
    }

    /// The new configuration, and the port of the admin listener if it has another one.
    fn prepare(&self, file: &Path) -> Result<(Config, Option<TcpListener>), Failure> {
        let config = Config::load(file).map_err(Failure::Config)?;
        let admin = if self.config.admin == config.admin { None } else { admin::bind(&config)? };
        Ok((config, admin))
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
