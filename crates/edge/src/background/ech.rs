//! Keys for encrypted hellos, taken up when their directory changes.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use penstock_config::limits;
use penstock_sys::lock::Unpoisoned;
use penstock_tls::ech::EchDirectory;

use crate::metrics::BackgroundCounters;
use crate::settings::Settings;

/// The directory as it was when it was read last.
pub(super) struct EchFiles {
    counters: Arc<BackgroundCounters>,
    seen: Mutex<Vec<(PathBuf, u64, Option<SystemTime>)>>,
    /// Which settings have the keys.
    generation: AtomicU64,
}

/// The configuration of Encrypted ClientHello.
pub(super) struct EchSource {
    pub(super) directory: Option<PathBuf>,
    pub(super) settings: Arc<Settings>,
    pub(super) generation: u64,
}

impl EchFiles {
    pub(super) fn new(counters: Arc<BackgroundCounters>) -> Self {
        Self { counters, seen: Mutex::default(), generation: AtomicU64::new(0) }
    }

    /// Reads the keys if a file came, went or changed, or if the settings are new.
    pub(super) fn read(&self, source: &EchSource) {
        let (Some(path), Some(acceptor)) = (&source.directory, &source.settings.acceptor) else {
            self.counters.ech_keys(0, 0);
            return;
        };
        let mut seen = self.seen.lock().unpoisoned();
        let found = listing(path);
        let is_new = self.generation.swap(source.generation, Relaxed) != source.generation;
        if !is_new && *seen == found {
            return;
        }
        let changed = *seen != found;
        *seen = found;
        let directory = match EchDirectory::read(path, limits::ECH_KEYS_MAX, limits::ECH_FILE_BYTES) {
            Ok(directory) => directory,
            Err(error) => {
                tracing::warn!("cannot list {}: {error}; the ECH keys stay as they were", path.display());
                return;
            }
        };
        self.counters.ech_keys(directory.keys.len(), directory.ignored.len());
        if changed {
            for (file, why) in &directory.ignored {
                tracing::warn!("{} is no ECH key: {why}", file.display());
            }
        }
        if directory.keys.is_empty() {
            tracing::warn!("there is no ECH key in {}: write one with penstock ech new", path.display());
        }
        if let Err(error) = acceptor.set_ech_keys(&directory.keys) {
            tracing::warn!("the ECH keys in {} cannot be used: {error}", path.display());
        }
    }
}

fn listing(path: &std::path::Path) -> Vec<(PathBuf, u64, Option<SystemTime>)> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .map(|entry| {
            let metadata = entry.path().metadata().ok();
            let modified = metadata.as_ref().and_then(|metadata| metadata.modified().ok());
            (entry.path(), metadata.map_or(0, |metadata| metadata.len()), modified)
        })
        .take(limits::ECH_LISTED_MAX)
        .collect();
    found.sort();
    found
}
