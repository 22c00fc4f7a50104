//! The server's certificates, read and proven.

use std::path::Path;
use std::sync::Arc;

use penstock_tls::DefaultFor;
use penstock_tls::certificate::KeyKind;
use serde_saphyr::Spanned;

use super::pem::{is_plausible, unreadable, when};
use super::reader::Reader;
use super::{ocsp, pem, private_keys};
use crate::certificate_files::{CertificateFiles, FoundCertificate, Scan, Unusable, scan};
use crate::limits;
use crate::model::{CertificateDirectory, ConfiguredCertificate, Ocsp};
use crate::raw;
use crate::section::{Position, Text, position};

/// The directories among the certificates.
pub(super) fn directories(raw: &raw::Tls, reader: &mut Reader<'_>) -> Vec<CertificateDirectory> {
    let sections = raw.certificates.as_ref().map_or(&[][..], |list| &list.value);
    let entries = sections.iter().filter_map(|section| Some((section, section.value.directory.as_ref()?)));
    let mut directories = Vec::new();
    for (section, text) in entries {
        let raw = &section.value;
        let extras = [
            ("chain", raw.chain.as_ref().map(position)),
            ("key", raw.key.as_ref().map(position)),
            ("fallback", raw.fallback.as_ref().map(position)),
            ("default", raw.default.as_ref().map(position)),
        ];
        for (key, extra) in extras {
            if let Some(here) = extra {
                let what = format!("{key}: a directory has none of its own");
                reader.fault(here, what, "move it to an entry of its own, without directory");
            }
        }
        directories.extend(directory(text, reader));
    }
    directories
}

fn directory(text: &Text, reader: &mut Reader<'_>) -> Option<CertificateDirectory> {
    let faults = reader.number_of_faults();
    let path = reader.directory("directory", text);
    if reader.number_of_faults() > faults {
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
            let keys = found.iter().filter_map(|one| one.files.key.path());
            keys.for_each(|key| reader.note_secret("directory", key, here));
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
        first.files.key.path().unwrap_or(&first.files.chain).display()
    );
    reader.warning(here, what, "run chmod 600 on them");
}

fn warn_of_ends(directory: &Path, found: &[Arc<FoundCertificate>], here: Position, reader: &mut Reader<'_>) {
    let is_late = |one: &&Arc<FoundCertificate>| {
        one.summary.late_from(limits::CERTIFICATE_WARNING).is_some_and(|late| late < reader.now)
    };
    let ending = found.iter().filter(is_late).filter_map(|one| Some((one.summary.not_after()?, one)));
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
                        "default: the certificate on {} is already the default for {} keys",
                        reader.line(*first, here),
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

fn certificate(
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
    let chain = reader.path(chain_text);
    let chain_is_plausible = is_plausible("chain", chain_text, &chain, reader);
    let place = private_keys::place(key_text, section.value.fallback.as_ref(), reader)?;
    if !chain_is_plausible {
        return None;
    }
    let key_text = &place.file_text;
    let files = CertificateFiles { chain, key: place.file };
    let stamp = files.stamp();
    let certificate = Arc::new(pem::load(&files, (chain_text, key_text), reader)?);
    let (remote, files) = (place.remote, Some((files, stamp)));
    Some(ConfiguredCertificate { certificate, default, ocsp: None, files, remote })
}
