//! Secrets that sign tokens, one a file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use penstock_sys::small_file::{self, SmallFileError};
use penstock_sys::traffic::Secret;

use crate::certificate_files::is_open;
use crate::limits;

/// A secret and the name by which tokens refer to it.
pub struct SigningKey {
    /// Letters, digits, `-` and `_`; empty for a key that stands for any name.
    pub id: String,
    /// Its file.
    pub file: PathBuf,
    /// What the file had when the configuration was read.
    pub secret: Arc<Secret>,
}

impl SigningKey {
    /// A secret that is in no file.
    pub fn new(id: &str, secret: Secret) -> Self {
        Self { id: id.to_owned(), file: PathBuf::new(), secret: Arc::new(secret) }
    }
}

/// How a file holds a secret. Line ends at its end do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretForm {
    /// As its bytes.
    Text,
    /// As its bytes, which may be few: another service has chosen them.
    Short,
    /// In hexadecimal digits, which may be few as well.
    Hexadecimal,
}

impl SecretForm {
    /// The secret in the bytes of a file.
    ///
    /// # Errors
    /// Why there is none. Says nothing of the bytes.
    pub fn secret(self, bytes: Vec<u8>) -> Result<Secret, String> {
        let least = limits::SIGNING_KEY_BYTES_MIN;
        let bytes = without_line_ends(bytes);
        match self {
            Self::Text if bytes.expose().len() < least => Err(format!("has less than {least} bytes")),
            Self::Short | Self::Hexadecimal if bytes.expose().is_empty() => Err("is empty".to_owned()),
            Self::Text | Self::Short => Ok(bytes),
            Self::Hexadecimal => hexadecimal(bytes.expose())
                .map(Secret::new)
                .ok_or_else(|| "has other characters than pairs of hexadecimal digits".to_owned()),
        }
    }

    /// What reads a file of this form again.
    pub fn reader(self) -> fn(&Path) -> Result<Arc<Secret>, String> {
        match self {
            Self::Text => |path| Self::Text.read(path),
            Self::Short => |path| Self::Short.read(path),
            Self::Hexadecimal => |path| Self::Hexadecimal.read(path),
        }
    }

    fn read(self, path: &Path) -> Result<Arc<Secret>, String> {
        let (bytes, _) = read_key_file(path).map_err(|error| error.to_string())?;
        self.secret(bytes).map(Arc::new)
    }
}

/// Reads the file of a key, and returns whether every user of this machine may read it.
///
/// # Errors
/// See [`SmallFileError`].
pub fn read_key_file(path: &Path) -> Result<(Vec<u8>, bool), SmallFileError> {
    let bytes = small_file::read(path, limits::SIGNING_KEY_FILE_BYTES)?;
    Ok((bytes, is_open(path)))
}

/// The secret in the bytes of a key's file; `None` if it is too short.
pub fn secret_of_file(bytes: Vec<u8>) -> Option<Secret> {
    SecretForm::Text.secret(bytes).ok()
}

/// Whether this can be the name of a key.
pub fn is_key_id(id: &str) -> bool {
    let id_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=limits::SIGNING_KEY_ID_BYTES).contains(&id.len()) && id.bytes().all(id_byte)
}

fn without_line_ends(mut bytes: Vec<u8>) -> Secret {
    let end = bytes.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
    bytes.truncate(end);
    Secret::new(bytes)
}

fn hexadecimal(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    digits.chunks(2).map(pair).collect()
}

impl PartialEq for SigningKey {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.file == other.file && self.secret.expose() == other.secret.expose()
    }
}

impl Eq for SigningKey {}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.id).finish_non_exhaustive()
    }
}
