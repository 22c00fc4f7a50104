//! Where the program under test is, and where tests keep files.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tempfile::TempDir;

/// Variables in which Cargo (since 1.94) and nextest tell a test program where the program is.
const VARIABLES: [&str; 2] = ["CARGO_BIN_EXE_penstock", "NEXTEST_BIN_EXE_penstock"];

/// The program under test.
///
/// # Panics
/// If it has not been built.
#[must_use]
pub fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let told = VARIABLES.iter().filter_map(env::var_os).map(PathBuf::from);
        let tried: Vec<PathBuf> = told.chain([build_directory().join("penstock")]).collect();
        let found = tried.iter().find(|path| path.exists());
        let found = found.unwrap_or_else(|| panic!("cargo build -p penstock; there is none of {tried:?}"));
        found.to_str().expect("a path in UTF-8").to_owned()
    })
}

/// The name of a copy of the program in the directory of a server.
const OWN: &str = "penstock";

/// Puts the program under test into a directory, and returns its path there.
pub(crate) fn link_program(directory: &Path) -> String {
    let (next, own) = (directory.join("next"), directory.join(OWN));
    fs::hard_link(program(), &next).expect("the directory is on the disk of the build");
    fs::rename(next, &own).expect("a file of the test");
    own.to_str().expect("a path in UTF-8").to_owned()
}

/// Puts another file in its place. A link, because a file that was just written can be busy when it is to be run.
pub(crate) fn replace_program(directory: &Path, other: &Path) {
    let next = directory.join("next");
    symlink(other, &next).expect("a link");
    fs::rename(next, directory.join(OWN)).expect("a file of the test");
}

/// `target/debug`, of which Cargo runs test programs in `deps`.
fn build_directory() -> PathBuf {
    let test = env::current_exe().expect("the path of this test program");
    let directory = test.parent().expect("a directory");
    let above = directory.parent().filter(|_| directory.ends_with("deps"));
    above.unwrap_or(directory).to_owned()
}

/// A directory on the disk that holds the build: memory file systems lack some of what the cache needs.
///
/// # Panics
/// If it cannot be made.
#[must_use]
pub fn disk_directory() -> TempDir {
    let parent =
        Path::new(program()).parent().and_then(Path::parent).expect("the target directory").join("tmp");
    fs::create_dir_all(&parent).expect("a directory beside the build");
    TempDir::new_in(parent).expect("a directory on the disk")
}

/// A directory on the system's memory file system.
///
/// # Panics
/// If it cannot be made.
#[must_use]
pub fn memory_directory() -> TempDir {
    TempDir::new_in("/dev/shm").expect("a directory in /dev/shm")
}
