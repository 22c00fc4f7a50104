//! The log thread: takes records from the queue, makes lines of them, and appends them to the file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use penstock_config::limits;

use super::{Record, Shared};
use crate::metrics::LogLoss;

const COMPLAINT_INTERVAL: Duration = Duration::from_secs(limits::ACCESS_LOG_COMPLAINT_SECONDS);

/// The thread's state.
#[derive(Debug)]
pub(super) struct Writer {
    file: LogFile,
    records: Receiver<Option<Box<Record>>>,
    shared: Arc<Shared>,
    gather: Duration,
    batch: Batch,
    complaints: Complaints,
}

/// The open file, and where it came from.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
}

/// Whole lines that wait to be written.
#[derive(Debug, Default)]
struct Batch {
    lines: Vec<u8>,
    /// The last write stopped in the middle of a line: the next one must begin on a line of its own.
    torn: bool,
}

/// Says when it is time to tell of a fault again.
#[derive(Debug, Default)]
struct Complaints {
    last: Option<Instant>,
}

impl Writer {
    pub(super) fn new(
        file: LogFile,
        records: Receiver<Option<Box<Record>>>,
        shared: Arc<Shared>,
        gather: Duration,
    ) -> Self {
        Self { file, records, shared, gather, batch: Batch::default(), complaints: Complaints::default() }
    }

    /// Works until it is told to stop, then writes what is left.
    pub(super) fn run(mut self) {
        while let Ok(first) = self.records.recv() {
            self.add(first);
            if !self.shared.stop.load(Ordering::Acquire) {
                thread::sleep(self.gather);
            }
            self.write_all_queued();
            if self.shared.stop.load(Ordering::Acquire) {
                // What was queued before the request to stop is still in the queue.
                self.write_all_queued();
                return;
            }
        }
    }

    fn write_all_queued(&mut self) {
        loop {
            let more = self.fill_batch();
            if self.shared.reopen.swap(false, Ordering::AcqRel) {
                self.reopen();
            }
            self.write_batch();
            if !more {
                return;
            }
        }
    }

    /// Takes records until the batch or the queue is at its end, and says whether the queue may hold more.
    fn fill_batch(&mut self) -> bool {
        while self.batch.lines.len() < limits::ACCESS_LOG_BATCH_BYTES {
            match self.records.try_recv() {
                Ok(record) => self.add(record),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return false,
            }
        }
        true
    }

    fn add(&mut self, record: Option<Box<Record>>) {
        let Some(record) = record else { return };
        self.shared.give_back(record.text_bytes());
        let whole = self.batch.lines.len();
        if let Err(error) = record.write_line(&mut self.batch.lines) {
            self.batch.lines.truncate(whole);
            self.lost(1, &error.into());
        }
    }

    fn write_batch(&mut self) {
        let (written, result) = self.batch.write(&mut self.file.file);
        self.shared.counters.written(written);
        if let Err((lost, error)) = result {
            self.lost(lost, &error);
        }
    }

    fn lost(&mut self, records: u64, error: &io::Error) {
        self.shared.counters.lost(LogLoss::WriteError, records);
        if self.complaints.due(Instant::now()) {
            let path = self.file.path.display();
            let total = self.shared.counters.total_lost(LogLoss::WriteError);
            tracing::warn!(%path, %error, total, "cannot write the access log; its records are lost");
        }
    }

    fn reopen(&mut self) {
        match LogFile::open(&self.file.path) {
            Ok(file) => {
                self.file = file;
                self.batch.torn = false;
            }
            Err(error) => {
                let path = self.file.path.display();
                tracing::warn!(%path, %error, "cannot reopen the access log; the old file stays in use");
            }
        }
    }
}

impl LogFile {
    /// Opens for appending; a new file is not readable for everyone, because it holds the addresses of clients.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o640).open(path)?;
        Ok(Self { path: path.to_owned(), file })
    }
}

