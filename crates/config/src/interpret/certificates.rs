//! The certificates we answer with, read and proven.

use std::io;
use std::path::Path;
use std::sync::Arc;

use penstock_tls::certificate::{Certificate, CertificateError, KeyKind};
use serde_saphyr::Spanned;

use super::ocsp;
use super::reader::Reader;
use crate::limits;
use crate::meaning::{ConfiguredCertificate, Ocsp};
use crate::raw;
use crate::section::{Place, Text, place};
use crate::units::Size;

/// `ocsp` is what holds for certificates that do not say otherwise.
pub(super) fn certificates(
    raw: &raw::Tls,
    ocsp: &Ocsp,
    reader: &mut Reader<'_>,
) -> Vec<ConfiguredCertificate> {
    let sections = raw.certificates.as_ref().map_or(&[][..], |list| &list.value);
    let mut defaults: Vec<(KeyKind, Place)> = Vec::new();
    let mut certificates = Vec::new();
    for section in sections {
        let flag = section.value.default.as_ref();
        let default = reader.flag("default", flag, false);
        let Some(mut loaded) = certificate(section, default, reader) else { continue };
        loaded.ocsp = section.value.ocsp.as_ref().and_then(|written| ocsp::ocsp(written, reader));
        let source = loaded.ocsp.as_ref().unwrap_or(ocsp);
        ocsp::warn(&loaded.certificate, source, place(section), reader);
        if let Some(here) = flag.filter(|_| default).map(place) {
            // Clients without a name still differ in the keys they accept: each kind may have its default.
            let kind = loaded.certificate.kind();
            match defaults.iter().find(|(other, _)| *other == kind) {
                Some((_, first)) => {
                    let what = format!(
                        "default: the certificate in line {} is the default for {} keys already",
                        first.line,
                        kind.label()
                    );
                    let instead = "keep one of them; without any, the first of each kind of key answers";
                    reader.fault(here, what, instead);
                }
                None => defaults.push((kind, here)),
            }
        }
        certificates.push(loaded);
    }
    certificates
}

fn certificate(
    section: &Spanned<raw::Certificate>,
    default: bool,
    reader: &mut Reader<'_>,
) -> Option<ConfiguredCertificate> {
    let (Some(chain_text), Some(key_text)) = (&section.value.chain, &section.value.key) else {
        let missing = if section.value.chain.is_none() { "chain" } else { "key" };
        let what = format!("this certificate has no {missing}");
        reader.fault(place(section), what, format!("add {missing}: FILE.pem"));
        return None;
    };
    let (chain, key) = (reader.path(chain_text), reader.path(key_text));
    let chain_is_plausible = is_plausible("chain", chain_text, &chain, reader);
    if !is_plausible("key", key_text, &key, reader) || !chain_is_plausible {
        return None;
    }
    match Certificate::load(&chain, &key) {
        Ok(certificate) => {
            warn_if_expired(&certificate, &chain, place(chain_text), reader);
            let certificate = Arc::new(certificate);
            Some(ConfiguredCertificate { certificate, default, ocsp: None, chain, key })
        }
        Err(error) => {
            report(error, (place(chain_text), &chain), (place(key_text), &key), reader);
            None
        }
    }
}

/// Reading a device or a pipe could go on for ever. What is missing is left to the one who reads it.
fn is_plausible(key: &str, text: &Text, path: &Path, reader: &mut Reader<'_>) -> bool {
    let wrong = match path.metadata() {
        Ok(found) if found.is_dir() || found.is_file() && found.len() <= limits::PEM_FILE_BYTES => {
            return true;
        }
        Err(_) => return true,
        Ok(found) if found.is_file() => format!("is larger than {}", Size(limits::PEM_FILE_BYTES)),
        Ok(_) => "is not a regular file".to_owned(),
    };
    reader.fault(place(text), format!("{key}: {} {wrong}", path.display()), "write the path of a PEM file");
    false
}

fn warn_if_expired(certificate: &Certificate, chain: &Path, here: Place, reader: &mut Reader<'_>) {
    let Some(age) = certificate.not_after().and_then(|end| reader.now.duration_since(end).ok()) else {
        return;
    };
    let days = age.as_secs() / (24 * 3600);
    let since = if days == 0 { "today".to_owned() } else { format!("{days} days ago") };
    let what = format!("chain: the certificate in {} expired {since}", chain.display());
    reader.warning(here, what, "renew it: clients refuse it");
}

fn report(
    error: CertificateError,
    (chain_at, chain): (Place, &Path),
    (key_at, key): (Place, &Path),
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
        CertificateError::KeyMismatch => {
            let what = format!("key: {key} does not belong to the certificate in {chain}");
            reader.fault(key_at, what, "write the key this certificate was issued for");
        }
    }
}

/// What the system said, without its number.
fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "does not exist".to_owned(),
        io::ErrorKind::PermissionDenied => "may not be read by this user".to_owned(),
        io::ErrorKind::IsADirectory => "is a directory".to_owned(),
        _ => format!("cannot be read ({error})"),
    }
}
