//! Hits in memory, as many as the argument says, to count instructions with
//! `valgrind --tool=callgrind target/release/examples/hit 20000`.

use std::error::Error;
use std::sync::Arc;
use std::time::SystemTime;

use penstock_cache::{
    Budget, Index, IndexEntry, MemoryTier, Object, Restored, SliceClaim, TierLimits, Tiers,
};

fn main() -> Result<(), Box<dyn Error>> {
    let hits: u64 = std::env::args().nth(1).ok_or("how many hits?")?.parse()?;
    let directory = tempfile::tempdir_in("/dev/shm")?;
    let limits = TierLimits { bytes: 1 << 20, slice_bytes: 1 << 16, scrub_bytes_per_second: 0 };
    let (memory, _) = MemoryTier::open(directory.path(), limits, SystemTime::now())?;
    let tiers = Tiers::new(memory, None);
    let index = Index::new(Arc::new(Budget::new(64 << 20)), Restored::default());
    for number in 0..100_u8 {
        let IndexEntry::Claimed(claim) = index.get_or_claim(&[number; 16]) else { continue };
        let object = Object::new(&[number; 16], (), Some(1000), Arc::clone(&tiers));
        claim.keep(&object);
        if let SliceClaim::Missing(mut fill) = object.claim_slice(0) {
            fill.append(&[number; 1000])?;
            fill.finish();
        }
    }
    for number in 0..hits {
        let key = [u8::try_from(number % 100)?; 16];
        let IndexEntry::Known(object) = index.get_or_claim(&key) else { return Err("no hit".into()) };
        let SliceClaim::Ready(lease) = object.claim_slice(0) else { return Err("no slice".into()) };
        let extent = lease.extent(0..lease.length()).ok_or("no bytes")?;
        object.count_leased_request(0, &lease);
        if extent.len != 1000 {
            return Err("wrong length".into());
        }
    }
    Ok(())
}
