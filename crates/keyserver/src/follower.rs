//! Keeps the keys those that are in their directories.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use penstock_config::limits;
use penstock_sys::watch::{Stop, Watch, Woken};
use penstock_tls::remote_key::KeyId;

use crate::directory::KeyDirectory;
use crate::keyring::Keyring;
use crate::shared::KeyserverState;
use crate::tokens::Tokens;

/// The directories of a configuration.
#[derive(Debug)]
pub(crate) struct Directories(Vec<KeyDirectory>);

impl Directories {
    /// Reads all of them. Faults of files are logged.
    ///
    /// # Errors
    /// The directory that cannot be read.
    pub(crate) fn read(paths: &[PathBuf]) -> Result<Self, (PathBuf, io::Error)> {
        let mut directories = Self(paths.iter().cloned().map(KeyDirectory::new).collect());
        for directory in &mut directories.0 {
            let changes = directory.refresh().map_err(|error| (directory.path().to_owned(), error))?;
            log_faults(&changes.faults);
        }
        Ok(directories)
    }

    /// The keys of the directories and of the tokens.
    pub(crate) fn keyring(&self, tokens: &Tokens) -> Keyring {
        Keyring::new(self.0.iter().flat_map(KeyDirectory::keys).chain(tokens.keys()))
    }

    /// Reads what has changed; returns the number of keys that are new, others, or gone.
    fn refresh(&mut self) -> usize {
        let mut changed = 0;
        for directory in &mut self.0 {
            match directory.refresh() {
                Ok(changes) => {
                    log_faults(&changes.faults);
                    changed += changes.changed;
                }
                Err(error) => {
                    let path = directory.path().display();
                    tracing::warn!("cannot read {path}, its keys stay: {error}");
                }
            }
        }
        changed
    }
}

fn log_faults(faults: &[String]) {
    for fault in faults.iter().take(limits::CERTIFICATE_FAULTS_NAMED) {
        tracing::warn!("{fault}");
    }
    let others = faults.len().saturating_sub(limits::CERTIFICATE_FAULTS_NAMED);
    if others > 0 {
        tracing::warn!("{others} other files cannot be used");
    }
}

/// The thread that follows the directories. Dropping it ends the thread.
#[derive(Debug)]
pub(crate) struct Follower(Stop);

impl Follower {
    pub(crate) fn start(
        directories: Directories,
        (tokens, in_force): (Arc<Tokens>, HashSet<KeyId>),
        shared: Arc<KeyserverState>,
    ) -> io::Result<Self> {
        let watch = Watch::new()?;
        let stop = watch.stop();
        thread::Builder::new()
            .name("key-files".into())
            .spawn(move || follow(directories, (&tokens, in_force), &watch, &shared))?;
        Ok(Self(stop))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// `in_tokens` are the keys in tokens that are in force already.
fn follow(
    mut directories: Directories,
    (tokens, mut in_tokens): (&Tokens, HashSet<KeyId>),
    watch: &Watch,
    shared: &KeyserverState,
) {
    loop {
        for directory in &directories.0 {
            if let Err(error) = watch.add(directory.path()) {
                let path = directory.path().display();
                tracing::debug!("{path} is looked at every minute, since it cannot be watched: {error}");
            }
        }
        // After watching, so that a change in between is not missed.
        let shown = tokens.ids();
        let changed = directories.refresh() + shown.symmetric_difference(&in_tokens).count();
        in_tokens = shown;
        if changed > 0 {
            let keyring = directories.keyring(tokens);
            tracing::info!("{changed} private keys have changed, {} in all", keyring.len());
            shared.keyring.store(Arc::new(keyring));
        }
        match wait_for_change(watch, tokens.recheck()) {
            Ok(Woken::Stopped) => return,
            Ok(_) => {}
            Err(error) => {
                tracing::error!("keys are not followed any more, a reload reads them: {error}");
                return;
            }
        }
    }
}

/// Waits for a change and then for it to be over.
fn wait_for_change(watch: &Watch, recheck: Duration) -> io::Result<Woken> {
    let first = watch.wait(recheck)?;
    if first != Woken::Changed {
        return Ok(first);
    }
    let until = Instant::now() + Duration::from_millis(limits::CERTIFICATES_SETTLE_MILLISECONDS_MAX);
    loop {
        let woken = watch.wait(Duration::from_millis(limits::CERTIFICATES_SETTLE_MILLISECONDS))?;
        if woken != Woken::Changed || Instant::now() >= until {
            return Ok(woken);
        }
    }
}
