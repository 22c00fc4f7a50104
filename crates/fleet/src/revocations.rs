//! Revoked ids of tokens that reach every edge: a stream in the store, of which each edge keeps all that it has ever read.
//!
//! Records are added to a set and leave it by their ends alone, so their order does not matter, and neither a store that was
//! emptied nor an older state of it takes a record back. An edge remembers the entry up to which it has read. If the stream
//! has that entry no longer, the edge reads all of it, and one of the edges writes what it lacks.
//!
//! One edge shortens a long stream: it writes all that it knows behind the entries that it has read, then removes these.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use penstock_sys::lock::Unpoisoned;
use redis::{Pipeline, Value};

use crate::counters::{Operation, Outcome};
use crate::link::{Fault, Link, list_of, text_of};
use crate::lock::{LOCK_MILLISECONDS, take_lock};
use crate::position::EntryId;
use crate::purges::stream_entries;
use crate::revoked_ids::{RECORD_BYTES, RevokedIds, RevokedLimits, RevokedRecord};
use crate::seal::{OVERHEAD_BYTES, Purpose, Sealer};
use crate::state::StateDirectory;
use crate::ticket_keys::seconds;

/// Records of an entry, which then has some 6 KiB.
pub(crate) const RECORDS: usize = 256;

/// Entries of a stream that is not shortened.
const ENTRIES: i64 = 1024;

/// Entries read at once.
const BATCH: usize = 64;

/// Entries written at once.
const WRITTEN_BATCH: usize = 32;

/// Between two times that an edge writes what the stream lacks: a store may take entries and not show them.
const PAUSE: Duration = Duration::from_millis(LOCK_MILLISECONDS);

/// Between two tries to write the file on a disk that takes nothing. Each failure is logged.
const FILE_PAUSE: Duration = Duration::from_secs(60);

/// The file with all that is known, sealed as in the store.
const FILE: &str = "revoked";

/// The stream of revoked ids. Shared with the threads that revoke.
pub(crate) struct Revocations {
    link: Arc<Link>,
    sealer: Arc<Sealer>,
    prefix: String,
    state: StateDirectory,
    pub(crate) known: Arc<RevokedIds>,
    progress: Mutex<RevocationProgress>,
    /// What the file has. Held while it is written.
    saved: Mutex<SavedIds>,
}

#[derive(Debug, Default)]
struct SavedIds {
    /// The version of the set.
    version: u64,
    /// When a file that could not be written is tried again.
    next_try: Option<Instant>,
}

#[derive(Debug, Default)]
struct RevocationProgress {
    /// The last entry that was read.
    position: EntryId,
    holds_lock: bool,
    /// When this edge may write what the stream lacks again.
    next_write: Option<Instant>,
}

impl Revocations {
    /// Knows nothing and has read nothing.
    pub(crate) fn new(
        link: &Arc<Link>,
        sealer: &Arc<Sealer>,
        prefix: &str,
        limits: RevokedLimits,
        state: Option<PathBuf>,
    ) -> Self {
        let file_bytes_max = OVERHEAD_BYTES + RECORD_BYTES * limits.ids;
        Self {
            link: Arc::clone(link),
            sealer: Arc::clone(sealer),
            prefix: prefix.to_owned(),
            state: StateDirectory::new(state, file_bytes_max as u64),
            known: Arc::new(RevokedIds::new(limits)),
            progress: Mutex::default(),
            saved: Mutex::default(),
        }
    }

    /// Takes up what an earlier process knew.
    pub(crate) fn restore(&self) {
        let Some(record) = self.state.read(FILE) else { return };
        match self.opened(&record, usize::MAX) {
            Some(records) => self.known.add(&records),
            None => tracing::warn!("fleet: the stored ids of revoked tokens are damaged and not used"),
        }
        self.known.forget(seconds(SystemTime::now()));
        self.saved.lock().unpoisoned().version = self.known.version();
    }

    /// Writes what is known to the file, if it has changed. Waits for the disk.
    pub(crate) fn save(&self, now: Instant) {
        let mut saved = self.saved.lock().unpoisoned();
        let version = self.known.version();
        if saved.version == version {
            return;
        }
        let Some(record) = self.sealed(&self.known.all()) else { return };
        *saved = if self.state.write(FILE, &record) {
            SavedIds { version, next_try: None }
        } else {
            SavedIds { version: saved.version, next_try: Some(now + FILE_PAUSE) }
        };
    }

    /// Whether the file lacks something, and may be written now.
    pub(crate) fn is_unsaved(&self, now: Instant) -> bool {
        self.saved.try_lock().is_ok_and(|saved| {
            saved.version != self.known.version() && saved.next_try.is_none_or(|then| now >= then)
        })
    }

    /// The last entry that was read.
    pub(crate) fn position(&self) -> EntryId {
        self.progress().position
    }

    /// The entries of the stream.
    pub(crate) fn names(&self) -> [String; 2] {
        [self.stream_name(), self.lock_name()]
    }

