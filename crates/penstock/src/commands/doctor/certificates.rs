//! The certificates of a configuration, with where their keys are.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use penstock_config::{CertificateDirectory, Config, ConfiguredCertificate, RemoteKeyPlace, limits};
use penstock_tls::certificate::{Certificate, Summary};

/// A certificate, or a directory of many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CertificateFact {
    /// One that clients or other servers are shown.
    One {
        /// Who is shown it.
        shown_to: ShownTo,
        /// The names that it is for.
        names: Vec<String>,
        /// `ecdsa` or `rsa`.
        kind: &'static str,
        end: Option<SystemTime>,
        /// From when on it should have been renewed.
        late: Option<SystemTime>,
        key: KeyPlace,
    },
    /// A directory, whose certificates are read when clients ask for them.
    Directory {
        path: PathBuf,
        /// Certificates in it.
        count: usize,
        /// The earliest end, and the file that has it.
        first: Option<(SystemTime, PathBuf)>,
        /// From when on one of them should have been renewed.
        late: Option<SystemTime>,
    },
}

/// The other side of handshakes with a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShownTo {
    Clients,
    Nodes,
    Keyservers,
}

/// Where the private key of a certificate is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyPlace {
    File,
    /// Host and port of each.
    Keyservers(Vec<String>),
    /// The name of the token.
    Token(String),
}

/// All certificates, those of clients first.
pub(crate) fn of(config: &Config) -> Vec<CertificateFact> {
    let mut found: Vec<_> = config.tls.certificates.iter().map(of_clients).collect();
    found.extend(config.tls.certificate_directories.iter().map(of_directory));
    if let Some(tls) = config.cluster.as_ref().and_then(|cluster| cluster.tls.as_ref()) {
        found.push(of_file(ShownTo::Nodes, &tls.certificate));
    }
    let mut known = Vec::new();
    for place in config.tls.certificates.iter().filter_map(|one| one.remote.as_ref()) {
        if let RemoteKeyPlace::Keyserver(access) = place
            && !known.contains(&access.certificate.fingerprint())
        {
            known.push(access.certificate.fingerprint());
            found.push(of_file(ShownTo::Keyservers, &access.certificate));
        }
    }
    found
}

fn of_clients(configured: &ConfiguredCertificate) -> CertificateFact {
    let key = match &configured.remote {
        None => KeyPlace::File,
        Some(RemoteKeyPlace::Keyserver(access)) => {
            KeyPlace::Keyservers(access.servers.iter().map(|(host, port)| format!("{host}:{port}")).collect())
        }
        Some(RemoteKeyPlace::Token(access)) => KeyPlace::Token(access.uri.token.to_string()),
    };
    one(ShownTo::Clients, configured.certificate.summary(), key)
}

fn of_file(shown_to: ShownTo, certificate: &Certificate) -> CertificateFact {
    one(shown_to, certificate.summary(), KeyPlace::File)
}

fn one(shown_to: ShownTo, summary: &Arc<Summary>, key: KeyPlace) -> CertificateFact {
    let (names, kind) = (summary.names().to_vec(), summary.kind().label());
    let late = summary.late_from(limits::CERTIFICATE_WARNING);
    CertificateFact::One { shown_to, names, kind, end: summary.not_after(), late, key }
}

fn of_directory(directory: &CertificateDirectory) -> CertificateFact {
    let ends = directory.found.iter().filter_map(|one| Some((one.summary.not_after()?, &one.files.chain)));
    let first = ends.min_by_key(|(end, _)| *end).map(|(end, chain)| (end, chain.clone()));
    let late =
        directory.found.iter().filter_map(|one| one.summary.late_from(limits::CERTIFICATE_WARNING)).min();
    CertificateFact::Directory { path: directory.path.clone(), count: directory.found.len(), first, late }
}