impl Batch {
    /// Writes all lines and forgets them, also those that could not be written: a full disk must not make the memory
    /// grow. Returns how many lines were written whole and, after an error, how many were lost.
    fn write(&mut self, file: &mut impl Write) -> (u64, Result<(), (u64, io::Error)>) {
        if self.lines.is_empty() {
            return (0, Ok(()));
        }
        if self.torn {
            self.lines.insert(0, b'\n');
        }
        let (written, result) = write_fully(file, &self.lines);
        // The line end before the first line ends the torn one, which was counted as lost.
        let first = usize::from(self.torn);
        let whole = lines_in(self.lines.get(first..written).unwrap_or_default());
        let lost = lines_in(&self.lines[written.max(first)..]);
        if written > 0 {
            self.torn = self.lines[written - 1] != b'\n';
        }
        self.lines.clear();
        (whole, result.map_err(|error| (lost, error)))
    }
}

/// Writes as much as possible, and says how much that was.
fn write_fully(file: &mut impl Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    while written < bytes.len() {
        match file.write(&bytes[written..]) {
            Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    (written, Ok(()))
}

fn lines_in(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(*byte == b'\n')).sum()
}

impl Complaints {
    fn due(&mut self, now: Instant) -> bool {
        let due = self.last.is_none_or(|last| now.saturating_duration_since(last) >= COMPLAINT_INTERVAL);
        if due {
            self.last = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with room for some bytes: a real one that becomes full in the middle of a line is hard to come by.
    struct Disk {
        held: Vec<u8>,
        room: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let fits = bytes.len().min(self.room);
            if fits == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.room -= fits;
            self.held.extend_from_slice(&bytes[..fits]);
            Ok(fits)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn write(batch: &mut Batch, disk: &mut Disk, lines: &str) -> (u64, u64) {
        batch.lines.extend_from_slice(lines.as_bytes());
        let (written, result) = batch.write(disk);
        (written, result.map_or_else(|(lost, _)| lost, |()| 0))
    }

    #[test]
    fn a_line_that_was_cut_by_a_full_disk_does_not_spoil_the_next() {
        let mut disk = Disk { held: Vec::new(), room: 6 };
        let mut batch = Batch::default();
        assert_eq!(write(&mut batch, &mut disk, "one\ntwo\nsix\n"), (1, 2));
        assert_eq!(write(&mut batch, &mut disk, "ten\n"), (0, 1));
        disk.room = 100;
        assert_eq!(write(&mut batch, &mut disk, "red\nblue\n"), (2, 0));
        assert_eq!(write(&mut batch, &mut disk, "green\n"), (1, 0));
        assert_eq!(String::from_utf8(disk.held).unwrap(), "one\ntw\nred\nblue\ngreen\n");
    }

    #[test]
    fn a_disk_that_fills_at_the_end_of_a_line_leaves_nothing_torn() {
        let mut disk = Disk { held: Vec::new(), room: 4 };
        let mut batch = Batch::default();
        assert_eq!(write(&mut batch, &mut disk, "one\ntwo\n"), (1, 1));
        disk.room = 100;
        assert_eq!(write(&mut batch, &mut disk, "six\n"), (1, 0));
        assert_eq!(String::from_utf8(disk.held).unwrap(), "one\nsix\n");
    }

    #[test]
    fn every_place_where_a_disk_can_become_full_counts_each_line_once() {
        let lines = "one\ntwo\nthree\n";
        for room in 0..=lines.len() {
            let mut disk = Disk { held: Vec::new(), room };
            let mut batch = Batch::default();
            let (written, lost) = write(&mut batch, &mut disk, lines);
            assert_eq!(written + lost, 3, "room {room}");
            disk.room = 1;
            assert_eq!(write(&mut batch, &mut disk, "four\n"), (0, 1), "room {room}");
            disk.room = 100;
            assert_eq!(write(&mut batch, &mut disk, "five\n"), (1, 0), "room {room}");
            assert!(disk.held.ends_with(b"\nfive\n"), "room {room}");
        }
    }

    #[test]
    fn a_lasting_fault_is_told_once_a_minute() {
        let start = Instant::now();
        let mut complaints = Complaints::default();
        let told: Vec<bool> = [0, 1, 59, 60, 61, 119, 120, 600]
            .map(|second| complaints.due(start + Duration::from_secs(second)))
            .to_vec();
        assert_eq!(told, [true, false, false, true, false, false, true, true]);
    }
}
