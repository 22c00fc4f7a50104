//! Names and passwords (RFC 7617), verified on the threads for files.
//!
//! A hash of a password takes long to compute on purpose. Few are computed at a time, few requests wait for that, and a password that
//! was right is remembered, so that only the first request of a client waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use argon2::{Argon2, PasswordHash, PasswordVerifier};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use penstock_config::{Accounts, BasicAccess, limits};
use penstock_origin::io_threads::IoThreads;
use tokio::sync::Semaphore;

use super::AccessRefusal;
use crate::site::followed::Followed;
use crate::site::verified_secrets::VerifiedSecrets;

/// Passwords that are verified at a time: the threads have files to open, too.
const AT_A_TIME: usize = 2;

/// The names and passwords of a site.
#[derive(Debug)]
pub(crate) struct Passwords {
    accounts: Followed<Accounts>,
    /// The value of WWW-Authenticate.
    pub(crate) challenge: String,
    verified: Arc<VerifiedPasswords>,
}

/// What all sites have in common: passwords that are being verified, and those that were right, with signatures of tokens.
#[derive(Debug)]
pub(crate) struct VerifiedPasswords {
    running: Arc<Semaphore>,
    waiting: AtomicUsize,
    /// What was right.
    pub(crate) secrets: Arc<VerifiedSecrets>,
}

impl Default for VerifiedPasswords {
    fn default() -> Self {
        Self {
            running: Arc::new(Semaphore::new(AT_A_TIME)),
            waiting: AtomicUsize::new(0),
            secrets: Arc::default(),
        }
    }
}

/// Counts a request that waits for a verification.
struct Waiting<'w>(&'w AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl VerifiedPasswords {
    /// Whether a password has this hash. Waits for the threads for files.
    async fn verify(&self, password: Vec<u8>, hash: String, io: &IoThreads) -> Result<bool, AccessRefusal> {
        let waiting = Waiting(&self.waiting);
        if self.waiting.fetch_add(1, Relaxed) >= limits::PASSWORDS_QUEUED {
            return Err(AccessRefusal::Busy);
        }
        let running = Arc::clone(&self.running).acquire_owned().await;
        let job = io.run(move || {
            let is_right = is_right(&password, &hash);
            drop(running);
            is_right
        });
        let is_right = job.map_err(|_| AccessRefusal::Busy)?.await.map_err(|_| AccessRefusal::Busy);
        drop(waiting);
        is_right
    }
}

impl Passwords {
    pub(crate) fn new(raw: &BasicAccess, verified: &Arc<VerifiedPasswords>, now: Instant) -> Self {
        Self {
            accounts: Followed::new(&raw.file, raw.accounts.clone(), Accounts::read, now),
            challenge: format!("Basic realm=\"{}\", charset=\"UTF-8\"", raw.realm),
            verified: Arc::clone(verified),
        }
    }

    /// Whether the field Authorization has a name with its password.
    pub(crate) async fn admit(
        &self,
        authorization: Option<&[u8]>,
        io: &IoThreads,
        now: Instant,
    ) -> Result<(), AccessRefusal> {
        let (name, password) = authorization.and_then(credentials).ok_or(AccessRefusal::Credentials)?;
        let accounts = self.accounts.contents(io, now);
        let known = accounts.hash_of(&name);
        // The password of an unknown name takes as long as one of a known name.
        let hash = known.unwrap_or_else(|| accounts.any_hash());
        let tag = self.verified.secrets.tag((&name, &password, hash));
        if known.is_some() && self.verified.secrets.knows(tag) {
            return Ok(());
        }
        let is_right = self.verified.verify(password, hash.to_owned(), io).await?;
        if known.is_none() || !is_right {
            return Err(AccessRefusal::Credentials);
        }
        self.verified.secrets.remember(tag);
        Ok(())
    }
}

/// Name and password of a field (RFC 7617 §2).
pub(super) fn credentials(authorization: &[u8]) -> Option<(String, Vec<u8>)> {
    let (scheme, encoded) = str::from_utf8(authorization).ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("Basic") {
        return None;
    }
    let mut bytes = STANDARD.decode(encoded.trim()).ok()?;
    let colon = bytes.iter().position(|byte| *byte == b':')?;
    let password = bytes.split_off(colon + 1);
    bytes.pop();
    Some((String::from_utf8(bytes).ok()?, password))
}

fn is_right(password: &[u8], hash: &str) -> bool {
    if hash.starts_with("$argon2") {
        let Ok(parsed) = PasswordHash::new(hash) else { return false };
        return Argon2::default().verify_password(password, &parsed).is_ok();
    }
    bcrypt::verify(password, hash).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use penstock_origin::io_threads::IoLimits;

    use super::*;

    #[test]
    fn credentials_are_a_name_and_a_password_that_may_have_colons() {
        let read = |text: &str| {
            credentials(text.as_bytes()).map(|(name, word)| (name, String::from_utf8(word).unwrap()))
        };
        assert_eq!(read("Basic YW5uYTpzZTpjcmV0"), Some(("anna".to_owned(), "se:cret".to_owned())));
        assert_eq!(read("bAsIc Og=="), Some((String::new(), String::new())));
        for wrong in ["", "Basic", "Basic ", "Basic !", "Bearer YW5uYTpzZTpjcmV0", "Basic YW5uYQ=="] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_password_of_a_hash_is_right_and_no_other() {
        let bcrypt = bcrypt::hash_with_result("secret", 4).unwrap().format_for_version(bcrypt::Version::TwoY);
        let salt = argon2::password_hash::SaltString::from_b64("c2FsdHNhbHQ").unwrap();
        let argon =
            argon2::PasswordHasher::hash_password(&Argon2::default(), b"secret", &salt).unwrap().to_string();
        for hash in [bcrypt, argon] {
            assert!(is_right(b"secret", &hash) && !is_right(b"Secret", &hash), "{hash}");
        }
        assert!(!is_right(b"", "") && !is_right(b"x", "$argon2id$") && !is_right(b"x", "$2y$04$"));
    }

    #[tokio::test]
    async fn no_more_passwords_wait_than_may() {
        let verified = VerifiedPasswords::default();
        let io = IoThreads::start(IoLimits { threads: 1, queued: 64, queued_later: 8 }).unwrap();
        verified.waiting.store(limits::PASSWORDS_QUEUED, Relaxed);
        assert_eq!(verified.verify(Vec::new(), String::new(), &io).await, Err(AccessRefusal::Busy));
        assert_eq!(verified.waiting.load(Relaxed), limits::PASSWORDS_QUEUED);
    }
}
