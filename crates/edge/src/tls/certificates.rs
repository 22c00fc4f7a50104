//! Keeps the certificates on offer those that lie in their files.
//!
//! One thread watches the directories they lie in. When a change has settled it looks which files are different, and
//! offers what it finds to new clients. What cannot be used in the middle of a renewal, or ever, is said once and
//! the certificate that was there before stays.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use penstock_config::certificate_files::{CertificateFiles, FoundCertificate, Stamp, Unusable, scan};
use penstock_config::{Tls, limits};
use penstock_sys::lock::Unpoisoned;
use penstock_sys::watch::{Stop, Watch, Woken};
use penstock_tls::certificate::{Certificate, CertificateError, Summary};
use penstock_tls::remote_key::RemoteKey;
use penstock_tls::{Acceptor, CertificateSource, DefaultFor, LoadCertificate, OfferedCertificate};

use crate::metrics::{CertificateExpiry, Metrics, ReloadOutcome};
use crate::tls::remote_keys::RemoteKeys;

/// All certificates of a configuration and where they come from.
#[derive(Debug)]
pub(crate) struct CertificateSet {
    named: Vec<Named>,
    directories: Vec<Directory>,
    /// Self-signed ones for names whose certificates are being ordered.
    placeholders: Vec<Arc<Certificate>>,
}

/// A certificate that the configuration names.
#[derive(Debug)]
struct Named {
    certificate: Arc<Certificate>,
    default: DefaultFor,
    files: Option<(CertificateFiles, Stamp)>,
    /// Signs, if the key is elsewhere.
    remote: Option<Arc<dyn RemoteKey>>,
    unusable: Option<Unusable>,
}

/// A directory that the configuration names.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    /// It and those below it.
    below: Vec<PathBuf>,
    found: Vec<Arc<FoundCertificate>>,
    unusable: Vec<Unusable>,
    /// By its chain; the same one again for as long as its files do not change.
    lazy: HashMap<PathBuf, Arc<OnDisk>>,
}

/// A certificate that is read when a client needs it.
#[derive(Debug)]
struct OnDisk {
    found: Arc<FoundCertificate>,
    /// Why it could not be used when it was needed; said once.
    failed: Mutex<Option<Unusable>>,
}

impl LoadCertificate for OnDisk {
    fn load(&self) -> Result<Certificate, CertificateError> {
        self.found.files.load().inspect_err(|error| {
            let chain = self.found.files.chain.clone();
            let mut failed = self.failed.lock().unpoisoned();
            if failed.is_none() {
                tracing::warn!("{}: {error}; not used until the file is corrected", chain.display());
            }
            *failed = Some(Unusable { chain, reason: error.label(), what: error.to_string() });
        })
    }
}

impl CertificateSet {
    /// Starts with the certificates that the configuration names.
    ///
    /// # Errors
    /// Why a self-signed certificate cannot be made.
    pub(crate) fn new(tls: &Tls, keys: &RemoteKeys) -> Result<Self, String> {
        let named = tls.certificates.iter().map(|one| {
            let remote = one.remote.as_ref().and_then(|place| keys.at(place));
            let certificate = match &remote {
                Some(remote) => Arc::new(one.certificate.with_remote(Arc::clone(remote))),
                None => Arc::clone(&one.certificate),
            };
            Named { certificate, default: one.default, files: one.files.clone(), remote, unusable: None }
        });
        let directories = tls.certificate_directories.iter().map(|one| Directory {
            path: one.path.clone(),
            below: vec![one.path.clone()],
            found: one.found.clone(),
            unusable: one.unusable.clone(),
            lazy: HashMap::new(),
        });
        let ordered = tls.acme.iter().flat_map(|orders| &orders.names);
        let placeholders = ordered.map(|name| penstock_acme::placeholder(name, SystemTime::now()));
        Ok(Self {
            named: named.collect(),
            directories: directories.collect(),
            placeholders: placeholders.collect::<Result<_, _>>()?,
        })
    }

    /// The certificates that can be sent to clients.
    pub(crate) fn offered(&mut self) -> Vec<OfferedCertificate> {
        let mut offered: Vec<OfferedCertificate> =
            self.named.iter().map(|one| OfferedCertificate::loaded(&one.certificate, one.default)).collect();
        for directory in &mut self.directories {
            directory.offer(&mut offered);
        }
        let known: HashSet<&str> =
            offered.iter().flat_map(|one| one.summary.names()).map(String::as_str).collect();
        let needed = self
            .placeholders
            .iter()
            .filter(|one| !one.names().iter().all(|name| known.contains(name.as_str())));
        let needed: Vec<OfferedCertificate> =
            needed.map(|one| OfferedCertificate::loaded(one, DefaultFor::Unmarked)).collect();
        offered.extend(needed);
        offered
    }

