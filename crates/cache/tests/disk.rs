//! The disk tier as a cache sees it: what goes there, what comes back, and what must not.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use penstock_cache::{
    Budget, DiskCounters, DiskError, DiskLimits, Disks, Index, IndexEntry, MemoryTier, Metadata, Object,
    SliceClaim, TierEvent, TierLimits, Tiers,
};
use tempfile::TempDir;

const SLICE: u32 = 64 * 1024;

struct Text(String);

impl Metadata for Text {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.as_bytes());
    }
}

struct Place {
    memory: TempDir,
    disks: Vec<TempDir>,
    limits: DiskLimits,
    /// The clock at the start of a process.
    clock: SystemTime,
}

struct Cache {
    tiers: Arc<Tiers>,
    disks: Arc<Disks>,
    index: Arc<Index<Text>>,
    said: Arc<Mutex<Vec<String>>>,
}

fn budget() -> Arc<Budget> {
    Arc::new(Budget::new(16 << 20))
}

fn limits() -> DiskLimits {
    DiskLimits {
        bytes: 64 * u64::from(SLICE),
        segment_bytes: 8 * u64::from(SLICE),
        slice_bytes: SLICE,
        readers: 2,
        queued_reads: 64,
        bytes_in_flight: 64 << 20,
        open_segments: 3,
        scrub_bytes_per_second: 0,
        read_errors: 3,
    }
}

fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

impl Place {
    fn new(disks: usize) -> Self {
        let directory = || tempfile::tempdir_in("/dev/shm").unwrap();
        let disks = (0..disks).map(|_| directory()).collect();
        Self { memory: directory(), disks, limits: limits(), clock: SystemTime::now() }
    }

    /// A cache with an empty memory tier: what it knows is on the disks.
    fn open(&mut self) -> Cache {
        self.memory = tempfile::tempdir_in("/dev/shm").unwrap();
        let cache = self.try_open().unwrap();
        until("the disks are read", || cache.disks.are_scanned().then_some(()));
        cache
    }

    fn try_open(&self) -> Result<Cache, DiskError> {
        let said = Arc::new(Mutex::new(Vec::new()));
        let disks = until("the end of the process before", || {
            let heard = Arc::clone(&said);
            let report = move |event: TierEvent<'_>| heard.lock().unwrap().push(format!("{event:?}"));
            let wanted: Vec<(PathBuf, DiskLimits)> =
                self.disks.iter().map(|disk| (disk.path().to_owned(), self.limits)).collect();
            match Disks::open(&wanted, &budget(), Arc::new(report)) {
                Err(DiskError::InUse(_)) => None,
                other => Some(other),
            }
        })?;
        let memory =
            TierLimits { bytes: 16 * u64::from(SLICE), slice_bytes: SLICE, scrub_bytes_per_second: 0 };
        let (tier, restored) = MemoryTier::open(self.memory.path(), memory, self.clock).unwrap();
        let tiers = Tiers::new(tier, Some(Arc::clone(&disks)));
        Ok(Cache { tiers, disks, index: Index::new(budget(), restored), said })
    }

    fn segments(&self, disk: usize) -> Vec<PathBuf> {
        let files = fs::read_dir(self.disks[disk].path()).unwrap().map(|file| file.unwrap().path());
        let mut segments: Vec<_> =
            files.filter(|path| path.to_str().unwrap().contains("/segment-")).collect();
        segments.sort();
        segments
    }
}

impl Cache {
    fn kept(&self, key: u8, text: &str, length: u64) -> Arc<Object<Text>> {
        let object = Object::new(&[key; 16], Text(text.to_owned()), Some(length), Arc::clone(&self.tiers));
        self.keep(key, &object);
        object
    }

