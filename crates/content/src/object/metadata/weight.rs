//! How much memory an object takes that is kept: counted, so that it does not grow by and by.

use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant, SystemTime};

use penstock_cache::{
    Budget, Index, IndexEntry, MemoryTier, Object, Restored, SliceClaim, TierLimits, Tiers,
};
use penstock_config::{CachePolicy, FieldRules, HttpOrigin};
use penstock_http::OriginUrl;
use penstock_sys::heap::{Counting, live_bytes};

use super::*;
use crate::site::key_of;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const LINES: &str = "date: Sat, 21 Nov 2026 20:05:00 GMT\r\ncontent-type: application/octet-stream\r\nlast-modified: Sat, 21 Nov 2026 20:04:16 GMT\r\n\
    etag: \"6740f1c0-400\"\r\ncache-control: max-age=3600\r\n";

fn metadata(target: &str, site: &Arc<HttpSite>) -> ObjectMetadata {
    let lifetime = Lifetime { fresh: Duration::from_secs(3600), ..NEVER_FRESH };
    ObjectMetadata {
        status: 200,
        traits: Traits::RANGES.with(Traits::STORED, true),
        server: 0,
        texts: Texts::new(&TextParts {
            fields: &Fields::from_lines(LINES.as_bytes()).unwrap(),
            target,
            tags: "",
            content_type: "application/octet-stream",
            etag: "\"6740f1c0-400\"",
            modified: "Sat, 21 Nov 2026 20:04:16 GMT",
            received: 1_795_291_500,
        }),
        site: Arc::clone(site),
        judged: AtomicU64::new(0),
        readers: ReaderThrottle::default(),
        lifetime: SharedLifetime::new(&StoredLifetime::new(Instant::now(), &lifetime)),
        rare: OnceBox::new(),
    }
}

#[test]
fn a_small_object_that_is_kept_takes_less_than_its_share_of_the_budget() {
    const OBJECTS: u64 = 5000;
    // Less than the share of one page of the tier, 4096 / `KNOWN_BYTES_SHARE`, without which small objects could not fill it.
    const BYTES_MAX: u64 = 400;
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let limits = TierLimits { bytes: OBJECTS * 8192, slice_bytes: 64 * 1024, scrub_bytes_per_second: 0 };
    let (memory, _) = MemoryTier::open(directory.path(), limits, SystemTime::now()).unwrap();
    let tier = Tiers::new(memory, None);
    let index = Index::new(Arc::new(Budget::new(1 << 30)), Restored::default());
    let origin = HttpOrigin::new(vec![(OriginUrl::parse("http://127.0.0.1:9/v").unwrap(), 1)]);
    let site = HttpSite::new(
        &origin,
        &CachePolicy::default(),
        &[],
        [].into_iter(),
        None,
        &FieldRules::default(),
        ("", &[]),
    );
    let keep = |number: u64| {
        let target = format!("/tiny/1-{number}");
        let key = key_of("", &target, &[], &[]);
        let IndexEntry::Claimed(claim) = index.get_or_claim(&key) else { panic!("{number} is there") };
        let object = Object::new(&key, metadata(&target, &site), Some(1024), Arc::clone(&tier));
        let SliceClaim::Missing(mut fill) = object.claim_slice(0) else { panic!("{number} is filled") };
        claim.keep(&object);
        fill.append(&[7; 1024]).unwrap();
        fill.finish();
        // A client reads it.
        object.metadata().readers.enter();
        object.metadata().readers.leave();
        object.count_request(0);
    };
    (0..OBJECTS / 20).for_each(keep);
    let before = live_bytes();
    (OBJECTS / 20..OBJECTS).for_each(keep);
    let each = (live_bytes() - before).unsigned_abs() as u64 / (OBJECTS - OBJECTS / 20);
    assert_eq!(tier.counters().slices, OBJECTS, "all are there");
    eprintln!("{each} bytes, {} of them for the object itself", size_of::<Object<ObjectMetadata>>());
    // Less would mean that nothing was counted.
    assert!((200..BYTES_MAX).contains(&each), "{each} bytes");
}
