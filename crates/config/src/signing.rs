//! Keys of signed URLs.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use penstock_sys::traffic::Secret;

use crate::limits;

/// How the URLs of a site are signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedUrls {
    /// Keys that a signature may be made with; at least one, and no two with the same name.
    pub keys: Vec<Arc<SigningKey>>,
    /// Query parameter with the token, which may also stand in front of the path: `/token=…/vod/film.mp4`.
    pub parameter: String,
    /// Cookie with the token; `None` if cookies are not looked at.
    pub cookie: Option<String>,
}

/// A key and the name by which tokens refer to it.
pub struct SigningKey {
    /// Letters, digits, `-` and `_`.
    pub id: String,
    /// The contents of the file, without line ends at its end.
    pub secret: Secret,
}

/// Reads the file of a key, and returns whether every user of this machine may read it.
///
/// # Errors
/// The system's error, or that the file is no key.
pub fn read_key_file(path: &Path) -> io::Result<(Vec<u8>, bool)> {
    const READABLE_BY_OTHERS: u32 = 0o004;
    let found = path.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(limits::SIGNING_KEY_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limits::SIGNING_KEY_FILE_BYTES {
        return Err(io::Error::other("it is too large for a key"));
    }
    Ok((bytes, found.mode() & READABLE_BY_OTHERS != 0))
}

/// The secret in the bytes of a key's file; `None` if it is too short.
pub fn secret_of_file(mut bytes: Vec<u8>) -> Option<Secret> {
    let end = bytes.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
    bytes.truncate(end);
    let secret = Secret::new(bytes);
    (secret.expose().len() >= limits::SIGNING_KEY_BYTES_MIN).then_some(secret)
}

/// Whether this can be the name of a key.
pub fn is_key_id(id: &str) -> bool {
    let id_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=limits::SIGNING_KEY_ID_BYTES).contains(&id.len()) && id.bytes().all(id_byte)
}

impl PartialEq for SigningKey {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.secret.expose() == other.secret.expose()
    }
}

impl Eq for SigningKey {}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.id).finish_non_exhaustive()
    }
}
