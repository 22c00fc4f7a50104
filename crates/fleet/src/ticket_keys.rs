//! Session ticket keys that all edges share: introduced, used, retired.
//!
//! The newest key is always one that does not seal yet. So each edge that reached the store within a rotation has the
//! next key before any edge seals with it, and an edge that starts without the store knows it from its file.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand;
use penstock_sys::ssl::{TICKET_NAME_BYTES, TicketKey};
use penstock_sys::traffic::Secret;
use penstock_tls::tickets::TicketPolicy;
use penstock_tls::tickets::directory::KeyFile;
use zeroize::Zeroize;

use crate::seal::hex;

/// Keys in one set; more are not read.
const KEYS_MAX: usize = 128;

const SECRET_BYTES: usize = 32;
const KEY_BYTES: usize = TICKET_NAME_BYTES + 2 * SECRET_BYTES + 8;

/// Bytes of [`KeySet::encoded`].
pub(crate) const ENCODED_BYTES_MAX: usize = KEYS_MAX * KEY_BYTES;

/// A key and the time from which it seals.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct FleetKey {
    name: [u8; TICKET_NAME_BYTES],
    mac: [u8; SECRET_BYTES],
    cipher: [u8; SECRET_BYTES],
    /// Seconds since 1970.
    pub(crate) seals_from: u64,
}

impl Drop for FleetKey {
    fn drop(&mut self) {
        self.mac.zeroize();
        self.cipher.zeroize();
    }
}

impl FleetKey {
    fn random(seals_from: u64) -> Option<Self> {
        let mut key = Self { name: [0; _], mac: [0; _], cipher: [0; _], seals_from };
        rand::fill(&mut key.name).ok()?;
        rand::fill(&mut key.mac).ok()?;
        rand::fill(&mut key.cipher).ok()?;
        Some(key)
    }

    /// The name as `penstock tickets list` shows it.
    pub(crate) fn shown(&self) -> String {
        hex(&self.name)
    }

    fn ticket_key(&self) -> Option<TicketKey> {
        let secret = |bytes: &[u8]| Secret::new(bytes.to_vec());
        TicketKey::new(self.name, secret(&self.mac), secret(&self.cipher))
    }
}

/// How a key is used now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetKeyUse {
    /// It opens tickets, and will seal.
    Introduced,
    /// It seals.
    Seals,
    /// It still opens tickets.
    Opens,
}

/// The keys of a fleet, in the order in which they seal.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct KeySet(Vec<FleetKey>);

impl KeySet {
    /// Reads [`Self::encoded`]; `None` if it is damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (records, rest) = bytes.as_chunks::<KEY_BYTES>();
        if !rest.is_empty() || records.len() > KEYS_MAX {
            return None;
        }
        let mut set = Self::default();
        for record in records {
            let (name, rest) = record.split_first_chunk()?;
            let (mac, rest) = rest.split_first_chunk()?;
            let (cipher, rest) = rest.split_first_chunk()?;
            let seals_from = u64::from_le_bytes(*rest.first_chunk()?);
            set.add(FleetKey { name: *name, mac: *mac, cipher: *cipher, seals_from });
        }
        Some(set)
    }

    /// All keys as bytes, which have to be sealed.
    pub(crate) fn encoded(&self) -> Secret {
        let mut bytes = Vec::with_capacity(self.0.len() * KEY_BYTES);
        for key in &self.0 {
            bytes.extend_from_slice(&key.name);
            bytes.extend_from_slice(&key.mac);
            bytes.extend_from_slice(&key.cipher);
            bytes.extend_from_slice(&key.seals_from.to_le_bytes());
        }
        Secret::new(bytes)
    }

    fn add(&mut self, key: FleetKey) {
        if self.0.iter().any(|known| known.name == key.name) {
            return;
        }
        let place =
            self.0.partition_point(|known| (known.seals_from, known.name) <= (key.seals_from, key.name));
        self.0.insert(place, key);
    }

    /// Adds the keys of `other`. Nothing is taken away, so an old set in the store cannot undo a rotation.
    pub(crate) fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|key| self.add(key.clone()));
    }

    /// The keys that no edge would have retired by now, if it was there all the time. A set of long ago, which a writer of the
    /// store brought back, has none.
    pub(crate) fn current(&self, policy: &TicketPolicy, now: u64) -> Self {
        let kept = policy.rotate.as_secs().saturating_mul(policy.keep as u64 + 1);
        let is_current = |key: &&FleetKey| key.seals_from.saturating_add(kept) > now;
        Self(self.0.iter().filter(is_current).cloned().collect())
    }

    /// Whether it has every key of `other`.
    pub(crate) fn contains(&self, other: &Self) -> bool {
        other.0.iter().all(|key| self.0.iter().any(|known| known.name == key.name))
    }

    /// Removes keys that are too old to open tickets.
    pub(crate) fn retire(&mut self, keep: usize, now: u64) {
        let sealing = self.sealing(now);
        drop(self.0.drain(..(sealing + 1).saturating_sub(keep.max(1)).min(self.0.len())));
    }

    /// The key that seals: the newest whose time has come, or else the oldest.
    fn sealing(&self, now: u64) -> usize {
        self.0.iter().rposition(|key| key.seals_from <= now).unwrap_or(0)
    }

    /// Adds a key that seals next, if there is none, and before that one that seals. Returns whether it added any.
    pub(crate) fn grow(&mut self, policy: &TicketPolicy, now: u64) -> bool {
        let before = self.0.len();
        while self.0.last().is_none_or(|newest| newest.seals_from <= now) {
            let introduced = now.saturating_add(policy.introduction.as_secs().max(1));
            let due = |newest: &FleetKey| newest.seals_from.saturating_add(policy.rotate.as_secs());
            let seals_from = self.0.last().map_or(now, |newest| due(newest).max(introduced));
            let Some(key) = FleetKey::random(seals_from) else { break };
            self.add(key);
        }
        self.0.len() > before
    }

    /// Keys with their uses, the newest first.
    pub(crate) fn uses(&self, now: u64) -> impl Iterator<Item = (&FleetKey, FleetKeyUse)> {
        let sealing = self.sealing(now);
        let use_of = move |place: usize| match place.cmp(&sealing) {
            std::cmp::Ordering::Greater => FleetKeyUse::Introduced,
            std::cmp::Ordering::Equal => FleetKeyUse::Seals,
            std::cmp::Ordering::Less => FleetKeyUse::Opens,
        };
        self.0.iter().enumerate().rev().map(move |(place, key)| (key, use_of(place)))
    }

    /// The name of the newest key.
    pub(crate) fn newest(&self) -> Option<String> {
        self.0.last().map(FleetKey::shown)
    }

    /// As files of one key each, the newest first, as the keyring takes them.
    pub(crate) fn files(&self, now: u64) -> Vec<Arc<KeyFile>> {
        let file = |(key, use_of): (&FleetKey, FleetKeyUse)| {
            Some(Arc::new(KeyFile {
                name: OsString::from(format!("fleet key {}", &key.shown()[..8])),
                modified: UNIX_EPOCH.checked_add(Duration::from_secs(key.seals_from))?,
                is_readable_by_others: false,
                keys: vec![Arc::new(key.ticket_key()?)],
                last_is_introduced: use_of == FleetKeyUse::Introduced,
            }))
        };
        self.uses(now).filter_map(file).collect()
    }
}

/// Seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: TicketPolicy =
        TicketPolicy { rotate: Duration::from_secs(3600), keep: 3, introduction: Duration::from_secs(5) };

    fn uses(set: &KeySet, now: u64) -> Vec<(u64, FleetKeyUse)> {
        set.uses(now).map(|(key, use_of)| (key.seals_from, use_of)).collect()
    }

    #[test]
    fn a_key_is_introduced_a_rotation_before_it_seals_and_retired_after_those_kept() {
        use FleetKeyUse::{Introduced, Opens, Seals};
        let mut set = KeySet::default();
        assert!(set.grow(&POLICY, 1000) && !set.grow(&POLICY, 1000));
        assert_eq!(uses(&set, 1000), [(4600, Introduced), (1000, Seals)]);
        assert!(!set.grow(&POLICY, 4599));
        assert_eq!(uses(&set, 4600), [(4600, Seals), (1000, Opens)]);
        assert!(set.grow(&POLICY, 4600));
        assert_eq!(uses(&set, 4600), [(8200, Introduced), (4600, Seals), (1000, Opens)]);
        for now in [8200, 11_800] {
            assert!(set.grow(&POLICY, now));
            set.retire(POLICY.keep, now);
        }
        assert_eq!(uses(&set, 11_800), [(15_400, Introduced), (11_800, Seals), (8200, Opens), (4600, Opens)]);
    }

    #[test]
    fn after_a_long_time_without_the_store_the_next_key_is_introduced_before_it_seals() {
        let mut set = KeySet::default();
        set.grow(&POLICY, 1000);
        assert!(set.grow(&POLICY, 100_000));
        assert_eq!(uses(&set, 100_000)[0], (100_005, FleetKeyUse::Introduced));
    }

    #[test]
    fn an_old_set_undoes_no_rotation_and_brings_back_no_retired_key() {
        let mut set = KeySet::default();
        set.grow(&POLICY, 1000);
        let old = set.clone();
        for now in [4600, 8200, 11_800, 15_400] {
            set.grow(&POLICY, now);
        }
        set.retire(POLICY.keep, 15_400);
        let current = set.clone();
        assert!(!current.contains(&old));
        set.merge(&old);
        set.retire(POLICY.keep, 15_400);
        assert!(set == current);
    }

    #[test]
    fn a_set_of_long_ago_is_not_used_by_an_edge_that_knows_no_other() {
        let mut set = KeySet::default();
        set.grow(&POLICY, 1000);
        // The last key seals from 4600 on, and opens tickets for three rotations more.
        assert!(set.current(&POLICY, 1000) == set);
        assert_eq!(set.current(&POLICY, 4600 + 4 * 3600 - 1).0.len(), 1);
        assert!(set.current(&POLICY, 4600 + 4 * 3600) == KeySet::default());
    }

    #[test]
    fn sets_survive_encoding_and_damage_is_noticed() {
        let mut set = KeySet::default();
        set.grow(&POLICY, 1000);
        let bytes = set.encoded();
        assert!(KeySet::decode(bytes.expose()) == Some(set));
        assert!(KeySet::decode(&bytes.expose()[1..]).is_none());
        assert!(KeySet::decode(&vec![0; (KEYS_MAX + 1) * KEY_BYTES]).is_none());
        assert!(KeySet::decode(&[]).is_some_and(|set| set == KeySet::default()));
    }

    #[test]
    fn the_keyring_gets_the_newest_first_and_does_not_seal_with_the_introduced_one() {
        let mut set = KeySet::default();
        set.grow(&POLICY, 1000);
        let introduced: Vec<bool> = set.files(1000).iter().map(|file| file.last_is_introduced).collect();
        assert_eq!(introduced, [true, false]);
        let introduced: Vec<bool> = set.files(4600).iter().map(|file| file.last_is_introduced).collect();
        assert_eq!(introduced, [false, false]);
    }
}
