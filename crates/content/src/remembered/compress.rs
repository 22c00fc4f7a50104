//! Compressed manifests: made once for each version of a file, and kept in bounded memory.

use std::collections::{HashMap, VecDeque};
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard};

use penstock_config::limits;
use penstock_http::Encoding;
use penstock_metrics::{GivenUp, Sacrifice};
use penstock_origin::io_threads::IoThreads;
use penstock_sys::file::{Identity, OpenFile};
use penstock_sys::lock::Unpoisoned;

/// Brotli's middle: close to its best for text of this size, at a tenth of the cost.
const BROTLI_QUALITY: i32 = 5;
const BROTLI_WINDOW_LOG: i32 = 18;

/// Compressed bodies, shared by all workers. The lock is held for a lookup, never while compressing.
#[derive(Debug, Default)]
pub struct CompressedManifests(Mutex<Memo>);

#[derive(Debug, Default)]
struct Memo {
    entries: HashMap<Key, Entry>,
    /// Oldest first.
    order: VecDeque<Key>,
    bytes: u64,
}

type Key = (Identity, Encoding);

#[derive(Clone, Debug)]
enum Entry {
    /// Being compressed.
    Underway,
    /// Not smaller when compressed.
    Useless,
    Ready(Arc<[u8]>),
}

impl CompressedManifests {
    /// The file in this encoding; `None` if it is to be sent as it is: compression does not make it smaller, another
    /// request is having it compressed, or the CPU is short.
    pub(crate) async fn get(
        self: &Arc<Self>,
        file: &Arc<OpenFile>,
        encoding: Encoding,
        (io, given_up): (&IoThreads, &GivenUp),
    ) -> Option<Arc<[u8]>> {
        if !(limits::COMPRESSED_SOURCE_BYTES_MIN..=limits::COMPRESSED_SOURCE_BYTES).contains(&file.len()) {
            return None;
        }
        let key = (file.identity(), encoding);
        match self.memo().begin(key, given_up.is(Sacrifice::Compression)) {
            Some(Entry::Ready(body)) => return Some(body),
            Some(Entry::Underway | Entry::Useless) => return None,
            None => {}
        }
        let (memo, source) = (Arc::clone(self), Arc::clone(file));
        let made = io.run(move || {
            let entry = compressed(&source, encoding).map_or(Entry::Useless, Entry::Ready);
            memo.memo().finish(key, entry.clone());
            entry
        });
        let made = match made {
            Ok(answer) => answer.await,
            Err(busy) => Err(busy),
        };
        match made {
            Ok(Entry::Ready(body)) => Some(body),
            Ok(Entry::Underway | Entry::Useless) => None,
            Err(_) => {
                self.memo().forget(key);
                None
            }
        }
    }

    fn memo(&self) -> MutexGuard<'_, Memo> {
        self.0.lock().unpoisoned()
    }
}

impl Memo {
    /// The entry of a key. If there is none, one is made and the caller compresses, unless that `is_given_up`.
    fn begin(&mut self, key: Key, is_given_up: bool) -> Option<Entry> {
        let known = self.entries.get(&key).cloned();
        if known.is_none() && is_given_up {
            return Some(Entry::Useless);
        }
        if known.is_none() {
            self.entries.insert(key, Entry::Underway);
            self.order.push_back(key);
            while self.order.len() > limits::COMPRESSED_MEMO_ENTRIES {
                self.drop_oldest();
            }
        }
        known
    }

    fn finish(&mut self, key: Key, entry: Entry) {
        let Some(place) = self.entries.get_mut(&key) else { return };
        let length = |entry: &Entry| match entry {
            Entry::Ready(body) => body.len() as u64,
            Entry::Underway | Entry::Useless => 0,
        };
        // An entry that was dropped and begun again may be finished twice.
        self.bytes = self.bytes + length(&entry) - length(place);
        *place = entry;
        while self.bytes > limits::COMPRESSED_MEMO_BYTES && self.drop_oldest() {}
    }

