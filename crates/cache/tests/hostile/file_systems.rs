//! File systems that others fill, and disks that are to blame for what they did, and for nothing else.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use penstock_cache::purge::PurgeLimits;
use penstock_cache::{
    Budget, DiskLimits, Disks, Index, MemoryTier, Object, SliceClaim, TierError, TierEvent, TierLimits,
    TierOptions, TierWarning, Tiers,
};

use super::{Cache, LIMITS, SLICE, Text, directory, fill, has, open_with, until};

/// A tmpfs of a certain size, as Docker mounts one of 64 MiB; unmounted on drop. `None` without the right to mount.
struct SmallFileSystem(tempfile::TempDir);

impl SmallFileSystem {
    #[expect(clippy::print_stderr, reason = "a skipped test says so")]
    fn mount(kib: u64) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={kib}k,mode=0700"), "penstock-test"])
            .arg(directory.path())
            .status();
        if !mounted.is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED: a file system cannot be mounted here");
            return None;
        }
        Some(Self(directory))
    }

    fn tier(&self) -> std::path::PathBuf {
        self.0.path().join("tier")
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        // Lazily: a thread of the tier may still have its files open.
        drop(std::process::Command::new("umount").arg("-l").arg(self.0.path()).status());
    }
}

#[test]
fn a_tier_larger_than_its_file_system_shrinks_with_a_warning_and_evicts() {
    let Some(small) = SmallFileSystem::mount(16 * 1024) else { return };
    let limits = TierLimits { bytes: 1 << 30, ..LIMITS };
    let (memory, restored) = MemoryTier::open(&small.tier(), limits, SystemTime::now()).unwrap();
    let Some(TierWarning::Shrunk { asked, available, .. }) = &restored.warning else { panic!("no warning") };
    assert_eq!(*asked, 1 << 30);
    assert!((8 << 20..16 << 20).contains(available), "{available}");
    assert!(restored.warning.as_ref().unwrap().to_string().contains("of 1024 MiB"));
    assert_eq!(memory.counters().bytes_max, *available);
    let checked = MemoryTier::check_space(&small.tier(), limits).unwrap();
    assert!(checked.is_some(), "it is known before the start");
    let tiers = Tiers::new(memory, None);
    let object = Object::new(&[1; 16], Text("a film"), Some(400 * u64::from(SLICE)), Arc::clone(&tiers));
    (0..200).for_each(|slice| fill(&object, slice));
    assert!(tiers.counters().evictions > 50);
    assert!(has(&object, 199));
}

#[test]
fn a_file_system_that_others_fill_costs_slices_and_no_download() {
    let Some(small) = SmallFileSystem::mount(16 * 1024) else { return };
    let cache = open_with(&small.tier(), TierLimits { bytes: 8 << 20, ..LIMITS });
    let object =
        Object::new(&[1; 16], Text("a film"), Some(400 * u64::from(SLICE)), Arc::clone(&cache.tiers));
    (0..40).for_each(|slice| fill(&object, slice));
    let mut other = File::create(small.0.path().join("other")).unwrap();
    while other.write_all(&[1; 4096]).is_ok() {}
    (40..90).for_each(|slice| fill(&object, slice));
    assert!(has(&object, 89));
    until("the tier adapts", || cache.counters().bytes_max < 8 << 20);
    drop(other);
    fs::remove_file(small.0.path().join("other")).unwrap();
    until("it grows again", || cache.counters().bytes_max == 8 << 20);
}

#[test]
fn space_that_others_take_from_the_tier_is_reported_once_and_once_that_it_is_there_again() {
    let Some(small) = SmallFileSystem::mount(16 * 1024) else { return };
    let said = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&said);
    let report = move |event: TierEvent<'_>| heard.lock().unwrap().push(format!("{event:?}"));
    let options = TierOptions {
        memory: &small.tier(),
        memory_limits: TierLimits { bytes: 8 << 20, ..LIMITS },
        disks: &[],
        budget: &Arc::new(Budget::new(16 << 20)),
        purge_limits: PurgeLimits { purges: 100, bytes: 100_000 },
        purges: None,
    };
    let opened = Tiers::open(&options, Arc::new(report), SystemTime::now()).unwrap();
    let lines = || said.lock().unwrap().clone();
    for turn in 1..=2 {
        let path = small.0.path().join("other");
        let mut other = File::create(&path).unwrap();
        while other.write_all(&[1; 4096]).is_ok() {}
        until("a line says that space is missing", || lines().len() == 2 * turn - 1);
        // Less of it is missing, and there is no further line.
        let before = opened.tiers.counters().bytes_max;
        other.set_len(other.metadata().unwrap().len() - (1 << 20)).unwrap();
        until("the tier adapts", || opened.tiers.counters().bytes_max > before);
        assert_eq!(lines().len(), 2 * turn - 1, "{:?}", lines());
        drop(other);
        fs::remove_file(&path).unwrap();
        until("a line says that it is there again", || lines().len() == 2 * turn);
    }
    assert_eq!(opened.tiers.counters().bytes_max, 8 << 20);
    for (number, line) in lines().iter().enumerate() {
        assert!(line.starts_with(["MemoryShort", "MemoryEnough"][number % 2]), "{line}");
        assert!(line.contains(small.tier().to_str().unwrap()), "{line}");
    }
}

#[test]
fn a_file_system_without_space_for_a_few_slices_is_refused() {
    let Some(small) = SmallFileSystem::mount(256) else { return };
    let error = MemoryTier::open(&small.tier(), LIMITS, SystemTime::now()).err().unwrap();
    assert!(matches!(error, TierError::TooSmall { .. }), "{error}");
    assert!(error.to_string().contains(small.tier().to_str().unwrap()));
    assert!(MemoryTier::check_space(&small.tier(), LIMITS).is_err());
    assert!(MemoryTier::check_space(&small.0.path().join("not/there/yet"), LIMITS).is_err());
}

