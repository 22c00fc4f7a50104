//! The body of the fuzz target `fleet_records`: what a store answers, and what is inside of its records.

use std::time::Duration;

use penstock_sys::traffic::Secret;
use penstock_tls::tickets::TicketPolicy;

use crate::edges::edge_of;
use crate::link::list_of;
use crate::message::Message;
use crate::position::{EntryId, Position};
use crate::purges::stream_entries;
use crate::revocations::RECORDS;
use crate::revoked_ids::RevokedRecord;
use crate::seal::{Purpose, Sealer};
use crate::store_facts::StoreFacts;
use crate::ticket_keys::KeySet;

/// The body of the fuzz target `fleet_records`: the first byte chooses what the rest is. Whatever a record says, it is bounded,
/// and means the same after it was written again; an answer of the store makes nothing panic.
///
/// # Panics
/// When that does not hold.
pub fn fuzz_fleet_records(input: &[u8]) {
    let Some((kind, bytes)) = input.split_first() else { return };
    match kind % 6 {
        0 => ticket_keys(bytes),
        1 => purge(bytes),
        2 => edge(bytes),
        3 => answer(bytes),
        5 => revoked(bytes),
        _ => sealed(bytes),
    }
}

const NOW: u64 = 1_800_000_000;

fn ticket_keys(bytes: &[u8]) {
    let Some(set) = KeySet::decode(bytes) else { return };
    assert!(KeySet::decode(set.encoded().expose()).is_some_and(|again| again == set));
    let policy =
        TicketPolicy { rotate: Duration::from_secs(60), keep: 3, introduction: Duration::from_secs(5) };
    for now in [0, NOW, 1 << 40] {
        let (mut grown, uses) = (set.clone(), set.uses(now).count());
        assert!(set.files(now).len() <= uses && set.contains(&set.current(&policy, now)));
        grown.merge(&set);
        assert!(grown == set, "nothing new");
        grown.grow(&policy, now);
        assert!(grown.contains(&set) && grown.newest().is_some());
        grown.retire(policy.keep, now);
        assert!(grown.newest().is_some(), "one seals");
    }
}

fn purge(bytes: &[u8]) {
    let Some(message) = Message::decode(bytes) else { return };
    assert_eq!(Message::decode(&message.encode()), Some(message));
}

fn revoked(bytes: &[u8]) {
    let Some(records) = RevokedRecord::decode(bytes, RECORDS) else { return };
    assert!(records.len() <= RECORDS && RevokedRecord::encode(&records) == bytes);
}

fn edge(bytes: &[u8]) {
    let Some(edge) = edge_of("edge", bytes, NOW) else { return };
    assert!(edge.seen_seconds <= NOW);
    if let Some(position) = edge.purges {
        assert_eq!(Position::parse(&position.to_string()), Some(position));
        assert!(position.includes(&position));
    }
}

fn answer(bytes: &[u8]) {
    if let Ok(info) = str::from_utf8(bytes) {
        let facts = StoreFacts::of_info(info);
        assert!(facts.policy.is_none_or(|policy| !policy.contains(char::is_control)));
    }
    let Ok(answer) = redis::parse_redis_value(bytes) else { return };
    let entries = stream_entries(&answer);
    let most = list_of(&answer)
        .first()
        .and_then(|stream| list_of(stream).get(1))
        .map_or(0, |all| list_of(all).len());
    assert!(entries.len() <= most);
    for (id, _) in entries {
        assert_eq!(EntryId::parse(&id.to_string()), Some(id));
    }
}

fn sealed(bytes: &[u8]) {
    let Some(sealer) = Sealer::new(&Secret::new(vec![7; 32])) else { return };
    assert!(sealer.open(Purpose::Session, &[], bytes).is_none(), "made up");
    let Some((place, plain)) = bytes.split_first() else { return };
    let Some(mut record) = sealer.seal(Purpose::Session, &[plain], plain) else { return };
    let opened = |record: &[u8]| sealer.open(Purpose::Session, &[plain], record);
    assert!(opened(&record).is_some_and(|found| found.expose() == plain));
    let place = usize::from(*place) % record.len();
    record[place] ^= 1;
    assert!(opened(&record).is_none());
}
