//! Files of names and passwords, as `htpasswd -B` writes them. A password is stored as a hash that takes long to compute.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use penstock_sys::small_file;

use crate::limits;

/// Hashes of passwords by name.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Accounts(BTreeMap<String, String>);

/// Without the hashes.
impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Accounts").field(&self.0.len()).finish()
    }
}

impl Accounts {
    /// Reads a file with `NAME:HASH` a line; `#` begins a line of comment. Of two lines with one name the first counts.
    ///
    /// # Errors
    /// Why the file is no such list, with the number of the line. Says nothing of its contents.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text =
            small_file::read_text(path, limits::ACCOUNT_FILE_BYTES).map_err(|error| error.to_string())?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut accounts = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let number = number + 1;
            let Some((name, hash)) = line.split_once(':') else {
                return Err(format!("has no `NAME:HASH` in line {number}"));
            };
            let hash = hash.split(':').next().unwrap_or_default();
            is_fine(hash).map_err(|why| format!("has in line {number} {why}"))?;
            if name.is_empty() || name.contains(char::is_control) {
                return Err(format!("has no name, or one with control characters, in line {number}"));
            }
            accounts.entry(name.to_owned()).or_insert_with(|| hash.to_owned());
        }
        if accounts.is_empty() || accounts.len() > limits::ACCOUNTS {
            return Err(format!("has {} names; 1 to {} are possible", accounts.len(), limits::ACCOUNTS));
        }
        Ok(Self(accounts))
    }

    /// The hash of a name.
    pub fn hash_of(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The hash of some name: a password of an unknown one is compared with it, so that both take the same time.
    pub fn any_hash(&self) -> &str {
        self.0.values().next().map_or("", String::as_str)
    }
}

/// Whether a hash is of a kind that is known, and bounded in what it costs.
fn is_fine(hash: &str) -> Result<(), String> {
    if !hash.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("a hash with other characters than the visible ones of ASCII".to_owned());
    }
    let mut parts = hash.split('$').skip(1);
    match parts.next() {
        Some("2y" | "2a" | "2b" | "2x") => {
            let cost = parts.next().and_then(|cost| cost.parse::<u32>().ok());
            match cost {
                Some(cost) if (4..=limits::BCRYPT_COST_MAX).contains(&cost) && hash.len() == 60 => Ok(()),
                Some(cost) if cost > limits::BCRYPT_COST_MAX => Err(format!(
                    "a bcrypt hash of cost {cost}; at most {} is possible",
                    limits::BCRYPT_COST_MAX
                )),
                _ => Err("a broken bcrypt hash".to_owned()),
            }
        }
        Some("argon2id" | "argon2i" | "argon2d") => {
            let costs = parts.find(|part| part.starts_with("m=")).unwrap_or_default();
            let cost = |key: &str| {
                costs
                    .split(',')
                    .find_map(|cost| cost.strip_prefix(key)?.parse::<u32>().ok())
                    .unwrap_or(u32::MAX)
            };
            if cost("m=") > limits::ARGON2_KIB_MAX
                || cost("t=") > limits::ARGON2_PASSES_MAX
                || cost("p=") > 16
            {
                return Err(format!(
                    "an argon2 hash that costs more than m={},t={},p=16",
                    limits::ARGON2_KIB_MAX,
                    limits::ARGON2_PASSES_MAX
                ));
            }
            Ok(())
        }
        _ => Err("a hash that is neither bcrypt (htpasswd -B) nor argon2".to_owned()),
    }
}

/// The body of the fuzz target `accounts`: what is kept is bounded in number and in what it costs, and a fault shows no part of a
/// hash.
///
/// # Panics
/// When that does not hold.
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub fn fuzz_accounts(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    match Accounts::parse(text) {
        Ok(accounts) => {
            assert!((1..=limits::ACCOUNTS).contains(&accounts.0.len()));
            assert!(accounts.hash_of(accounts.0.keys().next().expect("there is one")).is_some());
            for (name, hash) in &accounts.0 {
                assert!(!name.is_empty() && !name.contains([':', '\n']) && is_fine(hash) == Ok(()));
            }
            // What is read means the same after it was written.
            let lines: String = accounts.0.iter().map(|(name, hash)| format!("{name}:{hash}\n")).collect();
            let is_comment = accounts.0.keys().any(|name| name.starts_with('#') || name.trim() != name);
            assert!(is_comment || Accounts::parse(&lines) == Ok(accounts));
        }
        Err(fault) => assert!(!fault.contains(['$', '\n']) && fault.len() < 200, "{fault:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BCRYPT: &str = "$2y$04$AIrXZjz8y39BrFE1T0k7fOEXEL1ehRJDyYSIiUTDJ5MBvlmWoT0Ce";

    #[test]
    fn names_have_their_hashes_and_the_first_of_two_counts() {
        let text = format!(
            "# users\nanna:{BCRYPT}\n\nbert:$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA\nanna:x$y\n"
        );
        assert!(Accounts::parse(&text).is_err(), "the last line has no hash");
        let accounts = Accounts::parse(text.trim_end_matches("anna:x$y\n")).unwrap();
        assert_eq!((accounts.hash_of("anna"), accounts.hash_of("carl")), (Some(BCRYPT), None));
        assert!(!format!("{accounts:?}").contains('$'));
    }

    #[test]
    fn control_characters_within_a_line_are_refused() {
        for line in
            [format!("anna:{BCRYPT}\r:extra"), format!("an\rna:{BCRYPT}"), format!("anna:{BCRYPT} :extra")]
        {
            assert!(Accounts::parse(&line).is_err(), "{line:?}");
        }
        assert!(Accounts::parse(&format!("anna:{BCRYPT}\r\nbert:{BCRYPT}:extra\r\n")).is_ok());
    }

    #[test]
    fn hashes_that_are_weak_broken_or_dear_are_refused_and_not_shown() {
        let dear = BCRYPT.replace("$04$", "$15$");
        for (hash, why) in [
            ("$apr1$abc$def", "neither bcrypt (htpasswd -B) nor argon2"),
            ("{SHA}fEqNCco3Yq9h5ZUglD3CZJT4lBs=", "neither"),
            ("plain", "neither"),
            ("$2y$04$short", "broken"),
            (dear.as_str(), "cost 15; at most 14"),
            ("$argon2id$v=19$m=1048576,t=2,p=1$c2FsdA$aGFzaA", "costs more than m=65536"),
        ] {
            let fault = Accounts::parse(&format!("anna:{hash}\n")).unwrap_err();
            assert!(fault.contains("line 1") && fault.contains(why), "{fault}");
            assert!(!fault.contains(hash), "{fault}");
        }
        assert!(Accounts::parse("# nothing\n").is_err());
    }
}
