//! Purges and the objects that they select.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::memory::remedy;
use crate::purge::PurgeTarget;

/// The names of an object, by which purges select it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'s> {
    /// The name space of `name`, such as an origin.
    pub place: &'s str,
    /// The name; several objects may have the same.
    pub name: &'s str,
    /// Tags, separated by spaces.
    pub tags: &'s str,
}

/// The objects that a purge selects, by the names that they have in the cache.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// The name space; all of them if `None`.
    pub place: Option<String>,
    /// The objects of it. The URL and the prefix are those of names.
    pub target: PurgeTarget,
}

impl Pattern {
    /// Whether it selects this object.
    pub fn matches(&self, subject: Subject<'_>) -> bool {
        self.place.as_deref().is_none_or(|place| place == subject.place)
            && match &self.target {
                PurgeTarget::Url(name) => subject.name == name,
                PurgeTarget::Prefix(start) => subject.name.starts_with(start.as_str()),
                PurgeTarget::Tag(tag) => subject.tags.split(' ').any(|one| one == tag),
                PurgeTarget::Everything => true,
            }
    }

    /// Memory that it takes, about.
    pub fn bytes(&self) -> usize {
        self.target.text().len() + self.place.as_ref().map_or(0, String::len) + 64
    }
}

/// The effect of purges on an object since it was last judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PurgeEffect {
    /// None.
    #[default]
    None,
    /// It is stale.
    Stale,
    /// It must not be used.
    Gone,
}

/// One entry of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Purge {
    /// Nanoseconds since 1970.
    pub(super) at: u64,
    /// Whether the objects only become stale.
    pub(super) soft: bool,
    pub(super) pattern: Pattern,
}

/// Nanoseconds since 1970, as in [`Purge::at`].
pub(super) fn nanoseconds_of(time: SystemTime) -> u64 {
    nanoseconds(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A purge that could not be persisted: it is in force, but not for the next process.
#[derive(Debug)]
pub struct NotKept {
    /// The file that could not be written.
    pub path: PathBuf,
    /// The error of the system.
    pub source: io::Error,
}

impl fmt::Display for NotKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, source) = (self.path.display(), &self.source);
        write!(f, "cannot persist purges in {path}: {source}{}", remedy(source))
    }
}

impl std::error::Error for NotKept {}
