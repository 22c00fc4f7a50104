//! PEM files of authorities, and of certificates that this program shows to other servers.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use penstock_tls::certificate::{Certificate, CertificateError};
use penstock_tls::{Authorities, AuthoritiesError};

use super::reader::Reader;
use crate::certificate_files::{CertificateFiles, KeyFile};
use crate::limits;
use crate::section::{Position, Text, position};
use crate::units::Size;

/// The authorities of a file, for the certificates of servers.
pub(super) fn authorities(key: &str, text: &Text, reader: &mut Reader<'_>) -> Option<Authorities> {
    let path = reader.path(text);
    if !is_plausible(key, text, &path, reader) {
        return None;
    }
    let (what, instead) = match std::fs::read(&path) {
        Err(error) => (unreadable(&error), "write the path of a PEM file"),
        Ok(pem) => match Authorities::from_pem(&pem) {
            Ok(authorities) => return Some(authorities),
            Err(AuthoritiesError::Empty) => {
                ("holds no certificate".to_owned(), "write a PEM file with -----BEGIN CERTIFICATE-----")
            }
            Err(AuthoritiesError::Malformed) => (
                "holds a broken certificate".to_owned(),
                "write a PEM file with the authorities that sign these servers",
            ),
        },
    };
    reader.fault(position(text), format!("{key}: {} {what}", path.display()), instead);
    None
}

/// A chain with its key, for connections between servers.
pub(super) fn certificate(
    chain_text: &Text,
    key_text: &Text,
    reader: &mut Reader<'_>,
) -> Option<Certificate> {
    let (chain, key) = (reader.path(chain_text), reader.path(key_text));
    let chain_is_plausible = is_plausible("chain", chain_text, &chain, reader);
    if !is_plausible("key", key_text, &key, reader) || !chain_is_plausible {
        return None;
    }
    let files = CertificateFiles { chain, key: KeyFile::Path(key) };
    match files.load() {
        Ok(certificate) => {
            warn_of_end(&certificate, &files.chain, position(chain_text), reader);
            if files.key_is_open() {
                warn_of_open_key(files.key.path(), key_text, reader);
            }
            Some(certificate)
        }
        Err(error) => {
            report(error, &files, (position(chain_text), position(key_text)), reader);
            None
        }
    }
}

pub(super) fn warn_of_open_key(path: Option<&Path>, text: &Text, reader: &mut Reader<'_>) {
    let shown = path.unwrap_or_else(|| Path::new("")).display();
    let what = format!("key: {shown} may be read by every user of this machine");
    reader.warning(position(text), what, "run chmod 600 on it");
}

/// The end of a certificate in words, such as `expired 3 days ago` or `expires in 5 days`.
pub(super) fn when(end: SystemTime, now: SystemTime) -> String {
    const DAY: u64 = 24 * 3600;
    match now.duration_since(end).map(|age| age.as_secs() / DAY) {
        Ok(0) => "expired today".to_owned(),
        Ok(days) => format!("expired {days} days ago"),
        Err(ahead) => match ahead.duration().as_secs() / DAY {
            0 => "expires within a day".to_owned(),
            days => format!("expires in {days} days"),
        },
    }
}

/// Refuses devices, pipes and large files, whose reading might never end. A missing file is left to its reader.
pub(super) fn is_plausible(key: &str, text: &Text, path: &Path, reader: &mut Reader<'_>) -> bool {
    let wrong = match path.metadata() {
        Ok(found) if found.is_dir() || found.is_file() && found.len() <= limits::PEM_FILE_BYTES => {
            return true;
        }
        Err(_) => return true,
        Ok(found) if found.is_file() => format!("is larger than {}", Size(limits::PEM_FILE_BYTES)),
        Ok(_) => "is not a regular file".to_owned(),
    };
    reader.fault(
        position(text),
        format!("{key}: {} {wrong}", path.display()),
        "write the path of a PEM file",
    );
    false
}

pub(super) fn warn_of_end(certificate: &Certificate, chain: &Path, here: Position, reader: &mut Reader<'_>) {
    let soon = reader.now + Duration::from_secs(limits::CERTIFICATE_WARNING_DAYS * 24 * 3600);
    let Some(end) = certificate.not_after().filter(|end| *end < soon) else { return };
    let what = format!("chain: the certificate in {} {}", chain.display(), when(end, reader.now));
    let instead = if end < reader.now {
        "renew it: clients refuse it"
    } else {
        "renew it: clients will refuse it then"
    };
    reader.warning(here, what, instead);
}

/// Reports why the files are no certificate with its key.
pub(super) fn report(
    error: CertificateError,
    files: &CertificateFiles,
    (chain_at, key_at): (Position, Position),
    reader: &mut Reader<'_>,
) {
    let chain = files.chain.display();
    let key = files.key.path().unwrap_or_else(|| Path::new("")).display();
    match error {
        CertificateError::ChainUnreadable { source, .. } => {
            let what = format!("chain: {chain} {}", unreadable(&source));
            reader.fault(chain_at, what, "write the path of a PEM file with the certificate");
        }
        CertificateError::KeyUnreadable { source, .. } => {
            let what = format!("key: {key} {}", unreadable(&source));
            reader.fault(key_at, what, "write the path of a PEM file with the private key");
        }
        CertificateError::ChainMalformed { .. } => {
            let what = format!("chain: {chain} holds a broken certificate");
            reader.fault(chain_at, what, "write a PEM file: the certificate, then its intermediates");
        }
        CertificateError::ChainEmpty => {
            let what = format!("chain: {chain} holds no certificate");
            reader.fault(chain_at, what, "write a PEM file with -----BEGIN CERTIFICATE-----");
        }
        CertificateError::KeyMalformed { .. } => {
            let what = format!("key: {key} is not a private key in PEM without a password");
            reader.fault(key_at, what, "write a PEM file with -----BEGIN PRIVATE KEY-----");
        }
        CertificateError::KeyUnsupported => {
            let what = format!("chain: the key of the certificate in {chain} cannot sign a TLS handshake");
            reader.fault(
                chain_at,
                what,
                "get one for an ECDSA P-256 key; RSA, P-384, P-521 and Ed25519 work too",
            );
        }
        CertificateError::KeyMismatch => {
            let what = format!("key: {key} does not belong to the certificate in {chain}");
            reader.fault(key_at, what, "write the key this certificate was issued for");
        }
    }
}

/// The system's error in words, without its number.
pub(super) fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "does not exist".to_owned(),
        io::ErrorKind::PermissionDenied => "may not be read by this user".to_owned(),
        io::ErrorKind::IsADirectory => "is a directory".to_owned(),
        _ => format!("cannot be read ({error})"),
    }
}
