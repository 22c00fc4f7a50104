//! The thread that rotates ticket keys and follows their directory.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, SystemTime};

use penstock_config::{Tickets, limits};
use penstock_fleet::Fleet;
use penstock_sys::traffic::Secret;
use penstock_tls::tickets::directory::{KeyFileListing, TicketDirectory};
use penstock_tls::tickets::{KeyringStatus, TicketKeyring, TicketPolicy};

use crate::metrics::{IgnoredTicketFile, Metrics, TicketKeysReading};
use crate::settings::StartError;

/// The ticket keys of the server. Dropping this ends the thread that rotates them.
pub(crate) struct TicketRotation {
    ring: Arc<TicketKeyring>,
    settings: Sender<Tickets>,
}

impl TicketRotation {
    /// Reads the keys, then starts the thread. `random` are keys of the process before, if there was one. Faults of the directory
    /// have been reported with the configuration.
    ///
    /// # Errors
    /// When the system has no randomness or no space for a thread.
    pub(crate) fn start(
        tickets: &Tickets,
        random: Option<Secret>,
        fleet: Option<Arc<Fleet>>,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, StartError> {
        let rotation = Rotation::new(tickets, random.as_ref(), fleet, Arc::clone(metrics));
        let mut rotation = rotation.map_err(StartError::Randomness)?;
        let ring = Arc::clone(&rotation.ring);
        let (settings, changes) = channel();
        let thread = std::thread::Builder::new().name("ticket-keys".to_owned());
        thread.spawn(move || rotation.run(&changes)).map_err(StartError::Thread)?;
        Ok(Self { ring, settings })
    }

    pub(crate) fn ring(&self) -> &Arc<TicketKeyring> {
        &self.ring
    }

    /// Puts other settings in force within the interval of the thread.
    pub(crate) fn configure(&self, tickets: &Tickets) {
        // The thread ends only with the program.
        drop(self.settings.send(tickets.clone()));
    }
}

const INTERVAL: Duration = Duration::from_millis(limits::TICKET_DIRECTORY_CHECK_MILLISECONDS);

struct Rotation {
    ring: Arc<TicketKeyring>,
    policy: TicketPolicy,
    directory: Option<TicketDirectory>,
    /// Whether keys come from the fleet, which there is then.
    shared: bool,
    fleet: Option<Arc<Fleet>>,
    metrics: Arc<Metrics>,
    /// Faults that have been logged and still exist.
    said: HashSet<String>,
    seen: TicketKeysReading,
}

impl Rotation {
    fn new(
        tickets: &Tickets,
        random: Option<&Secret>,
        fleet: Option<Arc<Fleet>>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, penstock_tls::tickets::NoRandomness> {
        let mut directory = open(tickets);
        let listing = directory.as_mut().map_or_else(|| Ok(KeyFileListing::default()), TicketDirectory::read);
        let said = complaints(directory.as_ref(), &listing).into_iter().collect();
        let listing = listing.unwrap_or_default();
        let (now, time) = (Instant::now(), SystemTime::now());
        let shared = fleet.as_ref().filter(|_| tickets.shared).map(|fleet| fleet.ticket_files());
        let files = shared.as_ref().unwrap_or(&listing.files);
        let ring = Arc::new(TicketKeyring::new(tickets.policy, files, now, time)?);
        if let Some(random) = random {
            ring.adopt_random_keys(random, now);
        }
        let status = ring.refresh(now)?;
        let mut rotation = Self {
            ring,
            policy: tickets.policy,
            directory,
            shared: tickets.shared,
            fleet,
            metrics,
            said,
            seen: TicketKeysReading { ignored: ignored(&listing), ..TicketKeysReading::default() },
        };
        rotation.show(&status);
        Ok(rotation)
    }

    fn run(&mut self, changes: &Receiver<Tickets>) {
        loop {
            match changes.recv_timeout(INTERVAL) {
                Ok(tickets) => self.configure(&tickets),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.look();
        }
    }

    fn configure(&mut self, tickets: &Tickets) {
        let same_directory =
            self.directory.as_ref().map(TicketDirectory::path) == tickets.directory.as_deref();
        self.policy = tickets.policy;
        self.ring.set_policy(tickets.policy);
        if let Some(fleet) = &self.fleet {
            fleet.share_tickets(tickets.shared.then_some(tickets.policy));
        }
        if !same_directory || self.shared != tickets.shared {
            self.shared = tickets.shared;
            self.directory = open(tickets);
            self.seen.ignored = Default::default();
            self.ring.forget_files();
        }
    }

    fn look(&mut self) {
        let mut wrong = Vec::new();
        if let Some(directory) = &mut self.directory {
            let listing = directory.read();
            wrong = complaints(Some(directory), &listing);
            if let Ok(listing) = listing {
                self.ring.set_files(&listing.files, Instant::now(), SystemTime::now());
                self.seen.ignored = ignored(&listing);
            }
        }
        if let Some(fleet) = self.fleet.as_ref().filter(|_| self.shared) {
            self.ring.set_files(&fleet.ticket_files(), Instant::now(), SystemTime::now());
        }
        match self.ring.refresh(Instant::now()) {
            Ok(status) => {
                if status.has_changed {
                    log_status(&status);
                }
                self.show(&status);
                wrong.extend(self.neglect(&status, SystemTime::now()));
            }
            Err(error) => wrong.push(format!("ticket keys: not rotated, because {error}")),
        }
        self.say(wrong);
    }

    /// A warning if no new key has been added for too long.
    fn neglect(&self, status: &KeyringStatus, now: SystemTime) -> Option<String> {
        let file = status.sealing_file.as_ref()?;
        let age = now.duration_since(file.modified).ok()?;
        (age > self.policy.key_lifetime()).then(|| {
            let name = file.name.display();
            let remedy = if self.shared { "is the store there?" } else { "does anyone add new ones?" };
            format!("ticket keys: {name} still seals and is older than rotate times keep: {remedy}")
        })
    }

    /// Warns of what has not been said yet.
    fn say(&mut self, complaints: Vec<String>) {
        for complaint in complaints.iter().filter(|one| !self.said.contains(*one)) {
            tracing::warn!("{complaint}");
        }
        self.said = complaints.into_iter().collect();
    }

    fn show(&mut self, status: &KeyringStatus) {
        self.seen.introduced = status.introduced;
        self.seen.older = status.opening.saturating_sub(status.introduced + 1);
        self.seen.sealing_modified = status.sealing_file.as_ref().map(|file| file.modified);
        self.metrics.set_ticket_keys(self.seen);
    }
}

fn open(tickets: &Tickets) -> Option<TicketDirectory> {
    let path = tickets.directory.as_deref()?;
    Some(TicketDirectory::new(path, Tickets::DIRECTORY_LIMITS))
}

fn complaints(directory: Option<&TicketDirectory>, listing: &io::Result<KeyFileListing>) -> Vec<String> {
    let Some(path) = directory.map(TicketDirectory::path) else { return Vec::new() };
    match listing {
        Ok(listing) => listing.complaints(path).iter().map(|one| format!("ticket keys: {one}")).collect(),
        Err(error) => vec![unlisted(path, error)],
    }
}

fn unlisted(path: &Path, error: &io::Error) -> String {
    format!("ticket keys: {} cannot be listed ({error}); the keys in use stay in use", path.display())
}

fn ignored(listing: &KeyFileListing) -> [usize; IgnoredTicketFile::ALL.len()] {
    let mut counts = [0; IgnoredTicketFile::ALL.len()];
    listing.ignored.iter().for_each(|file| counts[file.why.label() as usize] += 1);
    counts
}

fn log_status(status: &KeyringStatus) {
    let (opening, introduced) = (status.opening, status.introduced);
    match &status.sealing_file {
        Some(file) => {
            let name = file.name.display();
            tracing::info!(
                "session ticket keys: {name} seals, keys that open: {opening}, introduced: {introduced}"
            );
        }
        None => tracing::info!("session ticket keys: a random one seals, keys that open: {opening}"),
    }
}
