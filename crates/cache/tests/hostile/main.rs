//! Other programs change, truncate, forge, link and fill the files of the memory tier.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

mod file_systems;

use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use penstock_cache::{
    Budget, Index, IndexEntry, MemoryTier, Metadata, Object, SliceClaim, TierCounters, TierError, TierLimits,
    Tiers,
};

const SLICE: u32 = 128 * 1024;
const LIMITS: TierLimits =
    TierLimits { bytes: 32 * SLICE as u64, slice_bytes: SLICE, scrub_bytes_per_second: 0 };

struct Text(&'static str);

impl Metadata for Text {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.as_bytes());
    }
}

struct Cache {
    tiers: Arc<Tiers>,
    index: Arc<Index<Text>>,
    slices: u64,
}

fn open_with(directory: &Path, limits: TierLimits) -> Cache {
    let mut opened = None;
    // A command that another test starts has the lock too until it is executed.
    until("the lock is free", || {
        let result = MemoryTier::open(directory, limits, SystemTime::now());
        let is_free = !matches!(result, Err(TierError::InUse(_)));
        opened = is_free.then_some(result);
        is_free
    });
    let (memory, restored) = opened.unwrap().unwrap();
    let slices = restored.slices;
    let index = Index::new(Arc::new(Budget::new(16 << 20)), restored);
    Cache { tiers: Tiers::new(memory, None), index, slices }
}

fn open(directory: &Path) -> Cache {
    open_with(directory, LIMITS)
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

impl Cache {
    fn object(&self, key: u8, slices: u32) -> Arc<Object<Text>> {
        let IndexEntry::Claimed(claim) = self.index.get_or_claim(&[key; 16]) else { panic!("it is new") };
        let length = u64::from(slices) * u64::from(SLICE);
        let object = Object::new(&[key; 16], Text("a film"), Some(length), Arc::clone(&self.tiers));
        claim.keep(&object);
        for slice in 0..slices {
            fill(&object, slice);
        }
        object
    }

    fn restored(&self, key: u8) -> Option<Arc<Object<Text>>> {
        wait(self.index.restore(&[key; 16], &self.tiers, |_| Some(Text("a film"))))
    }

    fn counters(&self) -> TierCounters {
        self.tiers.counters()
    }

    fn leave(self) {
        self.tiers.preserve();
    }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn byte(object: &Object<Text>, slice: u32) -> u8 {
    object.key()[0].wrapping_mul(31).wrapping_add(u8::try_from(slice).unwrap())
}

fn fill(object: &Arc<Object<Text>>, slice: u32) {
    let SliceClaim::Missing(mut fill) = object.claim_slice(slice) else { panic!("slice {slice} is there") };
    fill.append(&vec![byte(object, slice); object.slice_length(slice) as usize]).unwrap();
    fill.finish();
}

/// Whether a tier still has a slice; its bytes are compared with what was written.
fn has(object: &Arc<Object<Text>>, slice: u32) -> bool {
    if let SliceClaim::Missing(fill) = object.claim_slice(slice)
        && wait(fill.restore()).is_err()
    {
        return false;
    }
    let SliceClaim::Ready(lease) = object.claim_slice(slice) else { panic!("it was found") };
    let extent = lease.extent(0..lease.length()).unwrap();
    let mut bytes = vec![0; usize::try_from(extent.len).unwrap()];
    extent.file.window(extent.offset, extent.len).unwrap().copy_to(&mut bytes).unwrap();
    assert!(bytes == vec![byte(object, slice); bytes.len()], "slice {slice} has other bytes");
    true
}

/// Changes one byte in the middle of the slice of a byte over and over.
fn flip(directory: &Path, wanted: u8) {
    let path = directory.join("slices");
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let length = file.metadata().unwrap().len();
    let mut bytes = vec![0; 4096];
    for at in (0..length).step_by(4096) {
        file.read_exact_at(&mut bytes, at).unwrap();
        if bytes == vec![wanted; 4096] {
            file.write_all_at(&[!wanted], at + 1000).unwrap();
            return;
        }
    }
    panic!("no page of {wanted}");
}

#[test]
fn a_byte_that_flips_between_two_processes_costs_its_slice_and_nothing_else() {
    let directory = directory();
    let first = open(directory.path());
    let object = first.object(1, 3);
    let small = first.object(2, 1);
    let (flipped, flipped_small) = (byte(&object, 1), byte(&small, 0));
    drop((object, small));
    first.leave();
    flip(directory.path(), flipped);
    flip(directory.path(), flipped_small);
    let second = open(directory.path());
    assert_eq!(second.slices, 4);
    let object = second.restored(1).unwrap();
    assert!(has(&object, 0) && has(&object, 2));
    assert!(!has(&object, 1));
    assert!(!has(&second.restored(2).unwrap(), 0));
    assert_eq!(second.counters().damaged, 2);
    fill(&object, 1);
    assert!(has(&object, 1), "it can be filled again");
}

#[test]
fn the_scrub_finds_a_flipped_byte_that_no_request_reads() {
    let directory = directory();
    let cache = open_with(directory.path(), TierLimits { scrub_bytes_per_second: 1 << 30, ..LIMITS });
    let object = cache.object(1, 3);
    flip(directory.path(), byte(&object, 1));
    until("the slice is dropped", || cache.counters().damaged == 1);
    until("its space is given back", || cache.counters().slices == 2);
    assert!(has(&object, 0) && has(&object, 2));
    assert!(!has(&object, 1));
    until("all is checked again", || cache.counters().scrubbed_bytes > 20 * u64::from(SLICE));
    assert_eq!(cache.counters().damaged, 1);
}

/// The bytes of an extent, by a read of the file as `sendfile` does one.
fn read_file(extent: &penstock_sys::file::Extent) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(extent.len).unwrap()];
    let count = rustix::io::pread(extent.file.as_fd(), &mut bytes, extent.offset).unwrap();
    bytes.truncate(count);
    bytes
}