    fn keep(&self, key: u8, object: &Arc<Object<Text>>) {
        match self.index.get_or_claim(&[key; 16]) {
            IndexEntry::Claimed(claim) => claim.keep(object),
            IndexEntry::Known(known) => match self.index.get_newer_or_claim(&[key; 16], &known) {
                IndexEntry::Claimed(claim) => claim.keep(object),
                _ => panic!("another claim is pending"),
            },
            IndexEntry::Pending(_) => panic!("no claim is pending"),
        }
    }

    fn restore(&self, key: u8) -> Option<Arc<Object<Text>>> {
        let read = |bytes: &[u8]| Some(Text(String::from_utf8(bytes.to_vec()).ok()?));
        wait(self.index.restore(&[key; 16], &self.tiers, read))
    }

    /// An object of one byte over and over, asked for twice, so that a disk has it too.
    fn on_disk(&self, key: u8, length: u64) -> Arc<Object<Text>> {
        let object = self.kept(key, &format!("object {key}"), length);
        for slice in 0..u32::try_from(length.div_ceil(u64::from(SLICE))).unwrap() {
            fill(&object, slice, key);
            object.count_request(slice);
            object.count_request(slice);
        }
        self.wait_for_writes();
        object
    }

    fn wait_for_writes(&self) {
        until("all is written", || (self.disks.bytes_in_flight() == 0).then_some(()));
    }

    fn counters(&self) -> DiskCounters {
        self.disks.counters().remove(0)
    }
}

fn fill(object: &Arc<Object<Text>>, slice: u32, byte: u8) {
    let SliceClaim::Missing(mut fill) = object.claim_slice(slice) else {
        panic!("slice {slice} is not missing")
    };
    fill.append(&vec![byte; object.slice_length(slice) as usize]).unwrap();
    fill.finish();
}

/// The bytes of a slice that is in memory or on a disk; `None` if it has to come from elsewhere.
fn bytes(object: &Arc<Object<Text>>, slice: u32) -> Option<Vec<u8>> {
    if let SliceClaim::Missing(fill) = object.claim_slice(slice)
        && wait(fill.restore()).is_err()
    {
        return None;
    }
    let SliceClaim::Ready(lease) = object.claim_slice(slice) else { panic!("it has just been found") };
    let extent = lease.extent(0..lease.length()).unwrap();
    let mut bytes = vec![0; usize::try_from(extent.len).unwrap()];
    extent.file.window(extent.offset, extent.len).unwrap().copy_to(&mut bytes).unwrap();
    Some(bytes)
}

#[test]
fn a_slice_requested_twice_is_on_disk_and_a_slice_requested_once_is_not() {
    let mut place = Place::new(1);
    let cache = place.open();
    let once = cache.kept(1, "once", 100);
    fill(&once, 0, 1);
    once.count_request(0);
    cache.on_disk(2, 3 * u64::from(SLICE) + 5);
    assert_eq!((cache.disks.slices(), cache.counters().written), (4, 4));
    drop((once, cache));

    let cache = place.open();
    assert_eq!(cache.disks.slices(), 4, "the disk tells what is on it");
    assert!(cache.restore(1).is_none());
    let object = cache.restore(2).unwrap();
    assert_eq!((object.metadata().0.as_str(), object.length()), ("object 2", Some(3 * 65_536 + 5)));
    assert_eq!(bytes(&object, 3).unwrap(), vec![2; 5]);
    assert_eq!(bytes(&object, 0).unwrap(), vec![2; SLICE as usize]);
    assert_eq!(cache.counters().read, 2);
    assert_eq!(cache.tiers.counters().slices, 0, "it is sent from the disk's own file");
}

#[test]
fn a_copy_of_what_another_node_keeps_goes_to_no_disk() {
    let mut place = Place::new(1);
    let cache = place.open();
    let copy = cache.kept(1, "copy", 100);
    let SliceClaim::Missing(mut slice) = copy.claim_slice(0) else { panic!("it is there") };
    slice.reserve().unwrap();
    slice.mark_copy();
    slice.append(&[1; 100]).unwrap();
    slice.finish();
    (0..300).for_each(|_| copy.count_request(0));
    cache.on_disk(2, 100);
    assert_eq!((cache.disks.slices(), cache.counters().written), (1, 1), "the other one alone");
}

