//! Tokens that count no longer, by their ids.

use std::path::Path;
use std::sync::Arc;

use penstock_sys::digest::sha256;
use penstock_sys::small_file;

use crate::limits;

/// Digests of ids, in rising order: 16 bytes for each id of any length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevokedTokens(Arc<[[u8; 16]]>);

impl RevokedTokens {
    /// Reads a file with one id a line. White space around an id and lines that begin with `#` do not count.
    ///
    /// # Errors
    /// Why the file is no such list.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text =
            small_file::read_text(path, limits::REVOKED_FILE_BYTES).map_err(|error| error.to_string())?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let ids = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut digests: Vec<_> = ids.map(digest).collect();
        if digests.len() > limits::REVOKED_TOKENS {
            return Err(format!("has {} ids; {} are possible", digests.len(), limits::REVOKED_TOKENS));
        }
        digests.sort_unstable();
        digests.dedup();
        Ok(Self(digests.into()))
    }

    /// Whether a token with this id counts no longer.
    pub fn contains(&self, id: &str) -> bool {
        !self.0.is_empty() && self.0.binary_search(&digest(id)).is_ok()
    }
}

fn digest(id: &str) -> [u8; 16] {
    let mut digest = [0; 16];
    digest.copy_from_slice(&sha256(&[id.as_bytes()])[..16]);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_the_list_are_revoked_and_no_others() {
        let list = RevokedTokens::parse("# viewers\n  session-7\r\n\nsession-8\nsession-7\n").unwrap();
        for (id, expected) in
            [("session-7", true), ("session-8", true), ("session-", false), ("", false), ("# viewers", false)]
        {
            assert_eq!(list.contains(id), expected, "{id}");
        }
        assert_eq!(list.0.len(), 2);
        assert!(!RevokedTokens::default().contains(""));
        let many = "1\n".repeat(limits::REVOKED_TOKENS + 1);
        assert_eq!(RevokedTokens::parse(&many).unwrap_err(), "has 1000001 ids; 1000000 are possible");
    }
}
