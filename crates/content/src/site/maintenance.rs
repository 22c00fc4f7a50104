//! A file whose existence takes a site out of service.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use penstock_config::limits;
use penstock_origin::io_threads::IoThreads;

/// Whether a file exists, looked for at most once a second by an I/O thread.
#[derive(Debug)]
pub(crate) struct Maintenance {
    path: PathBuf,
    begin: Instant,
    exists: AtomicBool,
    /// When the next look is due, in milliseconds since `begin`.
    due: AtomicU64,
}

impl Maintenance {
    /// The first request looks for the file.
    pub(crate) fn new(path: &Path) -> Self {
        let (exists, due) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { path: path.to_owned(), begin: Instant::now(), exists, due }
    }

    /// Whether the file exists. The request that finds a look due waits for it; others take what the last one found.
    pub(crate) async fn is_on(self: &Arc<Self>, io: &IoThreads, now: Instant) -> bool {
        let now = now.saturating_duration_since(self.begin).as_millis();
        let now = u64::try_from(now).unwrap_or(u64::MAX);
        let due = self.due.load(Ordering::Relaxed);
        let next = now.saturating_add(limits::MAINTENANCE_MILLISECONDS);
        let is_mine =
            now >= due && self.due.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_mine {
            let maintenance = Arc::clone(self);
            let look = io.run(move || {
                let exists = maintenance.path.exists();
                maintenance.exists.store(exists, Ordering::Relaxed);
            });
            if let Ok(looking) = look {
                // A thread that ends leaves what was known.
                let _known = looking.await;
            }
        }
        self.exists.load(Ordering::Relaxed)
    }
}
