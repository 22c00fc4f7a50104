//! Certificates requested from clients.

use std::time::Duration;

use penstock_sys::small_file;
use penstock_tls::{
    AuthoritiesError, ClientCertificateLimits, ClientCertificateMode, ClientCertificates, RevocationsError,
};
use serde_saphyr::Spanned;

use super::pem::{is_plausible, unreadable, when};
use super::reader::Reader;
use crate::limits;
use crate::raw;
use crate::section::{Text, position};

const LIMITS: ClientCertificateLimits = ClientCertificateLimits {
    depth: limits::CLIENT_CERTIFICATE_DEPTH,
    name_bytes: limits::CLIENT_CERTIFICATE_NAME_BYTES,
    authority_names_bytes: limits::CLIENT_AUTHORITY_NAMES_BYTES,
};

pub(super) fn client_certificates(
    raw: Option<&Spanned<raw::ClientCertificates>>,
    reader: &mut Reader<'_>,
) -> Option<ClientCertificates> {
    let section = raw?;
    let mode =
        section.value.mode.as_ref().map_or(Some(ClientCertificateMode::Required), |text| mode(text, reader));
    let Some(text) = &section.value.ca else {
        let what = "client_certificates: no authority is named";
        reader.fault(position(section), what, "add ca: FILE.pem with the authorities that sign clients");
        return None;
    };
    rules(text, section.value.crl.as_ref(), mode?, reader)
}

/// The rules of a server all of whose clients need a certificate.
pub(super) fn client_rules(
    ca: &Text,
    crl: Option<&Text>,
    reader: &mut Reader<'_>,
) -> Option<ClientCertificates> {
    rules(ca, crl, ClientCertificateMode::Required, reader)
}

fn rules(
    text: &Text,
    crl: Option<&Text>,
    mode: ClientCertificateMode,
    reader: &mut Reader<'_>,
) -> Option<ClientCertificates> {
    let pem = read("ca", text, "a PEM file with the authorities that sign clients", reader)?;
    let instead = match ClientCertificates::new(&pem, mode, LIMITS) {
        Ok(rules) => return refusing_revoked(rules, crl, reader),
        Err(AuthoritiesError::Empty) => {
            ("holds no certificate", "write a PEM file with -----BEGIN CERTIFICATE-----")
        }
        Err(AuthoritiesError::Malformed) => {
            ("holds a broken certificate", "write a PEM file with the authorities that sign clients")
        }
    };
    wrong("ca", text, instead, reader);
    None
}

fn refusing_revoked(
    rules: ClientCertificates,
    raw: Option<&Text>,
    reader: &mut Reader<'_>,
) -> Option<ClientCertificates> {
    let Some(text) = raw else { return Some(rules) };
    let pem = read("crl", text, "a PEM file with lists of revoked certificates", reader)?;
    let instead = match rules.refusing_revoked(&pem) {
        Ok(rules) => {
            warn_of_end(&rules, text, reader);
            return Some(rules);
        }
        Err(RevocationsError::Empty) => {
            ("holds no list of revoked certificates", "write a PEM file with -----BEGIN X509 CRL-----")
        }
        Err(RevocationsError::Malformed) => {
            ("holds a broken list", "write a PEM file with lists of revoked certificates")
        }
    };
    wrong("crl", text, instead, reader);
    None
}

/// Warns before a list becomes too old: an outdated list refuses all clients of its authority.
fn warn_of_end(rules: &ClientCertificates, text: &Text, reader: &mut Reader<'_>) {
    let soon = reader.now + Duration::from_secs(limits::REVOCATION_WARNING_HOURS * 3600);
    let Some(end) = rules.lists_end().filter(|end| *end < soon) else { return };
    let what = format!("crl: a list in {} {}", reader.path(text).display(), when(end, reader.now));
    let instead =
        "fetch the newer one of its authority and send SIGHUP: with an old one all its clients are refused";
    reader.warning(position(text), what, instead);
}

fn read(key: &str, text: &Text, wanted: &str, reader: &mut Reader<'_>) -> Option<Vec<u8>> {
    let path = reader.path(text);
    if !is_plausible(key, text, &path, reader) {
        return None;
    }
    match small_file::read(&path, limits::PEM_FILE_BYTES) {
        Ok(pem) => Some(pem),
        Err(error) => {
            let instead = format!("write the path of {wanted}");
            wrong(key, text, (&unreadable(&error.into()), &instead), reader);
            None
        }
    }
}

fn wrong(key: &str, text: &Text, (what, instead): (&str, &str), reader: &mut Reader<'_>) {
    let shown = reader.path(text);
    reader.fault(position(text), format!("{key}: {} {what}", shown.display()), instead);
}

fn mode(text: &Text, reader: &mut Reader<'_>) -> Option<ClientCertificateMode> {
    let mode = ClientCertificateMode::named(&text.value);
    if mode.is_none() {
        let what = format!("mode: `{}` is unknown", text.value);
        reader.fault(position(text), what, "write optional or required");
    }
    mode
}