#[test]
fn a_truncated_file_is_replaced_and_costs_its_slices_and_no_restart() {
    let directory = directory();
    let cache = open(directory.path());
    let object = cache.object(1, 4);
    let path = directory.path().join("slices");
    let whole = fs::metadata(&path).unwrap();
    // Slices lie one behind the other; the last two are cut off.
    let SliceClaim::Ready(third) = object.claim_slice(2) else { panic!("it was filled") };
    let cut = third.extent(0..1).unwrap().offset;
    OpenOptions::new().write(true).open(&path).unwrap().set_len(cut).unwrap();
    // A sender that reads through its mapping gets an error, as it does on SIGBUS.
    let extent = third.extent(0..SLICE).unwrap();
    let mut bytes = vec![0; SLICE as usize];
    assert!(extent.file.window(extent.offset, extent.len).unwrap().copy_to(&mut bytes).is_err());
    third.report_failure();
    drop(third);
    assert_eq!(cache.counters().reopened, 1);
    assert!(cache.counters().in_service);
    let now = fs::metadata(&path).unwrap();
    assert_eq!((now.len(), now.mode()), (whole.len(), whole.mode()));
    assert_ne!(now.ino(), whole.ino());
    assert!((0..4).all(|slice| !has(&object, slice)));
    assert_eq!(cache.counters().damaged, 4);
    (0..3).for_each(|slice| fill(&object, slice));
    assert!((0..3).all(|slice| has(&object, slice)));
    assert!(matches!(
        MemoryTier::open(directory.path(), LIMITS, SystemTime::now()),
        Err(TierError::InUse(_))
    ));
    drop(object);
    cache.leave();
    let next = open(directory.path());
    assert_eq!(next.slices, 3, "the next process finds what lies in the new file");
    let object = next.restored(1).unwrap();
    assert!((0..3).all(|slice| has(&object, slice)));
}

#[test]
fn a_lease_from_before_a_truncation_never_yields_zeros() {
    let directory = directory();
    let cache = open(directory.path());
    let object = cache.object(1, 8);
    let path = directory.path().join("slices");
    for round in 0..5 {
        let leases: Vec<_> = (0..8)
            .map(|slice| match object.claim_slice(slice) {
                SliceClaim::Ready(lease) => lease,
                _ => panic!("it was filled"),
            })
            .collect();
        let extents: Vec<_> = leases.iter().map(|lease| lease.extent(0..SLICE).unwrap()).collect();
        // A fill goes on while the file is cut: its next bytes would lie behind the end.
        let key = [100 + round; 16];
        let other = Object::new(&key, Text(""), Some(u64::from(SLICE)), Arc::clone(&cache.tiers));
        let SliceClaim::Missing(mut filling) = other.claim_slice(0) else { panic!("it is new") };
        filling.append(&[1; 5000]).unwrap();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
        assert!(filling.append(&[1; 5000]).is_err());
        drop(filling);
        leases[0].report_failure();
        assert_eq!(cache.counters().reopened, u64::from(round) + 1);
        for (slice, extent) in (0..).zip(&extents) {
            assert_eq!(read_file(extent).len(), 0, "slice {slice}");
            let mut bytes = vec![0; SLICE as usize];
            let copied =
                extent.file.window(extent.offset, extent.len).map(|window| window.copy_to(&mut bytes));
            assert!(!matches!(copied, Ok(Ok(_))), "slice {slice}");
        }
        assert!(leases.iter().all(|lease| lease.extent(0..1).is_none()));
        drop((leases, extents));
        for slice in 0..8 {
            assert!(!has(&object, slice));
            fill(&object, slice);
        }
        assert!((0..8).all(|slice| has(&object, slice)));
    }
}

#[test]
fn a_file_that_is_truncated_all_the_time_ends_in_misses_and_not_in_a_loop() {
    let directory = directory();
    let cache = open(directory.path());
    let object = cache.object(1, 1);
    let path = directory.path().join("slices");
    for _ in 0..300 {
        let SliceClaim::Ready(lease) = object.claim_slice(0) else { break };
        OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
        lease.report_failure();
        assert!(lease.extent(0..1).is_none());
        if !has(&object, 0) && cache.counters().in_service {
            fill(&object, 0);
        }
    }
    assert!(!cache.counters().in_service);
    assert!(!has(&object, 0));
    let SliceClaim::Missing(mut fill) = object.claim_slice(0) else { panic!("it is lost") };
    assert!(fill.append(&[1; 100]).is_err(), "nothing is kept any more");
}

