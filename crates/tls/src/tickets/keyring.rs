//! The ticket keys of a server: from files if there are any, otherwise random.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Instant, SystemTime};

use arc_swap::ArcSwap;
use penstock_sys::lock::Unpoisoned;
use penstock_sys::ssl::{FoundKey, TICKET_NAME_BYTES, TicketKey, TicketKeys};
use penstock_sys::traffic::Secret;

use super::directory::KeyFile;
use super::policy::TicketPolicy;
use super::random_keys::RandomKeys;
use super::shared_keys::{Clocks, SharedKeys};
use crate::random::NoRandomness;

/// The ticket keys of a server.
///
/// Handshakes read a snapshot without a lock and without a write to shared memory. Changes come from the control side.
#[derive(Debug)]
pub struct TicketKeyring {
    active: ArcSwap<ActiveKeys>,
    state: Mutex<KeyringState>,
}

/// The snapshot that handshakes read.
#[derive(Debug)]
struct ActiveKeys {
    /// Newest first; never empty.
    keys: Vec<Arc<TicketKey>>,
    /// Index of the key that seals.
    sealing: usize,
}

#[derive(Debug)]
struct KeyringState {
    policy: TicketPolicy,
    shared: SharedKeys,
    random: RandomKeys,
}

/// The contents of a keyring.
#[derive(Clone, Debug, Default)]
pub struct KeyringStatus {
    /// Keys that open tickets, the sealing one included.
    pub opening: usize,
    /// Of these, the ones that do not seal yet, because not every machine may have them.
    pub introduced: usize,
    /// The file of the sealing key; `None` if that key is random.
    pub sealing_file: Option<Arc<KeyFile>>,
    /// Whether the sealing key or the opening keys changed.
    pub has_changed: bool,
}

impl TicketKeyring {
    /// A keyring for these files, newest first; with none it makes a random key.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub fn new(
        policy: TicketPolicy,
        files: &[Arc<KeyFile>],
        instant: Instant,
        time: SystemTime,
    ) -> Result<Self, NoRandomness> {
        let mut state = KeyringState { policy, shared: SharedKeys::default(), random: RandomKeys::default() };
        state.shared.set(files, policy.introduction, Clocks { instant, time });
        state.grow_old(instant)?;
        let (active, _) = state.active(instant);
        Ok(Self { active: ArcSwap::from_pointee(active), state: Mutex::new(state) })
    }

    /// Changes the policy.
    pub fn set_policy(&self, policy: TicketPolicy) {
        self.state().policy = policy;
    }

    /// Forgets what files held: those of another directory follow, or none.
    pub fn forget_files(&self) {
        self.state().shared = SharedKeys::default();
    }

    /// The random keys, for a process that succeeds this one.
    pub fn random_keys(&self, now: Instant) -> Secret {
        self.state().random.export(now)
    }

    /// Takes over the random keys of the process that this one succeeds. They hold from the next [`Self::refresh`] on.
    pub fn adopt_random_keys(&self, exported: &Secret, now: Instant) {
        let mut guard = self.state();
        let state = &mut *guard;
        state.random.adopt(exported, &state.policy, now);
    }

    /// Replaces the keys with those of `files`, newest first.
    pub fn set_files(&self, files: &[Arc<KeyFile>], instant: Instant, time: SystemTime) {
        let mut state = self.state();
        let introduction = state.policy.introduction;
        state.shared.set(files, introduction, Clocks { instant, time });
    }

    /// Rotates random keys and promotes introduced ones. Called about once a second and after each change.
    ///
    /// # Errors
    /// When the system has no randomness to give; the old keys then stay.
    pub fn refresh(&self, now: Instant) -> Result<KeyringStatus, NoRandomness> {
        let mut state = self.state();
        state.grow_old(now)?;
        let (active, status) = state.active(now);
        let has_changed = !self.active.load().is_same(&active);
        if has_changed {
            self.active.store(Arc::new(active));
        }
        Ok(KeyringStatus { has_changed, ..status })
    }

    fn state(&self) -> MutexGuard<'_, KeyringState> {
        self.state.lock().unpoisoned()
    }
}

impl TicketKeys for TicketKeyring {
    fn sealing(&self) -> Arc<TicketKey> {
        let active = self.active.load();
        Arc::clone(&active.keys[active.sealing])
    }

    fn find(&self, name: &[u8; TICKET_NAME_BYTES]) -> Option<FoundKey> {
        let active = self.active.load();
        let place = active.keys.iter().position(|key| key.name() == name)?;
        Some(FoundKey { key: Arc::clone(&active.keys[place]), is_old: place > active.sealing })
    }
}

impl KeyringState {
    fn grow_old(&mut self, now: Instant) -> Result<(), NoRandomness> {
        if self.shared.is_empty() {
            self.random.rotate_if_due(&self.policy, now)?;
        } else {
            self.random.expire(&self.policy, now);
        }
        Ok(())
    }

    fn active(&self, now: Instant) -> (ActiveKeys, KeyringStatus) {
        let shared = self.shared.opening(self.policy.keep, now);
        // Tickets from before there were files stay good until their keys expire.
        let keys: Vec<_> = shared.keys.into_iter().chain(self.random.keys()).collect();
        let status = KeyringStatus {
            opening: keys.len(),
            introduced: shared.sealing,
            sealing_file: shared.sealing_file,
            has_changed: false,
        };
        (ActiveKeys { keys, sealing: shared.sealing }, status)
    }
}