    /// Shows all of it in the metrics.
    pub(crate) fn show(&self, metrics: &Metrics) {
        let named = self.named.iter().map(|one| one.certificate.summary());
        let found = self.directories.iter().flat_map(|directory| &directory.found);
        let summaries = named.chain(found.map(|one| &one.summary));
        metrics.set_certificates(summaries.map(|summary| expiry(summary)).collect());
        let mut faults = HashMap::new();
        for unusable in self.unusable() {
            *faults.entry(unusable.reason).or_insert(0) += 1;
        }
        metrics.set_certificate_faults(faults.into_iter().collect());
    }

    /// Reads what has changed.
    fn refresh(&mut self) -> Refreshed {
        let known: HashSet<Unusable> = self.unusable().into_iter().collect();
        let mut changed = false;
        for named in &mut self.named {
            changed |= named.refresh();
        }
        for directory in &mut self.directories {
            changed |= directory.refresh();
        }
        let new: Vec<Unusable> = self.unusable().into_iter().filter(|one| !known.contains(one)).collect();
        for one in new.iter().take(limits::CERTIFICATE_FAULTS_NAMED) {
            tracing::warn!(
                "{}: {}; the previous certificate, if any, stays in use",
                one.chain.display(),
                one.what
            );
        }
        if new.len() > limits::CERTIFICATE_FAULTS_NAMED {
            tracing::warn!("{} changed certificates cannot be used", new.len());
        }
        Refreshed { changed, has_faults: !new.is_empty() }
    }

    fn unusable(&self) -> Vec<Unusable> {
        let named = self.named.iter().filter_map(|one| one.unusable.clone());
        let in_directories = self.directories.iter().flat_map(|directory| {
            let failed = directory.lazy.values().filter_map(|one| one.failed.lock().unpoisoned().clone());
            directory.unusable.iter().cloned().chain(failed)
        });
        named.chain(in_directories).collect()
    }

    /// Every directory that a change would show in.
    fn watched(&self) -> BTreeSet<PathBuf> {
        let named = self.named.iter().filter_map(|one| one.files.as_ref()).flat_map(|(files, _)| {
            let files = [Some(files.chain.as_path()), files.key.path()];
            files.into_iter().flatten().filter_map(|file| file.parent().map(PathBuf::from))
        });
        let below = self.directories.iter().flat_map(|directory| directory.below.iter().cloned());
        named.chain(below).collect()
    }
}

/// The result of reading the files.
struct Refreshed {
    changed: bool,
    /// Some were not there before.
    has_faults: bool,
}

impl Named {
    fn refresh(&mut self) -> bool {
        let Some((files, stamp)) = &mut self.files else { return false };
        let now = files.stamp();
        if now == *stamp {
            return false;
        }
        match files.load() {
            Ok(certificate) => {
                // Only a pair that was whole is done with; a broken one is tried again.
                *stamp = now;
                self.certificate = Arc::new(match &self.remote {
                    Some(remote) => certificate.with_remote(Arc::clone(remote)),
                    None => certificate,
                });
                self.unusable = None;
                tracing::info!("{} has changed: new clients get it", files.chain.display());
                true
            }
            Err(error) => {
                let chain = files.chain.clone();
                self.unusable = Some(Unusable { chain, reason: error.label(), what: error.to_string() });
                false
            }
        }
    }
}

impl Directory {
    fn refresh(&mut self) -> bool {
        match scan(&self.path, &self.found, true) {
            Ok(scan) => {
                let before: HashSet<*const FoundCertificate> = self.found.iter().map(Arc::as_ptr).collect();
                let new = scan.found.iter().filter(|one| !before.contains(&Arc::as_ptr(one))).count();
                let gone = before.len() + new - scan.found.len();
                if new + gone > 0 {
                    tracing::info!(
                        "{} has changed: {new} certificates are new or renewed, {gone} replaced or gone, {} in all",
                        self.path.display(),
                        scan.found.len()
                    );
                }
                self.found = scan.found;
                self.below = scan.directories;
                self.unusable = scan.unusable;
                new + gone > 0
            }
            Err(error) => {
                let what = format!("cannot be read: {error}");
                self.unusable = vec![Unusable { chain: self.path.clone(), reason: "unreadable", what }];
                false
            }
        }
    }

