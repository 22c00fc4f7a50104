//! What a memory tier finds again after its process has ended, and what it must not find.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use penstock_cache::{Describe, Index, LookUp, MemoryTier, Object, Part, Restored, TierLimits};

const SLICE: u32 = 64 * 1024;
const LIMITS: TierLimits = TierLimits { bytes: 16 * SLICE as u64, slice_bytes: SLICE };

struct Text(String);

impl Describe for Text {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.as_bytes());
    }
}

struct Cache {
    tier: Arc<MemoryTier>,
    index: Arc<Index<Text>>,
    slices: u64,
    dropped: Option<&'static str>,
}

fn open_as(directory: &Path, limits: TierLimits, life: u64) -> Cache {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + life);
    let (tier, restored) = MemoryTier::open(directory, limits, now).unwrap();
    let (slices, dropped) = (restored.slices, restored.dropped);
    Cache { tier, index: Index::new(100, restored), slices, dropped }
}

fn open(directory: &Path, life: u64) -> Cache {
    open_as(directory, LIMITS, life)
}

impl Cache {
    fn new_object(&self, key: u8, text: &str, length: Option<u64>) -> Arc<Object<Text>> {
        Object::new(&[key; 16], Text(text.to_owned()), length, Arc::clone(&self.tier))
    }

    fn keep(&self, key: u8, object: &Arc<Object<Text>>) {
        match self.index.look_up(&[key; 16]) {
            LookUp::Missing(claim) => claim.keep(object),
            LookUp::Known(known) => match self.index.renew(&[key; 16], &known) {
                LookUp::Missing(claim) => claim.keep(object),
                _ => panic!("somebody else is at it"),
            },
            LookUp::Pending(_) => panic!("somebody is at it"),
        }
    }

    fn kept(&self, key: u8, text: &str, length: u64) -> Arc<Object<Text>> {
        let object = self.new_object(key, text, Some(length));
        self.keep(key, &object);
        object
    }

    fn recall(&self, key: u8) -> Option<Arc<Object<Text>>> {
        let read = |bytes: &[u8]| Some(Text(String::from_utf8(bytes.to_vec()).ok()?));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(self.index.recall(&[key; 16], &self.tier, read))
    }

    /// As if the process were killed: nothing is said to the tier.
    fn kill(self) {
        self.tier.leave();
    }
}

fn fill(object: &Arc<Object<Text>>, slice: u32, byte: u8) {
    let Part::Missing(mut fill) = object.slice(slice) else { panic!("slice {slice} is not missing") };
    fill.append(&vec![byte; object.slice_length(slice) as usize]).unwrap();
    fill.finish();
}

