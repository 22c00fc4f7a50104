//! Loads a configuration from a file, a text or a directory.

use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use penstock_tls::DefaultFor;
use penstock_tls::certificate::Certificate;
use serde::de::DeserializeOwned;

use crate::fault::Fault;
use crate::interpret::keyserver::keyserver;
use crate::interpret::reader::{Reader, check_directory};
use crate::interpret::{default_options, default_versions, interpret, worker_for_each_core};
use crate::key_paths::KeyPaths;
use crate::model::{
    Cache, Config, ConfigSource, ConfiguredCertificate, CountedMetrics, HostPattern, KeyserverConfig, Limits,
    Listener, Log, Origin, Site, SiteSettings, Tls,
};
use crate::raw;
use crate::section::Section;
use crate::sources::{Includes, Sources, read, read_all};
use crate::variables::Environment;

impl Config {
    /// Reads a configuration file and the files that it names.
    ///
    /// Relative paths start at the directory of the file that has them.
    ///
    /// # Errors
    /// Every fault in order of lines, then those without a line. A file that cannot be parsed is one fault.
    pub fn load(path: &Path) -> Result<Self, Vec<Fault>> {
        let text = read(path).map_err(|(what, instead)| vec![unplaced(path, what, instead)])?;
        Self::from_text(&text, path)
    }

    /// As [`Config::load`], for a stream such as standard input in place of the file at `path`. Returns its text too.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn read_from(stream: impl Read, path: &Path) -> (String, Result<Self, Vec<Fault>>) {
        match read_all(stream) {
            Ok(text) => {
                let config = Self::from_text(&text, path);
                (text, config)
            }
            Err((what, instead)) => (String::new(), Err(vec![unplaced(path, what, instead)])),
        }
    }

    /// As [`Config::load`], for the text of the file at `path`.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn from_text(text: &str, path: &Path) -> Result<Self, Vec<Fault>> {
        Self::from_text_in(text, path, &Environment::of_process())
    }

    /// As [`Config::from_text`], for another machine, process or time.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn from_text_in(text: &str, path: &Path, environment: &Environment<'_>) -> Result<Self, Vec<Fault>> {
        let includes: Includes<_> = |root: &raw::Root| root.include.as_ref();
        let (mut config, warnings) = parse(text, path, includes, environment, interpret)?;
        config.warnings = warnings;
        Ok(config)
    }

    /// One directory on some addresses for every host, with all defaults: HTTPS with this certificate, or plain HTTP
    /// without one.
    ///
    /// # Errors
    /// When the directory cannot be served; the fault's file is then `--root`.
    pub fn for_directory(
        root: &Path,
        addresses: &[SocketAddr],
        certificate: Option<Certificate>,
    ) -> Result<Self, Fault> {
        check_directory(root).map_err(|(what, instead)| unplaced(Path::new("--root"), what, instead))?;
        let directory = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
        let tls = certificate.is_some();
        let certificates = certificate
            .map(|certificate| ConfiguredCertificate {
                certificate: Arc::new(certificate),
                default: DefaultFor::Unknown,
                files: None,
                remote: None,
                ocsp: None,
            })
            .into_iter()
            .collect();
        Ok(Self {
            workers: worker_for_each_core(),
            affinity: true,
            user: None,
            listeners: addresses
                .iter()
                .map(|&address| Listener {
                    address,
                    name: None,
                    redirect: None,
                    tls,
                    protocols: default_versions(tls),
                    proxy_protocol: false,
                    health: None,
                    socket: default_options(),
                })
                .collect(),
            tls: Tls { certificates, ..Tls::default() },
            sites: vec![Site {
                hosts: vec![HostPattern::Any],
                listeners: None,
                routes: Vec::new(),
                settings: SiteSettings::new(Origin::Directory(directory)),
            }],
            cache: Cache::default(),
            cluster: None,
            fleet: None,
            admin: None,
            log: Log::default(),
            metrics: CountedMetrics::default(),
            limits: Limits::default(),
            warnings: Vec::new(),
            source: ConfigSource {
                files: vec![PathBuf::from("--listen")],
                places: Vec::new(),
                paths: Vec::new(),
            },
        })
    }
}

impl KeyserverConfig {
    /// Reads the configuration file of a keyserver and the files that it names, but no private key of a client.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn load(path: &Path) -> Result<Self, Vec<Fault>> {
        let text = read(path).map_err(|(what, instead)| vec![unplaced(path, what, instead)])?;
        let (config, warnings) = parse(&text, path, |_| None, &Environment::of_process(), keyserver)?;
        // Without a fault there is a configuration.
        let mut config = config.ok_or_else(|| vec![unplaced(path, "it cannot be used".to_owned(), "")])?;
        config.warnings = warnings;
        Ok(config)
    }
}

/// Parses and interprets a file and those that it includes. Returns its warnings as well.
fn parse<R: DeserializeOwned + Section, T>(
    text: &str,
    path: &Path,
    includes: Includes<R>,
    environment: &Environment<'_>,
    interpret: impl FnOnce(&R, &mut Reader<'_>) -> T,
) -> Result<(T, Vec<Fault>), Vec<Fault>> {
    let sources = Sources::read(text, path, includes, environment)?;
    let mut reader = Reader::new(sources.files, &environment.host_name, environment.now);
    let interpreted = interpret(&sources.root, &mut reader);
    let warnings = reader.finish(&sources.expansion)?;
    Ok((interpreted, warnings))
}

/// The body of the fuzz target `config`: no text may panic, and faults must be printable in one line.
///
/// # Panics
/// When it is not.
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub fn fuzz_config(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let lines = text.split(['\n', '\r']).count();
    let keys = KeyPaths::of(text);
    let (faults, right) = match Config::from_text_in(
        text,
        Path::new("/nowhere/fuzz.yaml"),
        &Environment::at(std::time::SystemTime::UNIX_EPOCH),
    ) {
        Ok(config) => {
            assert!(!config.listeners.is_empty() && !config.sites.is_empty());
            assert!(config.sites.iter().all(|site| !site.hosts.is_empty()));
            assert!(config.limits.target_bytes < config.limits.head_bytes);
            (config.warnings, true)
        }
        Err(faults) => (faults, false),
    };
    assert!(right || !faults.is_empty(), "refused without a reason");
    for fault in faults {
        let shown = fault.to_string();
        assert!(!shown.contains(char::is_control), "{shown:?} is not one line");
        assert!(fault.line <= lines, "{shown:?} lies behind the end, {lines}");
        assert!(!fault.what.is_empty());
        assert!(fault.line > 0 || keys.at(fault.line, fault.column).is_none());
    }
}

fn unplaced(file: &Path, what: String, instead: &str) -> Fault {
    Fault { file: file.to_owned(), line: 0, column: 0, what, instead: instead.to_owned() }
}
