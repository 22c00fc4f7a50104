//! The log with real files, a full disk and a reader that does not read.

use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::Ordering;

use penstock_metrics::LogLoss;
use tempfile::TempDir;

use super::*;

/// A target, which is the whole line.
fn line_of(target: &[u8]) -> Vec<u8> {
    [target, b"\n"].concat()
}

/// A temporary directory with a log.
struct LogDirectory {
    root: TempDir,
    counters: Arc<LogCounters>,
}

impl LogDirectory {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap(), counters: Arc::default() }
    }

    fn path(&self) -> PathBuf {
        self.root.path().join("access.jsonl")
    }

    fn open(&self) -> AccessLog {
        AccessLog::open(&self.path(), Arc::clone(&self.counters)).unwrap()
    }

    fn lost(&self, why: LogLoss) -> u64 {
        self.counters.total_lost(why)
    }

    /// Waits until this many records were written.
    fn await_written(&self, records: u64) {
        while self.counters.total_written() < records {
            thread::sleep(Duration::from_millis(2));
        }
    }
}

fn lines(text: &str) -> Vec<&str> {
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines().collect()
}

#[test]
fn records_of_many_workers_arrive_whole() {
    const WORKERS: u64 = 4;
    const RECORDS: u64 = 1_000;
    let directory = LogDirectory::new();
    let log = directory.open();
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let sink = log.sink();
            scope.spawn(move || {
                for number in 0..RECORDS {
                    sink.line(line_of(format!("/{worker}/{number}").as_bytes()));
                }
            });
        }
    });
    drop(log);
    let text = fs::read_to_string(directory.path()).unwrap();
    let written = lines(&text);
    assert_eq!(written.len() as u64, WORKERS * RECORDS);
    for worker in 0..WORKERS {
        let prefix = format!("/{worker}/");
        let numbers: Vec<u64> =
            written.iter().filter_map(|line| line.strip_prefix(&prefix)?.parse().ok()).collect();
        assert!(numbers.iter().copied().eq(0..RECORDS), "the records of worker {worker} are in order");
    }
}

#[test]
fn a_log_is_appended_to() {
    let directory = LogDirectory::new();
    for _ in 0..2 {
        directory.open().sink().line(line_of(b"/"));
    }
    assert_eq!(lines(&fs::read_to_string(directory.path()).unwrap()).len(), 2);
}

#[test]
fn a_log_that_another_program_truncates_begins_anew_without_a_hole() {
    let directory = LogDirectory::new();
    let log = directory.open();
    for number in 0..3 {
        log.sink().line(line_of(b"/before"));
        directory.await_written(2 * number + 1);
        OpenOptions::new().write(true).truncate(true).open(directory.path()).unwrap();
        log.sink().line(line_of(b"/behind"));
        directory.await_written(2 * number + 2);
        assert_eq!(fs::read(directory.path()).unwrap(), b"/behind\n");
    }
}

