//! Keys from shared files, and the choice of the sealing key.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use penstock_sys::ssl::TicketKey;

use super::directory::KeyFile;

/// The current time on both clocks: intervals use the first, modification times the second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    pub(super) instant: Instant,
    pub(super) time: SystemTime,
}

/// Keys from files, newest first.
#[derive(Debug, Default)]
pub(super) struct SharedKeys {
    keys: Vec<SharedKey>,
    /// Whether files have been read before: a key that appears later is new to the other machines too.
    is_known: bool,
}

#[derive(Clone, Debug)]
struct SharedKey {
    key: Arc<TicketKey>,
    file: Arc<KeyFile>,
    /// It seals only if there is no other.
    is_introduced_only: bool,
    /// When every machine is assumed to have it.
    seals_from: Instant,
}

impl SharedKeys {
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Replaces the keys with those of `files`, newest first.
    pub(super) fn set(&mut self, files: &[Arc<KeyFile>], introduction: Duration, now: Clocks) {
        let mut keys: Vec<SharedKey> = Vec::new();
        for file in files {
            for (index, key) in file.keys.iter().enumerate().rev() {
                // Of two keys with one name only one can be found by it.
                if keys.iter().any(|other| other.key.name() == key.name()) {
                    continue;
                }
                let known = self.keys.iter().find(|known| known.key.is_same(key));
                keys.push(SharedKey {
                    key: known.map_or_else(|| Arc::clone(key), |known| Arc::clone(&known.key)),
                    file: Arc::clone(file),
                    is_introduced_only: file.last_is_introduced && index + 1 == file.keys.len(),
                    seals_from: known.map_or_else(
                        || now.instant + self.wait(file.modified, introduction, now.time),
                        |known| known.seals_from,
                    ),
                });
            }
        }
        self.keys = keys;
        let is_any_everywhere = self.keys.iter().any(|key| key.seals_from <= now.instant);
        if !self.is_known && !is_any_everywhere && !self.keys.is_empty() {
            // After a start no older key is known, so the newest one seals at once.
            let newest = self.newest_candidate();
            self.keys[newest].seals_from = now.instant;
        }
        self.is_known = self.is_known || !self.keys.is_empty();
    }

    /// How long a new key waits. At the start the age of its file counts, because other machines have it already.
    fn wait(&self, modified: SystemTime, introduction: Duration, now: SystemTime) -> Duration {
        if self.is_known {
            return introduction;
        }
        now.duration_since(modified).map_or(introduction, |age| introduction.saturating_sub(age))
    }

    /// The keys that open tickets, newest first: those newer than the sealing one, that one, and older ones, `keep`
    /// together with it.
    pub(super) fn opening(&self, keep: usize, now: Instant) -> OpeningKeys {
        let sealing = self.sealing(now);
        let keys = self.keys.iter().take(sealing + keep.max(1));
        OpeningKeys {
            keys: keys.map(|shared| Arc::clone(&shared.key)).collect(),
            sealing,
            sealing_file: self.keys.get(sealing).map(|shared| Arc::clone(&shared.file)),
        }
    }

    /// All keys with their files, newest first.
    pub(super) fn all(&self) -> impl Iterator<Item = (Arc<KeyFile>, Arc<TicketKey>)> {
        self.keys.iter().map(|shared| (Arc::clone(&shared.file), Arc::clone(&shared.key)))
    }

    /// The newest key that every machine has. If there is none, because all are new, the one known for the longest
    /// time; the newest of several.
    fn sealing(&self, now: Instant) -> usize {
        let everywhere = self.candidates().find(|(_, key)| key.seals_from <= now);
        let known_longest = || self.candidates().min_by_key(|(_, key)| key.seals_from);
        everywhere.or_else(known_longest).map_or(0, |(index, _)| index)
    }

    fn newest_candidate(&self) -> usize {
        self.candidates().next().map_or(0, |(index, _)| index)
    }