    /// After how many polls the stream that this fleet writes is at its end.
    pub(crate) fn polls_max(&self) -> usize {
        usize::try_from(ENTRIES).unwrap_or(0) * 2 / BATCH + 4
    }

    /// Revokes ids here, also for the next process. Waits for the disk.
    pub(crate) fn add_own(&self, records: &[RevokedRecord]) {
        self.known.forget(seconds(SystemTime::now()));
        self.known.add(records);
        self.save(Instant::now());
    }

    /// Writes records to the stream. Returns the last entry of theirs; `None` if they wait here until the store answers.
    pub(crate) async fn publish(&self, records: &[RevokedRecord]) -> Option<EntryId> {
        let before = self.position();
        let answers = self.write(records).await.ok()?;
        let last = answers.last().and_then(text_of).and_then(EntryId::parse)?;
        // Other edges have read the later entries of a stream that was set back, and would count this one too.
        (last > before).then_some(last)
    }

    /// Reads some entries. At the end of the stream it writes what the stream lacks. Returns whether there may be more.
    pub(crate) async fn poll(&self) -> Result<bool, Fault> {
        let last = self.position();
        let mut commands = Pipeline::with_capacity(3);
        commands.cmd("XLEN").arg(self.stream_name());
        commands.cmd("XRANGE").arg(self.stream_name()).arg(last.to_string()).arg(last.to_string());
        commands.cmd("XREAD").arg("COUNT").arg(BATCH);
        commands.arg("STREAMS").arg(self.stream_name()).arg(last.to_string());
        let answers = match self.link.ask_patiently(Operation::RevocationRead, &commands).await {
            Err(Fault::WrongType) => return Ok(self.begin_again().await),
            answers => answers?,
        };
        let [length, at_last, entries] = answers.as_slice() else { return Err(Fault::Refused) };
        self.link.counters.count(Operation::RevocationRead, Outcome::Ok);
        if last != EntryId::BEGIN && list_of(at_last).is_empty() {
            self.read_again();
            return Ok(true);
        }
        let entries = stream_entries(entries);
        for (_, record) in &entries {
            match record.and_then(|record| self.opened(record, RECORDS)) {
                Some(records) => self.known.add_written(&records),
                None => self.link.counters.count(Operation::RevocationRead, Outcome::Forged),
            }
        }
        if let Some((last, _)) = entries.last() {
            if last.is_exhausted() {
                self.link.counters.count(Operation::RevocationRead, Outcome::Forged);
                return Ok(self.begin_again().await);
            }
            self.progress().position = *last;
        }
        if entries.len() == BATCH {
            return Ok(true);
        }
        let is_long = matches!(length, Value::Int(entries) if *entries > ENTRIES);
        Ok(self.complete(is_long, Instant::now()).await)
    }

    /// Writes what the stream lacks, if no other edge does so now. Returns whether it has to be read once more.
    async fn complete(&self, is_long: bool, now: Instant) -> bool {
        let (holds_lock, next_write) = {
            let progress = self.progress();
            (progress.holds_lock, progress.next_write)
        };
        let is_needed = is_long || self.known.unwritten_len() > 0;
        if is_needed && next_write.is_some_and(|then| now < then) {
            return false;
        }
        if is_needed && !holds_lock {
            let taken = take_lock(&self.link, Operation::RevocationWrite, &self.lock_name()).await;
            self.progress().holds_lock = taken == Ok(true);
            // Another edge may have written before it gave the lock up.
            return taken == Ok(true);
        }
        if is_needed {
            // Without an answer, what is not there is written next time.
            let _written = if is_long { self.shorten().await } else { self.write_lacking().await };
            self.progress().next_write = Some(now + PAUSE);
        }
        if holds_lock {
            self.link.remove(Operation::RevocationWrite, &[self.lock_name()]).await;
            self.progress().holds_lock = false;
        }
        is_needed
    }

    async fn write_lacking(&self) -> Result<(), Fault> {
        let records = self.known.unwritten();
        tracing::info!("fleet: {} ids of revoked tokens that the store lacks are written", records.len());
        self.write(&records).await.map(drop)
    }

    /// Writes all that is known, and removes the entries that were read before.
    async fn shorten(&self) -> Result<(), Fault> {
        let read = self.position();
        self.write(&self.known.all()).await?;
        let record = self.sealed(&[]).ok_or(Fault::Refused)?;
        let mut commands = Pipeline::with_capacity(1);
        commands.cmd("XADD").arg(self.stream_name()).arg("MINID").arg(read.to_string());
        commands.arg("*").arg("r").arg(record);
        self.link.ask_patiently(Operation::RevocationWrite, &commands).await.map(drop)
    }

