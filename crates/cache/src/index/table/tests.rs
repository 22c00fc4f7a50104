use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::SystemTime;

use super::*;
use crate::memory::{MemoryTier, TierLimits};
use crate::tiers::Tiers;

fn tiers() -> (tempfile::TempDir, Arc<Tiers>) {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let limits = TierLimits { bytes: 16 * 65_536, slice_bytes: 65_536, scrub_bytes_per_second: 0 };
    let (memory, _) = MemoryTier::open(directory.path(), limits, SystemTime::now()).unwrap();
    (directory, Tiers::new(memory, None))
}

fn key(number: u32) -> Key {
    let mut key = [0; 16];
    key[..4].copy_from_slice(&number.to_le_bytes());
    key
}

fn object(number: u32, tiers: &Arc<Tiers>) -> Arc<Object<()>> {
    Object::new(&key(number), (), Some(1), Arc::clone(tiers))
}

#[test]
fn a_table_that_grows_finds_each_object_until_it_is_removed() {
    let (_directory, tiers) = tiers();
    let table = Table::new(KeyHashing::default());
    for number in 0..5000 {
        table.insert(&object(number, &tiers));
        assert!(table.get(&key(number)).is_some());
    }
    assert!((0..5000).all(|number| table.get(&key(number)).is_some_and(|found| *found.key() == key(number))));
    assert!(table.get(&key(5000)).is_none());
    let mut seen = 0;
    table.for_each(|_| seen += 1);
    assert_eq!((seen, table.len()), (5000, 5000));
    for number in (0..5000).step_by(2) {
        assert!(table.remove(&key(number)).is_some());
        assert!(table.remove(&key(number)).is_none());
    }
    assert!((0..5000).all(|number| table.get(&key(number)).is_some() == (number % 2 == 1)));
    assert_eq!(table.len(), 2500);
}

#[test]
fn a_removed_object_keeps_no_other_alive() {
    let (_directory, tiers) = tiers();
    let table = Table::new(KeyHashing::default());
    let objects: Vec<_> = (0..200).map(|number| object(number, &tiers)).collect();
    objects.iter().for_each(|object| table.insert(object));
    let held = table.remove(&key(7)).unwrap();
    let others: Vec<_> =
        objects.iter().filter(|object| *object.key() != key(7)).map(Arc::downgrade).collect();
    drop((objects, table));
    assert!(others.iter().all(|other| other.upgrade().is_none()));
    drop(held);
}

#[test]
fn readers_without_a_lock_never_see_the_wrong_object() {
    let (_directory, tiers) = tiers();
    let table = Arc::new(Table::new(KeyHashing::default()));
    // Half of the objects stay, the others come and go while the table grows.
    (0..200).for_each(|number| table.insert(&object(2 * number, &tiers)));
    let done = Arc::new(AtomicBool::new(false));
    let readers = [0; 3].map(|_| {
        let (table, done) = (Arc::clone(&table), Arc::clone(&done));
        thread::spawn(move || {
            let mut found = 0_u64;
            while !done.load(Ordering::Relaxed) {
                for number in 0..400 {
                    if let Some(object) = table.get(&key(number)) {
                        assert_eq!(*object.key(), key(number));
                        found += 1;
                    }
                }
            }
            found
        })
    });
    for round in 0..20 {
        (0..200).for_each(|number| table.insert(&object(2 * number + 1, &tiers)));
        (0..200).for_each(|number| drop(table.remove(&key(2 * number + 1)).unwrap()));
        (0..200).for_each(|number| table.insert(&object(1000 + 200 * round + number, &tiers)));
    }
    done.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.join().unwrap() > 0);
    }
    assert!((0..200).all(|number| table.get(&key(2 * number)).is_some()));
}