    /// Keys that may seal: those that wait for a follower only if there is no other.
    fn candidates(&self) -> impl Iterator<Item = (usize, &SharedKey)> {
        let is_any_free = self.keys.iter().any(|key| !key.is_introduced_only);
        self.keys.iter().enumerate().filter(move |(_, key)| !(is_any_free && key.is_introduced_only))
    }
}

/// Which keys open tickets, and which of them seals.
#[derive(Debug)]
pub(super) struct OpeningKeys {
    pub(super) keys: Vec<Arc<TicketKey>>,
    pub(super) sealing: usize,
    pub(super) sealing_file: Option<Arc<KeyFile>>,
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use penstock_sys::traffic::Secret;

    use super::*;

    const INTRODUCTION: Duration = Duration::from_secs(5);
    const SECOND: Duration = Duration::from_secs(1);
    const HOUR: Duration = Duration::from_secs(3600);

    /// A timeline that begins now; files are dated by seconds from its beginning.
    struct Timeline {
        start: Clocks,
        shared: SharedKeys,
    }

    impl Timeline {
        fn new() -> Self {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
            Self { start: Clocks { instant: Instant::now() + HOUR, time }, shared: SharedKeys::default() }
        }

        fn at(&self, later: Duration) -> Clocks {
            Clocks { instant: self.start.instant + later, time: self.start.time + later }
        }

        fn file(&self, age_at_start: Duration, names: &[u8]) -> Arc<KeyFile> {
            self.dated(self.start.time - age_at_start, names)
        }

        fn file_later(&self, later: Duration, names: &[u8]) -> Arc<KeyFile> {
            self.dated(self.start.time + later, names)
        }

        fn dated(&self, modified: SystemTime, names: &[u8]) -> Arc<KeyFile> {
            Arc::new(KeyFile {
                name: OsString::from("file"),
                modified,
                is_readable_by_others: false,
                keys: names.iter().map(|name| Arc::new(key(*name))).collect(),
                last_is_introduced: names.len() > 1,
            })
        }

        fn set(&mut self, later: Duration, files: &[Arc<KeyFile>]) {
            let now = self.at(later);
            self.shared.set(files, INTRODUCTION, now);
        }

        /// The name of the key that seals, and those that open.
        fn opening(&self, later: Duration, keep: usize) -> (u8, Vec<u8>) {
            let opening = self.shared.opening(keep, self.at(later).instant);
            let names: Vec<u8> = opening.keys.iter().map(|key| key.name()[0]).collect();
            (names[opening.sealing], names)
        }
    }

    fn key(name: u8) -> TicketKey {
        TicketKey::new([name; 16], Secret::new(vec![name; 32]), Secret::new(vec![name; 32])).unwrap()
    }

    #[test]
    fn at_the_start_the_newest_seals_and_only_as_many_as_are_kept_open() {
        let mut timeline = Timeline::new();
        let files: Vec<_> =
            (1..=5).map(|age| timeline.file(age * HOUR, &[u8::try_from(age).unwrap()])).collect();
        timeline.set(Duration::ZERO, &files);
        assert_eq!(timeline.opening(Duration::ZERO, 3), (1, vec![1, 2, 3]));
        assert_eq!(timeline.opening(Duration::ZERO, 1), (1, vec![1]));
    }

    #[test]
    fn a_new_key_only_opens_until_every_machine_has_it() {
        let mut timeline = Timeline::new();
        let (old, older) = (timeline.file(HOUR, &[2]), timeline.file(2 * HOUR, &[3]));
        timeline.set(Duration::ZERO, &[Arc::clone(&old), Arc::clone(&older)]);
        let new = timeline.file_later(10 * SECOND, &[1]);
        timeline.set(11 * SECOND, &[new, old, older]);
        // The oldest is not dropped before the newest takes over.
        assert_eq!(timeline.opening(11 * SECOND, 2), (2, vec![1, 2, 3]));
        assert_eq!(timeline.opening(15 * SECOND, 2), (2, vec![1, 2, 3]));
        assert_eq!(timeline.opening(16 * SECOND, 2), (1, vec![1, 2]));
    }