    /// Adds entries to the stream. Returns the last answers.
    async fn write(&self, records: &[RevokedRecord]) -> Result<Vec<Value>, Fault> {
        let mut answers = Vec::new();
        for batch in records.chunks(RECORDS * WRITTEN_BATCH) {
            let mut commands = Pipeline::with_capacity(WRITTEN_BATCH);
            for entry in batch.chunks(RECORDS) {
                let record = self.sealed(entry).ok_or(Fault::Refused)?;
                commands.cmd("XADD").arg(self.stream_name()).arg("*").arg("r").arg(record);
            }
            answers = self.link.ask_patiently(Operation::RevocationWrite, &commands).await?;
            self.link.counters.count(Operation::RevocationWrite, Outcome::Ok);
        }
        Ok(answers)
    }

    /// Removes a stream that cannot be used. What is known is written again.
    async fn begin_again(&self) -> bool {
        self.link.remove(Operation::RevocationWrite, &[self.stream_name()]).await;
        self.read_again();
        true
    }

    /// Reads the stream from its begin, to find out what it lacks.
    fn read_again(&self) {
        self.known.note_lost();
        self.progress().position = EntryId::BEGIN;
    }

    fn sealed(&self, records: &[RevokedRecord]) -> Option<Vec<u8>> {
        self.sealer.seal(Purpose::RevokedIds, &[], &RevokedRecord::encode(records))
    }

    fn opened(&self, record: &[u8], records_max: usize) -> Option<Vec<RevokedRecord>> {
        let plain = self.sealer.open(Purpose::RevokedIds, &[], record)?;
        RevokedRecord::decode(plain.expose(), records_max)
    }

    fn stream_name(&self) -> String {
        format!("{}revoked", self.prefix)
    }

    fn lock_name(&self) -> String {
        format!("{}revoked:lock", self.prefix)
    }

    fn progress(&self) -> MutexGuard<'_, RevocationProgress> {
        self.progress.lock().unpoisoned()
    }
}

#[cfg(test)]
mod tests {
    use penstock_sys::traffic::Secret;
    use penstock_tls::circuit::{Circuit, CircuitLimits};

    use super::*;
    use crate::connect::{ANSWERS, Meter};

    const END: u64 = 1 << 40;

    /// What a process knows that keeps at most so many ids in this directory.
    fn process(directory: &tempfile::TempDir, ids: usize, secret: u8) -> Revocations {
        let circuit = Circuit::new(CircuitLimits { failures: 5, successes: 3, pause: None });
        let link = Link::new(circuit, PAUSE, PAUSE, 1, Meter::new(ANSWERS));
        let sealer = Sealer::new(&Secret::new(vec![secret; 32])).unwrap();
        let limits = RevokedLimits { ids, kept: Duration::ZERO };
        let state = Some(directory.path().to_owned());
        let revocations = Revocations::new(&Arc::new(link), &Arc::new(sealer), "penstock:", limits, state);
        revocations.restore();
        revocations
    }

    fn records(count: u64) -> Vec<RevokedRecord> {
        (0..count).map(|number| RevokedRecord::new(&number.to_string(), END + number)).collect()
    }

    #[test]
    fn a_full_set_is_known_to_the_next_process_which_has_it_written_again() {
        let directory = tempfile::tempdir().unwrap();
        let first = process(&directory, 1000, 7);
        first.add_own(&records(1500));
        assert!(!first.is_unsaved(Instant::now()));
        let next = process(&directory, 1000, 7);
        assert_eq!((next.known.len(), next.known.unwritten_len(), next.known.dropped()), (1000, 1000, 0));
        assert!(next.known.contains("1499") && next.known.contains("500") && !next.known.contains("499"));
        assert!(!next.is_unsaved(Instant::now()), "the file has it all");
        assert_eq!(process(&directory, 1000, 8).known.len(), 0, "another secret");
    }

    #[test]
    fn the_file_is_written_when_an_id_came_from_the_stream_and_not_otherwise() {
        let directory = tempfile::tempdir().unwrap();
        let revocations = process(&directory, 10, 7);
        revocations.known.add_written(&records(1));
        let now = Instant::now();
        assert!(revocations.is_unsaved(now));
        revocations.save(now);
        revocations.known.note_lost();
        revocations.known.add_written(&records(1));
        assert!(!revocations.is_unsaved(now), "nothing new");
        assert!(process(&directory, 10, 7).known.contains("0"));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_tried_again_after_a_while() {
        let directory = tempfile::tempdir().unwrap();
        let revocations = process(&directory, 10, 7);
        let away = directory.path().with_extension("away");
        std::fs::rename(directory.path(), &away).unwrap();
        revocations.add_own(&records(1));
        let now = Instant::now();
        assert!(!revocations.is_unsaved(now), "no line of the log each second");
        assert!(revocations.is_unsaved(now + FILE_PAUSE));
        std::fs::rename(&away, directory.path()).unwrap();
        revocations.save(now + FILE_PAUSE);
        assert!(!revocations.is_unsaved(now + 2 * FILE_PAUSE));
        assert!(process(&directory, 10, 7).known.contains("0"));
    }
}