fn disk_limits() -> DiskLimits {
    DiskLimits {
        bytes: 64 * u64::from(SLICE),
        segment_bytes: 8 * u64::from(SLICE),
        slice_bytes: SLICE,
        readers: 1,
        queued_reads: 64,
        bytes_in_flight: 64 << 20,
        open_segments: 3,
        scrub_bytes_per_second: 0,
        read_errors: 3,
    }
}

#[test]
fn a_disk_that_is_full_at_the_start_is_left_out_by_name() {
    let Some(full) = SmallFileSystem::mount(1024) else { return };
    let (memory, good) = (directory(), directory());
    // Inodes and bytes are both gone, but the directory is there.
    fs::create_dir(full.tier()).unwrap();
    let mut other = File::create(full.0.path().join("other")).unwrap();
    while other.write_all(&[1; 4096]).is_ok() {}
    let said = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&said);
    let report = move |event: TierEvent<'_>| heard.lock().unwrap().push(format!("{event:?}"));
    let disks = [(full.tier(), disk_limits()), (good.path().to_owned(), disk_limits())];
    let options = TierOptions {
        memory: memory.path(),
        memory_limits: LIMITS,
        disks: &disks,
        budget: &Arc::new(Budget::new(16 << 20)),
        purge_limits: PurgeLimits { purges: 100, bytes: 100_000 },
        purges: None,
    };
    let opened = Tiers::open(&options, Arc::new(report), SystemTime::now()).unwrap();
    let in_service: Vec<bool> =
        opened.tiers.disks().unwrap().counters().iter().map(|disk| disk.in_service).collect();
    assert_eq!(in_service, [false, true]);
    let said = said.lock().unwrap().join("\n");
    assert!(said.contains("OutOfService") && said.contains(full.tier().to_str().unwrap()), "{said}");
    assert!(said.contains("free space there"), "{said}");
}

fn with_disk(memory: &Path, limits: TierLimits, disk: &Path) -> Cache {
    let disks =
        Disks::open(&[(disk.to_owned(), disk_limits())], &Arc::new(Budget::new(16 << 20)), Arc::new(|_| ()));
    let (memory, restored) = MemoryTier::open(memory, limits, SystemTime::now()).unwrap();
    let index = Index::new(Arc::new(Budget::new(16 << 20)), restored);
    Cache { tiers: Tiers::new(memory, Some(disks.unwrap())), index, slices: 0 }
}

fn request_twice(cache: &Cache, object: &Arc<Object<Text>>, slices: u32) {
    for slice in 0..slices {
        object.count_request(slice);
        object.count_request(slice);
    }
    until("the disk is idle", || cache.tiers.disks().unwrap().bytes_in_flight() == 0);
}

#[test]
fn a_memory_file_system_that_others_fill_is_no_fault_of_the_disks() {
    let Some(small) = SmallFileSystem::mount(8 * 1024) else { return };
    let disk = directory();
    let limits = TierLimits { bytes: 4 << 20, ..LIMITS };
    let first = with_disk(&small.tier(), limits, disk.path());
    request_twice(&first, &first.object(1, 8), 8);
    drop(first);
    fs::remove_dir_all(small.tier()).unwrap();
    let mut cache = None;
    until("the process before has ended", || {
        if !File::open(disk.path().join("lock")).is_ok_and(|lock| {
            rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok()
        }) {
            return false;
        }
        cache = Some(with_disk(&small.tier(), limits, disk.path()));
        true
    });
    let cache = cache.unwrap();
    let counters = || cache.tiers.disks().unwrap().counters().remove(0);
    until("the disk is read", || cache.tiers.disks().unwrap().are_scanned());
    let object = cache.restored(1).unwrap();
    assert!((0..8).all(|slice| has(&object, slice)));
    let read = counters().read;
    for _ in 0..3 {
        until("the tier may grow", || cache.counters().bytes_max == limits.bytes);
        let mut other = File::create(small.0.path().join("other")).unwrap();
        while other.write_all(&[1; 4096]).is_ok() {}
        request_twice(&cache, &object, 8);
        // What is queued ends before the reader looks at this.
        assert!((0..8).all(|slice| has(&object, slice)));
        fs::remove_file(small.0.path().join("other")).unwrap();
    }
    assert_eq!((counters().errors, counters().damaged, counters().in_service), (0, 0, true));
    until("the tier may grow", || cache.counters().bytes_max == limits.bytes);
    until("with space they return to memory", || {
        request_twice(&cache, &object, 8);
        counters().promoted >= 8
    });
    assert!(counters().read > read);
    assert!((0..8).all(|slice| has(&object, slice)));
}

#[test]
fn bytes_that_memory_has_lost_are_no_fault_of_the_disk_that_they_were_to_go_to() {
    let (memory, disk) = (directory(), directory());
    let cache = with_disk(memory.path(), LIMITS, disk.path());
    let object = cache.object(1, 4);
    let SliceClaim::Ready(lease) = object.claim_slice(3) else { panic!("it was filled") };
    OpenOptions::new().write(true).open(memory.path().join("slices")).unwrap().set_len(0).unwrap();
    for _ in 0..2 {
        object.count_leased_request(3, &lease);
    }
    until("the file is replaced", || cache.counters().reopened == 1);
    until("the disk is idle", || cache.tiers.disks().unwrap().bytes_in_flight() == 0);
    let counters = cache.tiers.disks().unwrap().counters().remove(0);
    assert_eq!((counters.errors, counters.damaged, counters.written, counters.in_service), (0, 0, 0, true));
    assert!(!has(&object, 3));
    fill(&object, 3);
    assert!(has(&object, 3));
}
