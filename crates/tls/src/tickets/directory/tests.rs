//! Real directories, good and bad.

use std::fs::File;
use std::os::unix::fs::{PermissionsExt, symlink};

use tempfile::TempDir;

use super::*;

const LIMITS: DirectoryLimits = DirectoryLimits { files: 8, file_bytes: 1024, keys: 16 };

struct Fixture {
    directory: TempDir,
    tickets: TicketDirectory,
}

impl Fixture {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let tickets = TicketDirectory::new(directory.path(), LIMITS);
        Self { directory, tickets }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).unwrap();
    }

    /// A key file, modified so many seconds after the first moment of 2027.
    fn key(&self, name: &str, key_name: u8, seconds: u64) {
        self.write(name, &key(key_name));
        let time = UNIX_EPOCH + Duration::from_secs(1_798_761_600 + seconds);
        File::options().write(true).open(self.path(name)).unwrap().set_modified(time).unwrap();
    }

    /// Names of the keys, newest first.
    fn keys(&mut self) -> Vec<u8> {
        names(&self.tickets.read().unwrap())
    }

    /// The ignored files: name and reason.
    fn ignored(&mut self) -> Vec<(String, String)> {
        let ignored = self.tickets.read().unwrap().ignored.into_iter();
        ignored.map(|one| (one.name.into_string().unwrap(), one.why.to_string())).collect()
    }
}

fn names(listing: &KeyFileListing) -> Vec<u8> {
    let keys = listing.files.iter().flat_map(|file| file.keys.iter().rev());
    keys.map(|key| key.name()[0]).collect()
}

fn key(name: u8) -> Vec<u8> {
    let mut bytes: Vec<u8> = (128..208).collect();
    bytes[0] = name;
    bytes
}

fn line(name: u8) -> String {
    boring::base64::encode_block(&key(name)) + "\n"
}

#[test]
fn files_are_ordered_by_time_and_then_by_name() {
    let mut fixture = Fixture::new();
    fixture.key("z.key", 1, 0);
    fixture.key("a.key", 2, 10);
    fixture.key("b.key", 3, 10);
    assert_eq!(fixture.keys(), [3, 2, 1]);
}

#[test]
fn changed_files_are_read_again_and_deleted_files_are_dropped() {
    let mut fixture = Fixture::new();
    fixture.key("old", 1, 0);
    assert_eq!(fixture.keys(), [1]);
    fixture.key("new", 2, 10);
    assert_eq!(fixture.keys(), [2, 1]);
    fixture.key("old", 3, 20);
    assert_eq!(fixture.keys(), [3, 2]);
    fs::remove_file(fixture.path("new")).unwrap();
    assert_eq!(fixture.keys(), [3]);
}

#[test]
fn garbage_is_named_and_the_keys_beside_it_are_used() {
    let mut fixture = Fixture::new();
    fixture.key("a.key", 1, 0);
    fixture.write("README", b"The keys of our fleet.\n");
    fixture.write("cut.key", &key(2)[..79]);
    fixture.write("empty.key", b"");
    fixture.write("huge.key", &[7; 1025]);
    fs::create_dir(fixture.path("lost+found")).unwrap();
    symlink("nowhere", fixture.path("stale.key")).unwrap();
    assert_eq!(fixture.keys(), [1]);
    let expected = [
        ("README", "has no key of 48 or 80 bytes in Base64 in line 1"),
        ("cut.key", "has 79 bytes: a key has 48 or 80, or one line of Base64"),
        ("empty.key", "is empty"),
        ("huge.key", "is larger than any key file"),
        ("lost+found", "is not a regular file"),
        ("stale.key", "is a link to nothing"),
    ];
    let mut fixture = Fixture { tickets: TicketDirectory::new(fixture.directory.path(), LIMITS), ..fixture };
    let found = fixture.ignored();
    for (name, reason) in expected {
        let found = found.iter().find(|(found, _)| found == name);
        assert!(found.is_some_and(|(_, why)| why.contains(reason)), "{name}: {found:?}");
    }
    assert_eq!(found.len(), expected.len());
    // Again and again the same, without being read again.
    assert_eq!(fixture.ignored(), found);
}

