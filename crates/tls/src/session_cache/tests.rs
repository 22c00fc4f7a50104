use std::sync::Arc;

use super::*;

const LIMITS: SessionCacheLimits =
    SessionCacheLimits { sessions: 8, bytes: 1 << 20, lifetime_seconds: 100, shards: 2 };

/// Identifiers differ where the table, the shards and the check look.
fn id(number: u16) -> [u8; 32] {
    let mut id = [7; 32];
    id[..2].copy_from_slice(&number.to_le_bytes());
    id[8..10].copy_from_slice(&number.to_le_bytes());
    id
}

fn key<'k>(id: &'k [u8], name: &'k str) -> SessionKey<'k> {
    SessionKey { id, server_name: Some(name) }
}

fn hit(text: &[u8]) -> CacheLookup {
    CacheLookup::Hit(Secret::new(text.to_vec()))
}

#[test]
fn a_session_is_found_until_it_expires() {
    let cache = SessionCache::new(LIMITS);
    cache.insert(key(&id(1), "a.test"), b"one", 10);
    assert_eq!(cache.find(key(&id(1), "a.test"), 10), hit(b"one"));
    assert_eq!(cache.find(key(&id(1), "a.test"), 109), hit(b"one"));
    assert_eq!(cache.find(key(&id(1), "a.test"), 110), CacheLookup::Expired);
    assert_eq!(cache.find(key(&id(1), "a.test"), 110), CacheLookup::Miss, "expired and removed");
    let counts = cache.counts();
    assert_eq!((counts.hits, counts.expired, counts.misses, counts.stored), (2, 1, 1, 1));
    assert_eq!((counts.sessions, counts.bytes, counts.evicted), (0, 0, 0));
}

#[test]
fn a_session_is_of_no_use_under_another_name() {
    let cache = SessionCache::new(LIMITS);
    cache.insert(key(&id(1), "a.test"), b"one", 0);
    assert_eq!(cache.find(key(&id(1), "b.test"), 0), CacheLookup::Miss);
    assert_eq!(cache.find(SessionKey { id: &id(1), server_name: None }, 0), CacheLookup::Miss);
    assert_eq!(cache.find(key(&id(1), "A.Test"), 0), hit(b"one"), "names compare without case");
}

#[test]
fn an_identifier_is_compared_as_a_whole() {
    let cache = SessionCache::new(LIMITS);
    cache.insert(key(&id(1), "a.test"), b"one", 0);
    let mut other = id(1);
    other[31] ^= 1;
    assert_eq!(cache.find(key(&other, "a.test"), 0), CacheLookup::Miss);
}

#[test]
fn identifiers_of_foreign_length_are_misses() {
    let cache = SessionCache::new(LIMITS);
    for length in [0, 1, 8, 31, 33, 255] {
        let strange = vec![0; length];
        cache.insert(key(&strange, "a.test"), b"one", 0);
        assert_eq!(cache.find(key(&strange, "a.test"), 0), CacheLookup::Miss, "{length} bytes");
    }
    assert_eq!(cache.counts().sessions, 0);
}

#[test]
fn the_oldest_sessions_are_evicted_above_the_count_limit() {
    let cache = SessionCache::new(SessionCacheLimits { shards: 1, sessions: 3, ..LIMITS });
    for number in 0..5 {
        cache.insert(key(&id(number), "a.test"), b"some", 0);
    }
    let found = |number| cache.find(key(&id(number), "a.test"), 0) != CacheLookup::Miss;
    assert_eq!([0, 1, 2, 3, 4].map(found), [false, false, true, true, true]);
    assert_eq!((cache.counts().sessions, cache.counts().evicted), (3, 2));
}

#[test]
fn the_oldest_sessions_are_evicted_above_the_byte_limit() {
    let cache = SessionCache::new(SessionCacheLimits { shards: 1, bytes: 1000, sessions: 100, ..LIMITS });
    for number in 0..10 {
        cache.insert(key(&id(number), "a.test"), &[0; 300], 0);
        assert!(cache.counts().bytes <= 1000);
    }
    assert_eq!((cache.counts().sessions, cache.counts().evicted), (2, 8));
    cache.insert(key(&id(99), "a.test"), &[0; 1000], 0);
    assert_eq!(cache.find(key(&id(99), "a.test"), 0), CacheLookup::Miss, "larger than the whole cache");
    assert_eq!(cache.counts().sessions, 2, "and no session was evicted for it");
}

#[test]
fn expired_sessions_are_swept() {
    let cache = SessionCache::new(LIMITS);
    for number in 0..8 {
        cache.insert(key(&id(number), "a.test"), b"some", 0);
    }
    cache.sweep(99);
    cache.sweep(99);
    assert_eq!(cache.counts().sessions, 8);
    cache.sweep(100);
    cache.sweep(100);
    assert_eq!((cache.counts().sessions, cache.counts().bytes, cache.counts().evicted), (0, 0, 0));
}

#[test]
fn an_identifier_that_comes_twice_has_the_newer_session() {
    let cache = SessionCache::new(LIMITS);
    cache.insert(key(&id(1), "a.test"), b"one", 0);
    cache.insert(key(&id(1), "a.test"), b"another", 5);
    assert_eq!(cache.find(key(&id(1), "a.test"), 5), hit(b"another"));
    let bytes = cache.counts().bytes;
    assert_eq!((cache.counts().sessions, bytes), (1, (36 + 7 + OVERHEAD_BYTES) as u64));
}

#[test]
fn workers_share_it() {
    let cache = Arc::new(SessionCache::new(SessionCacheLimits { sessions: 4000, shards: 16, ..LIMITS }));
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let cache = Arc::clone(&cache);
            std::thread::spawn(move || {
                for number in thread * 1000..thread * 1000 + 200 {
                    cache.insert(key(&id(number), "a.test"), &number.to_le_bytes(), 0);
                    let expected = hit(&number.to_le_bytes());
                    assert_eq!(cache.find(key(&id(number), "a.test"), 0), expected);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!((cache.counts().sessions, cache.counts().hits), (800, 800));
}