impl ActiveKeys {
    fn is_same(&self, other: &Self) -> bool {
        let same_keys = || self.keys.iter().zip(&other.keys).all(|(one, two)| Arc::ptr_eq(one, two));
        self.sealing == other.sealing && self.keys.len() == other.keys.len() && same_keys()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::time::Duration;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn policy(keep: usize) -> TicketPolicy {
        TicketPolicy { rotate: HOUR, keep, introduction: Duration::from_secs(5) }
    }

    fn ring(keep: usize, files: &[Arc<KeyFile>], now: Instant) -> TicketKeyring {
        TicketKeyring::new(policy(keep), files, now, SystemTime::UNIX_EPOCH + 9 * HOUR).unwrap()
    }

    fn file(name: u8) -> Arc<KeyFile> {
        let secret = || Secret::new(vec![name; 32]);
        Arc::new(KeyFile {
            name: OsString::from("file"),
            modified: SystemTime::UNIX_EPOCH,
            is_readable_by_others: false,
            keys: vec![Arc::new(TicketKey::new([name; 16], secret(), secret()).unwrap())],
            last_is_introduced: false,
        })
    }

    fn is_old(ring: &TicketKeyring, name: &[u8; 16]) -> Option<bool> {
        ring.find(name).map(|found| found.is_old)
    }

    #[test]
    fn a_random_key_lives_for_as_many_rotations_as_are_kept() {
        let start = Instant::now();
        let ring = ring(2, &[], start);
        let first = *ring.sealing().name();
        ring.refresh(start + HOUR / 2).unwrap();
        assert_eq!(is_old(&ring, &first), Some(false));

        let status = ring.refresh(start + HOUR).unwrap();
        assert_eq!((status.opening, status.introduced, status.has_changed), (2, 0, true));
        assert!(status.sealing_file.is_none());
        assert!(!ring.refresh(start + HOUR).unwrap().has_changed);
        assert_ne!(*ring.sealing().name(), first);
        assert_eq!(is_old(&ring, &first), Some(true));

        ring.refresh(start + 2 * HOUR).unwrap();
        assert_eq!(is_old(&ring, &first), None);
    }

    #[test]
    fn a_successor_opens_and_seals_with_the_random_keys_of_the_process_before() {
        let start = Instant::now();
        let before = ring(2, &[], start);
        let first = *before.sealing().name();
        before.refresh(start + HOUR).unwrap();
        let second = *before.sealing().name();
        let after = ring(2, &[], start + HOUR);
        after.adopt_random_keys(&before.random_keys(start + HOUR + HOUR / 2), start + HOUR + HOUR / 2);
        assert!(after.refresh(start + HOUR + HOUR / 2).unwrap().has_changed);
        assert_eq!((is_old(&after, &second), is_old(&after, &first)), (Some(false), Some(true)));
        // They are as old as they were.
        after.refresh(start + 2 * HOUR).unwrap();
        assert_eq!((is_old(&after, &second), is_old(&after, &first)), (Some(true), None));
        after.adopt_random_keys(&Secret::new(vec![1; 87]), start + 2 * HOUR);
        assert_eq!(is_old(&after, &second), Some(true), "what is no key changes nothing");
    }

    #[test]
    fn an_unknown_key_name_opens_nothing() {
        assert!(ring(3, &[], Instant::now()).find(&[0; 16]).is_none());
    }

    #[test]
    fn files_take_over_and_the_random_key_opens_until_it_expires() {
        let start = Instant::now();
        let ring = ring(2, &[], start);
        let random = *ring.sealing().name();
        ring.set_files(&[file(1)], start, SystemTime::UNIX_EPOCH + HOUR);
        let status = ring.refresh(start).unwrap();
        assert_eq!((status.opening, status.sealing_file.unwrap().name.to_str()), (2, Some("file")));
        assert_eq!(*ring.sealing().name(), [1; 16]);
        assert_eq!(is_old(&ring, &random), Some(true));
        ring.refresh(start + 2 * HOUR).unwrap();
        assert_eq!(is_old(&ring, &random), None);
    }

    #[test]
    fn with_the_last_file_deleted_a_fresh_random_key_seals() {
        let start = Instant::now();
        let ring = ring(2, &[file(1)], start);
        assert_eq!(*ring.sealing().name(), [1; 16]);
        ring.set_files(&[], start, SystemTime::UNIX_EPOCH);
        assert!(ring.refresh(start).unwrap().sealing_file.is_none());
        assert_eq!(is_old(&ring, &[1; 16]), None);
        assert_ne!(*ring.sealing().name(), [1; 16]);
    }

    #[test]
    fn a_key_that_is_only_introduced_here_is_not_old() {
        let start = Instant::now();
        let ring = ring(2, &[file(1)], start);
        ring.set_files(&[file(2), file(1)], start, SystemTime::UNIX_EPOCH);
        assert_eq!(ring.refresh(start).unwrap().introduced, 1);
        assert_eq!((is_old(&ring, &[2; 16]), is_old(&ring, &[1; 16])), (Some(false), Some(false)));
        assert_eq!(ring.refresh(start + policy(2).introduction).unwrap().introduced, 0);
        assert_eq!((is_old(&ring, &[2; 16]), is_old(&ring, &[1; 16])), (Some(false), Some(true)));
    }

    #[test]
    fn the_files_of_another_directory_are_not_new_to_the_others() {
        let start = Instant::now();
        let ring = ring(3, &[file(1)], start);
        ring.set_policy(policy(1));
        ring.forget_files();
        ring.set_files(&[file(3), file(2)], start, SystemTime::UNIX_EPOCH + HOUR);
        assert_eq!(ring.refresh(start).unwrap().opening, 1);
        assert_eq!(*ring.sealing().name(), [3; 16]);
    }
}
