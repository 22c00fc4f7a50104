//! Loads the next bytes of a response into the page cache, and reads ahead of it.

mod windows;

use std::cell::Cell;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_sys::file::{Extent, OpenFile};

use crate::io_threads::{Busy, IoThreads, JobResult};
use windows::Windows;

/// Bounds of reading ahead and of asking the kernel.
#[derive(Clone, Copy, Debug)]
pub struct ResidencyLimits {
    /// Bytes read ahead after the first window that was not in memory.
    pub first_ahead: u64,
    /// Most bytes read ahead of the window being sent; it doubles from `first_ahead` up to here.
    pub most_ahead: u64,
    /// Bytes of a body that are loaded before they are sent.
    pub window: u64,
    /// Bytes of a body that are sent at once if they are in memory; not less.
    pub resident_window: u64,
    /// Files up to this many bytes are checked as a whole; the result holds for `believed_for`.
    pub small_file: u64,
    /// How long a small file, or a window of a larger one, that was found in memory is assumed to stay there.
    pub believed_for: Duration,
}

/// Why the next bytes cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotResident {
    /// The file became shorter: the response ends here, and the connection with it.
    Truncated,
    /// The queue of the I/O threads is full.
    Busy,
    /// The disk or file system failed.
    Failed(io::ErrorKind),
}

impl fmt::Display for NotResident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the file became shorter while it was sent"),
            Self::Busy => Busy.fmt(f),
            Self::Failed(kind) => kind.fmt(f),
        }
    }
}

impl std::error::Error for NotResident {}

impl From<io::Error> for NotResident {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Truncated,
            kind => Self::Failed(kind),
        }
    }
}

/// Counts of a worker's checks since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResidencyCounters {
    /// Windows taken to be in memory because they were found there shortly before.
    pub believed: u64,
    /// Windows found in memory.
    pub resident: u64,
    /// Windows that the I/O threads had to load first.
    pub loaded: u64,
    /// Bytes of those.
    pub loaded_bytes: u64,
    /// Bytes asked to be read ahead.
    pub ahead_bytes: u64,
}

/// Read-ahead state of one response; begins as `default`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stream {
    /// Up to where bytes were asked to be read ahead; 0 while everything was in memory.
    ahead_to: u64,
    /// How far ahead of the window they were asked for the last time; 0 while everything was in memory.
    ahead: u64,
    /// End of the last window; a sequential reader continues there.
    sent_to: u64,
}

/// Checks and loads for one worker.
pub struct Residency {
    io: Arc<IoThreads>,
    limits: ResidencyLimits,
    start: Instant,
    counters: Cell<ResidencyCounters>,
    windows: Windows,
}

/// The longest frame of a framing layer above.
const FRAME_BYTES_MAX: u64 = 16 * 1024;

impl Residency {
    /// Sends loads to `io`. `start` must be the same time for all workers that share files.
    pub fn new(io: Arc<IoThreads>, limits: ResidencyLimits, start: Instant) -> Self {
        Self { io, limits, start, counters: Cell::default(), windows: Windows::default() }
    }

    /// Returns once the first bytes of `body` are in the page cache, and how many: a wide window if it is there already,
    /// otherwise a smaller one, once it is loaded.
    ///
    /// # Errors
    /// See [`NotResident`]. Nothing may be sent from the file after `Truncated`.
    pub async fn ensure_front(
        &self,
        stream: &mut Stream,
        body: &Extent,
        now: Instant,
    ) -> Result<u64, NotResident> {
        let (wide, window) = (body.len.min(self.limits.resident_window), body.len.min(self.limits.window));
        if wide > window
            && !body.file.is_truncated()
            && self.is_range_resident(&body.file, body.offset, wide, now)
        {
            let end = body.offset.saturating_add(wide);
            stream.sent_to = end;
            self.keep_ahead(stream, body, end);
            return Ok(wide);
        }
        self.ensure_resident(stream, body, body.offset, window, now).await?;
        Ok(window)
    }

    /// Returns once the next window of `body`, `len` bytes from `offset` in its file, is in the page cache.
    ///
    /// Returns at once if it is there already. Otherwise the I/O threads load it and read ahead up to the end of `body`,
    /// further ahead the longer the stream stays sequential. Under memory pressure pages may leave memory before they
    /// are sent, which costs the worker a wait.
    ///
    /// # Errors
    /// See [`NotResident`]. Nothing may be sent from the file after `Truncated`.
    async fn ensure_resident(
        &self,
        stream: &mut Stream,
        body: &Extent,
        offset: u64,
        len: u64,
        now: Instant,
    ) -> Result<(), NotResident> {
        let file = &body.file;
        if file.is_truncated() {
            return Err(NotResident::Truncated);
        }
        if file.len() <= self.limits.small_file {
            return self.ensure_small_file(file, now).await;
        }
        let end = offset.saturating_add(len);
        // What a frame would have taken beyond the last window is asked for again.
        let sequential = stream.sent_to.checked_sub(offset).is_some_and(|again| again <= FRAME_BYTES_MAX);
        stream.sent_to = end;
        // After an error of the check, the load returns the cause.
        if self.is_range_resident(file, offset, len, now) {
            self.keep_ahead(stream, body, end);
            return Ok(());
        }
        // The awaited job is queued before the one that reads on.
        let load = self.queue_load(file, offset, len)?;
        let ahead = if sequential { stream.ahead.saturating_mul(2) } else { 0 };
        self.read_on(stream, body, end, ahead);
        load.await.map_err(|Busy| NotResident::Busy)??;
        Ok(())
    }