    #[test]
    fn a_server_that_starts_right_after_a_rotation_waits_too() {
        let mut timeline = Timeline::new();
        let files = [timeline.file(SECOND, &[1]), timeline.file(HOUR, &[2])];
        timeline.set(Duration::ZERO, &files);
        assert_eq!(timeline.opening(3 * SECOND, 2).0, 2);
        assert_eq!(timeline.opening(4 * SECOND, 2).0, 1);
    }

    #[test]
    fn if_all_keys_are_new_at_the_start_the_newest_seals() {
        let mut timeline = Timeline::new();
        let files = [timeline.file(Duration::ZERO, &[1]), timeline.file(SECOND, &[2])];
        timeline.set(Duration::ZERO, &files);
        assert_eq!(timeline.opening(Duration::ZERO, 2), (1, vec![1, 2]));
    }

    #[test]
    fn a_file_from_the_future_waits_as_long_as_a_new_one() {
        let mut timeline = Timeline::new();
        let files = [timeline.file_later(HOUR, &[1]), timeline.file(HOUR, &[2])];
        timeline.set(Duration::ZERO, &files);
        assert_eq!(timeline.opening(4 * SECOND, 2).0, 2);
        assert_eq!(timeline.opening(5 * SECOND, 2).0, 1);
    }

    #[test]
    fn when_the_sealing_key_is_deleted_the_one_known_longest_takes_over() {
        let mut timeline = Timeline::new();
        timeline.set(Duration::ZERO, &[timeline.file(HOUR, &[3])]);
        let second = timeline.file_later(10 * SECOND, &[2]);
        timeline.set(10 * SECOND, &[Arc::clone(&second), timeline.file(HOUR, &[3])]);
        let third = timeline.file_later(12 * SECOND, &[1]);
        timeline.set(12 * SECOND, &[third, second]);
        assert_eq!(timeline.opening(12 * SECOND, 3), (2, vec![1, 2]));
    }

    #[test]
    fn of_a_file_with_several_keys_the_last_but_one_seals() {
        let mut timeline = Timeline::new();
        timeline.set(Duration::ZERO, &[timeline.file(HOUR, &[1, 2, 3])]);
        assert_eq!(timeline.opening(Duration::ZERO, 3), (2, vec![3, 2, 1]));
        // Another line follows; the third is known to every machine already.
        timeline.set(10 * SECOND, &[timeline.file_later(10 * SECOND, &[2, 3, 4])]);
        assert_eq!(timeline.opening(10 * SECOND, 3), (3, vec![4, 3, 2]));
    }

    #[test]
    fn touching_a_file_does_not_make_its_key_new() {
        let mut timeline = Timeline::new();
        timeline.set(Duration::ZERO, &[timeline.file(HOUR, &[1]), timeline.file(2 * HOUR, &[2])]);
        timeline.set(SECOND, &[timeline.file_later(SECOND, &[2]), timeline.file(HOUR, &[1])]);
        assert_eq!(timeline.opening(SECOND, 2).0, 2);
    }

    #[test]
    fn of_two_keys_with_one_name_the_newer_counts() {
        let mut timeline = Timeline::new();
        let other = KeyFile {
            keys: vec![Arc::new(
                TicketKey::new([1; 16], Secret::new(vec![9; 32]), Secret::new(vec![9; 16])).unwrap(),
            )],
            ..KeyFile::clone(&timeline.file(HOUR, &[1]))
        };
        timeline.set(Duration::ZERO, &[timeline.file(SECOND, &[1]), Arc::new(other)]);
        let opening = timeline.shared.opening(3, timeline.start.instant);
        assert_eq!(opening.keys.iter().map(|key| key.bits()).collect::<Vec<_>>(), [256]);
    }
}
