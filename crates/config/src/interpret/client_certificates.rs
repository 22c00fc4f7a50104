//! Certificates asked of clients.

use penstock_tls::{AuthoritiesError, ClientCertificateLimits, ClientCertificateMode, ClientCertificates};
use serde_saphyr::Spanned;

use super::certificates::{is_plausible, unreadable};
use super::reader::Reader;
use crate::limits;
use crate::raw;
use crate::section::{Text, place};

const LIMITS: ClientCertificateLimits = ClientCertificateLimits {
    depth: limits::CLIENT_CERTIFICATE_DEPTH,
    name_bytes: limits::CLIENT_CERTIFICATE_NAME_BYTES,
    authority_names_bytes: limits::CLIENT_AUTHORITY_NAMES_BYTES,
};

pub(super) fn client_certificates(
    written: Option<&Spanned<raw::ClientCertificates>>,
    reader: &mut Reader<'_>,
) -> Option<ClientCertificates> {
    let section = written?;
    let mode =
        section.value.mode.as_ref().map_or(Some(ClientCertificateMode::Required), |text| mode(text, reader));
    let Some(text) = &section.value.ca else {
        let what = "client_certificates: no authority is named";
        reader.fault(place(section), what, "add ca: FILE.pem with the authorities that sign clients");
        return None;
    };
    let path = reader.path(text);
    if !is_plausible("ca", text, &path, reader) {
        return None;
    }
    let shown = path.display();
    let (what, instead) = match std::fs::read(&path) {
        Err(error) => {
            (unreadable(&error), "write the path of a PEM file with the authorities that sign clients")
        }
        Ok(pem) => match ClientCertificates::new(&pem, mode?, LIMITS) {
            Ok(rules) => return Some(rules),
            Err(AuthoritiesError::Empty) => {
                ("holds no certificate".to_owned(), "write a PEM file with -----BEGIN CERTIFICATE-----")
            }
            Err(AuthoritiesError::Malformed) => (
                "holds a broken certificate".to_owned(),
                "write a PEM file with the authorities that sign clients",
            ),
        },
    };
    reader.fault(place(text), format!("ca: {shown} {what}"), instead);
    None
}

fn mode(text: &Text, reader: &mut Reader<'_>) -> Option<ClientCertificateMode> {
    let mode = ClientCertificateMode::named(&text.value);
    if mode.is_none() {
        let what = format!("mode: `{}` is unknown", text.value);
        reader.fault(place(text), what, "write optional or required");
    }
    mode
}
