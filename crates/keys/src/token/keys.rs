//! The keys of a token: looked for again and again, because another may come under a name.

use std::sync::{Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use penstock_sys::lock::Unpoisoned;
use penstock_tls::pkcs11_uri::ObjectName;
use penstock_tls::remote_key::PublicKey;

use super::device::{TokenFault, TokenSession};

/// A key that is used, and what the token last said of it.
#[derive(Debug)]
pub(super) struct KeyState {
    pub(super) name: ObjectName,
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
struct Found {
    /// What the token shows of the key; `None` also while there is no such key.
    public: Option<PublicKey>,
    /// Why it was not found the last time.
    fault: Option<String>,
}

impl KeyState {
    pub(super) fn new(name: ObjectName) -> Self {
        Self { name, found: Mutex::default() }
    }

    pub(super) fn public(&self) -> Option<PublicKey> {
        self.found().public.clone()
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unpoisoned()
    }

    /// Records what a look has found; returns whether it was found. A key that cannot be told apart from its successor stays
    /// the one that it was, until one of them is removed.
    pub(super) fn record(&self, result: Result<Option<PublicKey>, TokenFault>, token: &str) -> bool {
        let name = &self.name;
        let mut found = self.found();
        match result {
            Ok(public) => {
                let id = |public: &Option<PublicKey>| public.as_ref().and_then(PublicKey::id);
                if found.public.is_some() && id(&found.public) != id(&public) {
                    tracing::info!("token `{token}`: private key `{name}` is another one now");
                }
                *found = Found { public, fault: None };
                true
            }
            Err(fault) => {
                if fault == TokenFault::Keys(0) {
                    found.public = None;
                }
                let fault = fault.to_string();
                if found.fault.as_ref() != Some(&fault) {
                    tracing::warn!("token `{token}`: private key `{name}`: {fault}");
                }
                found.fault = Some(fault);
                false
            }
        }
    }
}

/// The keys of a token, and when they are looked for.
#[derive(Debug)]
pub(super) struct Keys {
    all: Mutex<Vec<Weak<KeyState>>>,
    due: Mutex<Instant>,
    /// The pause between looks,
    interval: Duration,
    /// and while a key is missing.
    interval_missing: Duration,
}

impl Keys {
    pub(super) fn new(interval: Duration, interval_missing: Duration) -> Self {
        Self { all: Mutex::default(), due: Mutex::new(Instant::now()), interval, interval_missing }
    }

    /// Adds a key, which is to be looked for at once.
    pub(super) fn add(&self, key: Weak<KeyState>) {
        let mut keys = self.all();
        keys.retain(|key| key.strong_count() > 0);
        keys.push(key);
        drop(keys);
        *self.due() = Instant::now();
    }

    /// The time until the next look.
    pub(super) fn pause(&self) -> Duration {
        self.due().saturating_duration_since(Instant::now())
    }

    /// Whether a look is due. Then the caller looks, and other threads do not meanwhile.
    pub(super) fn take_look(&self) -> bool {
        let now = Instant::now();
        let mut due = self.due();
        let is_due = *due <= now;
        if is_due {
            *due = now + self.interval;
        }
        is_due
    }

    /// Looks for the keys.
    ///
    /// # Errors
    /// When the session is lost. Another one looks then.
    pub(super) fn look(&self, session: &mut dyn TokenSession, token: &str) -> Result<(), TokenFault> {
        let keys: Vec<_> = self.all().iter().filter_map(Weak::upgrade).collect();
        for key in keys {
            match session.look(&key.name) {
                Err(fault @ TokenFault::Lost(_)) => {
                    *self.due() = Instant::now();
                    return Err(fault);
                }
                result => {
                    if !key.record(result, token) {
                        let mut due = self.due();
                        *due = (*due).min(Instant::now() + self.interval_missing);
                    }
                }
            }
        }
        Ok(())
    }

    fn all(&self) -> MutexGuard<'_, Vec<Weak<KeyState>>> {
        self.all.lock().unpoisoned()
    }

    fn due(&self) -> MutexGuard<'_, Instant> {
        self.due.lock().unpoisoned()
    }
}
