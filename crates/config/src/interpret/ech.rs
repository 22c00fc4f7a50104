//! Encrypted ClientHello.

use std::path::PathBuf;

use penstock_sys::traffic::Version;
use serde_saphyr::Spanned;

use super::reader::Reader;
use crate::raw;
use crate::section::place;

pub(super) fn ech(
    written: Option<&Spanned<raw::Ech>>,
    newest: Version,
    reader: &mut Reader<'_>,
) -> Option<PathBuf> {
    let section = written?;
    if newest != Version::Tls13 {
        reader.fault(place(section), "ech: it needs TLS 1.3", "add \"1.3\" to versions, or remove ech");
    }
    let Some(text) = &section.value.directory else {
        let instead = "write {directory: ech-keys}, and fill it with: penstock ech new";
        reader.fault(place(section), "ech: no directory is named", instead);
        return None;
    };
    Some(reader.directory("directory", text))
}
