//! The cost of a hit in memory: no allocation, and no lock that a writer may hold.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::SystemTime;

use penstock_cache::{
    Budget, Index, IndexEntry, Key, MemoryTier, Metadata, Object, Restored, SliceClaim, TierLimits, Tiers,
};
use penstock_sys::heap::{Counting, allocations, live_bytes};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SLICE: u32 = 64 * 1024;

fn tiers() -> (tempfile::TempDir, Arc<Tiers>) {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let limits = TierLimits { bytes: 64 * u64::from(SLICE), slice_bytes: SLICE, scrub_bytes_per_second: 0 };
    let (memory, _) = MemoryTier::open(directory.path(), limits, SystemTime::now()).unwrap();
    (directory, Tiers::new(memory, None))
}

fn index<D: Metadata>(bytes: u64) -> Arc<Index<D>> {
    Index::new(Arc::new(Budget::new(bytes)), Restored::default())
}

fn filled<D: Metadata>(index: &Arc<Index<D>>, key: Key, metadata: D, tiers: &Arc<Tiers>) -> Arc<Object<D>> {
    let IndexEntry::Claimed(claim) = index.get_or_claim(&key) else { panic!("the key is new") };
    let object = Object::new(&key, metadata, Some(3 * u64::from(SLICE)), Arc::clone(tiers));
    for slice in 0..3 {
        let SliceClaim::Missing(mut fill) = object.claim_slice(slice) else { panic!("nothing is filled") };
        fill.append(&vec![7; SLICE as usize]).unwrap();
        fill.finish();
    }
    claim.keep(&object);
    object
}

/// Does the work of a request for each slice of a hit; returns the length that it may send.
fn hit<D: Metadata>(index: &Arc<Index<D>>, key: &Key) -> u64 {
    let IndexEntry::Known(object) = index.get_or_claim(key) else { panic!("it is a hit") };
    let mut bytes = 0;
    for slice in 0..3 {
        let SliceClaim::Ready(lease) = object.claim_slice(slice) else { panic!("it is complete") };
        bytes += lease.extent(0..lease.length()).unwrap().len;
        object.count_request(slice);
    }
    bytes
}

#[test]
fn a_hit_in_memory_allocates_nothing() {
    let (_directory, tiers) = tiers();
    let index = index(64 << 20);
    let key = [7; 16];
    filled(&index, key, (), &tiers);
    // The first access of a thread makes its list of protected pointers.
    hit(&index, &key);
    let before = allocations();
    for _ in 0..1000 {
        assert_eq!(hit(&index, &key), 3 * u64::from(SLICE));
    }
    assert_eq!(allocations() - before, 0);
}

/// Metadata that stops its callers, with the locks that they hold.
struct Stuck {
    is_on: Arc<AtomicBool>,
    reached: Mutex<Sender<()>>,
    go_on: Mutex<Receiver<()>>,
}

impl Stuck {
    fn stop(&self) {
        if self.is_on.swap(false, Ordering::SeqCst) {
            self.reached.lock().unwrap().send(()).unwrap();
            self.go_on.lock().unwrap().recv().unwrap();
        }
    }
}

impl Metadata for Stuck {
    fn encode(&self, out: &mut Vec<u8>) {
        self.stop();
        out.push(1);
    }

    fn heap_bytes(&self) -> usize {
        2000
    }

    fn is_stale(&self) -> bool {
        self.stop();
        true
    }
}

/// An object, a switch that makes its metadata stop, a receiver of the stop, and a sender that ends it.
fn stuck() -> (Stuck, Arc<AtomicBool>, Receiver<()>, Sender<()>) {
    let (reached, stopped) = channel();
    let (end, go_on) = channel();
    let is_on = Arc::new(AtomicBool::new(false));
    let metadata =
        Stuck { is_on: Arc::clone(&is_on), reached: Mutex::new(reached), go_on: Mutex::new(go_on) };
    (metadata, is_on, stopped, end)
}

#[test]
fn a_hit_does_not_wait_for_the_lock_of_its_object() {
    let (_directory, tiers) = tiers();
    let index = index(64 << 20);
    let key = [7; 16];
    let (metadata, stops, stopped, end) = stuck();
    let object = filled(&index, key, metadata, &tiers);
    stops.store(true, Ordering::SeqCst);
    let renewing = {
        let (index, object) = (Arc::clone(&index), Arc::clone(&object));
        thread::spawn(move || {
            let entry = index.get_newer_or_claim(object.key(), &object);
            let IndexEntry::Claimed(claim) = entry else { panic!("the object is the newest") };
            claim.keep(&object);
        })
    };
    stopped.recv().unwrap();
    assert_eq!(hit(&index, &key), 3 * u64::from(SLICE), "the writer holds the lock of the object");
    end.send(()).unwrap();
    renewing.join().unwrap();
}

