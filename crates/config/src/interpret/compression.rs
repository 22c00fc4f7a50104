//! Compression of certificates.

use penstock_tls::Compression;

use super::reader::Reader;
use super::unknown_keys::nearest;
use crate::section::{Texts, position};

/// The algorithms in their order; a repeated one is a fault.
pub(super) fn certificate_compression(list: &Texts, reader: &mut Reader<'_>) -> Vec<Compression> {
    let mut found = Vec::new();
    for text in &list.value {
        let name = text.value.as_str();
        match Compression::ALL.into_iter().find(|known| known.label() == name) {
            Some(known) if found.contains(&known) => {
                let what = format!("certificate_compression: {name} is listed twice");
                reader.fault(position(text), what, "keep one of them");
            }
            Some(known) => found.push(known),
            None => {
                let near = nearest(name, Compression::ALL.iter().map(|known| known.label()));
                let instead = near.map_or_else(
                    || "write brotli, zstd or zlib, or an empty list".to_owned(),
                    |near| format!("write {near}"),
                );
                reader.fault(
                    position(text),
                    format!("certificate_compression: `{name}` is unknown"),
                    instead,
                );
            }
        }
    }
    found
}