#[test]
fn a_second_request_brings_a_slice_back_to_memory() {
    let mut place = Place::new(1);
    place.open().on_disk(2, 100);
    let cache = place.open();
    let object = cache.restore(2).unwrap();
    cache.keep(2, &object);
    assert!(bytes(&object, 0).is_some());
    object.count_request(0);
    assert_eq!(cache.tiers.counters().slices, 0);
    object.count_request(0);
    until("it is in memory", || (cache.tiers.counters().slices == 1).then_some(()));
    assert_eq!(bytes(&object, 0).unwrap(), vec![2; 100]);
    assert_eq!(cache.counters().promoted, 1);
    for _ in 0..3 {
        object.count_request(0);
    }
    cache.wait_for_writes();
    assert_eq!(cache.counters().written, 0, "it is there already");
}

#[test]
fn the_oldest_segment_goes_and_what_is_being_sent_from_it_stays_as_it_is() {
    let mut place = Place::new(1);
    place.open().on_disk(1, u64::from(SLICE));
    let cache = place.open();
    let first = cache.restore(1).unwrap();
    let SliceClaim::Missing(fill) = first.claim_slice(0) else { panic!() };
    wait(fill.restore()).map_err(|_| ()).unwrap();
    let SliceClaim::Ready(lease) = first.claim_slice(0) else { panic!() };
    for round in 0..40_u8 {
        drop(cache.on_disk(100 + round, 3 * u64::from(SLICE)));
        assert!(cache.counters().bytes <= place.limits.bytes, "{}", cache.counters().bytes);
    }
    assert!(cache.counters().segments_dropped > 0);
    assert!(matches!(first.claim_slice(0), SliceClaim::Missing(_)), "it has gone with its segment");
    let extent = lease.extent(0..SLICE).unwrap();
    let mut sent = vec![0; SLICE as usize];
    extent.file.window(extent.offset, extent.len).unwrap().copy_to(&mut sent).unwrap();
    assert_eq!(sent, vec![1; SLICE as usize]);
    let known = cache.disks.slices();
    assert!(known <= 64, "{known} slices are known of those that fit");
    assert_eq!(place.segments(0).len() as u64, cache.counters().segments);
}

#[test]
fn forgotten_and_replaced_objects_do_not_return_after_a_restart() {
    let mut place = Place::new(2);
    let cache = place.open();
    for key in 1..=3 {
        cache.on_disk(key, 100);
    }
    assert!(cache.index.forget(&[1; 16], &cache.tiers));
    let newer = cache.kept(2, "newer", 50);
    cache.wait_for_writes();
    assert!(cache.disks.slices() == 1);
    drop((newer, cache));
    for _ in 0..2 {
        let cache = place.open();
        assert!(cache.restore(1).is_none());
        assert!(cache.restore(2).is_none(), "the newer one was in memory only");
        assert_eq!(bytes(&cache.restore(3).unwrap(), 0).unwrap(), vec![3; 100]);
    }
}

#[test]
fn after_a_clock_was_set_back_forgotten_and_replaced_objects_do_not_return() {
    let mut place = Place::new(1);
    let cache = place.open();
    let found: Vec<_> = (1..=4).map(|key| cache.on_disk(key, 100)).collect();
    drop((found, cache));
    place.clock = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    let cache = place.open();
    assert!(cache.index.forget(&[1; 16], &cache.tiers));
    let newer = cache.kept(2, "newer", 50);
    cache.wait_for_writes();
    drop((newer, cache));
    let cache = place.try_open().unwrap();
    assert!(cache.index.forget(&[3; 16], &cache.tiers), "also while the disk is scanned");
    until("the disk is read", || cache.disks.are_scanned().then_some(()));
    assert!(cache.restore(3).is_none());
    drop(cache);
    let cache = place.open();
    for key in 1..=3 {
        assert!(cache.restore(key).is_none(), "object {key}");
    }
    assert_eq!(bytes(&cache.restore(4).unwrap(), 0).unwrap(), vec![4; 100]);
}

