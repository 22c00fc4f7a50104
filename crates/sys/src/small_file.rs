//! Small files that are read as a whole: keys, lists, certificates.
//!
//! Other programs replace such a file while this one runs. A named pipe in its place would keep a reader waiting, and a device
//! would never end.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Why a file has not been read. The text stands behind the path of the file.
#[derive(Debug)]
pub enum SmallFileError {
    /// The error of the system.
    Unreadable(io::Error),
    /// It is a directory.
    Directory,
    /// It is a pipe, a device or a socket.
    NotRegular,
    /// It has more than so many bytes.
    TooLarge(u64),
    /// It is not text in UTF-8.
    NotText,
}

impl fmt::Display for SmallFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: u64 = 1 << 20;
        const KIB: u64 = 1 << 10;
        match self {
            Self::Unreadable(error) => write!(f, "cannot be read ({error})"),
            Self::Directory => f.write_str("is a directory"),
            Self::NotRegular => f.write_str("is not a regular file"),
            Self::TooLarge(most) if most.is_multiple_of(MIB) => {
                write!(f, "is larger than {} MiB", most / MIB)
            }
            Self::TooLarge(most) if most.is_multiple_of(KIB) => {
                write!(f, "is larger than {} KiB", most / KIB)
            }
            Self::TooLarge(most) => write!(f, "is larger than {most} bytes"),
            Self::NotText => f.write_str("is not text in UTF-8"),
        }
    }
}

impl std::error::Error for SmallFileError {}

impl From<io::Error> for SmallFileError {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(error)
    }
}

impl From<SmallFileError> for io::Error {
    fn from(error: SmallFileError) -> Self {
        match error {
            SmallFileError::Unreadable(error) => error,
            SmallFileError::Directory => io::ErrorKind::IsADirectory.into(),
            other => Self::other(other),
        }
    }
}

/// Opens a regular file for reading, without waiting for a writer of a pipe.
///
/// # Errors
/// See [`SmallFileError`].
pub fn open(path: &Path) -> Result<File, SmallFileError> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|error| {
        match Errno::from_io_error(&error) {
            // A socket, or a device without a driver.
            Some(Errno::NXIO | Errno::NODEV) => SmallFileError::NotRegular,
            _ => SmallFileError::Unreadable(error),
        }
    })?;
    let found = file.metadata()?;
    match found.is_file() {
        true => Ok(file),
        false if found.is_dir() => Err(SmallFileError::Directory),
        false => Err(SmallFileError::NotRegular),
    }
}

/// Reads a regular file of at most `bytes_max` bytes. A file that does not grow meanwhile leaves no second copy in memory.
///
/// # Errors
/// See [`SmallFileError`].
pub fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>, SmallFileError> {
    let file = open(path)?;
    let length = file.metadata()?.len();
    if length > bytes_max {
        return Err(SmallFileError::TooLarge(bytes_max));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max { Err(SmallFileError::TooLarge(bytes_max)) } else { Ok(bytes) }
}

/// Reads a regular file of at most `bytes_max` bytes of text.
///
/// # Errors
/// See [`SmallFileError`].
pub fn read_text(path: &Path, bytes_max: u64) -> Result<String, SmallFileError> {
    String::from_utf8(read(path, bytes_max)?).map_err(|_| SmallFileError::NotText)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    #[test]
    fn only_a_regular_file_of_bounded_length_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("file"), b"twelve bytes").unwrap();
        fs::write(at("bytes"), b"\xff").unwrap();
        fs::write(at("empty"), b"").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        fs::create_dir(at("directory")).unwrap();
        mkfifoat(CWD, at("pipe"), Mode::from_raw_mode(0o600)).unwrap();
        let _listener = UnixListener::bind(at("socket")).unwrap();
        let text = |path: &Path, most| read_text(path, most).map_err(|error| error.to_string());
        for (name, most, expected) in [
            ("file", 12, Ok("twelve bytes")),
            ("link", 12, Ok("twelve bytes")),
            ("empty", 0, Ok("")),
            ("file", 11, Err("is larger than 11 bytes")),
            ("bytes", 1, Err("is not text in UTF-8")),
            ("none", 12, Err("cannot be read (No such file or directory (os error 2))")),
            ("directory", 12, Err("is a directory")),
            ("pipe", 12, Err("is not a regular file")),
            ("socket", 12, Err("is not a regular file")),
            ("/dev/zero", 12, Err("is not a regular file")),
            // A file of the kernel says that it has no bytes.
            ("/proc/self/status", 12, Err("is larger than 12 bytes")),
        ] {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(text(&at(name), most), expected, "{name}");
        }
    }

    #[test]
    fn bounds_are_shown_in_their_units() {
        for (most, shown) in [(4 << 10, "4 KiB"), (64 << 20, "64 MiB"), (1000, "1000 bytes")] {
            assert_eq!(SmallFileError::TooLarge(most).to_string(), format!("is larger than {shown}"));
        }
    }
}
