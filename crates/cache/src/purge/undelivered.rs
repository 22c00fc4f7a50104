//! Purges that other servers have yet to confirm, in a file beside the list of purges.
//!
//! ```text
//! penstock undelivered purges 1
//! edge2,edge3 1767225600000000000 hard url 10.0.0.5:8080 /vod/a.mp4
//! ```
//!
//! The file is replaced as a whole, and there is none while all are confirmed. What cannot be parsed counts as a purge of
//! everything that any server may have missed.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::file::{everything, line, parse, replace};
use super::pattern::{Pattern, Purge, nanoseconds_of};

/// The file in its directory.
pub(super) const FILE_NAME: &str = "undelivered-purges";
const FIRST_LINE: &str = "penstock undelivered purges 1";
/// More than is ever written.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A purge that other servers have yet to confirm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndeliveredPurge {
    /// When it was ordered.
    pub since: SystemTime,
    /// Whether the objects only become stale.
    pub soft: bool,
    /// The objects.
    pub pattern: Pattern,
    /// Names of the servers, without commas and spaces; empty if any server may have missed it.
    pub servers: BTreeSet<String>,
}

impl UndeliveredPurge {
    /// A list as text: that of the file, also between machines.
    pub fn write_list(list: &[Self]) -> String {
        let mut text = format!("{FIRST_LINE}\n");
        for Self { since, soft, pattern, servers } in list {
            let servers: Vec<&str> = servers.iter().map(String::as_str).collect();
            let purge = Purge { at: nanoseconds_of(*since), soft: *soft, pattern: pattern.clone() };
            text.push_str(&format!("{} {}", servers.join(","), line(&purge)));
        }
        text
    }

    /// Reads what [`Self::write_list`] wrote; `None` if that is of another version or damaged.
    pub fn read_list(text: &str) -> Option<Vec<Self>> {
        let mut lines = text.strip_suffix('\n')?.split('\n');
        if lines.next() != Some(FIRST_LINE) {
            return None;
        }
        let purge = |line: &str| {
            let (servers, rest) = line.split_once(' ')?;
            let Purge { at, soft, pattern } = parse(rest)?;
            let servers = servers.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
            Some(Self { since: UNIX_EPOCH + Duration::from_nanos(at), soft, pattern, servers })
        };
        lines.map(purge).collect()
    }
}

/// Reads the file of a directory; `now` is the time of what cannot be parsed.
pub(super) fn read(directory: &Path, now: SystemTime) -> io::Result<Vec<UndeliveredPurge>> {
    let mut bytes = Vec::new();
    match File::open(directory.join(FILE_NAME)) {
        Ok(file) => drop(file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    }
    let read = str::from_utf8(&bytes)
        .ok()
        .filter(|text| text.len() as u64 <= FILE_BYTES_MAX)
        .and_then(UndeliveredPurge::read_list);
    Ok(read.unwrap_or_else(|| {
        let Purge { soft, pattern, .. } = everything(0);
        vec![UndeliveredPurge { since: now, soft, pattern, servers: BTreeSet::new() }]
    }))
}

/// Replaces the file of a directory, whole or not at all.
pub(super) fn write(directory: &Path, purges: &[UndeliveredPurge]) -> io::Result<()> {
    let path = directory.join(FILE_NAME);
    if purges.is_empty() {
        return fs::remove_file(&path).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        });
    }
    replace(&path, &UndeliveredPurge::write_list(purges))
}

#[cfg(test)]
mod tests {
    use super::super::target::PurgeTarget;
    use super::*;

    fn purge(target: PurgeTarget, servers: &[&str]) -> UndeliveredPurge {
        UndeliveredPurge {
            since: UNIX_EPOCH + Duration::from_nanos(1_767_225_600_000_000_007),
            soft: matches!(target, PurgeTarget::Tag(_)),
            pattern: Pattern { place: Some("a place".to_owned()), target },
            servers: servers.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn undelivered_purges_are_read_as_they_were_written() {
        let directory = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        assert!(read(directory.path(), now).unwrap().is_empty());
        let list = [
            purge(PurgeTarget::Url("/a b\n".to_owned()), &["edge2.example.com", "192.0.2.1"]),
            purge(PurgeTarget::Tag("news".to_owned()), &[]),
            purge(PurgeTarget::Everything, &["edge2"]),
        ];
        for written in [&list[..], &list[..1], &[], &[]] {
            write(directory.path(), written).unwrap();
            assert_eq!(read(directory.path(), now).unwrap(), written);
        }
        assert!(!directory.path().join(FILE_NAME).exists(), "nothing is undelivered");
    }

    #[test]
    fn a_damaged_file_is_a_purge_of_everything_that_any_server_missed() {
        let directory = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        let path = directory.path().join(FILE_NAME);
        write(directory.path(), &[purge(PurgeTarget::Everything, &["edge2"])]).unwrap();
        let whole = fs::read(&path).unwrap();
        for end in 0..whole.len() {
            fs::write(&path, &whole[..end]).unwrap();
            // Without its last line the file is whole; no process writes it like that.
            let is_shorter = end == FIRST_LINE.len() + 1;
            let found = read(directory.path(), now).unwrap();
            let expected = UndeliveredPurge {
                since: now,
                soft: false,
                pattern: Pattern { place: None, target: PurgeTarget::Everything },
                servers: BTreeSet::new(),
            };
            assert_eq!(found, if is_shorter { vec![] } else { vec![expected] }, "{end} bytes");
        }
    }
}
