//! The server's certificates, read and proven.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use penstock_tls::DefaultFor;
use penstock_tls::certificate::{Certificate, CertificateError, ChainFault, KeyKind, chain_fault};
use serde_saphyr::Spanned;

use super::chains::{self, Mistake};
use super::ocsp;
use super::reader::Reader;
use crate::certificate_files::{CertificateFiles, FoundCertificate, Scan, Unusable, scan};
use crate::limits;
use crate::model::{CertificateDirectory, ConfiguredCertificate, Ocsp};
use crate::raw;
use crate::section::{Position, Text, position};
use crate::units::Size;

/// The directories among the certificates.
pub(super) fn directories(raw: &raw::Tls, reader: &mut Reader<'_>) -> Vec<CertificateDirectory> {
    let sections = raw.certificates.as_ref().map_or(&[][..], |list| &list.value);
    let entries = sections.iter().filter_map(|section| Some((section, section.value.directory.as_ref()?)));
    let mut directories = Vec::new();
    for (section, text) in entries {
        let raw = &section.value;
        for (key, extra) in [("chain", &raw.chain), ("key", &raw.key), ("default", &raw.default)] {
            if let Some(extra) = extra {
                let what = format!("{key}: a directory has none of its own");
                reader.fault(position(extra), what, "move it to an entry of its own, without directory");
            }
        }
        directories.extend(directory(text, reader));
    }
    directories
}

fn directory(text: &Text, reader: &mut Reader<'_>) -> Option<CertificateDirectory> {
    let faults = reader.faults.len();
    let path = reader.directory("directory", text);
    if reader.faults.len() > faults {
        return None;
    }
    let here = position(text);
    match scan(&path, &[], false) {
        Ok(Scan { found, unusable, .. }) => {
            warn_of_unusable(&path, &unusable, here, reader);
            if found.is_empty() {
                let what = format!("directory: {} holds no certificate", path.display());
                reader.warning(
                    here,
                    what,
                    "put NAME.crt with NAME.key, NAME.pem with both, or certbot's live/ there",
                );
            }
            warn_of_ends(&path, &found, here, reader);
            warn_of_open_keys(&path, &found, here, reader);
            Some(CertificateDirectory { path, found, unusable, position: here })
        }
        Err(error) => {
            let what = format!("directory: {} {}", path.display(), unreadable(&error));
            reader.fault(here, what, "give the user that runs Penstock the permission to list it");
            None
        }
    }
}

fn warn_of_unusable(directory: &Path, unusable: &[Unusable], here: Position, reader: &mut Reader<'_>) {
    for one in unusable.iter().take(limits::CERTIFICATE_FAULTS_NAMED) {
        let what = format!("directory: {}: {}", one.chain.display(), one.what);
        reader.warning(here, what, "it is left out until the fault is mended");
    }
    let others = unusable.len().saturating_sub(limits::CERTIFICATE_FAULTS_NAMED);
    if others > 0 {
        let what = format!("directory: {others} more certificates in {} cannot be used", directory.display());
        reader.warning(here, what, "they are left out until the faults are mended");
    }
}

fn warn_of_open_keys(
    directory: &Path,
    found: &[Arc<FoundCertificate>],
    here: Position,
    reader: &mut Reader<'_>,
) {
    let mut open = found.iter().filter(|one| one.files.key_is_open());
    let Some(first) = open.next() else { return };
    let what = format!(
        "directory: {} keys in {}, the first {}, may be read by every user of this machine",
        open.count() + 1,
        directory.display(),
        first.files.key.display()
    );
    reader.warning(here, what, "run chmod 600 on them");
}

