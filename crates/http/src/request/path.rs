//! The path of a request: what RFC 3986 allows, for origins, and what a file below some root could have.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::digits::hex_value;
use crate::uri::percent_decoded;

/// The name of a file below a root: percent-decoded, relative, without `.` and `..`, without empty
/// segments, NUL, control characters or backslashes. Nothing else can be made into one, so it can be
/// handed to `openat2` as it is.
///
/// A trailing slash is not part of the bytes; [`is_directory_like`](Self::is_directory_like)
/// remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Path<'h> {
    bytes: Cow<'h, [u8]>,
    directory_like: bool,
}

/// Why a path is refused: for every site ([`Nul`](Self::Nul), [`PercentEncoding`](Self::PercentEncoding),
/// [`NotAPath`](Self::NotAPath)), or because no file can have that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathFault {
    /// A segment is `.` or `..`, plain or percent-encoded.
    DotSegment,
    /// Two slashes follow each other.
    EmptySegment,
    /// A backslash, plain or percent-encoded: a separator elsewhere, so an attempt at one here.
    Backslash,
    /// `%00`
    Nul,
    /// A control character, percent-encoded.
    ControlCharacter,
    /// `%2F`: a slash that separates nothing, which no file name can contain.
    EncodedSlash,
    /// A `%` without two hexadecimal digits behind it.
    PercentEncoding,
    /// The target is no path at all: `*`, or the authority of a CONNECT.
    NotAPath,
}

impl<'h> Path<'h> {
    /// Reads a path as it stands in a request target, with its leading slash. Allocates only if
    /// something is percent-encoded.
    pub(super) fn parse(raw: &'h str) -> Result<Self, PathFault> {
        let raw = raw.strip_prefix('/').ok_or(PathFault::NotAPath)?.as_bytes();
        let bytes = percent_decode(raw)?;
        check(&bytes)?;
        let directory_like = bytes.is_empty() || bytes.ends_with(b"/");
        let length = bytes.len() - usize::from(bytes.ends_with(b"/"));
        let bytes = match bytes {
            Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[..length]),
            Cow::Owned(mut bytes) => {
                bytes.truncate(length);
                Cow::Owned(bytes)
            }
        };
        Ok(Self { bytes, directory_like })
    }

    /// The bytes of the relative path, empty for the root itself.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The relative path for the file system; `.` for the root itself.
    pub fn as_os_path(&self) -> &std::path::Path {
        let bytes: &[u8] = if self.bytes.is_empty() { b"." } else { &self.bytes };
        std::path::Path::new(OsStr::from_bytes(bytes))
    }

    /// Whether the target ended in a slash (or was empty), that is, named a directory.
    pub const fn is_directory_like(&self) -> bool {
        self.directory_like
    }

    /// The last segment, empty for the root.
    pub fn file_name(&self) -> &[u8] {
        let start = memchr::memrchr(b'/', &self.bytes).map_or(0, |slash| slash + 1);
        &self.bytes[start..]
    }

    /// The file `name` (such as `index.html`) in the directory that this path names.
    ///
    /// # Errors
    /// If `name` is not one plain segment.
    pub fn child(&self, name: &str) -> Result<Path<'static>, PathFault> {
        check(name.as_bytes())?;
        if name.is_empty() || name.contains('/') {
            return Err(PathFault::EmptySegment);
        }
        let mut bytes = Vec::with_capacity(self.bytes.len() + 1 + name.len());
        bytes.extend_from_slice(&self.bytes);
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name.as_bytes());
        Ok(Path { bytes: Cow::Owned(bytes), directory_like: false })
    }

    /// The same path without the borrow, for callers that outlive the request.
    pub fn into_owned(self) -> Path<'static> {
        Path { bytes: Cow::Owned(self.bytes.into_owned()), directory_like: self.directory_like }
    }

    /// Panics if the promise of the type is broken. Written apart from [`check`] on purpose.
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn assert_safe(&self) {
        assert!(!self.bytes.contains(&0) && !self.bytes.contains(&b'\\'));
        let path = std::path::Path::new(OsStr::from_bytes(&self.bytes));
        let mut plain = std::path::PathBuf::new();
        for component in path.components() {
            assert!(matches!(component, std::path::Component::Normal(_)), "{component:?}");
            plain.push(component);
        }
        assert_eq!(plain.as_os_str().as_bytes(), &*self.bytes);
    }
}

impl PathFault {
    /// A stable label for metrics, in snake_case.
    pub const fn label(self) -> &'static str {
        match self {
            Self::DotSegment => "dot_segment",
            Self::EmptySegment => "empty_segment",
            Self::Backslash => "backslash",
            Self::Nul => "nul",
            Self::ControlCharacter => "control_character",
            Self::EncodedSlash => "encoded_slash",
            Self::PercentEncoding => "percent_encoding",
            Self::NotAPath => "not_a_path",
        }
    }
}

/// Checks a decoded path without its leading slash. One empty segment may stand at the end.
fn check(bytes: &[u8]) -> Result<(), PathFault> {
    let mut segment_start = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'/' if at == segment_start => return Err(PathFault::EmptySegment),
            b'/' => {
                check_segment(&bytes[segment_start..at])?;
                segment_start = at + 1;
            }
            b'\\' => return Err(PathFault::Backslash),
            0 => return Err(PathFault::Nul),
            0x01..=0x1f | 0x7f => return Err(PathFault::ControlCharacter),
            _ => {}
        }
    }
    check_segment(&bytes[segment_start..])
}

fn check_segment(segment: &[u8]) -> Result<(), PathFault> {
    if matches!(segment, b"." | b"..") { Err(PathFault::DotSegment) } else { Ok(()) }
}

