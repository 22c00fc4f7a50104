//! The log thread: takes lines from the queue and appends them to the file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use penstock_config::limits;
use penstock_metrics::LogLoss;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use crate::queue::LogState;
use crate::syslog::{SyslogSocket, is_socket};

const WARNING_INTERVAL: Duration = Duration::from_secs(limits::ACCESS_LOG_WARNING_SECONDS);

/// The state of the log thread.
#[derive(Debug)]
pub(super) struct Writer {
    file: LogFile,
    queue: Receiver<Option<Vec<u8>>>,
    shared: Arc<LogState>,
    gather: Duration,
    batch: Batch,
    outage: Outage,
}

/// The open file and its path.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: Destination,
}

/// Where lines go.
#[derive(Debug)]
enum Destination {
    File(File),
    Syslog(SyslogSocket),
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Syslog(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Complete lines that wait to be written.
#[derive(Debug, Default)]
struct Batch {
    lines: Vec<u8>,
    /// Their number.
    number: u64,
    /// The last write stopped within a line, so the next one must begin with a line end.
    torn: bool,
}

/// Records that were lost since the log was last said to be whole, and how often that is said.
#[derive(Debug, Default)]
struct Outage {
    lost: u64,
    /// Whether a warning was logged since then.
    is_said: bool,
    last_warning: Option<Instant>,
}

impl Writer {
    pub(super) fn new(
        file: LogFile,
        queue: Receiver<Option<Vec<u8>>>,
        shared: Arc<LogState>,
        gather: Duration,
    ) -> Self {
        Self { file, queue, shared, gather, batch: Batch::default(), outage: Outage::default() }
    }

    /// Writes lines until the log is closed, then writes the rest of the queue.
    pub(super) fn run(mut self) {
        while let Ok(first) = self.queue.recv() {
            self.add(first);
            if !self.shared.stop.load(Ordering::Acquire) {
                thread::sleep(self.gather);
            }
            self.write_all_queued();
            if self.shared.stop.load(Ordering::Acquire) {
                // Lines that were queued before the stop flag was set are still in the queue.
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

    /// Takes lines until the batch is full or the queue empty. Returns whether the queue may hold more.
    fn fill_batch(&mut self) -> bool {
        while self.batch.lines.len() < limits::ACCESS_LOG_BATCH_BYTES {
            match self.queue.try_recv() {
                Ok(line) => self.add(line),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return false,
            }
        }
        true
    }

    fn add(&mut self, line: Option<Vec<u8>>) {
        let Some(line) = line else { return };
        self.shared.release(line.len());
        self.batch.add(&line);
    }

    fn write_batch(&mut self) {
        let (written, result) = self.batch.write(&mut self.file.file);
        self.shared.counters.written(written);
        match result {
            Err((lost, error)) => self.lost(lost, &error),
            Ok(()) if written > 0 => {
                if let Some(lost) = self.outage.end(Instant::now()) {
                    let path = self.file.path.display();
                    tracing::warn!(%path, lost, "the access log is written again; {lost} records were lost");
                }
            }
            Ok(()) => {}
        }
    }

    fn lost(&mut self, records: u64, error: &io::Error) {
        self.shared.counters.lost(LogLoss::WriteError, records);
        if self.outage.add(records, Instant::now()) {
            let path = self.file.path.display();
            let total = self.shared.counters.total_lost(LogLoss::WriteError);
            let remedy = match error.kind() {
                io::ErrorKind::StorageFull => {
                    "; free space on its disk, or name a file on another in log.access"
                }
                io::ErrorKind::QuotaExceeded => "; raise the quota of its user, or free some of it",
                _ => "",
            };
            tracing::warn!(%path, %error, total, "cannot write the access log; its records are lost{remedy}");
        }
    }

    fn reopen(&mut self) {
        match LogFile::open(&self.file.path) {
            Ok(file) => {
                // The same file, which was not renamed, still ends within a line.
                self.batch.torn &= file.is_same(&self.file);
                self.file = file;
            }
            Err(error) => {
                let path = self.file.path.display();
                tracing::warn!(%path, %error, "cannot reopen the access log; the old file stays in use");
            }
        }
    }
}

impl LogFile {
    /// Opens a file for appending. A new file is readable by owner and group only, because it contains the addresses of
    /// clients.
    ///
    /// # Errors
    /// The error of the system; and for a named pipe that no process reads, since opening it would wait for a reader.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        if is_socket(path) {
            let socket = SyslogSocket::connect(path)?;
            return Ok(Self { path: path.to_owned(), file: Destination::Syslog(socket) });
        }
        let file = match standard_stream(path) {
            None => append_to(path)?,
            Some(stream) => {
                let stream = File::from(stream?);
                // A file is opened again, to append to it, if this user may.
                let appended = if stream.metadata()?.is_file() { append_to(path).ok() } else { None };
                appended.unwrap_or(stream)
            }
        };
        Ok(Self { path: path.to_owned(), file: Destination::File(file) })
    }

    fn is_same(&self, other: &Self) -> bool {
        let place = |log: &Self| match &log.file {
            Destination::File(file) => file.metadata().map(|found| (found.dev(), found.ino())).ok(),
            Destination::Syslog(_) => None,
        };
        place(self).is_some_and(|found| Some(found) == place(other))
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let mut options = OpenOptions::new();
    let options = options.append(true).create(true).mode(0o640).custom_flags(nonblocking);
    let file = options.open(path).map_err(explained)?;
    // Only opening must not wait: the log thread may.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// An error of opening with its remedy. Other errors stay as they are, with their number.
fn explained(error: io::Error) -> io::Error {
    let what = match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => "it is a named pipe that no process reads",
        Some(Errno::ACCESS) => {
            "Permission denied; give the file, or its directory if it is missing, to the user of the server with `chown`"
        }
        _ => return error,
    };
    io::Error::new(error.kind(), what)
}

/// Standard output or standard error, if the path is one of their names. A socket, which systemd gives a service, cannot be opened
/// by that name, and a pipe of another user may not be.
fn standard_stream(path: &Path) -> Option<io::Result<OwnedFd>> {
    match path.to_str()? {
        "/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1" => Some(io::stdout().as_fd().try_clone_to_owned()),
        "/dev/stderr" | "/dev/fd/2" | "/proc/self/fd/2" => Some(io::stderr().as_fd().try_clone_to_owned()),
        _ => None,
    }
}

impl Batch {
    /// Adds a line with its line end, the only one in it.
    fn add(&mut self, line: &[u8]) {
        self.lines.extend_from_slice(line);
        self.number += 1;
    }

    /// Writes all lines and drops them, also those that could not be written: a full disk must not make the memory
    /// grow. Returns the number of lines written completely and, after an error, the number of lost ones.
    fn write(&mut self, file: &mut impl Write) -> (u64, Result<(), (u64, io::Error)>) {
        if self.lines.is_empty() {
            return (0, Ok(()));
        }
        if self.torn {
            self.lines.insert(0, b'\n');
        }
        let (written, result) = write_fully(file, &self.lines);
        // The line end before the first line belongs to the torn line, which was counted as lost.
        let first = usize::from(self.torn);
        let number = std::mem::take(&mut self.number);
        let lost = if result.is_ok() { 0 } else { lines_in(&self.lines[written.max(first)..]) };
        let whole = number - lost;
        if written > 0 {
            self.torn = self.lines[written - 1] != b'\n';
        }
        self.lines.clear();
        (whole, result.map_err(|error| (lost, error)))
    }
}

/// Writes as many bytes as possible and returns their number.
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

/// The number of line ends.
fn lines_in(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

impl Outage {
    /// Adds lost records. Returns whether a warning is due: the first, and one in each interval while the fault lasts.
    fn add(&mut self, records: u64, now: Instant) -> bool {
        self.lost += records;
        let is_due = self.is_due(now);
        self.is_said |= is_due;
        is_due
    }

    /// Ends the outage, if there is one: records are written again. Returns the number of lost records if that is to be
    /// logged; records of an outage that is not logged count for the next one.
    fn end(&mut self, now: Instant) -> Option<u64> {
        if self.lost == 0 || !self.is_said && !self.is_due(now) {
            return None;
        }
        self.is_said = false;
        Some(std::mem::take(&mut self.lost))
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let is_recent = |last| now.saturating_duration_since(last) < WARNING_INTERVAL;
        let is_due = !self.last_warning.is_some_and(is_recent);
        if is_due {
            self.last_warning = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with space for some bytes, since a real disk rarely becomes full within a line.
    struct Disk {
        written: Vec<u8>,
        space: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let fits = bytes.len().min(self.space);
            if fits == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.space -= fits;
            self.written.extend_from_slice(&bytes[..fits]);
            Ok(fits)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn write(batch: &mut Batch, disk: &mut Disk, lines: &str) -> (u64, u64) {
        lines.split_inclusive('\n').for_each(|line| batch.add(line.as_bytes()));
        let (written, result) = batch.write(disk);
        (written, result.map_or_else(|(lost, _)| lost, |()| 0))
    }

    #[test]
    fn a_line_that_was_cut_by_a_full_disk_does_not_spoil_the_next() {
        let mut disk = Disk { written: Vec::new(), space: 6 };
        let mut batch = Batch::default();
        assert_eq!(write(&mut batch, &mut disk, "one\ntwo\nsix\n"), (1, 2));
        assert_eq!(write(&mut batch, &mut disk, "ten\n"), (0, 1));
        disk.space = 100;
        assert_eq!(write(&mut batch, &mut disk, "red\nblue\n"), (2, 0));
        assert_eq!(write(&mut batch, &mut disk, "green\n"), (1, 0));
        assert_eq!(String::from_utf8(disk.written).unwrap(), "one\ntw\nred\nblue\ngreen\n");
    }

    #[test]
    fn a_disk_that_becomes_full_at_the_end_of_a_line_leaves_no_torn_line() {
        let mut disk = Disk { written: Vec::new(), space: 4 };
        let mut batch = Batch::default();
        assert_eq!(write(&mut batch, &mut disk, "one\ntwo\n"), (1, 1));
        disk.space = 100;
        assert_eq!(write(&mut batch, &mut disk, "six\n"), (1, 0));
        assert_eq!(String::from_utf8(disk.written).unwrap(), "one\nsix\n");
    }

    #[test]
    fn each_line_is_counted_once_wherever_the_disk_becomes_full() {
        let lines = "one\ntwo\nthree\n";
        for space in 0..=lines.len() {
            let mut disk = Disk { written: Vec::new(), space };
            let mut batch = Batch::default();
            let (written, lost) = write(&mut batch, &mut disk, lines);
            assert_eq!(written + lost, 3, "space {space}");
            disk.space = 1;
            assert_eq!(write(&mut batch, &mut disk, "four\n"), (0, 1), "space {space}");
            disk.space = 100;
            assert_eq!(write(&mut batch, &mut disk, "five\n"), (1, 0), "space {space}");
            assert!(disk.written.ends_with(b"\nfive\n"), "space {space}");
        }
    }

    #[test]
    fn a_lasting_fault_is_logged_once_a_minute() {
        let start = Instant::now();
        let mut outage = Outage::default();
        let due: Vec<bool> = [0, 1, 59, 60, 61, 119, 120, 600]
            .map(|second| outage.add(1, start + Duration::from_secs(second)))
            .to_vec();
        assert_eq!(due, [true, false, false, true, false, false, true, true]);
    }

    #[test]
    fn the_end_of_an_outage_is_logged_with_all_records_that_were_lost() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let mut outage = Outage::default();
        assert_eq!(outage.end(at(0)), None, "nothing was lost");
        assert!(outage.add(6000, at(0)));
        assert!(!outage.add(38, at(1)));
        assert_eq!(outage.end(at(2)), Some(6038));
        assert_eq!(outage.end(at(3)), None);
        // A disk that is full again and again is logged once a minute, and loses no number.
        assert!(!outage.add(5, at(4)));
        assert_eq!(outage.end(at(5)), None);
        assert!(!outage.add(7, at(6)));
        assert_eq!(outage.end(at(70)), Some(12));
    }

    #[test]
    fn a_log_that_may_not_be_opened_says_what_to_do() {
        let said = explained(io::Error::from(Errno::ACCESS)).to_string();
        assert!(said.starts_with("Permission denied") && said.contains("chown"), "{said}");
        let full = explained(io::Error::from(Errno::NOSPC));
        assert_eq!(Errno::from_io_error(&full), Some(Errno::NOSPC), "its number tells that it may be gone");
        let said = explained(io::Error::from(Errno::NXIO)).to_string();
        assert_eq!(said, "it is a named pipe that no process reads");
    }
}
