//! Private keys in tokens of hardware modules.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use penstock_config::{TokenAccess, limits};
use penstock_keys::{SignerCounts, Token, TokenKey, TokenLimits};
use penstock_metrics::SignerStatus;
use penstock_tls::remote_key::KeyId;

use crate::keyring::{Key, Signer};

/// The tokens of a configuration, and the keys in them that it names.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    tokens: Vec<(Arc<TokenAccess>, Arc<Token>)>,
    keys: Vec<(String, Arc<TokenKey>)>,
    counts: Arc<SignerCounts>,
}

impl Tokens {
    /// Opens the tokens. Those that `previous` has stay open.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn start(configured: &[Arc<TokenAccess>], previous: &Self) -> io::Result<Self> {
        let mut tokens = Self { counts: Arc::clone(&previous.counts), ..Self::default() };
        for access in configured {
            let known = tokens.find(access).or_else(|| previous.find(access)).map(Arc::clone);
            let token = match known {
                Some(token) => token,
                None if tokens.tokens.len() >= limits::TOKENS_MAX => {
                    let most = limits::TOKENS_MAX;
                    return Err(io::Error::other(format!("there are more than {most} tokens")));
                }
                None => Token::start(&access.uri, token_limits(access), &tokens.counts)?,
            };
            tokens.keys.push((access.uri.key.to_string(), token.key(&access.uri.key)));
            if tokens.find(access).is_none() {
                tokens.tokens.push((Arc::clone(access), token));
            }
        }
        Ok(tokens)
    }

    /// Waits until the tokens have shown all keys, but not long: one that is away must not delay the others.
    pub(crate) fn wait(&self) {
        let until = Instant::now() + Duration::from_secs(limits::TOKEN_START_SECONDS);
        while !self.is_complete() && Instant::now() < until {
            thread::sleep(Duration::from_millis(limits::TOKEN_LOOK_MILLISECONDS));
        }
    }

    /// Whether the tokens have shown all keys.
    pub(crate) fn is_complete(&self) -> bool {
        self.keys().count() == self.keys.len()
    }

    /// The keys that the tokens have shown.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Arc<Key>> {
        self.keys.iter().filter_map(|(name, key)| {
            let id = key.public()?.id()?;
            Some(Arc::new(Key { name: name.clone(), id, signer: Signer::Token(Arc::clone(key)) }))
        })
    }

    /// The identifiers of these keys.
    pub(crate) fn ids(&self) -> HashSet<KeyId> {
        self.keys().map(|key| key.id).collect()
    }

    /// How long the keys that the tokens have shown are taken for those that they have.
    pub(crate) fn recheck(&self) -> Duration {
        Duration::from_secs(if !self.is_complete() {
            limits::TOKEN_KEYS_RECHECK_SECONDS
        } else if self.keys.is_empty() {
            limits::CERTIFICATES_RECHECK_SECONDS
        } else {
            limits::TOKEN_KEYS_LOOK_SECONDS
        })
    }

    /// The state of each token.
    pub(crate) fn status(&self) -> Vec<SignerStatus> {
        let mut all: Vec<_> = self.tokens.iter().map(|(_, token)| token.status()).collect();
        // A token that is there with two PIN files is shown once.
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all.dedup_by(|one, other| one.name == other.name);
        all
    }

    fn find(&self, access: &TokenAccess) -> Option<&Arc<Token>> {
        self.tokens.iter().find(|(known, _)| known.is_same_token(access)).map(|(_, token)| token)
    }
}

fn token_limits(access: &TokenAccess) -> TokenLimits {
    TokenLimits {
        deadline: access.deadline,
        operations: limits::TOKEN_OPERATIONS,
        sessions: limits::TOKEN_SESSIONS,
        reopen_min: Duration::from_millis(limits::TOKEN_REOPEN_MILLISECONDS_MIN),
        reopen_max: Duration::from_millis(limits::TOKEN_REOPEN_MILLISECONDS_MAX),
        circuit_failures: limits::KEYSERVER_CIRCUIT_FAILURES,
        circuit_open: Duration::from_secs(limits::KEYSERVER_CIRCUIT_SECONDS),
        look: Duration::from_secs(limits::TOKEN_KEYS_LOOK_SECONDS),
    }
}