fn bytes(object: &Arc<Object<Text>>, slice: u32) -> Option<Vec<u8>> {
    let Part::Here(lease) = object.slice(slice) else { return None };
    let extent = lease.extent(0..lease.length()).unwrap();
    let mut bytes = vec![0; usize::try_from(extent.len).unwrap()];
    extent.file.window(extent.offset, extent.len).unwrap().copy_to(&mut bytes).unwrap();
    Some(bytes)
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

#[test]
fn what_was_kept_is_there_again_with_its_description() {
    let directory = directory();
    let first = open(directory.path(), 0);
    let object = first.kept(1, "a film", u64::from(SLICE) + 100);
    fill(&object, 0, 7);
    fill(&object, 1, 8);
    let bytes_before = first.tier.counters().bytes;
    drop(object);
    first.kill();

    let second = open(directory.path(), 1);
    assert_eq!((second.slices, second.dropped), (2, None));
    assert_eq!(second.tier.counters().bytes, bytes_before, "they take as much as before");
    let object = second.recall(1).unwrap();
    assert_eq!((object.description().0.as_str(), object.length()), ("a film", Some(u64::from(SLICE) + 100)));
    assert_eq!(bytes(&object, 0).unwrap(), vec![7; SLICE as usize]);
    assert_eq!(bytes(&object, 1).unwrap(), vec![8; 100]);
    assert!(second.recall(1).is_none(), "it is given out once");
    drop(object);
    let counters = second.tier.counters();
    assert_eq!((counters.slices, counters.bytes), (0, 0), "it was nobody's in the end");
}

#[test]
fn what_was_private_or_unfinished_is_gone() {
    let directory = directory();
    let first = open(directory.path(), 0);
    let private = first.new_object(1, "private", Some(100));
    fill(&private, 0, 1);
    let half = first.kept(2, "half", 100);
    let Part::Missing(mut filling) = half.slice(0) else { panic!() };
    filling.append(&[2; 50]).unwrap();
    let endless = first.new_object(3, "endless", None);
    first.keep(3, &endless);
    fill(&endless, 0, 3);
    first.kill();
    drop(filling);
    drop((private, half, endless));

    let second = open(directory.path(), 1);
    assert_eq!(second.slices, 0);
    assert!((1..4).all(|key| second.recall(key).is_none()));
    let reused = second.kept(4, "new", 100);
    fill(&reused, 0, 4);
    assert_eq!(bytes(&reused, 0).unwrap(), vec![4; 100]);
}

#[test]
fn what_found_its_end_while_it_came_is_kept() {
    let directory = directory();
    let first = open(directory.path(), 0);
    let object = first.new_object(3, "chunked", None);
    first.keep(3, &object);
    fill(&object, 0, 3);
    let Part::Missing(mut filling) = object.slice(1) else { panic!() };
    filling.append(&[4; 10]).unwrap();
    object.set_length(u64::from(SLICE) + 10);
    filling.finish();
    drop(object);
    first.kill();

    let object = open(directory.path(), 1).recall(3).unwrap();
    assert_eq!(object.length(), Some(u64::from(SLICE) + 10));
    assert_eq!(bytes(&object, 1).unwrap(), vec![4; 10]);
}

#[test]
fn what_was_forgotten_or_replaced_does_not_come_back() {
    let directory = directory();
    let first = open(directory.path(), 0);
    for key in 1..=3 {
        fill(&first.kept(key, "old", 100), 0, key);
    }
    assert!(first.index.forget(&[1; 16], &first.tier));
    let LookUp::Known(second_version) = first.index.look_up(&[2; 16]) else { panic!() };
    first.index.forget_version(&[2; 16], &second_version);
    let reader = second_version;
    fill(&first.kept(3, "new", 100), 0, 30);
    first.kill();
    drop(reader);

    let second = open(directory.path(), 1);
    assert!(second.recall(1).is_none());
    assert!(second.recall(2).is_none());
    let object = second.recall(3).unwrap();
    assert_eq!((object.description().0.as_str(), bytes(&object, 0).unwrap()[0]), ("new", 30));
}

#[test]
fn what_is_forgotten_before_anybody_asked_stays_forgotten() {
    let directory = directory();
    let first = open(directory.path(), 0);
    fill(&first.kept(1, "old", 100), 0, 1);
    first.kill();
    let second = open(directory.path(), 1);
    assert!(second.index.forget(&[1; 16], &second.tier));
    assert!(second.recall(1).is_none());
    second.kill();
    assert!(open(directory.path(), 2).recall(1).is_none());
}

#[test]
fn a_third_process_finds_what_the_first_left_and_the_second_never_touched() {
    let directory = directory();
    let first = open(directory.path(), 0);
    fill(&first.kept(1, "one", 100), 0, 1);
    first.kill();
    let second = open(directory.path(), 1);
    fill(&second.kept(2, "two", 100), 0, 2);
    second.kill();
    let third = open(directory.path(), 2);
    assert_eq!(third.slices, 2);
    assert_eq!(bytes(&third.recall(1).unwrap(), 0).unwrap(), vec![1; 100]);
    assert_eq!(bytes(&third.recall(2).unwrap(), 0).unwrap(), vec![2; 100]);
}

#[test]
fn what_an_earlier_process_left_goes_when_there_is_no_room() {
    let directory = directory();
    let first = open(directory.path(), 0);
    for key in 0..16 {
        fill(&first.kept(key, "old", u64::from(SLICE) - 4096), 0, key);
    }
    first.kill();
    let second = open(directory.path(), 1);
    for key in 100..116 {
        fill(&second.kept(key, "new", u64::from(SLICE) - 4096), 0, key);
    }
    assert!(second.tier.counters().bytes <= LIMITS.bytes);
    assert!((0..16).any(|key| second.recall(key).is_none()));
    assert!(second.tier.counters().evictions >= 15);
}

#[test]
fn a_damaged_record_or_description_costs_its_object_and_nothing_else() {
    for (name, place) in [("records", 4096 + 20), ("slices", 104)] {
        let directory = directory();
        let first = open(directory.path(), 0);
        fill(&first.kept(1, "one", 100), 0, 1);
        fill(&first.kept(2, "two", 100), 0, 2);
        first.kill();
        let file = OpenOptions::new().write(true).open(directory.path().join(name)).unwrap();
        file.write_all_at(&[0xff], place).unwrap();
        let second = open(directory.path(), 1);
        assert!(second.recall(1).is_none(), "{name}");
        assert_eq!(bytes(&second.recall(2).unwrap(), 0).unwrap(), vec![2; 100], "{name}");
    }
}

/// Why nothing is kept, and what brings that about.
type Change = (&'static str, fn(&Path) -> TierLimits);

#[test]
fn another_size_or_slice_or_file_begins_empty_and_says_why() {
    let changes: [Change; 4] = [
        ("its size or slice was another", |_| TierLimits { bytes: LIMITS.bytes * 2, ..LIMITS }),
        ("its size or slice was another", |_| TierLimits { slice_bytes: SLICE * 2, ..LIMITS }),
        ("its file of slices is another", |path| {
            let slices = path.join("slices");
            fs::copy(&slices, path.join("other")).unwrap();
            fs::rename(path.join("other"), slices).unwrap();
            LIMITS
        }),
        ("its records are damaged, or of another version", |path| {
            let file = OpenOptions::new().write(true).open(path.join("records")).unwrap();
            file.write_all_at(b"?", 7).unwrap();
            LIMITS
        }),
    ];
    for (why, change) in changes {
        let directory = directory();
        let first = open(directory.path(), 0);
        fill(&first.kept(1, "one", 100), 0, 1);
        first.kill();
        let limits = change(directory.path());
        let second = open_as(directory.path(), limits, 1);
        assert_eq!((second.slices, second.dropped), (0, Some(why)));
        fill(&second.kept(1, "again", 100), 0, 9);
        second.kill();
        let third = open_as(directory.path(), limits, 2);
        assert_eq!((third.slices, third.dropped), (1, None), "{why}");
    }
}

#[test]
fn a_renewed_description_is_the_one_that_comes_back() {
    let directory = directory();
    let first = open(directory.path(), 0);
    let object = first.new_object(1, "told twice", Some(2 * u64::from(SLICE)));
    first.keep(1, &object);
    fill(&object, 0, 1);
    fill(&object, 1, 2);
    // As after a 304: the same object is kept once more.
    first.keep(1, &object);
    drop(object);
    first.kill();
    let object = open(directory.path(), 1).recall(1).unwrap();
    assert_eq!(object.slices_here(), 2);
    assert_eq!(bytes(&object, 1).unwrap(), vec![2; SLICE as usize]);
}

#[test]
fn a_description_that_is_too_long_is_not_kept_and_harms_nobody() {
    let directory = directory();
    let first = open(directory.path(), 0);
    fill(&first.kept(1, &"x".repeat(20_000), 100), 0, 1);
    fill(&first.kept(2, &"y".repeat(16_000), u64::from(SLICE)), 0, 2);
    first.kill();
    let second = open(directory.path(), 1);
    assert_eq!(second.slices, 1);
    assert_eq!(bytes(&second.recall(2).unwrap(), 0).unwrap(), vec![2; SLICE as usize]);
    drop(Restored::default());
}
