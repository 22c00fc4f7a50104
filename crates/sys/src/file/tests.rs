use std::fs::File;
use std::io::Write;

use tempfile::NamedTempFile;

use super::*;

fn file_of(content: &[u8]) -> (NamedTempFile, OpenFile) {
    let mut named = NamedTempFile::new().unwrap();
    named.write_all(content).unwrap();
    let file = OpenFile::from_fd(File::open(named.path()).unwrap().into()).unwrap();
    (named, file)
}

#[test]
fn an_open_file_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<OpenFile>();
    shared::<Extent>();
}

#[test]
fn a_window_shows_the_bytes_of_the_file() {
    let content: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    let (_named, file) = file_of(&content);
    for (offset, len) in [(0, 10_000), (4095, 2), (9_999, 1), (10_000, 0)] {
        let mut copy = vec![0; len];
        let window = file.window(offset as u64, len as u64).unwrap();
        assert_eq!(window.copy_to(&mut copy), Ok(len));
        assert_eq!(copy, content[offset..offset + len]);
    }
}

#[test]
fn a_copy_is_as_short_as_the_shorter_side() {
    let (_named, file) = file_of(b"0123456789");
    let mut small = [0; 4];
    assert_eq!(file.window(2, 8).unwrap().copy_to(&mut small), Ok(4));
    assert_eq!(&small, b"2345");
    let mut large = [0xff; 4];
    assert_eq!(file.window(8, 2).unwrap().copy_to(&mut large), Ok(2));
    assert_eq!(&large, b"89\xff\xff");
}

#[test]
fn a_window_or_extent_past_the_end_is_refused() {
    let (_named, file) = file_of(b"0123456789");
    for (offset, len) in [(0, 11), (10, 1), (11, 0), (u64::MAX, 1), (1, u64::MAX)] {
        assert_eq!(file.window(offset, len).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
    let file = Arc::new(file);
    assert!(Extent::new(file.clone(), 3, 8).is_none());
    assert!(Extent::new(file.clone(), u64::MAX, 2).is_none());
    assert_eq!(Extent::new(file.clone(), 3, 7).unwrap().len, 7);
    assert_eq!(Extent::whole(file).len, 10);
}

#[test]
fn an_empty_file_has_an_empty_window() {
    let (_named, file) = file_of(b"");
    assert!(file.is_empty());
    let window = file.window(0, 0).unwrap();
    assert!(window.is_empty());
    assert_eq!(window.copy_to(&mut [0; 3]), Ok(0));
}

#[test]
fn growth_after_opening_is_not_seen() {
    let (mut named, file) = file_of(b"0123456789");
    named.write_all(b"more").unwrap();
    assert_eq!(file.len(), 10);
    assert!(file.window(0, 11).is_err());
}

#[test]
fn a_deleted_file_stays_readable() {
    let (named, file) = file_of(b"0123456789");
    named.close().unwrap();
    let mut copy = [0; 10];
    assert_eq!(file.window(0, 10).unwrap().copy_to(&mut copy), Ok(10));
    assert_eq!(&copy, b"0123456789");
}

#[test]
fn something_else_than_a_regular_file_is_refused() {
    let null = File::open("/dev/null").unwrap();
    assert_eq!(OpenFile::from_fd(null.into()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn a_time_before_1970_survives() {
    let (named, _file) = file_of(b"old");
    let old = SystemTime::UNIX_EPOCH - Duration::new(10, 250_000_000);
    named.as_file().set_modified(old).unwrap();
    let file = OpenFile::from_fd(File::open(named.path()).unwrap().into()).unwrap();
    assert_eq!(file.modified(), old);
}

#[test]
fn a_file_that_shrinks_or_is_rewritten_is_not_intact_and_one_that_grows_is() {
    let (named, file) = file_of(b"0123456789");
    let file = file.with_other_writers();
    let change = |length, modified| {
        named.as_file().set_len(length).unwrap();
        named.as_file().set_modified(modified).unwrap();
        file.is_intact()
    };
    let (before, later) = (file.modified(), SystemTime::UNIX_EPOCH);
    assert!(change(10, before));
    assert!(change(11, later));
    assert!(!change(9, before));
    assert!(!change(10, later));
    let (named, file) = file_of(b"0123456789");
    named.as_file().set_len(0).unwrap();
    assert!(file.is_intact(), "without other writers it is not looked at");
}