/// Whether a path as it stands in a request target is one that RFC 3986 §3.3 allows: each `%` has two digits behind it. NUL is
/// refused although it is allowed (§7.3).
pub(super) fn url_fault(raw: &str) -> Option<PathFault> {
    if !raw.starts_with('/') {
        return Some(PathFault::NotAPath);
    }
    memchr::memchr_iter(b'%', raw.as_bytes()).find_map(|at| match raw.as_bytes().get(at + 1..at + 3) {
        Some(b"00") => Some(PathFault::Nul),
        Some(&[high, low]) if hex_value(high).is_some() && hex_value(low).is_some() => None,
        _ => Some(PathFault::PercentEncoding),
    })
}

/// Decodes percent-encoding once; the result is never decoded again.
fn percent_decode(raw: &[u8]) -> Result<Cow<'_, [u8]>, PathFault> {
    let has_encoded_slash = memchr::memchr_iter(b'%', raw)
        .any(|at| raw.get(at + 1..at + 3).is_some_and(|digits| digits.eq_ignore_ascii_case(b"2f")));
    let decoded = percent_decoded(raw).ok_or(PathFault::PercentEncoding)?;
    if has_encoded_slash { Err(PathFault::EncodedSlash) } else { Ok(decoded) }
}

#[cfg(test)]
mod tests {
    use super::{Cow, Path, PathFault, url_fault};

    #[test]
    fn plain_paths_are_borrowed_and_encoded_ones_decoded() {
        for (raw, bytes, directory_like) in [
            ("/", "", true),
            ("/a", "a", false),
            ("/a/", "a", true),
            ("/live/1080p/seg-00001.m4s", "live/1080p/seg-00001.m4s", false),
            ("/..a/...", "..a/...", false),
            ("/a.b/.well-known/x", "a.b/.well-known/x", false),
            ("/a%20b", "a b", false),
            ("/%D1%84.mp4", "\u{444}.mp4", false),
            ("/\u{444}.mp4", "\u{444}.mp4", false),
            ("/100%25", "100%", false),
            ("/%252e%252e/x", "%2e%2e/x", false),
            ("/a+b&c;d=e,f", "a+b&c;d=e,f", false),
            ("/%61%2F".trim_end_matches("%2F"), "a", false),
        ] {
            let path = Path::parse(raw).unwrap();
            assert_eq!(path.as_bytes(), bytes.as_bytes(), "{raw}");
            assert_eq!(path.is_directory_like(), directory_like, "{raw}");
            assert_eq!(matches!(path.bytes, Cow::Owned(_)), raw.contains('%'), "{raw}");
            path.assert_safe();
        }
    }

    #[test]
    fn an_origin_is_asked_for_what_rfc_3986_allows() {
        for path in ["/", "//a", "/a//b", "/a%2Fb", "/a%5Cb", "/%09", "/./a", "/a\\b", "/%ff", "/a/../b"] {
            assert_eq!(url_fault(path), None, "{path}");
        }
        for (path, fault) in [
            ("*", PathFault::NotAPath),
            ("", PathFault::NotAPath),
            ("/%00", PathFault::Nul),
            ("/%", PathFault::PercentEncoding),
            ("/a%2", PathFault::PercentEncoding),
            ("/%zz", PathFault::PercentEncoding),
        ] {
            assert_eq!(url_fault(path), Some(fault), "{path}");
        }
    }

    #[test]
    fn names_that_no_file_can_have_say_why() {
        for (raw, fault) in [
            ("/..", PathFault::DotSegment),
            ("/../etc/passwd", PathFault::DotSegment),
            ("/a/../b", PathFault::DotSegment),
            ("/a/..", PathFault::DotSegment),
            ("/a/../", PathFault::DotSegment),
            ("/.", PathFault::DotSegment),
            ("/./a", PathFault::DotSegment),
            ("/%2e%2e/a", PathFault::DotSegment),
            ("/.%2E/a", PathFault::DotSegment),
            ("/%2e", PathFault::DotSegment),
            ("//", PathFault::EmptySegment),
            ("//a", PathFault::EmptySegment),
            ("/a//b", PathFault::EmptySegment),
            ("/a//", PathFault::EmptySegment),
            ("/a\\b", PathFault::Backslash),
            ("/..%5c..%5Cetc", PathFault::Backslash),
            ("/a%00.mp4", PathFault::Nul),
            ("/a%0d%0ab", PathFault::ControlCharacter),
            ("/a%7f", PathFault::ControlCharacter),
            ("/a%2fb", PathFault::EncodedSlash),
            ("/..%2F..%2Fetc", PathFault::EncodedSlash),
            ("/%", PathFault::PercentEncoding),
            ("/%2", PathFault::PercentEncoding),
            ("/%zz", PathFault::PercentEncoding),
            ("/%+1", PathFault::PercentEncoding),
            ("/%u002e", PathFault::PercentEncoding),
            ("*", PathFault::NotAPath),
            ("a", PathFault::NotAPath),
        ] {
            assert_eq!(Path::parse(raw), Err(fault), "{raw}");
        }
    }

    #[test]
    fn the_root_is_a_dot_to_the_file_system_and_has_children() {
        let root = Path::parse("/").unwrap();
        assert_eq!(root.as_os_path(), std::path::Path::new("."));
        assert_eq!(root.file_name(), b"");
        assert_eq!(root.child("index.html").unwrap().as_bytes(), b"index.html");
        let directory = Path::parse("/a/b/").unwrap();
        let index = directory.child("index.html").unwrap();
        assert_eq!(index.as_bytes(), b"a/b/index.html");
        assert_eq!(index.file_name(), b"index.html");
        for name in ["", "..", "a/b", "/", "a/", "\\"] {
            assert!(directory.child(name).is_err(), "{name}");
        }
    }
}
