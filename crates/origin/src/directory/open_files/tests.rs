use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::pin::pin;
use std::task::Poll;
use std::thread;

use rustix::fs::{CWD, FileType, Mode};
use rustix::process::{Uid, geteuid};
use tempfile::TempDir;

use super::*;
use crate::io_threads::tests::{Gate, pool};

const SECOND: Duration = Duration::from_secs(1);
const LIMITS: OpenFilesLimits = OpenFilesLimits { max_files: 3, max_absent: 2, recheck_after: SECOND };

/// A directory, a memo, and a time to begin with.
struct Bench {
    dir: TempDir,
    directory: Directory,
    files: OpenFiles,
    start: Instant,
}

impl Bench {
    fn with(files: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in files {
            fs::write(dir.path().join(name), name).unwrap();
        }
        let directory = Directory::open(dir.path()).unwrap();
        Self { dir, directory, files: OpenFiles::new(pool(1, 8), LIMITS), start: Instant::now() }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    /// Opens `name` `milliseconds` after the start.
    async fn open(&self, name: &str, milliseconds: u64) -> OpenResult {
        self.files.open(&self.directory, name, self.start + Duration::from_millis(milliseconds)).await
    }

    fn counters(&self) -> OpenFilesCounters {
        self.files.counters()
    }
}

/// A directory whose names the kernel generates at each lookup, so that a lookup always has to wait.
fn always_cold() -> Directory {
    Directory::open(Path::new("/proc/sys/kernel")).unwrap()
}

#[tokio::test]
async fn within_a_second_a_file_is_not_looked_at_again() {
    let bench = Bench::with(&["a"]);
    let first = bench.open("a", 0).await.unwrap();
    fs::remove_file(bench.path("a")).unwrap();
    let second = bench.open("a", 999).await.unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    let counters = bench.counters();
    assert_eq!((counters.hits, counters.opens, counters.revalidations), (1, 1, 0));
    assert_eq!(bench.open("a", 1000).await.unwrap_err(), LookupError::NotFound);
    assert_eq!(bench.counters().files, 0);
}

#[tokio::test]
async fn an_unchanged_file_is_kept_and_believed_for_another_second() {
    let bench = Bench::with(&["a"]);
    let first = bench.open("a", 0).await.unwrap();
    for (time, revalidations, hits) in [(1000, 1, 0), (1999, 1, 1), (2000, 2, 1)] {
        let again = bench.open("a", time).await.unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        let counters = bench.counters();
        assert_eq!(
            (counters.revalidations, counters.hits, counters.opens),
            (revalidations, hits, 1),
            "{time}"
        );
    }
}

#[tokio::test]
async fn a_replaced_file_is_noticed_and_the_old_one_stays_readable() {
    let bench = Bench::with(&["a", "b"]);
    let old = bench.open("a", 0).await.unwrap();
    fs::write(bench.path("b"), "B").unwrap();
    fs::rename(bench.path("b"), bench.path("a")).unwrap();
    let new = bench.open("a", 1000).await.unwrap();
    assert_ne!(old.inode(), new.inode());
    let mut copy = [0];
    assert_eq!(new.window(0, 1).unwrap().copy_to(&mut copy), Ok(1));
    assert_eq!(&copy, b"B");
    assert_eq!(old.window(0, 1).unwrap().copy_to(&mut copy), Ok(1));
    assert_eq!(&copy, b"a");
    assert_eq!((bench.counters().opens, bench.counters().files), (2, 1));
}

#[tokio::test]
async fn a_grown_file_is_noticed() {
    let bench = Bench::with(&["a"]);
    assert_eq!(bench.open("a", 0).await.unwrap().len(), 1);
    fs::write(bench.path("a"), "aaaa").unwrap();
    assert_eq!(bench.open("a", 1000).await.unwrap().len(), 4);
}

#[tokio::test]
async fn a_file_of_the_same_length_but_another_time_is_noticed() {
    let bench = Bench::with(&["a"]);
    let first = bench.open("a", 0).await.unwrap();
    let later = first.modified() + Duration::from_nanos(1_000_000);
    fs::File::options().write(true).open(bench.path("a")).unwrap().set_modified(later).unwrap();
    let second = bench.open("a", 1000).await.unwrap();
    assert_eq!((second.inode(), second.modified()), (first.inode(), later));
    assert!(!Arc::ptr_eq(&first, &second));
}

#[tokio::test]
async fn a_truncated_file_is_replaced_even_within_the_second() {
    let bench = Bench::with(&["a"]);
    let first = bench.open("a", 0).await.unwrap();
    let window = first.window(0, 1).unwrap();
    fs::File::options().write(true).open(bench.path("a")).unwrap().set_len(0).unwrap();
    // No reader has met it yet: the cached result still holds.
    assert!(Arc::ptr_eq(&first, &bench.open("a", 1).await.unwrap()));
    assert!(window.copy_to(&mut [0]).is_err());
    let second = bench.open("a", 2).await.unwrap();
    assert!(!Arc::ptr_eq(&first, &second));
    assert_eq!((second.len(), second.is_truncated()), (0, false));
}

#[tokio::test]
async fn a_new_file_is_noticed_within_a_second() {
    let bench = Bench::with(&[]);
    assert_eq!(bench.open("a", 0).await.unwrap_err(), LookupError::NotFound);
    fs::write(bench.path("a"), "a").unwrap();
    assert_eq!(bench.open("a", 999).await.unwrap_err(), LookupError::NotFound);
    assert_eq!(bench.counters().absent_hits, 1);
    assert!(bench.open("a", 1000).await.is_ok());
}

#[tokio::test]
async fn a_scan_of_random_names_does_not_wash_out_files() {
    let bench = Bench::with(&["a"]);
    bench.open("a", 0).await.unwrap();
    for index in 0..100 {
        assert_eq!(bench.open(&format!("no-{index}"), 1).await.unwrap_err(), LookupError::NotFound);
    }
    bench.open("a", 2).await.unwrap();
    let counters = bench.counters();
    assert_eq!((counters.hits, counters.files, counters.absent, counters.evictions), (1, 1, 2, 0));
}

#[tokio::test]
async fn the_file_used_longest_ago_is_evicted_and_stays_readable() {
    let bench = Bench::with(&["a", "b", "c", "d"]);
    let a = bench.open("a", 0).await.unwrap();
    let b = bench.open("b", 0).await.unwrap();
    bench.open("c", 0).await.unwrap();
    bench.open("a", 1).await.unwrap();
    bench.open("d", 2).await.unwrap();
    assert_eq!((bench.counters().files, bench.counters().evictions), (3, 1));
    assert!(Arc::ptr_eq(&a, &bench.open("a", 3).await.unwrap()));
    assert!(!Arc::ptr_eq(&b, &bench.open("b", 3).await.unwrap()));
    let mut copy = [0];
    assert_eq!(b.window(0, 1).unwrap().copy_to(&mut copy), Ok(1));
    assert_eq!(&copy, b"b");
}

#[tokio::test]
async fn the_same_path_of_two_directories_is_two_files() {
    let bench = Bench::with(&["a"]);
    let other = Bench::with(&["a"]);
    let first = bench.open("a", 0).await.unwrap();
    let second = bench.files.open(&other.directory, "a", bench.start).await.unwrap();
    assert_ne!(first.inode(), second.inode());
    let reopened = Directory::open(bench.dir.path()).unwrap();
    bench.files.open(&reopened, "a", bench.start).await.unwrap();
    assert_eq!((bench.counters().opens, bench.counters().hits), (3, 0));
}

#[tokio::test]
async fn the_error_of_a_path_names_what_is_there_instead_of_a_file() {
    let bench = Bench::with(&[]);
    fs::create_dir(bench.path("folder")).unwrap();
    symlink("/etc/passwd", bench.path("escape")).unwrap();
    symlink("/dev/null", bench.path("device")).unwrap();
    rustix::fs::mknodat(CWD, bench.path("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let long = "x/".repeat(3000);
    for (name, error) in [
        ("folder", LookupError::IsDirectory),
        ("folder/", LookupError::IsDirectory),
        ("", LookupError::IsDirectory),
        ("escape", LookupError::OutsideRoot),
        ("../etc/passwd", LookupError::OutsideRoot),
        ("device", LookupError::OutsideRoot),
        ("fifo", LookupError::NotRegular),
        ("folder/none", LookupError::NotFound),
        ("nul\0", LookupError::NotFound),
        (&long, LookupError::NotFound),
    ] {
        // The second answer comes from memory and is the same.
        assert_eq!(bench.open(name, 0).await.unwrap_err(), error, "{name}");
        assert_eq!(bench.open(name, 1).await.unwrap_err(), error, "{name}");
    }
    assert_eq!(bench.counters().absent_hits, 9);
    let devices = Directory::open(Path::new("/dev")).unwrap();
    let outcome = bench.files.open(&devices, "null", bench.start).await;
    assert_eq!(outcome.unwrap_err(), LookupError::NotRegular);
}

#[test]
fn an_unreadable_file_is_forbidden_also_when_it_was_open_before() {
    // On a thread of its own, which may stop being root without the others.
    thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let bench = Bench::with(&["a", "b"]);
        fs::set_permissions(bench.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(bench.path("b"), fs::Permissions::from_mode(0o000)).unwrap();
        runtime.block_on(bench.open("a", 0)).unwrap();
        fs::set_permissions(bench.path("a"), fs::Permissions::from_mode(0o000)).unwrap();
        let Bench { dir, directory, files, start } = bench;
        let root = geteuid().is_root();
        if root {
            rustix::thread::set_thread_uid(Uid::from_raw(65_534)).unwrap();
        }
        for (name, seconds) in [("a", 1), ("b", 1)] {
            let outcome = runtime.block_on(files.open(&directory, name, start + seconds * SECOND));
            assert_eq!(outcome.unwrap_err(), LookupError::Forbidden, "{name}");
        }
        dir
    })
    .join()
    .unwrap();
}

#[tokio::test]
async fn requests_for_one_cold_path_share_one_question() {
    let pool = pool(1, 8);
    let (directory, files, now) = (always_cold(), OpenFiles::new(pool.clone(), LIMITS), Instant::now());
    let gate = Gate::close(&pool);
    let mut first = pin!(files.open(&directory, "ostype", now));
    poll_once(first.as_mut()).await;
    let mut second = pin!(files.open(&directory, "ostype", now));
    poll_once(second.as_mut()).await;
    let mut third = pin!(files.open(&directory, "ostype", now));
    poll_once(third.as_mut()).await;
    drop(gate);
    let (a, b, c) = tokio::join!(first, second, third);
    let (a, b, c) = (a.unwrap(), b.unwrap(), c.unwrap());
    assert!(Arc::ptr_eq(&a, &b) && Arc::ptr_eq(&b, &c));
    let counters = files.counters();
    assert_eq!((counters.opens, counters.asked, counters.waits), (1, 1, 2));
    assert!(files.asked.borrow().is_empty());
}

#[tokio::test]
async fn an_error_is_shared_as_well() {
    let (directory, files, now) = (always_cold(), OpenFiles::new(pool(1, 8), LIMITS), Instant::now());
    let (a, b) = tokio::join!(files.open(&directory, "random", now), files.open(&directory, "random", now));
    assert_eq!((a.unwrap_err(), b.unwrap_err()), (LookupError::IsDirectory, LookupError::IsDirectory));
    assert_eq!(files.counters().asked, 1);
}

#[tokio::test]
async fn when_the_asking_request_goes_away_another_asks() {
    let pool = pool(1, 8);
    let (directory, files, now) = (always_cold(), OpenFiles::new(pool.clone(), LIMITS), Instant::now());
    let gate = Gate::close(&pool);
    let mut second = pin!(files.open(&directory, "ostype", now));
    {
        let mut first = pin!(files.open(&directory, "ostype", now));
        poll_once(first.as_mut()).await;
        poll_once(second.as_mut()).await;
        assert_eq!((files.counters().asked, files.counters().waits), (1, 1));
    }
    poll_once(second.as_mut()).await;
    assert_eq!(files.counters().asked, 2);
    drop(gate);
    assert!(second.await.is_ok());
}

#[tokio::test]
async fn a_full_queue_is_busy_and_not_remembered() {
    let pool = pool(1, 1);
    let (directory, files, now) = (always_cold(), OpenFiles::new(pool.clone(), LIMITS), Instant::now());
    let gate = Gate::close(&pool);
    let queued = pool.run(|| ()).unwrap();
    assert_eq!(files.open(&directory, "ostype", now).await.unwrap_err(), LookupError::Busy);
    drop(gate);
    queued.await.unwrap();
    assert!(files.open(&directory, "ostype", now).await.is_ok());
}

/// Polls `future`, which must not be ready yet.
async fn poll_once<F: Future>(mut future: std::pin::Pin<&mut F>) {
    std::future::poll_fn(|context| {
        assert!(future.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}

#[tokio::test]
async fn a_file_without_requests_is_closed() {
    let bench = Bench::with(&["a", "b"]);
    let held = bench.open("a", 0).await.unwrap();
    bench.open("b", 5_000).await.unwrap();
    bench.files.close_idle(bench.start + Duration::from_secs(3));
    assert_eq!(bench.counters().files, 1, "the one asked for later stays");
    assert_eq!(held.len(), 1, "who still sends it goes on");
    bench.files.close_idle(bench.start + Duration::from_secs(6));
    assert_eq!(bench.counters().files, 0);
}

#[tokio::test]
async fn a_directory_opened_again_keeps_what_is_known_about_its_files() {
    let bench = Bench::with(&["a"]);
    let first = bench.open("a", 0).await.unwrap();
    let again = Directory::open_again(bench.dir.path(), std::iter::once(&bench.directory)).unwrap();
    let second = bench.files.open(&again, "a", bench.start).await.unwrap();
    assert!(Arc::ptr_eq(&first, &second));

    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("a"), "another").unwrap();
    let other = Directory::open_again(elsewhere.path(), std::iter::once(&bench.directory)).unwrap();
    assert_eq!(bench.files.open(&other, "a", bench.start).await.unwrap().len(), 7);
}
