//! Private keys in tokens: PKCS #11 URIs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use penstock_sys::small_file::{self, SmallFileError};
use penstock_tls::pkcs11_uri::Pkcs11Uri;
use serde_saphyr::Spanned;

use super::pem::{unreadable, warn_of_open_file};
use super::reader::Reader;
use crate::limits;
use crate::model::TokenAccess;
use crate::section::{Text, position};

/// Reads a URI; `None` after a fault.
pub(super) fn token(text: &Text, deadline: Duration, reader: &mut Reader<'_>) -> Option<Arc<TokenAccess>> {
    let mut uri = match Pkcs11Uri::parse(&text.value) {
        Ok(uri) => uri,
        Err(error) => {
            reader.fault(position(text), format!("pkcs11: {error}"), error.instead());
            return None;
        }
    };
    uri.module = beside(&uri.module, text, reader);
    uri.pin = uri.pin.map(|pin| beside(&pin, text, reader));
    let has_module = is_file("module-path", &uri.module, u64::MAX, text, reader);
    let has_pin = uri.pin.as_ref().is_none_or(|pin| {
        let is_there = is_file("pin-source", pin, limits::PIN_FILE_BYTES, text, reader);
        if is_there {
            warn_of_open_file("pin-source", pin, text, reader);
        }
        is_there
    });
    (has_module && has_pin).then(|| Arc::new(TokenAccess { uri, deadline }))
}

/// A relative path is one beside the configuration.
fn beside(path: &Path, text: &Text, reader: &Reader<'_>) -> PathBuf {
    reader.path(&Spanned::new(path.to_string_lossy().into_owned(), text.referenced, text.defined))
}

fn is_file(name: &str, path: &Path, most: u64, text: &Text, reader: &mut Reader<'_>) -> bool {
    let found = small_file::open(path).and_then(|file| match file.metadata()?.len() <= most {
        true => Ok(()),
        false => Err(SmallFileError::TooLarge(most)),
    });
    let wrong = match found {
        Ok(()) => return true,
        Err(SmallFileError::Unreadable(error)) => unreadable(&error),
        Err(other) => other.to_string(),
    };
    let instead = match name {
        "module-path" => {
            "write the path of the module's shared library, such as /usr/lib/softhsm/libsofthsm2.so"
        }
        _ => "write the path of a file whose first line is the PIN",
    };
    reader.fault(position(text), format!("pkcs11: {name}: {} {wrong}", path.display()), instead);
    false
}