    fn forget(&mut self, key: Key) {
        if let Some(Entry::Ready(body)) = self.entries.remove(&key) {
            self.bytes -= body.len() as u64;
        }
        self.order.retain(|other| *other != key);
    }

    /// Drops the oldest entry; false if there is none.
    fn drop_oldest(&mut self) -> bool {
        let Some(key) = self.order.pop_front() else { return false };
        if let Some(Entry::Ready(body)) = self.entries.remove(&key) {
            self.bytes -= body.len() as u64;
        }
        true
    }
}

/// Runs on an I/O thread; `None` if the file cannot be read or does not shrink.
fn compressed(file: &OpenFile, encoding: Encoding) -> Option<Arc<[u8]>> {
    let length = usize::try_from(file.len()).ok()?;
    let mut source = vec![0; length];
    file.window(0, file.len()).ok()?.copy_to(&mut source).ok()?;
    let body = match encoding {
        Encoding::Identity => return None,
        Encoding::Gzip => gzip(&source)?,
        Encoding::Brotli => brotli(&source)?,
    };
    (body.len() < length).then(|| body.into())
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
    use super::*;

    fn key(size: u64) -> Key {
        (Identity { device: 1, inode: size, size, modified: (0, 0), changed: (0, 0) }, Encoding::Gzip)
    }

    #[test]
    fn each_version_of_a_file_is_compressed_once() {
        let mut memo = Memo::default();
        assert!(memo.begin(key(1), false).is_none());
        assert!(matches!(memo.begin(key(1), false), Some(Entry::Underway)));
        memo.finish(key(1), Entry::Ready(vec![1, 2, 3].into()));
        assert!(matches!(memo.begin(key(1), false), Some(Entry::Ready(_))));
        assert!(memo.begin(key(2), false).is_none());
    }

    #[test]
    fn while_the_cpu_is_short_only_what_exists_is_sent_compressed() {
        let mut memo = Memo::default();
        memo.begin(key(1), false);
        memo.finish(key(1), Entry::Ready(vec![1].into()));
        assert!(matches!(memo.begin(key(1), true), Some(Entry::Ready(_))));
        assert!(matches!(memo.begin(key(2), true), Some(Entry::Useless)));
        assert!(memo.begin(key(2), false).is_none(), "it is compressed once there is time");
    }

    #[test]
    fn the_memo_drops_the_oldest_when_its_memory_is_full() {
        let mut memo = Memo::default();
        let half: Arc<[u8]> = vec![0; usize::try_from(limits::COMPRESSED_MEMO_BYTES / 2).unwrap()].into();
        for number in 0..3 {
            assert!(memo.begin(key(number), false).is_none());
            memo.finish(key(number), Entry::Ready(Arc::clone(&half)));
        }
        assert!(memo.bytes <= limits::COMPRESSED_MEMO_BYTES);
        assert!(memo.begin(key(0), false).is_none(), "the oldest is gone");
        assert!(memo.begin(key(2), false).is_some(), "the newest is there");
    }

    #[test]
    fn an_entry_finished_twice_is_counted_once() {
        let mut memo = Memo::default();
        let body: Arc<[u8]> = vec![0; 1000].into();
        memo.begin(key(1), false);
        memo.finish(key(1), Entry::Ready(Arc::clone(&body)));
        memo.finish(key(1), Entry::Ready(body));
        assert_eq!(memo.bytes, 1000);
        assert!(memo.drop_oldest());
        assert_eq!(memo.bytes, 0);
        assert!(!memo.drop_oldest(), "and an empty memo ends the search for space");
    }

    #[test]
    fn the_memo_is_bounded_in_number_even_while_everything_is_underway() {
        let mut memo = Memo::default();
        for number in 0..2 * limits::COMPRESSED_MEMO_ENTRIES as u64 {
            memo.begin(key(number), false);
        }
        assert_eq!(memo.entries.len(), limits::COMPRESSED_MEMO_ENTRIES);
    }
}