#[test]
fn a_truncated_file_is_noticed_without_a_request() {
    let directory = directory();
    let cache = open(directory.path());
    let object = cache.object(1, 2);
    OpenOptions::new().write(true).open(directory.path().join("slices")).unwrap().set_len(0).unwrap();
    until("it is opened again", || cache.counters().reopened == 1);
    assert!(!has(&object, 0) && !has(&object, 1));
    fill(&object, 0);
    assert!(has(&object, 0));
}

#[test]
fn a_file_that_is_truncated_between_two_processes_costs_what_was_cut_off() {
    let directory = directory();
    let first = open(directory.path());
    let object = first.object(1, 4);
    let SliceClaim::Ready(lease) = object.claim_slice(2) else { panic!("it was filled") };
    let cut = lease.extent(0..1).unwrap().offset;
    drop((object, lease));
    first.leave();
    OpenOptions::new().write(true).open(directory.path().join("slices")).unwrap().set_len(cut).unwrap();
    let second = open(directory.path());
    let object = second.restored(1).unwrap();
    let kept: Vec<bool> = (0..4).map(|slice| has(&object, slice)).collect();
    assert_eq!(kept, [true, true, false, false]);
}

#[test]
fn a_fill_fails_when_its_file_was_truncated_under_it() {
    let directory = directory();
    let cache = open(directory.path());
    let object = Object::new(&[1; 16], Text(""), Some(u64::from(SLICE)), Arc::clone(&cache.tiers));
    let SliceClaim::Missing(mut fill) = object.claim_slice(0) else { panic!("it is new") };
    let mut follower = fill.follow();
    fill.append(&[1; 5000]).unwrap();
    let lease = follower.lease().unwrap();
    OpenOptions::new().write(true).open(directory.path().join("slices")).unwrap().set_len(0).unwrap();
    lease.report_failure();
    assert!(follower.lease().is_none(), "its bytes are lost");
    assert!(fill.append(&[1; 5000]).is_err());
    drop(fill);
    assert!(follower.progress().failed);
}

#[test]
fn records_that_were_made_without_the_key_are_refused() {
    let directory = directory();
    let first = open(directory.path());
    drop(first.object(1, 1));
    first.leave();
    fs::write(directory.path().join("key"), [9; 16]).unwrap();
    let second = open(directory.path());
    assert_eq!(second.slices, 0);
    second.leave();
    fs::remove_file(directory.path().join("key")).unwrap();
    let third = open(directory.path());
    drop(third.object(1, 1));
    third.leave();
    let mode = fs::metadata(directory.path().join("key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(open(directory.path()).slices, 1);
}

fn refusal(directory: &Path) -> String {
    match MemoryTier::open(directory, LIMITS, SystemTime::now()) {
        Err(error @ TierError::Unsafe { .. }) => error.to_string(),
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("it is used"),
    }
}

#[test]
fn links_and_directories_of_others_are_refused() {
    let parent = directory();
    let target = parent.path().join("target");
    fs::create_dir(&target).unwrap();
    let link = parent.path().join("link");
    symlink(&target, &link).unwrap();
    assert!(refusal(&link).contains("is a link"));
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0);

    fs::set_permissions(&target, Permissions::from_mode(0o777)).unwrap();
    assert!(refusal(&target).contains("chmod go-w"));
    fs::set_permissions(&target, Permissions::from_mode(0o700)).unwrap();

    let precious = parent.path().join("precious");
    fs::write(&precious, "do not truncate").unwrap();
    for name in ["slices", "records", "key"] {
        let file = target.join(name);
        drop(fs::remove_file(&file));
        symlink(&precious, &file).unwrap();
        assert!(refusal(&target).contains("is a link"), "{name}");
        fs::remove_file(&file).unwrap();
        fs::hard_link(&precious, &file).unwrap();
        assert!(refusal(&target).contains("no file of its own"), "{name}");
        fs::remove_file(&file).unwrap();
    }
    assert_eq!(fs::read_to_string(&precious).unwrap(), "do not truncate");
    drop(open(&target));
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&target, Some(65_534), None).unwrap();
        assert!(refusal(&target).contains("belongs to another user"));
    } else {
        eprintln!("SKIPPED: only root can make a directory of another user");
    }
}

#[test]
fn files_that_others_could_read_are_closed_to_them() {
    let directory = directory();
    drop(open(directory.path()));
    let slices = directory.path().join("slices");
    fs::set_permissions(&slices, Permissions::from_mode(0o644)).unwrap();
    drop(open(directory.path()));
    assert_eq!(fs::metadata(&slices).unwrap().permissions().mode() & 0o777, 0o600);
}