#[test]
fn an_object_kept_without_a_claim_goes_to_the_disk_and_replaces_what_is_there() {
    let mut place = Place::new(1);
    let cache = place.open();
    cache.on_disk(1, 100);
    for (key, is_replaceable) in [(1, true), (2, true), (3, false)] {
        let object = Object::new(&[key; 16], Text(format!("new {key}")), Some(50), Arc::clone(&cache.tiers));
        if key == 3 {
            cache.kept(3, "newer", 50);
        }
        cache.index.insert_kept(&object, |_| is_replaceable);
        fill(&object, 0, 10 + key);
        object.count_request(0);
        object.count_request(0);
    }
    cache.wait_for_writes();
    assert_eq!(cache.counters().written, 3, "the last one was refused");
    drop(cache);
    let cache = place.open();
    for key in 1..=2 {
        let object = cache.restore(key).unwrap();
        assert_eq!(object.metadata().0, format!("new {key}"));
        assert_eq!(bytes(&object, 0).unwrap(), vec![10 + key; 50]);
    }
    assert!(cache.restore(3).is_none());
}

#[test]
fn flipped_bits_torn_and_missing_segments_are_noticed() {
    type Harm = fn(&Path);
    let harms: [(&str, Harm); 5] = [
        ("a flipped bit in the bytes", |path| flip(path, 64 + 64 + 8 + 50)),
        ("a flipped bit in the header of the record", |path| flip(path, 64 + 20)),
        ("a flipped bit in the metadata", |path| flip(path, 64 + 64 + 2)),
        ("a file cut off", |path| {
            OpenOptions::new().write(true).open(path).unwrap().set_len(130).unwrap();
        }),
        ("a file of zeros", |path| {
            let length = fs::metadata(path).unwrap().len();
            fs::write(path, vec![0; usize::try_from(length).unwrap()]).unwrap();
        }),
    ];
    for (what, harm) in harms {
        for finished in [false, true] {
            let mut place = Place::new(1);
            place.open().on_disk(1, 100);
            if finished {
                // The next process gives the segment its table.
                drop(place.open());
                until("it is let go", || place.try_open().ok());
            }
            harm(&place.segments(0)[0]);
            let cache = place.open();
            let got = cache.restore(1).and_then(|object| bytes(&object, 0));
            assert_eq!(got, None, "{what}, finished {finished}");
            assert!(cache.counters().in_service, "{what}");
            assert_eq!(bytes(&cache.on_disk(1, 200), 0).unwrap(), vec![1; 200], "{what}");
        }
    }
}

fn flip(path: &Path, place: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, place).unwrap();
    file.write_all_at(&[byte[0] ^ 4], place).unwrap();
}

#[test]
fn one_rotten_slice_costs_nothing_but_itself() {
    let mut place = Place::new(1);
    place.open().on_disk(1, 3 * u64::from(SLICE));
    flip(&place.segments(0)[0], 64 + 3 * (64 + 8 + u64::from(SLICE)) - 10);
    let cache = place.open();
    let object = cache.restore(1).unwrap();
    assert_eq!(bytes(&object, 2), None, "the last one written, which also says what the object is");
    assert!(bytes(&object, 0).is_some() && bytes(&object, 1).is_some());
    assert_eq!(cache.counters().damaged, 1);
}