fn warn_of_ends(directory: &Path, found: &[Arc<FoundCertificate>], here: Position, reader: &mut Reader<'_>) {
    let soon = reader.now + Duration::from_secs(limits::CERTIFICATE_WARNING_DAYS * 24 * 3600);
    let ending =
        found.iter().filter_map(|one| Some((one.summary.not_after().filter(|end| *end < soon)?, one)));
    let ending: Vec<_> = ending.collect();
    let Some((end, first)) = ending.iter().min_by_key(|(end, _)| *end) else { return };
    let count = match ending.len() {
        1 => "one certificate".to_owned(),
        more => format!("{more} certificates"),
    };
    let what = format!(
        "directory: {count} in {}, the first {}, which {}",
        directory.display(),
        first.files.chain.display(),
        when(*end, reader.now)
    );
    reader.warning(here, what, "renew in time: clients refuse expired ones");
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

/// `ocsp` applies to certificates without a setting of their own.
pub(super) fn certificates(
    raw: &raw::Tls,
    ocsp: &Ocsp,
    reader: &mut Reader<'_>,
) -> Vec<ConfiguredCertificate> {
    let sections = raw.certificates.as_ref().map_or(&[][..], |list| &list.value);
    let mut defaults: Vec<(KeyKind, DefaultFor, Position)> = Vec::new();
    let mut certificates = Vec::new();
    for section in sections.iter().filter(|section| section.value.directory.is_none()) {
        let flag = section.value.default.as_ref();
        let default = default_for(flag, reader);
        let Some(mut loaded) = certificate(section, default, reader) else { continue };
        loaded.ocsp = section.value.ocsp.as_ref().and_then(|raw| ocsp::ocsp(raw, reader));
        let source = loaded.ocsp.as_ref().unwrap_or(ocsp);
        ocsp::warn(&loaded.certificate, source, position(section), reader);
        if let Some(here) = flag.filter(|_| default != DefaultFor::Unmarked).map(position) {
            // Clients without SNI still differ in the keys they accept: each kind of key may have its default.
            let kind = loaded.certificate.kind();
            match defaults.iter().find(|(other, same, _)| (*other, *same) == (kind, default)) {
                Some((_, _, first)) => {
                    let what = format!(
                        "default: the certificate on line {} is already the default for {} keys",
                        first.line,
                        kind.label()
                    );
                    let instead = "keep one of them; without any, the first of each kind of key answers";
                    reader.fault(here, what, instead);
                }
                None => defaults.push((kind, default, here)),
            }
        }
        certificates.push(loaded);
    }
    certificates
}

fn default_for(raw: Option<&Text>, reader: &mut Reader<'_>) -> DefaultFor {
    match raw {
        Some(text) if text.value == "no_sni" => DefaultFor::NoSni,
        _ if reader.flag("default", raw, false) => DefaultFor::Unknown,
        _ => DefaultFor::Unmarked,
    }
}

pub(super) fn certificate(
    section: &Spanned<raw::Certificate>,
    default: DefaultFor,
    reader: &mut Reader<'_>,
) -> Option<ConfiguredCertificate> {
    let (Some(chain_text), Some(key_text)) = (&section.value.chain, &section.value.key) else {
        let missing = if section.value.chain.is_none() { "chain" } else { "key" };
        let what = format!("this certificate has no {missing}");
        reader.fault(position(section), what, format!("add {missing}: FILE.pem"));
        return None;
    };
    let (chain, key) = (reader.path(chain_text), reader.path(key_text));
    let chain_is_plausible = is_plausible("chain", chain_text, &chain, reader);
    if !is_plausible("key", key_text, &key, reader) || !chain_is_plausible {
        return None;
    }
    let files = CertificateFiles { chain, key };
    let stamp = files.stamp();
    match files.load() {
        Ok(certificate) => {
            warn_of_end(&certificate, &files.chain, position(chain_text), reader);
            if files.key_is_open() {
                let what = format!("key: {} may be read by every user of this machine", files.key.display());
                reader.warning(position(key_text), what, "run chmod 600 on it");
            }
            warn_of_order(&files, position(chain_text), reader);
            let certificate = Arc::new(certificate);
            Some(ConfiguredCertificate { certificate, default, ocsp: None, files: Some((files, stamp)) })
        }
        Err(error) => {
            if report_mistake(&error, &files, (position(chain_text), position(key_text)), reader) {
                return None;
            }
            report(error, (position(chain_text), &files.chain), (position(key_text), &files.key), reader);
            None
        }
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
    let (chain, key) = (files.chain.display(), files.key.display());
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

fn report(
    error: CertificateError,
    (chain_at, chain): (Position, &Path),
    (key_at, key): (Position, &Path),
    reader: &mut Reader<'_>,
) {
    let (chain, key) = (chain.display(), key.display());
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
