//! Compressed manifests: made once for each version of a file or of a cached object, and kept in bounded memory.

use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard};

use lru::LruCache;
use penstock_config::limits;
use penstock_http::Encoding;
use penstock_metrics::{GivenUp, Sacrifice};
use penstock_origin::io_threads::IoThreads;
use penstock_sys::lock::Unpoisoned;
use tokio::sync::watch;

use super::source::{Name, Version};

/// Brotli's middle: close to its best for text of this size, at a tenth of the cost.
const BROTLI_QUALITY: i32 = 5;
const BROTLI_WINDOW_LOG: i32 = 18;

/// Compressed bodies, shared by all workers. The lock is held for a lookup, never while compressing.
#[derive(Debug, Default)]
pub struct CompressedManifests(Mutex<Memo>);

#[derive(Debug)]
struct Memo {
    entries: LruCache<(Name, Encoding), CodedEntry>,
    bytes: u64,
}

#[derive(Debug)]
struct CodedEntry {
    version: Version,
    state: CodedState,
}

#[derive(Clone, Debug)]
enum CodedState {
    /// Being compressed; ends with the [`Making`].
    Underway(watch::Receiver<()>),
    /// Not smaller when compressed, or not readable.
    Useless,
    Ready(Arc<[u8]>),
}

impl CodedState {
    fn len(&self) -> u64 {
        match self {
            Self::Ready(body) => body.len() as u64,
            Self::Underway(_) | Self::Useless => 0,
        }
    }
}

/// The outcome of a lookup.
pub(crate) enum Found {
    /// The body; `None` if the source is to be sent as it is.
    Known(Option<Arc<[u8]>>),
    /// The caller compresses. Other requests wait for it.
    Begun(Making),
}

/// One compression. Others wait until it is made or dropped.
pub(crate) struct Making {
    memo: Arc<CompressedManifests>,
    name: Name,
    version: Version,
    encoding: Encoding,
    /// Wakes those that wait when it is dropped.
    _underway: watch::Sender<()>,
}

impl CompressedManifests {
    /// A version of a file or of an object in this encoding. Waits while another request has it compressed.
    /// While the CPU is short, only what exists is found.
    pub(crate) async fn find(
        self: &Arc<Self>,
        source: (Name, Version),
        encoding: Encoding,
        given_up: &GivenUp,
    ) -> Found {
        let (name, version) = source;
        loop {
            let is_given_up = given_up.is(Sacrifice::Compression);
            let begun = self.memo().begin((name, encoding), &version, is_given_up);
            match begun {
                Begun::New(underway) => {
                    let memo = Arc::clone(self);
                    return Found::Begun(Making { memo, name, version, encoding, _underway: underway });
                }
                Begun::Known(CodedState::Ready(body)) => return Found::Known(Some(body)),
                Begun::Known(CodedState::Useless) => return Found::Known(None),
                // An error means that it has ended.
                Begun::Known(CodedState::Underway(mut underway)) => while underway.changed().await.is_ok() {},
            }
        }
    }

    fn memo(&self) -> MutexGuard<'_, Memo> {
        self.0.lock().unpoisoned()
    }
}

impl Making {
    /// Compresses what `read` gives, on an I/O thread; to the end even if this future is dropped. `None` if the source is to be
    /// sent as it is.
    pub(crate) async fn make(
        self,
        io: &IoThreads,
        read: impl FnOnce() -> Option<Vec<u8>> + Send + 'static,
    ) -> Option<Arc<[u8]>> {
        let made = io.run(move || {
            let body = read().and_then(|source| compressed(&source, self.encoding));
            let state = body.map_or(CodedState::Useless, CodedState::Ready);
            self.memo.memo().finish((self.name, self.encoding), &self.version, state.clone());
            state
        });
        match made.ok()?.await {
            Ok(CodedState::Ready(body)) => Some(body),
            Ok(CodedState::Underway(_) | CodedState::Useless) | Err(_) => None,
        }
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        self.memo.memo().forget((self.name, self.encoding), &self.version);
    }
}

/// The entry of a name and an encoding.
enum Begun {
    Known(CodedState),
    New(watch::Sender<()>),
}

impl Default for Memo {
    fn default() -> Self {
        // A bounded cache of the library would allocate its whole table now.
        Self { entries: LruCache::unbounded(), bytes: 0 }
    }
}

impl Memo {
    /// The entry, if it is of this version. If it is not, one is made in its place and the caller compresses, unless that
    /// `is_given_up`.
    fn begin(&mut self, key: (Name, Encoding), version: &Version, is_given_up: bool) -> Begun {
        if let Some(entry) = self.entries.get(&key).filter(|entry| entry.version.ptr_eq(version)) {
            return Begun::Known(entry.state.clone());
        }
        if is_given_up {
            return Begun::Known(CodedState::Useless);
        }
        let (sender, receiver) = watch::channel(());
        let entry = CodedEntry { version: Version::clone(version), state: CodedState::Underway(receiver) };
        if let Some(before) = self.entries.put(key, entry) {
            self.bytes -= before.state.len();
        }
        while self.entries.len() > limits::COMPRESSED_MEMO_ENTRIES {
            self.drop_oldest();
        }
        Begun::New(sender)
    }

    /// Takes in what was made, unless the entry is of another version by now, or gone.
    fn finish(&mut self, key: (Name, Encoding), version: &Version, state: CodedState) {
        let Some(entry) = self.entries.peek_mut(&key).filter(|entry| entry.version.ptr_eq(version)) else {
            return;
        };
        // An entry that was dropped and begun again may be finished twice.
        self.bytes = self.bytes + state.len() - entry.state.len();
        entry.state = state;
        while self.bytes > limits::COMPRESSED_MEMO_BYTES && self.drop_oldest() {}
    }