#[test]
fn the_scrub_finds_damage_that_no_request_reads() {
    let mut place = Place::new(1);
    place.open().on_disk(1, 3 * u64::from(SLICE));
    drop(place.open().on_disk(2, 100));
    flip(&place.segments(0)[0], 64 + 64 + 8 + 1000);
    place.limits.scrub_bytes_per_second = 10 << 20;
    let cache = place.open();
    until("the rotten one is found", || (cache.counters().damaged == 1).then_some(()));
    assert_eq!(cache.disks.slices(), 3);
    assert!(cache.counters().in_service);
}

#[test]
fn a_directory_that_vanishes_takes_its_disk_out_and_the_other_goes_on() {
    let mut place = Place::new(2);
    let cache = place.open();
    for key in 0..20 {
        cache.on_disk(key, 100);
    }
    let slices = cache.disks.slices();
    fs::remove_dir_all(place.disks[0].path()).unwrap();
    until("it is noticed", || (!cache.counters().in_service).then_some(()));
    until("its slices are forgotten", || (cache.disks.slices() < slices).then_some(()));
    for key in 100..120 {
        cache.on_disk(key, 100);
    }
    let counters = cache.disks.counters();
    assert!(counters[1].in_service && counters[1].written >= 20);
    let said = cache.said.lock().unwrap().join("\n");
    assert_eq!(said.matches("OutOfService").count(), 1, "{said}");
    assert!(said.contains("not there any more"), "{said}");
}

#[test]
fn another_slice_size_begins_empty() {
    let mut place = Place::new(1);
    place.open().on_disk(1, 100);
    place.limits.slice_bytes = 2 * SLICE;
    let cache = place.open();
    assert!(cache.restore(1).is_none());
    // The event follows the end of the scan.
    until("the event", || {
        cache.said.lock().unwrap().iter().any(|said| said.contains("lost: 1")).then_some(())
    });
}

#[test]
fn many_restarts_fill_no_disk() {
    let mut place = Place::new(1);
    for round in 0..30 {
        place.open().on_disk(round, 100);
    }
    let cache = place.open();
    assert_eq!(cache.disks.slices(), 30);
    assert!(cache.counters().bytes < 30 * 1000, "{}", cache.counters().bytes);
}

/// Measures the bytes that a start reads of a disk, with nothing of it in memory, for docs/cache.md.
#[test]
fn how_long_it_takes_to_find_out_what_is_there() {
    let mut place = Place::new(0);
    place.disks.push(TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
    place.limits.bytes = 256 << 20;
    place.limits.segment_bytes = 1 << 20;
    let cache = place.open();
    for key in 0..200 {
        cache.on_disk(key, 8 * u64::from(SLICE));
    }
    drop(cache);
    // The last segment gets its table from the next process.
    drop(place.open());
    for path in place.segments(0) {
        let file = fs::File::open(path).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
    let segments = place.segments(0).len();
    let begun = Instant::now();
    let cache = place.open();
    println!("{segments} segments, {} slices: {:?}", cache.disks.slices(), begun.elapsed());
    assert_eq!(cache.disks.slices(), 1600);
}

#[test]
fn a_segment_that_is_truncated_under_a_reader_costs_its_slices_and_no_request_hangs() {
    let mut place = Place::new(1);
    place.open().on_disk(1, 3 * u64::from(SLICE));
    let cache = place.open();
    let object = cache.restore(1).unwrap();
    assert!((0..3).all(|slice| bytes(&object, slice).is_some()));
    let path = place.segments(0).remove(0);
    OpenOptions::new().write(true).open(&path).unwrap().set_len(4096).unwrap();
    let SliceClaim::Ready(lease) = object.claim_slice(2) else { panic!("its file is open") };
    let extent = lease.extent(0..SLICE).unwrap();
    let mut sent = vec![0; SLICE as usize];
    assert!(extent.file.window(extent.offset, extent.len).unwrap().copy_to(&mut sent).is_err());
    lease.report_failure();
    drop((lease, extent));
    assert!((0..3).all(|slice| bytes(&object, slice).is_none()));
    assert!(cache.counters().in_service && cache.counters().damaged > 0);
}
