//! Logs of the QUIC connections of chosen clients (qlog), each in a file that a thread writes.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use penstock_config::limits;
use penstock_http3::ConnectionId;

/// Who is logged, and the queue to the thread that writes.
#[derive(Debug)]
pub(crate) struct Qlog {
    configured: penstock_config::Qlog,
    made: AtomicUsize,
    queue: SyncSender<Piece>,
    /// Whether a file could not be written. Only the first of them is said.
    has_failed: Arc<AtomicBool>,
}

/// Some records of one log.
struct Piece {
    of: Arc<LogFile>,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    /// Opened with the first piece; `None` if that failed.
    file: OnceLock<Option<File>>,
    /// Whether nothing is written any more.
    ended: AtomicBool,
    /// Of all files together.
    has_failed: Arc<AtomicBool>,
}

impl Qlog {
    /// The logs of a configuration; those of `before` go on if it says the same.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(
        configured: &penstock_config::Qlog,
        before: Option<&Arc<Self>>,
    ) -> io::Result<Arc<Self>> {
        if let Some(before) = before.filter(|before| before.configured == *configured) {
            return Ok(Arc::clone(before));
        }
        let (queue, pieces) = mpsc::sync_channel(limits::QLOG_QUEUE_PIECES);
        // It ends with the last sender.
        thread::Builder::new().name("qlog".to_owned()).spawn(move || write_pieces(&pieces))?;
        let (configured, made, has_failed) = (configured.clone(), AtomicUsize::new(0), Arc::default());
        Ok(Arc::new(Self { configured, made, queue, has_failed }))
    }

    /// The writer of a connection's log; `None` if it has none.
    pub(crate) fn writer(&self, client: SocketAddr, id: &ConnectionId) -> Option<QlogWriter> {
        if !self.configured.clients.contains(client.ip().to_canonical()) {
            return None;
        }
        let made = self.made.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |made| {
            (made < self.configured.files).then_some(made + 1)
        });
        if made.ok()? + 1 == self.configured.files {
            tracing::info!("qlog: log.qlog.files are made, further connections have no log");
        }
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let digits: String = id.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let path = self.configured.directory.join(format!("{seconds}-{digits}.sqlog"));
        let has_failed = Arc::clone(&self.has_failed);
        let of = LogFile { path, file: OnceLock::new(), ended: AtomicBool::new(false), has_failed };
        Some(QlogWriter {
            queue: self.queue.clone(),
            of: Arc::new(of),
            record: Vec::new(),
            piece: Vec::new(),
            space: self.configured.file_bytes,
        })
    }
}

/// Writes until no connection has a log and the settings are gone.
fn write_pieces(pieces: &Receiver<Piece>) {
    for Piece { of, bytes } in pieces {
        let open = || {
            let opened = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&of.path);
            opened.map_err(|error| of.fail(&error)).ok()
        };
        if let Some(mut file) = of.file.get_or_init(open).as_ref()
            && !of.ended.load(Ordering::Relaxed)
            && let Err(error) = file.write_all(&bytes)
        {
            of.fail(&error);
        }
    }
}

impl LogFile {
    /// Ends the log. The first one that ends so is said: clients must not fill the server's log.
    fn fail(&self, error: &io::Error) {
        self.ended.store(true, Ordering::Relaxed);
        if !self.has_failed.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "qlog: {} ends early, as further ones may", self.path.display());
        }
    }
}

/// Takes the records of one connection (JSON-SEQ: each ends with a line feed). It never waits for the disk.
pub(crate) struct QlogWriter {
    queue: SyncSender<Piece>,
    of: Arc<LogFile>,
    /// The record that is being written.
    record: Vec<u8>,
    /// Whole records.
    piece: Vec<u8>,
    /// Bytes that the file may still take.
    space: u64,
}

impl QlogWriter {
    fn end_record(&mut self) {
        let length = u64::try_from(self.record.len()).unwrap_or(u64::MAX);
        // What HTTP/3 carries has tokens and cookies of clients.
        let is_of_http = self.record.windows(PRIVATE.len()).any(|bytes| bytes == PRIVATE);
        if !is_of_http && self.record.len() <= limits::QLOG_PIECE_BYTES {
            if length > self.space {
                self.space = 0;
            } else {
                self.space -= length;
                self.piece.extend_from_slice(&self.record);
            }
        }
        self.record.clear();
        if self.piece.len() >= limits::QLOG_PIECE_BYTES {
            self.send();
        }
    }

    fn send(&mut self) {
        let bytes = std::mem::take(&mut self.piece);
        if self.of.ended.load(Ordering::Relaxed) {
            self.space = 0;
        } else if !bytes.is_empty() && self.queue.try_send(Piece { of: Arc::clone(&self.of), bytes }).is_err()
        {
            self.space = 0;
            self.of.fail(&io::Error::other("the disk is slower than the log"));
        }
    }
}

/// The beginning of the names of events of HTTP/3.
const PRIVATE: &[u8] = b"\"name\":\"http";

impl Write for QlogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.space > 0 {
            for part in bytes.split_inclusive(|byte| *byte == b'\n') {
                // One byte more shows that the record is too long.
                let most = (limits::QLOG_PIECE_BYTES + 1).saturating_sub(self.record.len());
                self.record.extend_from_slice(part.get(..most).unwrap_or(part));
                if part.ends_with(b"\n") {
                    self.end_record();
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for QlogWriter {
    fn drop(&mut self) {
        self.send();
    }
}
