//! The secrets that tokens of a site are signed with.

use std::sync::Arc;
use std::time::Instant;

use penstock_config::{SecretForm, SigningKey};
use penstock_origin::io_threads::IoThreads;
use penstock_sys::traffic::Secret;

use crate::site::followed::Followed;

/// Secrets with their names, whose files are followed.
#[derive(Debug)]
pub(super) struct SecretKeys(Vec<(String, Followed<Arc<Secret>>)>);

impl SecretKeys {
    pub(super) fn new<'k>(
        keys: impl IntoIterator<Item = &'k Arc<SigningKey>>,
        form: SecretForm,
        now: Instant,
    ) -> Self {
        let followed = |key: &Arc<SigningKey>| {
            let secret = Followed::new(&key.file, Arc::clone(&key.secret), form.reader(), now);
            (key.id.clone(), secret)
        };
        Self(keys.into_iter().map(followed).collect())
    }

    /// The secrets that a token may be signed with that names one, or none.
    pub(super) fn candidates<'k>(
        &'k self,
        id: Option<&'k str>,
        io: &'k IoThreads,
        now: Instant,
    ) -> impl Iterator<Item = Arc<Secret>> + 'k {
        let of_name = move |name: &str| id.is_none_or(|id| name.is_empty() || name == id);
        let candidates = self.0.iter().filter(move |(name, _)| of_name(name));
        candidates.map(move |(_, secret)| Arc::clone(&*secret.contents(io, now)))
    }
}