    /// Whether the first `len` bytes of `body` are known to be in the page cache without waiting for anything.
    pub fn is_resident(&self, body: &Extent, len: u64, now: Instant) -> bool {
        let file = &body.file;
        if file.is_truncated() {
            return false;
        }
        if file.len() <= self.limits.small_file {
            return self.is_small_file_resident(file, now);
        }
        self.is_range_resident(file, body.offset, len, now)
    }

    /// Counts of the checks.
    pub fn counters(&self) -> ResidencyCounters {
        self.counters.get()
    }

    async fn ensure_small_file(&self, file: &Arc<OpenFile>, now: Instant) -> Result<(), NotResident> {
        if !self.is_small_file_resident(file, now) {
            let load = self.queue_load(file, 0, file.len())?;
            load.await.map_err(|Busy| NotResident::Busy)??;
            self.believe(file, now);
        }
        Ok(())
    }

    fn is_range_resident(&self, file: &Arc<OpenFile>, offset: u64, len: u64, now: Instant) -> bool {
        if self.windows.has(file, offset, len, self.milliseconds(now)) {
            self.count(|counters| counters.believed += 1);
            return true;
        }
        let is_resident = file.is_resident(offset, len).unwrap_or(false);
        if is_resident {
            self.count(|counters| counters.resident += 1);
            self.windows.believe(file, offset, len, self.believed_until(now));
        }
        is_resident
    }

    fn is_small_file_resident(&self, file: &OpenFile, now: Instant) -> bool {
        if self.milliseconds(now) < file.resident_until() {
            self.count(|counters| counters.believed += 1);
            return true;
        }
        let is_resident = file.is_resident(0, file.len()).unwrap_or(false);
        if is_resident {
            self.count(|counters| counters.resident += 1);
            self.believe(file, now);
        }
        is_resident
    }

    fn believe(&self, file: &OpenFile, now: Instant) {
        file.set_resident_until(self.believed_until(now));
    }

    fn believed_until(&self, now: Instant) -> u64 {
        let believed_for = u64::try_from(self.limits.believed_for.as_millis()).unwrap_or(u64::MAX);
        self.milliseconds(now).saturating_add(believed_for)
    }

    fn queue_load(
        &self,
        file: &Arc<OpenFile>,
        offset: u64,
        len: u64,
    ) -> Result<JobResult<io::Result<()>>, NotResident> {
        let file = file.clone();
        let load = self.io.run(move || file.load(offset, len)).map_err(|Busy| NotResident::Busy)?;
        self.count(|counters| {
            counters.loaded += 1;
            counters.loaded_bytes += len;
        });
        Ok(load)
    }

    /// Reads further ahead of a stream that needed the disk, once half of the last read-ahead is used.
    fn keep_ahead(&self, stream: &mut Stream, body: &Extent, end: u64) {
        if stream.ahead > 0 && stream.ahead_to.saturating_sub(end) < stream.ahead / 2 {
            self.read_on(stream, body, end, stream.ahead.saturating_mul(2));
        }
    }

    /// Reads up to `ahead` bytes behind `end`, within the limits.
    fn read_on(&self, stream: &mut Stream, body: &Extent, end: u64, ahead: u64) {
        let ahead = ahead.max(self.limits.first_ahead).min(self.limits.most_ahead);
        let from =
            if (end..=end.saturating_add(ahead)).contains(&stream.ahead_to) { stream.ahead_to } else { end };
        let to = end.saturating_add(ahead).min(body.offset.saturating_add(body.len));
        stream.ahead = ahead;
        if from >= to {
            return;
        }
        let file = body.file.clone();
        // When the queue is full, the next window tries again.
        if self.io.run_later(move || file.read_ahead(from, to - from)).is_ok() {
            stream.ahead_to = to;
            self.count(|counters| counters.ahead_bytes += to - from);
        }
    }

    fn milliseconds(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.start).as_millis()).unwrap_or(u64::MAX)
    }

    fn count(&self, change: impl FnOnce(&mut ResidencyCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }
}

impl fmt::Debug for Residency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Residency")
            .field("limits", &self.limits)
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
