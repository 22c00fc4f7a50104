//! PEM files of authorities, and of certificates that this program shows to other servers.

use std::io;
use std::path::Path;
use std::time::SystemTime;

use penstock_sys::small_file;
use penstock_tls::certificate::{Certificate, CertificateError, ChainFault, chain_fault};
use penstock_tls::{Authorities, AuthoritiesError};

use super::chains::{self, Mistake};
use super::reader::Reader;
use crate::certificate_files::{CertificateFiles, KeyFile, is_open};
use crate::limits;
use crate::section::{Position, Text, position};
use crate::units::Size;
use crate::users;

/// The authorities of a file, for the certificates of servers.
pub(super) fn authorities(key: &str, text: &Text, reader: &mut Reader<'_>) -> Option<Authorities> {
    let path = reader.path(text);
    if !is_plausible(key, text, &path, reader) {
        return None;
    }
    let (what, instead) = match small_file::read(&path, limits::PEM_FILE_BYTES) {
        Err(error) => (unreadable(&error.into()), "write the path of a PEM file"),
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
    load(&CertificateFiles { chain, key: KeyFile::Path(key) }, (chain_text, key_text), reader)
}

/// Loads a certificate and reports what is wrong with it, or will be.
pub(super) fn load(
    files: &CertificateFiles,
    (chain_text, key_text): (&Text, &Text),
    reader: &mut Reader<'_>,
) -> Option<Certificate> {
    let (chain_at, key_at) = (position(chain_text), position(key_text));
    match files.load() {
        Ok(certificate) => {
            warn_of_end(&certificate, &files.chain, chain_at, reader);
            if let Some(key) = files.key.path() {
                warn_of_open_file("key", key, key_text, reader);
            }
            warn_of_order(files, chain_at, reader);
            Some(certificate)
        }
        Err(error) => {
            if !report_mistake(&error, files, (chain_at, key_at), reader) {
                report(error, files, (chain_at, key_at), reader);
            }
            None
        }
    }
}

/// Notes a file with a secret, and warns of one that every user may read.
pub(super) fn warn_of_open_file(key: &str, path: &Path, text: &Text, reader: &mut Reader<'_>) {
    reader.note_secret(key, path, position(text));
    if is_open(path) {
        let what = format!("{key}: {} may be read by every user of this machine", path.display());
        reader.warning(position(text), what, "run chmod 600 on it");
    }
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

fn warn_of_end(certificate: &Certificate, chain: &Path, here: Position, reader: &mut Reader<'_>) {
    let late = certificate.summary().late_from(limits::CERTIFICATE_WARNING);
    let is_late = late.is_some_and(|late| late < reader.now);
    let Some(end) = certificate.not_after().filter(|_| is_late) else { return };
    let what = format!("chain: the certificate in {} {}", chain.display(), when(end, reader.now));
    let instead = if end < reader.now {
        "renew it: clients refuse it"
    } else {
        "renew it: clients will refuse it then"
    };
    reader.warning(here, what, instead);
}

/// Reports why the files are no certificate with its key.
fn report(
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
            let other = "write the path of a PEM file with the certificate";
            reader.fault(chain_at, what, remedy_or(other, &files.chain, &source));
        }
        CertificateError::KeyUnreadable { source, .. } => {
            let what = format!("key: {key} {}", unreadable(&source));
            let other = "write the path of a PEM file with the private key";
            let path = files.key.path().unwrap_or(&files.chain);
            reader.fault(key_at, what, remedy_or(other, path, &source));
        }
        CertificateError::ChainMalformed { .. } => {
            let what = format!("chain: {chain} holds a broken certificate");
            reader.fault(chain_at, what, "write a PEM file: the certificate, then its intermediates");
        }
        CertificateError::ChainEmpty => {
            let what = format!("chain: {chain} holds no certificate");
            reader.fault(chain_at, what, "write a PEM file with -----BEGIN CERTIFICATE-----");
        }
        CertificateError::KeyMalformed { .. } if is_encrypted(files) => {
            let what = format!("key: {key} is encrypted, and this program asks for no password");
            let instead = format!(
                "run umask 077 && openssl pkey -in {key} -out {key}.plain, and write key: {key}.plain"
            );
            reader.fault(key_at, what, instead);
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

/// Whether the private key is in one of the two encrypted forms of PEM (RFC 7468 section 11; RFC 1421 section 4.6.1.1).
fn is_encrypted(files: &CertificateFiles) -> bool {
    let Some((_, key)) = files.read_both() else { return false };
    [&b"-----BEGIN ENCRYPTED PRIVATE KEY-----"[..], b"Proc-Type: 4,ENCRYPTED"]
        .iter()
        .any(|mark| key.windows(mark.len()).any(|bytes| bytes == *mark))
}

/// How the user of this process may read a file if the error is a missing permission; `other` for other errors.
fn remedy_or(other: &str, path: &Path, error: &io::Error) -> String {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return other.to_owned();
    }
    let (user, group) = users::of_this_process();
    let is_closed = |path: &&Path| {
        path.is_dir()
            && path.join(".").metadata().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    };
    let mut way: Vec<&Path> = path.ancestors().skip(1).collect();
    way.reverse();
    let (refused, mode) = match way.into_iter().find(is_closed) {
        Some(directory) => (directory, "g+x"),
        None => (path, "g+r"),
    };
    let refused = refused.display();
    format!("run chgrp {group} {refused} && chmod {mode} {refused}: this program runs as {user}")
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

/// Clients of TLS 1.2 expect each certificate to certify the one before it (RFC 5246 section 7.4.2).
fn warn_of_order(files: &CertificateFiles, here: Position, reader: &mut Reader<'_>) {
    let Some((chain, _)) = files.read_both() else { return };
    let file = files.chain.display();
    match chain_fault(&chain) {
        None => {}
        Some(ChainFault::Misplaced(_)) => {
            let what = format!("chain: the certificates in {file} are in the wrong order");
            reader.warning(here, what, "put the issuer of each certificate right behind it");
        }
        Some(ChainFault::Unrelated(place)) => {
            let next = place + 1;
            let what =
                format!("chain: certificate {next} in {file} is not the issuer of certificate {place}");
            reader.warning(
                here,
                what,
                "put the issuer of each certificate right behind it, and remove all others",
            );
        }
    }
}

/// Reports swapped files and a chain that does not begin with its leaf; `false` if the fault is another.
fn report_mistake(
    error: &CertificateError,
    files: &CertificateFiles,
    (chain_at, key_at): (Position, Position),
    reader: &mut Reader<'_>,
) -> bool {
    let Some(key) = files.key.path() else { return false };
    let (chain, key) = (files.chain.display(), key.display());
    match files.read_both().and_then(|(chain, key)| chains::mistake(error, &chain, &key)) {
        Some(Mistake::Swapped) => {
            let what = format!("chain: {chain} is a private key, and {key} a certificate");
            reader.fault(chain_at, what, format!("write chain: {key}, key: {chain}"));
        }
        Some(Mistake::LeafAt(place)) => {
            let what = format!("key: {key} belongs to certificate {place} in {chain}, not to the first");
            reader.fault(key_at, what, "put that certificate first, then its issuer, and so on");
        }
        None => return false,
    }
    true
}