    fn offer(&mut self, offered: &mut Vec<OfferedCertificate>) {
        let mut before = std::mem::take(&mut self.lazy);
        for found in &self.found {
            let known = before.remove(&found.files.chain).filter(|known| Arc::ptr_eq(&known.found, found));
            let lazy = known
                .unwrap_or_else(|| Arc::new(OnDisk { found: Arc::clone(found), failed: Mutex::default() }));
            offered.push(OfferedCertificate {
                summary: Arc::clone(&found.summary),
                default: DefaultFor::Unmarked,
                source: CertificateSource::Lazy(Arc::clone(&lazy) as Arc<dyn LoadCertificate>),
            });
            self.lazy.insert(found.files.chain.clone(), lazy);
        }
    }
}

fn expiry(summary: &Summary) -> CertificateExpiry {
    let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    CertificateExpiry {
        subject: summary.names().first().cloned().unwrap_or_default(),
        kind: summary.kind().label(),
        not_after_seconds: summary.not_after().map_or(0, seconds),
        late_seconds: summary.late_from(limits::CERTIFICATE_WARNING).map_or(0, seconds),
    }
}

/// The thread that follows the files. Dropping it ends the thread.
#[derive(Debug)]
pub(crate) struct Follower {
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    /// Follows the files of these certificates for this acceptor.
    ///
    /// # Errors
    /// When the system has no space for a thread or a watch.
    pub(crate) fn start(
        certificates: CertificateSet,
        acceptor: Arc<Acceptor>,
        metrics: Arc<Metrics>,
    ) -> io::Result<Self> {
        let watch = Watch::new()?;
        let stop = watch.stop();
        let following = FollowerThread { certificates, acceptor, metrics, watch, watched: BTreeSet::new() };
        let thread = std::thread::Builder::new().name("cert-files".into()).spawn(move || following.run())?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop.stop();
        // The thread may be reading thousands of files, so the server does not wait for its end.
        drop(self.thread.take());
    }
}

struct FollowerThread {
    certificates: CertificateSet,
    acceptor: Arc<Acceptor>,
    metrics: Arc<Metrics>,
    watch: Watch,
    watched: BTreeSet<PathBuf>,
}

impl FollowerThread {
    fn run(mut self) {
        loop {
            self.look();
            if self.watch_all() {
                // What has changed in a directory before it was watched is found by looking once more.
                self.look();
            }
            match self.wait_for_change() {
                Ok(Woken::Stopped) => return,
                Ok(_) => {}
                Err(error) => {
                    tracing::error!("certificates are not followed any more, a reload reads them: {error}");
                    return;
                }
            }
        }
    }

    fn look(&mut self) {
        let refreshed = self.certificates.refresh();
        if refreshed.has_faults {
            self.metrics.certificates_changed(ReloadOutcome::Rejected);
        }
        if refreshed.changed {
            match self.acceptor.replace_certificates(self.certificates.offered()) {
                Ok(()) => self.metrics.certificates_changed(ReloadOutcome::Applied),
                Err(error) => {
                    tracing::warn!("the changed certificates are not used: {error}");
                    self.metrics.certificates_changed(ReloadOutcome::Rejected);
                }
            }
        }
        self.certificates.show(&self.metrics);
    }

    /// Watches all directories there are now; whether there are new ones.
    fn watch_all(&mut self) -> bool {
        let wanted = self.certificates.watched();
        // Those known already as well: another directory may have taken the place of one.
        for directory in &wanted {
            if let Err(error) = self.watch.add(directory) {
                let directory = directory.display();
                tracing::debug!("{directory} is looked at every minute, since it cannot be watched: {error}");
            }
        }
        let has_new = wanted.difference(&self.watched).next().is_some();
        self.watched = wanted;
        has_new
    }

    /// Waits for a change and then for it to be over.
    fn wait_for_change(&self) -> io::Result<Woken> {
        let first = self.watch.wait(Duration::from_secs(limits::CERTIFICATES_RECHECK_SECONDS))?;
        if first != Woken::Changed {
            return Ok(first);
        }
        let until = Instant::now() + Duration::from_millis(limits::CERTIFICATES_SETTLE_MILLISECONDS_MAX);
        let quiet = Duration::from_millis(limits::CERTIFICATES_SETTLE_MILLISECONDS);
        loop {
            let woken = self.watch.wait(quiet)?;
            if woken != Woken::Changed || Instant::now() >= until {
                return Ok(woken);
            }
        }
    }
}