#[test]
fn a_pipe_does_not_block_the_reader() {
    let mut fixture = Fixture::new();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, fixture.path("pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert_eq!(fixture.ignored(), [("pipe".to_owned(), "is not a regular file".to_owned())]);
}

#[test]
fn hidden_and_temporary_files_are_no_topic() {
    let mut fixture = Fixture::new();
    for name in [".hidden", ".new.key.Xy12", "key~", "key.tmp", "key.swp", "key.part"] {
        fixture.write(name, b"being written");
    }
    assert_eq!((fixture.keys(), fixture.ignored()), (vec![], vec![]));
}

#[test]
fn links_are_followed_as_secret_stores_make_them() {
    let mut fixture = Fixture::new();
    for version in ["..first", "..second"] {
        fs::create_dir(fixture.path(version)).unwrap();
    }
    fixture.key("..first/a.key", 1, 0);
    fixture.key("..second/a.key", 2, 0);
    symlink("..first", fixture.path("..data")).unwrap();
    symlink("..data/a.key", fixture.path("a.key")).unwrap();
    assert_eq!(fixture.keys(), [1]);
    symlink("..second", fixture.path("..data.new")).unwrap();
    fs::rename(fixture.path("..data.new"), fixture.path("..data")).unwrap();
    assert_eq!((fixture.keys(), fixture.ignored()), (vec![2], vec![]));
}

#[test]
fn a_file_that_is_being_written_keeps_its_keys_for_a_moment() {
    let mut fixture = Fixture::new();
    fixture.write("keys", (line(1) + &line(2)).as_bytes());
    assert_eq!(fixture.keys(), [2, 1]);
    fixture.write("keys", b"");
    let listing = fixture.tickets.read().unwrap();
    assert_eq!((names(&listing), listing.ignored), (vec![2, 1], vec![]));
    // It stays that way, so that was no accident.
    let listing = fixture.tickets.read().unwrap();
    assert_eq!((names(&listing), listing.ignored.len()), (vec![], 1));
    fixture.write("keys", line(3).as_bytes());
    assert_eq!((fixture.keys(), fixture.ignored()), (vec![3], vec![]));
}

#[test]
fn a_new_file_that_is_half_written_is_named_only_if_it_stays_so() {
    let mut fixture = Fixture::new();
    fixture.key("a.key", 1, 0);
    assert_eq!(fixture.keys(), [1]);
    fixture.write("new.key", b"half");
    assert_eq!(fixture.ignored(), []);
    assert_eq!(fixture.ignored().len(), 1);
}

#[test]
fn a_broken_line_is_named_and_the_others_are_used() {
    let mut fixture = Fixture::new();
    fixture.write("keys", (line(1) + "broken\n" + &line(2)).as_bytes());
    let listing = fixture.tickets.read().unwrap();
    assert_eq!(names(&listing), [2, 1]);
    assert_eq!(listing.ignored[0].why, IgnoredReason::NotAKey(NotAKey::Line(2)));
}

#[test]
fn too_many_files_or_keys_are_left_out_and_named() {
    let mut fixture = Fixture::new();
    for number in 0..=u8::try_from(LIMITS.files).unwrap() {
        fixture.key(&format!("{number}.key"), number, number.into());
    }
    let listing = fixture.tickets.read().unwrap();
    assert_eq!((listing.files.len(), listing.ignored.len()), (LIMITS.files, 1));
    assert_eq!(listing.ignored[0].why, IgnoredReason::TooMany);

    let mut fixture = Fixture::new();
    let lines = |names: std::ops::Range<u8>| names.map(line).collect::<String>();
    for (file, names) in [("a", 0..7), ("b", 10..17), ("c", 20..27)] {
        fixture.write(file, lines(names).as_bytes());
        let time = UNIX_EPOCH + Duration::from_secs(u64::from(file.as_bytes()[0]));
        File::options().write(true).open(fixture.path(file)).unwrap().set_modified(time).unwrap();
    }
    let listing = fixture.tickets.read().unwrap();
    let files: Vec<_> = listing.files.iter().map(|file| file.name.to_str().unwrap()).collect();
    assert_eq!(files, ["c", "b"]);
    assert_eq!(listing.ignored, [Ignored { name: "a".into(), why: IgnoredReason::TooMany }]);
}

#[test]
fn key_files_readable_by_others_are_reported() {
    let mut fixture = Fixture::new();
    fixture.key("a.key", 1, 0);
    for (mode, is_readable) in [(0o600, false), (0o640, false), (0o644, true)] {
        fs::set_permissions(fixture.path("a.key"), fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(fixture.tickets.read().unwrap().files[0].is_readable_by_others, is_readable, "{mode:o}");
    }
}

#[test]
fn a_directory_that_is_not_there_is_an_error() {
    let fixture = Fixture::new();
    let mut tickets = TicketDirectory::new(&fixture.path("nowhere"), LIMITS);
    assert_eq!(tickets.read().unwrap_err().kind(), ErrorKind::NotFound);
}
