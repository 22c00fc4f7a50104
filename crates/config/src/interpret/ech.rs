//! Encrypted ClientHello.

use std::path::{Path, PathBuf};

use penstock_sys::traffic::ProtocolVersion;
use penstock_tls::ech::{EchDirectory, EchKey};
use serde_saphyr::Spanned;

use super::reader::Reader;
use crate::limits;
use crate::raw;
use crate::section::position;

pub(super) fn ech(
    raw: Option<&Spanned<raw::Ech>>,
    newest: ProtocolVersion,
    reader: &mut Reader<'_>,
) -> Option<PathBuf> {
    let section = raw?;
    if newest != ProtocolVersion::Tls13 {
        reader.fault(position(section), "ech: it needs TLS 1.3", "add \"1.3\" to versions, or remove ech");
    }
    let Some(text) = &section.value.directory else {
        let instead = "write {directory: ech-keys}, and fill it with: penstock ech new";
        reader.fault(position(section), "ech: no directory is named", instead);
        return None;
    };
    Some(reader.directory("directory", text))
}

/// Warns of public names without a certificate: a client with an outdated key accepts a new one only from a server that
/// authenticates as the public name (RFC 9849 section 6.1.7).
pub(super) fn warn<'a>(
    raw: Option<&Spanned<raw::Ech>>,
    directory: Option<&Path>,
    covered: impl Iterator<Item = &'a str> + Clone,
    reader: &mut Reader<'_>,
) {
    let (Some(raw), Some(directory)) = (raw, directory) else { return };
    let read = EchDirectory::read(directory, limits::ECH_KEYS_MAX, limits::ECH_FILE_BYTES);
    let mut names: Vec<String> =
        read.iter().flat_map(|found| &found.keys).flat_map(EchKey::public_names).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        if !covered.clone().any(|one| covers(one, &name)) {
            let what = format!("ech: no certificate is for the public name {}", name.escape_debug());
            let instead = "add one: clients with an outdated key need it to learn the new one";
            reader.warning(position(raw), what, instead);
        }
    }
}

/// Whether a certificate's name is this one, or a wildcard for its first label.
fn covers(certificate: &str, name: &str) -> bool {
    let wildcard = certificate.strip_prefix("*.");
    let parent = name.split_once('.').map(|(_, parent)| parent);
    certificate.eq_ignore_ascii_case(name)
        || wildcard.zip(parent).is_some_and(|(one, other)| one.eq_ignore_ascii_case(other))
}
