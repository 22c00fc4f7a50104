//! Sources of OCSP responses.

use penstock_tls::certificate::Certificate;
use serde_saphyr::Spanned;

use super::reader::Reader;
use crate::limits;
use crate::model::Ocsp;
use crate::raw;
use crate::section::{Position, Text, WordOr, position};
use crate::units::Size;

pub(super) fn ocsp(raw: &Spanned<WordOr<raw::Ocsp>>, reader: &mut Reader<'_>) -> Option<Ocsp> {
    match &raw.value {
        WordOr::Word(word) => match word.as_str() {
            "auto" => Some(Ocsp::Auto),
            "off" | "false" => Some(Ocsp::Off),
            other => {
                let instead = "write auto, off or {file: staple.der}";
                reader.fault(position(raw), format!("ocsp: `{other}` is unknown"), instead);
                None
            }
        },
        WordOr::Section(raw::Ocsp { file: Some(text), .. }) => file(text, reader),
        WordOr::Section(_) => {
            reader.fault(position(raw), "ocsp: no file is named", "write {file: staple.der} or auto");
            None
        }
    }
}

fn file(text: &Text, reader: &mut Reader<'_>) -> Option<Ocsp> {
    let path = reader.path(text);
    let shown = path.display();
    let (what, instead) = match path.metadata() {
        Ok(found) if !found.is_file() => {
            (format!("{shown} is not a regular file"), "write the path of a file")
        }
        Ok(found) if found.len() > limits::OCSP_RESPONSE_BYTES => {
            (format!("{shown} is larger than {}", Size(limits::OCSP_RESPONSE_BYTES)), "write a file in DER")
        }
        Ok(_) => return Some(Ocsp::File(path)),
        Err(error) => {
            (format!("{shown} cannot be read ({error})"), "make it with: openssl ocsp -respout FILE ...")
        }
    };
    reader.fault(position(text), format!("file: {what}"), instead);
    None
}

/// Warns if a certificate should have a staple and cannot get one.
pub(super) fn warn(certificate: &Certificate, source: &Ocsp, here: Position, reader: &mut Reader<'_>) {
    let Ok(identity) = penstock_tls::ocsp::OcspIdentity::of_certificate(certificate) else { return };
    let wants_one = match source {
        Ocsp::Off => false,
        Ocsp::Auto => identity.responder.is_some(),
        Ocsp::File(_) => true,
    };
    if identity.must_staple && !wants_one {
        let what = "ocsp: clients refuse this certificate without a staple (RFC 7633), and there is none";
        reader.warning(here, what, "write ocsp: auto, or ocsp: {file: staple.der}");
    } else if wants_one && !identity.has_issuer() {
        let what = "ocsp: nothing can be stapled, since no response can be checked without the issuer";
        reader.warning(here, what, "append the certificate of the issuer to the chain");
    }
}
