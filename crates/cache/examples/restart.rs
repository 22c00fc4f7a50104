//! How long a restart takes: fills a memory tier with small objects and with slices, opens it again, and prints times.

use std::error::Error;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use penstock_cache::{
    Budget, Index, IndexEntry, MemoryTier, Metadata, Object, SliceClaim, TierLimits, Tiers,
};

struct Head;

impl Metadata for Head {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[b'h'; 400]);
    }
}

#[expect(clippy::print_stdout, reason = "it is what this program is for")]
fn main() -> Result<(), Box<dyn Error>> {
    let number = |place| std::env::args().nth(place).and_then(|text| text.parse::<u32>().ok());
    let (small, large) = (number(1).unwrap_or(100_000), number(2).unwrap_or(1000));
    let directory = tempfile::tempdir_in("/dev/shm")?;
    let limits = TierLimits { bytes: 8 << 30, slice_bytes: 1 << 20, scrub_bytes_per_second: 0 };
    let open = || -> Result<_, Box<dyn Error>> {
        let begun = Instant::now();
        let (memory, restored) = MemoryTier::open(directory.path(), limits, SystemTime::now())?;
        println!("opened with {} slices in {:?}", restored.slices, begun.elapsed());
        Ok((Tiers::new(memory, None), Index::new(Arc::new(Budget::new(1 << 30)), restored)))
    };
    let (tiers, index) = open()?;
    for number in 0..small + large {
        let mut key = [0; 16];
        key[..4].copy_from_slice(&number.to_le_bytes());
        key[15] = number.to_le_bytes()[0];
        let IndexEntry::Claimed(claim) = index.get_or_claim(&key) else { continue };
        let length = if number < small { 1024 } else { 1 << 20 };
        let object = Object::new(&key, Head, Some(length), Arc::clone(&tiers));
        claim.keep(&object);
        if let SliceClaim::Missing(mut fill) = object.claim_slice(0) {
            fill.append(&vec![7; usize::try_from(length)?])?;
            fill.finish();
        }
    }
    tiers.preserve();
    drop((tiers, index));
    let (tiers, index) = open()?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let begun = Instant::now();
    for number in 0..small + large {
        let mut key = [0; 16];
        key[..4].copy_from_slice(&number.to_le_bytes());
        key[15] = number.to_le_bytes()[0];
        let object = runtime.block_on(index.restore(&key, &tiers, |_| Some(Head))).ok_or("it is lost")?;
        if let SliceClaim::Missing(fill) = object.claim_slice(0) {
            runtime.block_on(fill.restore()).map_err(|_| "its bytes are lost")?;
        }
        if number == 0 {
            println!("first object in {:?}", begun.elapsed());
        }
        if number + 1 == small {
            println!("all small ones in {:?}", begun.elapsed());
        }
    }
    println!("all in {:?}", begun.elapsed());
    Ok(())
}
