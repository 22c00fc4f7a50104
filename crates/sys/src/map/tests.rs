use std::fs::File;
use std::io::Write;
use std::process::Command;
use std::sync::Barrier;
use std::thread;

use tempfile::NamedTempFile;

use super::*;
use crate::file::OpenFile;

const PAGES: usize = 64;

fn page() -> usize {
    page_bytes()
}

fn file_of(byte: u8, len: usize) -> (NamedTempFile, OpenFile) {
    let mut named = NamedTempFile::new().unwrap();
    named.write_all(&vec![byte; len]).unwrap();
    let file = OpenFile::from_fd(File::open(named.path()).unwrap().into()).unwrap();
    (named, file)
}

#[test]
fn reading_a_file_that_shrank_is_an_error_and_not_a_death() {
    let len = PAGES * page();
    let (named, file) = file_of(7, len);
    let mut copy = vec![0; len];
    assert_eq!(file.window(0, len as u64).unwrap().copy_to(&mut copy), Ok(len));
    let mut behind = vec![1];
    file.window(1, 3).unwrap().append_to(&mut behind).unwrap();
    assert_eq!(behind, [1, 7, 7, 7]);
    let whole = || file.window(0, len as u64).unwrap();
    let (appended, copied) = (whole(), whole());
    named.as_file().set_len(0).unwrap();
    assert_eq!(appended.append_to(&mut behind), Err(Truncated));
    assert_eq!(copied.copy_to(&mut copy), Err(Truncated));
    assert!(file.is_truncated());
    assert!(copy.iter().all(|&byte| byte == 0));
}

#[test]
fn a_truncated_file_is_never_read_again() {
    let len = PAGES * page();
    let (named, file) = file_of(7, len);
    let before = file.window(0, 1).unwrap();
    let behind_the_end = file.window(len as u64 - 1, 1).unwrap();
    named.as_file().set_len(page() as u64).unwrap();
    assert_eq!(before.copy_to(&mut [0]), Ok(1));
    assert_eq!(behind_the_end.copy_to(&mut [0]), Err(Truncated));
    // Growing again does not bring the mapping back.
    named.as_file().set_len(len as u64).unwrap();
    assert_eq!(before.copy_to(&mut [0]), Err(Truncated));
    assert_eq!(file.window(0, 1).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn a_truncated_file_leaves_others_alone() {
    let len = PAGES * page();
    let (shrunk, bad) = file_of(1, len);
    let (_named, good) = file_of(2, len);
    let good_window = good.window(0, len as u64).unwrap();
    let bad_window = bad.window(0, len as u64).unwrap();
    shrunk.as_file().set_len(0).unwrap();
    let mut copy = vec![0; len];
    // The guard of one file stands inside the other's, and both are right afterwards.
    let outer = guarded(good_window, || {
        assert_eq!(bad_window.copy_to(&mut copy), Err(Truncated));
        good_window.copy_to(&mut copy)
    });
    assert_eq!(outer, Ok(Ok(len)));
    assert!(copy.iter().all(|&byte| byte == 2));
    assert!(!good.is_truncated());
}

#[test]
fn many_threads_may_meet_the_end_at_once() {
    const THREADS: usize = 8;
    let len = PAGES * page();
    for _ in 0..50 {
        let (shrunk, bad) = file_of(1, len);
        let (_named, good) = file_of(2, len);
        let start = Barrier::new(THREADS + 1);
        thread::scope(|scope| {
            for index in 0..THREADS {
                let (bad, good, start) = (&bad, &good, &start);
                scope.spawn(move || {
                    let window = bad.window((index * page()) as u64, (len - index * page()) as u64).unwrap();
                    let mut copy = vec![0; len];
                    start.wait();
                    loop {
                        let result = window.copy_to(&mut copy);
                        // What is called good really is: no zeros slip through.
                        match result {
                            Ok(n) => assert!(copy[..n].iter().all(|&byte| byte == 1)),
                            Err(Truncated) => break,
                        }
                    }
                    assert_eq!(good.window(0, len as u64).unwrap().copy_to(&mut copy), Ok(len));
                    assert!(copy.iter().all(|&byte| byte == 2));
                });
            }
            start.wait();
            shrunk.as_file().set_len(0).unwrap();
        });
        assert!(bad.is_truncated());
        assert!(!good.is_truncated());
    }
}

#[test]
fn a_panic_inside_a_guard_lifts_it() {
    let (_named, file) = file_of(1, 10);
    let window = file.window(0, 10).unwrap();
    let panicked = std::panic::catch_unwind(|| guarded(window, || std::panic::resume_unwind(Box::new(()))));
    assert!(panicked.is_err());
    let nothing = swap_guarded((0, 0, ptr::null_mut()));
    assert_eq!(nothing, (0, 0, ptr::null_mut()));
}

#[test]
fn a_fault_outside_any_guard_still_ends_the_process() {
    use std::os::unix::process::ExitStatusExt;
    const CHILD: &str = "PENSTOCK_TEST_FAULT_OUTSIDE_GUARD";
    if let Ok(how) = std::env::var(CHILD) {
        install_sigbus_handler().unwrap();
        if how == "sent" {
            // SAFETY: raising a signal in our own process touches no memory.
            unsafe { libc::raise(libc::SIGBUS) };
        } else {
            let (named, file) = file_of(1, page());
            let window = file.window(0, 1).unwrap();
            named.as_file().set_len(0).unwrap();
            // SAFETY: not safe at all; that is what is tested.
            unsafe { ptr::read_volatile(window.as_ptr()) };
        }
        println!("still alive");
        return;
    }
    for how in ["fault", "sent"] {
        let name = thread::current().name().unwrap().to_owned();
        let output = Command::new(std::env::current_exe().unwrap())
            .args([&name, "--exact", "--nocapture"])
            .env(CHILD, how)
            .output()
            .unwrap();
        assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{how}: {output:?}");
    }
}