    /// Drops an entry that was not finished.
    fn forget(&mut self, key: (Name, Encoding), version: &Version) {
        let is_underway = |entry: &CodedEntry| {
            entry.version.ptr_eq(version) && matches!(entry.state, CodedState::Underway(_))
        };
        if self.entries.peek(&key).is_some_and(is_underway) {
            self.entries.pop(&key);
        }
    }

    /// Drops the entry that was asked for longest ago; false if there is none.
    fn drop_oldest(&mut self) -> bool {
        let oldest = self.entries.pop_lru();
        self.bytes -= oldest.as_ref().map_or(0, |(_, entry)| entry.state.len());
        oldest.is_some()
    }
}

/// `None` if the source does not shrink.
fn compressed(source: &[u8], encoding: Encoding) -> Option<Arc<[u8]>> {
    let body = match encoding {
        Encoding::Identity => return None,
        Encoding::Gzip => gzip(source)?,
        Encoding::Brotli => brotli(source)?,
    };
    (body.len() < source.len()).then(|| body.into())
}

fn gzip(source: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(source).ok()?;
    encoder.finish().ok()
}

fn brotli(source: &[u8]) -> Option<Vec<u8>> {
    let parameters = brotli::enc::BrotliEncoderParams {
        quality: BROTLI_QUALITY,
        lgwin: BROTLI_WINDOW_LOG,
        size_hint: source.len(),
        ..Default::default()
    };
    let mut body = Vec::new();
    brotli::BrotliCompress(&mut &source[..], &mut body, &parameters).ok()?;
    Some(body)
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use penstock_sys::file::Identity;

    use super::*;

    fn key(size: u64) -> (Name, Encoding) {
        let identity = Identity { device: 1, inode: size, size, modified: (0, 0), changed: (0, 0) };
        (Name::File(identity), Encoding::Gzip)
    }

    fn begin(memo: &mut Memo, number: u64) -> Option<CodedState> {
        match memo.begin(key(number), &Weak::new(), false) {
            Begun::Known(state) => Some(state),
            Begun::New(_) => None,
        }
    }

    fn finish(memo: &mut Memo, number: u64, body: &Arc<[u8]>) {
        memo.finish(key(number), &Weak::new(), CodedState::Ready(Arc::clone(body)));
    }

    #[test]
    fn each_version_of_a_file_is_compressed_once() {
        let mut memo = Memo::default();
        assert!(begin(&mut memo, 1).is_none());
        assert!(matches!(begin(&mut memo, 1), Some(CodedState::Underway(_))));
        finish(&mut memo, 1, &vec![1, 2, 3].into());
        assert!(matches!(begin(&mut memo, 1), Some(CodedState::Ready(_))));
        assert!(begin(&mut memo, 2).is_none());
        memo.forget(key(1), &Weak::new());
        assert!(begin(&mut memo, 1).is_some(), "only what is not finished is forgotten");
        memo.forget(key(2), &Weak::new());
        assert!(begin(&mut memo, 2).is_none());
    }

    #[test]
    fn while_the_cpu_is_short_only_what_exists_is_sent_compressed() {
        let mut memo = Memo::default();
        begin(&mut memo, 1);
        finish(&mut memo, 1, &vec![1].into());
        let short = |memo: &mut Memo, number| memo.begin(key(number), &Weak::new(), true);
        assert!(matches!(short(&mut memo, 1), Begun::Known(CodedState::Ready(_))));
        assert!(matches!(short(&mut memo, 2), Begun::Known(CodedState::Useless)));
        assert!(begin(&mut memo, 2).is_none(), "it is compressed once there is time");
    }

    #[test]
    fn the_memo_drops_what_was_not_asked_for_longest_when_its_memory_is_full() {
        let mut memo = Memo::default();
        let half: Arc<[u8]> = vec![0; usize::try_from(limits::COMPRESSED_MEMO_BYTES / 2).unwrap()].into();
        for number in 0..3 {
            assert!(begin(&mut memo, number).is_none());
            finish(&mut memo, number, &half);
            assert!(begin(&mut memo, 0).is_some());
        }
        assert!(memo.bytes <= limits::COMPRESSED_MEMO_BYTES);
        assert!(begin(&mut memo, 1).is_none(), "that of longest ago is gone");
        assert!(begin(&mut memo, 0).is_some() && begin(&mut memo, 2).is_some(), "the others are there");
    }

    #[test]
    fn an_entry_finished_twice_is_counted_once() {
        let mut memo = Memo::default();
        let body: Arc<[u8]> = vec![0; 1000].into();
        begin(&mut memo, 1);
        finish(&mut memo, 1, &body);
        finish(&mut memo, 1, &body);
        assert_eq!(memo.bytes, 1000);
        assert!(memo.drop_oldest());
        assert_eq!(memo.bytes, 0);
        assert!(!memo.drop_oldest(), "and an empty memo ends the search for space");
    }

    #[test]
    fn the_memo_is_bounded_in_number_even_while_everything_is_underway() {
        let mut memo = Memo::default();
        for number in 0..2 * limits::COMPRESSED_MEMO_ENTRIES as u64 {
            begin(&mut memo, number);
        }
        assert_eq!(memo.entries.len(), limits::COMPRESSED_MEMO_ENTRIES);
    }
}
