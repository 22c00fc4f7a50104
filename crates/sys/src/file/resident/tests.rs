use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::thread;

use rustix::process::{Uid, geteuid};
use tempfile::NamedTempFile;

use super::*;

const MIB: u64 = 1024 * 1024;

/// A file of `len` bytes that a disk holds, or `None` (said aloud) where there is no disk.
fn on_disk(len: u64) -> Option<(NamedTempFile, OpenFile)> {
    // By convention this directory is not in memory.
    let (named, file) = file_in("/var/tmp", len);
    named.as_file().sync_all().unwrap();
    if file.is_in_memory().unwrap() {
        println!("SKIPPED: /var/tmp is in memory, so nothing there can be absent from it");
        return None;
    }
    Some((named, file))
}

fn file_in(directory: &str, len: u64) -> (NamedTempFile, OpenFile) {
    let mut named = NamedTempFile::new_in(directory).unwrap();
    let block: Vec<u8> = (0..=255).cycle().take(64 * 1024).collect();
    let mut left = len;
    while left > 0 {
        let n = usize::try_from(left).unwrap().min(block.len());
        named.write_all(&block[..n]).unwrap();
        left -= n as u64;
    }
    let file = OpenFile::from_fd(OwnedFd::from(File::open(named.path()).unwrap())).unwrap();
    (named, file)
}

fn forget(file: &OpenFile, offset: u64, len: u64) {
    rustix::fs::fadvise(&file.fd, offset, NonZeroU64::new(len), Advice::DontNeed).unwrap();
}

#[test]
fn bytes_just_written_are_resident() {
    for directory in ["/var/tmp", "/dev/shm"] {
        let (_named, file) = file_in(directory, 3 * MIB + 17);
        assert!(file.is_resident(0, file.len()).unwrap(), "{directory}");
        assert!(file.is_resident(MIB + 5, 1).unwrap(), "{directory}");
        assert!(file.is_resident(3 * MIB, 17).unwrap(), "{directory}");
    }
}

#[test]
fn no_bytes_are_always_resident() {
    let (_named, file) = file_in("/var/tmp", 0);
    assert!(file.is_resident(0, 0).unwrap());
    assert!(file.is_resident(0, 10).unwrap());
    file.load(0, 0).unwrap();
}

#[test]
fn dropped_pages_are_absent_until_loaded() {
    let Some((_named, file)) = on_disk(4 * MIB) else { return };
    forget(&file, 0, 4 * MIB);
    assert!(!file.is_resident(0, 4 * MIB).unwrap());
    file.load(0, 4 * MIB).unwrap();
    assert!(file.is_resident(0, 4 * MIB).unwrap());
}

#[test]
fn a_window_that_is_half_there_is_noticed_by_either_way_of_asking() {
    let Some((_named, file)) = on_disk(4 * MIB) else { return };
    let by_nowait = OpenFile::from_fd(file.fd.try_clone().unwrap()).unwrap();
    by_nowait.learn(NO_CACHESTAT);
    forget(&file, 2 * MIB, 2 * MIB);
    assert!(!file.is_resident(MIB, 2 * MIB).unwrap());
    assert!(file.is_resident(0, MIB).unwrap());
    // The question may have started reads, and the kernel keeps pages that are being read.
    file.load(0, 4 * MIB).unwrap();
    forget(&file, 2 * MIB, 2 * MIB);
    assert!(!by_nowait.is_resident(MIB, 2 * MIB).unwrap());
    assert!(by_nowait.is_resident(0, MIB).unwrap());
}

#[test]
fn read_ahead_arrives_by_itself() {
    let Some((_named, file)) = on_disk(2 * MIB) else { return };
    forget(&file, 0, 2 * MIB);
    file.read_ahead(0, 2 * MIB);
    // Waits for the last byte only; everything before it was asked for earlier.
    file.load(2 * MIB - 1, 1).unwrap();
    for _ in 0..1000 {
        if file.is_resident(0, 2 * MIB).unwrap() {
            return;
        }
        thread::yield_now();
        thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("the rest never came");
}

#[test]
fn loading_past_a_new_end_is_an_error() {
    let (named, file) = file_in("/var/tmp", MIB);
    named.as_file().set_len(1000).unwrap();
    assert_eq!(file.load(0, MIB).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    file.load(0, 1000).unwrap();
}

#[test]
fn a_file_that_became_shorter_is_not_resident() {
    for directory in ["/var/tmp", "/dev/shm"] {
        let (named, file) = file_in(directory, MIB);
        named.as_file().set_len(1000).unwrap();
        assert!(!file.is_resident(0, MIB).unwrap_or(false), "{directory}");
    }
}

#[test]
fn a_stranger_to_the_file_gets_the_same_answers() {
    let Some((named, file)) = on_disk(2 * MIB) else { return };
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o444);
    fs::set_permissions(named.path(), mode).unwrap();
    if !geteuid().is_root() {
        println!("SKIPPED: only root can become a stranger to its own files");
        return;
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            // Only this thread stops being root.
            rustix::thread::set_thread_uid(Uid::from_raw(65_534)).unwrap();
            assert!(file.is_resident(0, 2 * MIB).unwrap());
            // The kernel keeps pages that are in use at that moment.
            let is_forgotten = |_| {
                forget(&file, 0, 2 * MIB);
                !file.is_resident(0, 2 * MIB).unwrap()
            };
            assert!((0..1000).any(is_forgotten));
            file.load(0, 2 * MIB).unwrap();
            assert!(file.is_resident(0, 2 * MIB).unwrap());
        });
    });
}

#[test]
fn a_file_in_memory_that_cannot_be_asked_counts_as_resident() {
    let (_named, file) = file_in("/dev/shm", MIB);
    file.learn(NO_CACHESTAT | NO_NOWAIT);
    assert!(file.is_resident(0, MIB).unwrap());
    assert!(file.knows(IN_MEMORY));
}

#[test]
fn a_disk_that_cannot_be_asked_counts_as_absent() {
    let Some((_named, file)) = on_disk(MIB) else { return };
    file.learn(NO_CACHESTAT | NO_NOWAIT);
    assert!(!file.is_resident(0, MIB).unwrap());
}
