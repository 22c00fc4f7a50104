//! The log of operations: one JSON line for each.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use penstock_config::limits;

/// The end of the log where lines are queued. Never waits.
#[derive(Debug)]
pub(crate) struct AccessLog {
    path: PathBuf,
    /// `None` wakes the thread.
    lines: Sender<Option<Vec<u8>>>,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct State {
    bytes: AtomicUsize,
    reopen: AtomicBool,
    stop: AtomicBool,
}

impl AccessLog {
    /// Opens the file and starts the thread that writes it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = append(path)?;
        let (lines, queue) = channel();
        let state = Arc::new(State::default());
        let writer = Writer { path: path.to_owned(), file, state: Arc::clone(&state), complained: false };
        let thread = thread::Builder::new().name("access-log".into()).spawn(move || writer.run(&queue))?;
        Ok(Self { path: path.to_owned(), lines, state, thread: Some(thread) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Queues a line; returns false if it was dropped, because too many bytes wait.
    pub(crate) fn write(&self, line: &serde_json::Value) -> bool {
        let bytes = format!("{line}\n").into_bytes();
        let length = bytes.len();
        if self.state.bytes.fetch_add(length, Relaxed) + length > limits::KEYSERVER_LOG_BYTES {
            self.state.bytes.fetch_sub(length, Relaxed);
            return false;
        }
        self.lines.send(Some(bytes)).is_ok()
    }

    /// Opens the file again, after another program has renamed it.
    pub(crate) fn reopen(&self) {
        self.state.reopen.store(true, Relaxed);
        // The thread ends only with this value.
        drop(self.lines.send(None));
    }
}

impl Drop for AccessLog {
    /// Writes out the rest.
    fn drop(&mut self) {
        self.state.stop.store(true, Relaxed);
        drop(self.lines.send(None));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o640).open(path)
}

struct Writer {
    path: PathBuf,
    file: File,
    state: Arc<State>,
    complained: bool,
}

impl Writer {
    fn run(mut self, lines: &Receiver<Option<Vec<u8>>>) {
        while let Ok(first) = lines.recv() {
            let mut batch = first.unwrap_or_default();
            while batch.len() < limits::ACCESS_LOG_BATCH_BYTES {
                match lines.try_recv() {
                    Ok(line) => batch.extend(line.unwrap_or_default()),
                    Err(_) => break,
                }
            }
            self.state.bytes.fetch_sub(batch.len(), Relaxed);
            if self.state.reopen.swap(false, Relaxed) {
                self.reopen();
            }
            self.write(&batch);
            if self.state.stop.load(Relaxed) && self.state.bytes.load(Relaxed) == 0 {
                return;
            }
        }
    }

    fn reopen(&mut self) {
        match append(&self.path) {
            Ok(file) => self.file = file,
            Err(error) => {
                let path = self.path.display();
                tracing::warn!("cannot open {path} again, the old file stays in use: {error}");
            }
        }
    }

    fn write(&mut self, batch: &[u8]) {
        match self.file.write_all(batch) {
            Ok(()) => self.complained = false,
            Err(error) if !self.complained => {
                self.complained = true;
                tracing::warn!("cannot write {}, its lines are lost: {error}", self.path.display());
            }
            Err(_) => {}
        }
    }
}
