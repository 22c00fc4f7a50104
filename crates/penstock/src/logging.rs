//! The program's own log, on stderr.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use penstock_config::limits;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt, registry};

use crate::terminal;

static QUEUE: OnceLock<Queue> = OnceLock::new();

/// Starts logging. Nothing is logged before, and nothing can change it afterwards.
pub(crate) fn start(levels: Targets) {
    let lines = fmt::layer()
        .with_writer(Lines)
        .with_target(false)
        .with_ansi(terminal::is_colourful(io::stderr().is_terminal()));
    // The journal stamps its lines itself.
    let lines =
        if env::var_os("JOURNAL_STREAM").is_some() { lines.without_time().boxed() } else { lines.boxed() };
    registry().with(lines.with_filter(levels)).init();
}

/// Has a thread of its own write the log from now on: stderr may be a pipe whose reader has stopped, and no other thread may
/// wait for that. Lines beyond the queue are lost and counted.
pub(crate) fn detach() -> io::Result<()> {
    let (sender, entries) = sync_channel(limits::LOG_QUEUE_LINES);
    let thread = thread::Builder::new().name("log".to_owned());
    let queue = QUEUE.get_or_init(|| Queue { sender, lost: AtomicU64::new(0) });
    thread.spawn(move || write_entries(&entries, &queue.lost, &mut io::stderr())).map(drop)
}

/// Prints a line to stderr, in its place among those of the log.
pub(crate) fn complain(line: &str) {
    drop(Lines.write_all(format!("{line}\n").as_bytes()));
}

/// Waits until the lines of the queue are written, for at most a second.
pub(crate) fn flush() {
    let Some(queue) = QUEUE.get() else { return };
    let deadline = Instant::now() + Duration::from_secs(limits::LOG_FLUSH_SECONDS);
    let (written, flushed) = sync_channel(1);
    let mut entry = LogMessage::Flush(written);
    while let Err(TrySendError::Full(back)) = queue.sender.try_send(entry) {
        if Instant::now() >= deadline {
            return;
        }
        entry = back;
        thread::sleep(Duration::from_millis(5));
    }
    let _written = flushed.recv_timeout(deadline.saturating_duration_since(Instant::now()));
}

/// Lines on their way to stderr.
struct Queue {
    sender: SyncSender<LogMessage>,
    /// Lines that found the queue full.
    lost: AtomicU64,
}

enum LogMessage {
    Line(Vec<u8>),
    /// To be answered when all before is written.
    Flush(SyncSender<()>),
}

/// Writes until the queue is closed. An error of stderr loses the line.
fn write_entries(entries: &Receiver<LogMessage>, lost: &AtomicU64, out: &mut impl Write) {
    for entry in entries {
        match entry {
            LogMessage::Line(line) => drop(out.write_all(&line)),
            LogMessage::Flush(written) => drop(written.send(())),
        }
        let lines = lost.swap(0, Ordering::Relaxed);
        if lines > 0 {
            drop(writeln!(out, "{lines} lines of this log were lost, because stderr did not take them"));
        }
    }
}

/// Where the formatted lines go.
struct Lines;

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        Self
    }
}

impl Write for Lines {
    /// Takes a whole line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let Some(queue) = QUEUE.get() else { return io::stderr().write(line) };
        if queue.sender.try_send(LogMessage::Line(line.to_vec())).is_err() {
            queue.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_written_in_order_and_lost_ones_are_told() {
        let (sender, entries) = sync_channel(8);
        let (written, flushed) = sync_channel(1);
        let lost = AtomicU64::new(3);
        sender.send(LogMessage::Line(b"one\n".to_vec())).unwrap();
        sender.send(LogMessage::Line(b"two\n".to_vec())).unwrap();
        sender.send(LogMessage::Flush(written)).unwrap();
        drop(sender);
        let mut out = Vec::new();
        write_entries(&entries, &lost, &mut out);
        flushed.recv().unwrap();
        let wanted = "one\n3 lines of this log were lost, because stderr did not take them\ntwo\n";
        assert_eq!(String::from_utf8(out).unwrap(), wanted);
    }
}