#[test]
fn a_hit_does_not_wait_for_the_lock_of_its_shard() {
    let (_directory, tiers) = tiers();
    // Each of the 64 shards has space for two objects.
    let index = index(64 * 6000);
    let key = [7; 16];
    let (metadata, _, _, _end) = stuck();
    filled(&index, key, metadata, &tiers);
    let (metadata, stops, stopped, end) = stuck();
    let old =
        Object::new(&[8, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7], metadata, Some(1), Arc::clone(&tiers));
    index.insert_unclaimed(&old, |_| true);
    stops.store(true, Ordering::SeqCst);
    let evicting = {
        let (index, tiers) = (Arc::clone(&index), Arc::clone(&tiers));
        thread::spawn(move || {
            let (metadata, _, _, _end) = stuck();
            let mut key = [7; 16];
            key[0] = 9;
            index.insert_unclaimed(&Object::new(&key, metadata, Some(1), tiers), |_| true);
        })
    };
    stopped.recv().unwrap();
    assert_eq!(hit(&index, &key), 3 * u64::from(SLICE), "the writer holds the lock of the shard");
    end.send(()).unwrap();
    evicting.join().unwrap();
}

/// The memory that one object of 1 KiB takes in this crate, with the overhead of glibc; the metadata adds its
/// own size and what it owns.
#[test]
fn a_small_object_takes_less_than_a_quarter_of_a_kilobyte_of_memory() {
    const OBJECTS: u32 = 6000;
    const BYTES_MAX: i64 = 250;
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let limits =
        TierLimits { bytes: 4096 * u64::from(OBJECTS), slice_bytes: SLICE, scrub_bytes_per_second: 0 };
    let (memory, _) = MemoryTier::open(directory.path(), limits, SystemTime::now()).unwrap();
    let (tiers, index) = (Tiers::new(memory, None), index(64 << 20));
    let keep = |number: u32| {
        let mut key = [7; 16];
        key[..4].copy_from_slice(&number.to_le_bytes());
        key[15] = number.to_le_bytes()[0];
        let IndexEntry::Claimed(claim) = index.get_or_claim(&key) else { panic!("the key is new") };
        let object = Object::new(&key, (), Some(1024), Arc::clone(&tiers));
        let SliceClaim::Missing(mut fill) = object.claim_slice(0) else { panic!("nothing is filled") };
        claim.keep(&object);
        fill.append(&[7; 1024]).unwrap();
        fill.finish();
        object.count_request(0);
    };
    (0..OBJECTS / 20).for_each(keep);
    let before = live_bytes();
    (OBJECTS / 20..OBJECTS).for_each(keep);
    let grown = i64::try_from(live_bytes() - before).unwrap();
    let each = grown / i64::from(OBJECTS - OBJECTS / 20);
    println!("{each} bytes, {} of them the object itself", size_of::<Object<()>>());
    assert_eq!(tiers.counters().slices, u64::from(OBJECTS), "the tier is filled by bytes");
    // Less would mean that nothing was counted.
    assert!((100..BYTES_MAX).contains(&each), "{each} bytes");
}

#[test]
fn the_number_of_a_slice_does_not_decide_how_much_memory_is_taken() {
    let (directory, tiers) = tiers();
    let length = u64::from(u32::MAX - 1) * u64::from(SLICE) + 1000;
    let index = index(64 << 20);
    let before = live_bytes();
    let object = Object::new(&[3; 16], (), Some(length), Arc::clone(&tiers));
    let IndexEntry::Claimed(claim) = index.get_or_claim(&[3; 16]) else { panic!("the key is new") };
    claim.keep(&object);
    let SliceClaim::Missing(mut fill) = object.claim_slice(u32::MAX - 1) else { panic!("it is new") };
    fill.append(&[3; 1000]).unwrap();
    fill.finish();
    assert!(live_bytes() - before < 100_000, "by a request");
    tiers.preserve();
    drop((object, index, tiers));
    let limits = TierLimits { bytes: 64 * u64::from(SLICE), slice_bytes: SLICE, scrub_bytes_per_second: 0 };
    let (memory, restored) = MemoryTier::open(directory.path(), limits, SystemTime::now()).unwrap();
    assert_eq!(restored.slices, 1);
    let tiers = Tiers::new(memory, None);
    let index: Arc<Index<()>> = Index::new(Arc::new(Budget::new(64 << 20)), restored);
    let before = live_bytes();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let restoring = index.restore(&[3; 16], &tiers, |_| Some(()));
    let object = runtime.block_on(restoring).unwrap();
    drop(runtime);
    assert_eq!(object.stored_slices(), 1);
    assert!(live_bytes() - before < 100_000, "by a restart");
}
