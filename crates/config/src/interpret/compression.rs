//! How certificates are compressed.

use penstock_tls::Compression;

use super::reader::Reader;
use super::strays::nearest;
use crate::section::{Texts, place};

/// The list as it was written; without faults nothing stands in it twice.
pub(super) fn certificate_compression(list: &Texts, reader: &mut Reader<'_>) -> Vec<Compression> {
    let mut found = Vec::new();
    for text in &list.value {
        let name = text.value.as_str();
        match Compression::ALL.into_iter().find(|known| known.label() == name) {
            Some(known) if found.contains(&known) => {
                let what = format!("certificate_compression: {name} is listed twice");
                reader.fault(place(text), what, "keep one of them");
            }
            Some(known) => found.push(known),
            None => {
                let near = nearest(name, Compression::ALL.iter().map(|known| known.label()));
                let instead = near.map_or_else(
                    || "write brotli, zstd or zlib, or an empty list".to_owned(),
                    |near| format!("write {near}"),
                );
                reader.fault(place(text), format!("certificate_compression: `{name}` is unknown"), instead);
            }
        }
    }
    found
}