#[test]
fn a_socket_gets_each_line_as_a_datagram_of_syslog_also_after_its_receiver_was_started_again() {
    let directory = LogDirectory::new();
    let receiver = UnixDatagram::bind(directory.path()).unwrap();
    let log = directory.open();
    let mut buffer = [0; 256];
    let mut received = |receiver: &UnixDatagram| {
        let length = receiver.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    log.sink().line(line_of(b"/one"));
    log.sink().line(line_of(b"/two"));
    let tag = format!("<190>penstock[{}]: ", std::process::id());
    assert_eq!(received(&receiver), format!("{tag}/one"));
    assert_eq!(received(&receiver), format!("{tag}/two"));
    drop(receiver);
    fs::remove_file(directory.path()).unwrap();
    let receiver = UnixDatagram::bind(directory.path()).unwrap();
    log.sink().line(line_of(b"/three"));
    assert_eq!(received(&receiver), format!("{tag}/three"));
    directory.await_written(3);
}

#[test]
fn after_a_rotation_new_records_go_to_the_new_file() {
    let directory = LogDirectory::new();
    let log = directory.open();
    let sink = log.sink();
    sink.line(line_of(b"/old"));
    directory.await_written(1);
    let rotated = directory.root.path().join("access.jsonl.1");
    fs::rename(directory.path(), &rotated).unwrap();
    log.reopen();
    sink.line(line_of(b"/new"));
    drop(log);
    assert_eq!(lines(&fs::read_to_string(rotated).unwrap())[0], "/old");
    let text = fs::read_to_string(directory.path()).unwrap();
    let new = lines(&text);
    assert_eq!(new.len(), 1);
    assert_eq!(new[0], "/new");
}

#[test]
fn a_log_that_cannot_be_reopened_continues_in_the_old_file() {
    let directory = LogDirectory::new();
    let log = directory.open();
    let rotated = directory.root.path().join("access.jsonl.1");
    fs::rename(directory.path(), &rotated).unwrap();
    fs::create_dir(directory.path()).unwrap();
    log.reopen();
    log.sink().line(line_of(b"/still"));
    drop(log);
    assert_eq!(lines(&fs::read_to_string(rotated).unwrap()).len(), 1);
    assert_eq!(directory.lost(LogLoss::WriteError), 0);
}

#[test]
fn a_full_disk_loses_the_records_and_has_no_other_effect() {
    let directory = LogDirectory::new();
    let log = AccessLog::open(Path::new("/dev/full"), Arc::clone(&directory.counters)).unwrap();
    let sink = log.sink();
    for _ in 0..100 {
        sink.line(line_of(b"/"));
    }
    drop(log);
    assert_eq!(directory.lost(LogLoss::WriteError), 100);
    assert_eq!(directory.counters.total_written(), 0);
}

#[test]
fn a_file_that_cannot_be_opened_is_an_error_at_once() {
    let directory = LogDirectory::new();
    let path = directory.root.path().join("missing/access.jsonl");
    let error = AccessLog::open(&path, Arc::clone(&directory.counters)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_named_pipe_without_a_reader_is_an_error_at_once() {
    let directory = LogDirectory::new();
    assert!(Command::new("mkfifo").arg(directory.path()).status().unwrap().success());
    let error = AccessLog::open(&directory.path(), Arc::clone(&directory.counters)).unwrap_err();
    assert_eq!(error.to_string(), "it is a named pipe that no process reads");
}

#[test]
fn records_after_the_end_are_counted_as_lost() {
    let directory = LogDirectory::new();
    let log = directory.open();
    let sink = log.sink();
    drop(log);
    sink.line(line_of(b"/"));
    assert_eq!(directory.lost(LogLoss::Closed), 1);
}

/// A log that writes to a full pipe without a reader: its thread is stuck in the first write.
struct StuckLog {
    directory: LogDirectory,
    log: AccessLog,
    pipe: fs::File,
    filled: usize,
}

impl StuckLog {
    fn new(limits: Limits) -> Self {
        let directory = LogDirectory::new();
        assert!(Command::new("mkfifo").arg(directory.path()).status().unwrap().success());
        // Opened for reading too, so that the log finds a reader.
        let mut pipe = OpenOptions::new().read(true).write(true).open(directory.path()).unwrap();
        let filled = rustix::pipe::fcntl_getpipe_size(&pipe).unwrap();
        pipe.write_all(&vec![b' '; filled]).unwrap();
        let log = AccessLog::with_limits(&directory.path(), Arc::clone(&directory.counters), limits).unwrap();
        Self { directory, log, pipe, filled }
    }
}

/// Reads the filling of the pipe and then `expected` lines.
fn read_lines(mut pipe: fs::File, filled: usize, expected: u64) -> String {
    pipe.read_exact(&mut vec![0; filled]).unwrap();
    let mut text = Vec::new();
    let mut chunk = [0; 16 * 1024];
    while lines_in(&text) < expected {
        let count = pipe.read(&mut chunk).unwrap();
        text.extend_from_slice(&chunk[..count]);
    }
    String::from_utf8(text).unwrap()
}

fn lines_in(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}

const SMALL: Limits = Limits {
    queue_lines: 16,
    queue_bytes: 1 << 20,
    gather: Duration::ZERO,
    close_deadline: Duration::from_secs(60),
};

#[test]
fn a_full_queue_drops_records_and_counts_every_one() {
    const RECORDS: u64 = 2_000; // more than one batch
    let StuckLog { directory, log, pipe, filled } = StuckLog::new(SMALL);
    let sink = log.sink();
    for _ in 0..RECORDS {
        sink.line(line_of(&[b'a'; 400]));
    }
    let lost = directory.lost(LogLoss::QueueFull);
    assert!(lost > 0);

    // When the reader continues, all records that were not counted as lost arrive.
    let reader = thread::spawn(move || read_lines(pipe, filled, RECORDS - lost));
    drop(log);
    assert_eq!(lines(&reader.join().unwrap()).len() as u64, RECORDS - lost);
    assert_eq!(directory.counters.total_written(), RECORDS - lost);
    assert_eq!(directory.lost(LogLoss::QueueFull), lost);
}

#[test]
fn the_queue_is_bounded_in_bytes_too() {
    const RECORDS: u64 = 4_000;
    let limits = Limits { queue_lines: 8192, queue_bytes: 10_000, ..SMALL };
    let StuckLog { directory, log, pipe, filled } = StuckLog::new(limits);
    let sink = log.sink();
    for _ in 0..RECORDS {
        sink.line(line_of(&[b'a'; 900]));
        assert!(sink.shared.bytes.load(Ordering::Relaxed) <= limits.queue_bytes);
    }
    let lost = directory.lost(LogLoss::QueueFull);
    assert!(lost > 0);
    let reader = thread::spawn(move || read_lines(pipe, filled, RECORDS - lost));
    drop(log);
    assert_eq!(lines(&reader.join().unwrap()).len() as u64, RECORDS - lost);
    assert_eq!(sink.shared.bytes.load(Ordering::Relaxed), 0, "all bytes of the queue are released");
}

#[test]
fn closing_does_not_wait_longer_than_its_deadline_for_a_stuck_disk() {
    let limits = Limits { close_deadline: Duration::from_millis(20), ..SMALL };
    let StuckLog { directory, log, pipe, filled } = StuckLog::new(limits);
    log.sink().line(line_of(b"/"));
    drop(log);
    assert_eq!(directory.counters.total_written(), 0);
    // When the disk answers, the thread still writes its batch.
    assert_eq!(lines(&read_lines(pipe, filled, 1)).len(), 1);
    directory.await_written(1);
}
