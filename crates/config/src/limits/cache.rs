//! Limits of the cache.

use super::bytes::{GIB, KIB, MIB};

/// Bytes of a slice: what is asked of an origin, kept and dropped as one.
pub const SLICE_BYTES: u32 = 1024 * 1024;

/// The smallest slice that a configuration may ask for.
pub const SLICE_BYTES_MIN: u64 = 64 * KIB;

/// The largest slice: a fill that fails loses no more than this.
pub const SLICE_BYTES_MAX: u64 = 16 * MIB;

/// Where the memory tier is unless another directory is named.
pub const MEMORY_TIER_DIRECTORY: &str = "/dev/shm/penstock";

/// How much memory that tier takes unless more or less is asked for.
pub const MEMORY_TIER_BYTES: u64 = GIB;

/// The memory tier that a server has while the process before it drains and keeps the tiers: enough for what viewers ask
/// for together, and little beside the tier of that process.
pub const WAITING_TIER_BYTES: u64 = 256 * MIB;

/// How often a server then looks whether that process has ended.
pub const WAITING_TIER_MILLISECONDS: u64 = 50;

/// How long it waits before it tries again, if it could not use the tiers then.
pub const WAITING_TIER_RETRY_SECONDS: u64 = 5;

/// How long a process that succeeds another one may take until it accepts connections.
pub const SUCCESSOR_START_SECONDS: u64 = 60;

/// How long a process that was succeeded lets each connection end with its next response, at least; `limits.lame_duck` may be
/// longer.
pub const SUCCEEDED_SECONDS: u64 = 5;

/// For how long a process without connections still takes back what it has handed over, if its successor fails.
pub const SUCCESSOR_TRIAL_SECONDS: u64 = 1;

/// How often a process tells its successor what it still reads of the memory tier.
pub const BUSY_SLOTS_MILLISECONDS: u64 = 1000;

/// The least a memory tier can work with, in slices: readers and fills hold some of them.
pub const MEMORY_TIER_SLICES_MIN: u64 = 16;

/// The most memory that a configuration may give away.
pub const MEMORY_TIER_BYTES_MAX: u64 = 4096 * GIB;

/// Percent of the memory that the control groups of the process leave it, above which the size of the memory tier is warned of.
pub const MEMORY_TIER_PERCENT_OF_LIMIT: u64 = 80;

/// Bytes that the scrub of the memory tier compares with their checksums in a second: 3 ms of one core.
pub const MEMORY_SCRUB_BYTES_PER_SECOND: u64 = 16 * MIB;

/// Directories of the disk tier.
pub const DISK_TIERS_MAX: usize = 16;

/// The least a directory of the disk tier can work with, in slices: four segments.
pub const DISK_TIER_SLICES_MIN: u64 = 16;

/// The most that a directory of the disk tier may take.
pub const DISK_TIER_BYTES_MAX: u64 = 1024 * 1024 * GIB;

/// Segments that a directory of the disk tier is cut into, where they are not too small or too large then: with each of
/// them goes that part of what is kept.
pub const DISK_SEGMENTS: u64 = 64;

/// The least slices that fit into a segment.
pub const DISK_SEGMENT_SLICES_MIN: u64 = 4;

/// The largest segment: what is written is on the disk for certain once its segment is full.
pub const DISK_SEGMENT_BYTES_MAX: u64 = 256 * MIB;

/// Threads of each disk that read.
pub const DISK_READERS: usize = 4;

/// Reads of each disk that wait beyond those under way; what comes then is asked of the origin.
pub const DISK_QUEUED_READS: usize = 1024;

/// Bytes of slices that wait to be written; what comes then is written when it is asked for once more.
pub const DISK_WRITES_IN_FLIGHT_BYTES: u64 = 64 * MIB;

/// The part of the memory tier that may wait to be written, if that is less: an eighth.
pub const DISK_WRITES_MEMORY_SHARE: u64 = 8;

/// Segments of each disk whose files are open.
pub const DISK_OPEN_SEGMENTS: usize = 64;

/// Bytes that each disk's scrub looks at in a second.
pub const DISK_SCRUB_BYTES_PER_SECOND: u64 = 4 * MIB;

/// Reads that fail one after the other before a disk is taken out of service.
pub const DISK_READ_ERRORS_MAX: u32 = 3;

/// Part of the size of the memory tier that the program may use on top, in its own memory, for what it knows of objects:
/// their descriptions, what they vary by, and the index of the disks. Above it stale objects without slices are evicted
/// first, then the oldest. An eighth is 512 bytes for each page of the tier, so that small objects can fill it.
pub const KNOWN_BYTES_SHARE: u64 = 8;

/// The least for that: some 100,000 objects.
pub const KNOWN_BYTES_MIN: u64 = 64 * MIB;

/// The share of a whole slice on a disk: its entry in the index takes at most 100 bytes, and the index may take three
/// quarters.
pub const KNOWN_BYTES_PER_DISK_SLICE: u64 = 134;

/// Bytes that the program may use for what it knows of objects, for tiers of these sizes.
pub const fn known_bytes(memory_bytes: u64, disk_bytes: u64, slice_bytes: u32) -> u64 {
    let share = memory_bytes / KNOWN_BYTES_SHARE;
    let least = if share > KNOWN_BYTES_MIN { share } else { KNOWN_BYTES_MIN };
    least + disk_bytes / slice_bytes as u64 * KNOWN_BYTES_PER_DISK_SLICE
}

/// How long an answer is fresh whose origin does not say.
pub const DEFAULT_TTL_SECONDS: u64 = 60;

/// How long a 404 is fresh whose origin does not say: the next segment of a live stream is one until it exists.
pub const MISSING_TTL_SECONDS: u64 = 1;

/// How long behind its freshness a configuration may have a response used, in seconds: 30 days.
pub const STALE_SECONDS_MAX: u64 = 30 * 24 * 3600;

/// The longest freshness that a configuration may give: a year, as long as HTTP caches go.
pub const TTL_SECONDS_MAX: u64 = 365 * 24 * 3600;

/// A manifest that is understood; a longer one is an object like any other, and fresh for a moment.
pub const MANIFEST_BYTES: u64 = 4 * MIB;

/// How long a manifest may take from its first byte to its last; it is sent to clients only when it is complete.
pub const MANIFEST_SECONDS: u64 = 10;

/// How long something is fresh that is called a manifest and cannot be read as one.
pub const UNREAD_MANIFEST_MILLISECONDS: u64 = 1000;

/// How long behind its freshness a live manifest stands in for an origin that fails, unless the origin says otherwise.
/// After that its segments are gone.
pub const LIVE_STALE_IF_ERROR_SECONDS: u64 = 60;

/// How long viewers who could have a stale live manifest wait for the fetch of a newer one, at most.
pub const LIVE_PATIENCE_MILLISECONDS: u64 = 2000;

/// How much longer than the longest hold of a playlist (three target durations) its origin has to answer; so that it is
/// the origin who says that it took too long.
pub const HOLD_GRACE_SECONDS: u64 = 2;

/// Requests that wait for one fetch or begin to read what it brings; more are answered with 503. Without this limit each of
/// them would become a request to the origin.
pub const WAITERS_PER_FILL: usize = 50_000;

/// The part of these places that is taken before networks are looked at: a half. Clients behind one address are many.
pub const WAITERS_CROWD_SHARE: usize = 2;

/// The part of these places that the requests of one client network may take from then on: a quarter.
pub const WAITERS_NETWORK_SHARE: usize = 4;

/// The most that a configuration may allow: more than connections make no sense.
pub const WAITERS_PER_FILL_MAX: u64 = 10_000_000;

/// How far fills run ahead of their fastest reader, in slices: where slices are asked for one by one, and where all come
/// at once and drive out something else.
pub const FILL_WINDOW_SLICES: u32 = 4;

/// Slices that a fill continues behind the position of its last reader after that reader has left: enough to finish a
/// segment for the next client, not a film.
pub const FILL_ALONE_SLICES: u64 = 16;

/// How long the fill then waits for a new reader.
pub const FILL_ALONE_MILLISECONDS: u64 = 2000;

/// Readers of one fill that are woken for every piece of it. With more, pieces that come together wake them once.
pub const FILL_FEW_READERS: usize = 8;

/// Bytes for which even many readers are woken, though more is there already: half of what one of them sends at once.
pub const FILL_NOTIFY_BYTES: usize = 256 * 1024;

/// Bytes of a body for one client alone that wait for that client, and as many that are being sent. A piece that one
/// read of the origin's connection brought may be as large; another is on its way here, and one in that connection.
pub const RELAY_BYTES: u32 = 512 * 1024;

/// The same in pieces: chunks can be small.
pub const RELAY_PIECES: usize = 32;

/// Bytes of the response to an unsafe request that are still read after its client has left, so that the origin is not
/// interrupted.
pub const RELAY_UNREAD_BYTES: u64 = 16 * MIB;

/// How long a client that takes no byte keeps bytes in memory that others need: a slice that was evicted while it was
/// sent, or bytes that went past the cache.
pub const CLIENT_HOLDS_MILLISECONDS: u64 = 5000;

/// The same while such bytes are a quarter of the memory tier, or half of [`past_cache_bytes`].
pub const CLIENT_HOLDS_SHORT_MILLISECONDS: u64 = 1000;

/// How often that is checked.
pub const CLIENT_HOLDS_CHECK_MILLISECONDS: u64 = 500;

/// Bytes that one request of a reader brings past a cache without space.
pub const PAST_CACHE_PART_BYTES: u64 = 256 * KIB;

/// How long a reader waits for memory for such bytes. Then its response is an error, or ends.
pub const PAST_CACHE_WAIT_MILLISECONDS: u64 = 20_000;

/// Memory for bytes that go past a cache without space, for all readers together: a quarter of the memory tier, and at
/// most 64 MiB.
pub const fn past_cache_bytes(memory: u64) -> u64 {
    let (least, most, share) = (4 * PAST_CACHE_PART_BYTES, 64 * MIB, memory / 4);
    if share < least {
        least
    } else if share > most {
        most
    } else {
        share
    }
}

/// How long the fill of an object that can only be fetched whole waits for space.
pub const FILL_SPACE_MILLISECONDS: u64 = 5000;

/// How long a fill waits for readers that take nothing. Then it ends, and the next byte that a reader misses begins
/// another one. An object that can only be fetched whole has no such limit.
pub const FILL_STALLED_MILLISECONDS: u64 = 10_000;

/// Segments fetched ahead of a viewer.
pub const PREFETCH_SEGMENTS: usize = 1;

/// The most segments that a configuration may have fetched ahead.
pub const PREFETCH_SEGMENTS_MAX: u64 = 8;

/// Segments that are being fetched ahead at the same time, for all workers together.
pub const PREFETCHES: usize = 64;

/// Segments of one site whose successor is known; some 200 bytes each.
pub const SUCCESSORS: usize = 64 * 1024;

/// Segments of a playlist that has ended, from its start.
pub const SUCCESSORS_OF_A_PLAYLIST: usize = 16 * 1024;

/// Segments of a playlist that still grows, from its end; those before were read when they were its end.
pub const SUCCESSORS_WHILE_LIVE: usize = 64;

/// Faults of fills that an object remembers, each for one slice.
pub const FILL_FAULTS: usize = 16;

/// Time in milliseconds before a fill asks its origin for the rest of a body that broke off; twice as long after each
/// attempt that brought nothing.
pub const FILL_RETRY_MILLISECONDS: u64 = 20;

const _: () = assert!(FILL_WINDOW_SLICES as u64 <= FILL_ALONE_SLICES);
const _: () = assert!((FILL_WINDOW_SLICES as u64) < MEMORY_TIER_SLICES_MIN);

/// How long a 404 in the directory of a live stream is fresh, whatever its origin says: the next segment is one until
/// it exists.
pub const LIVE_MISSING_MILLISECONDS: u64 = 250;

/// How long a directory counts as that of a live stream after its manifest was last read.
pub const LIVE_DIRECTORY_SECONDS: u64 = 60;

/// Directories of live streams that one site knows.
pub const LIVE_DIRECTORIES: usize = 16 * 1024;

/// Directories above a missing file that are looked up among them.
pub const LIVE_DIRECTORY_LEVELS: usize = 8;

const _: () = assert!(LIVE_MISSING_MILLISECONDS < MISSING_TTL_SECONDS * 1000);
const _: () = assert!(WAITING_TIER_BYTES >= MEMORY_TIER_SLICES_MIN * SLICE_BYTES_MAX);
const _: () = assert!(SLICE_BYTES as u64 >= SLICE_BYTES_MIN && SLICE_BYTES as u64 <= SLICE_BYTES_MAX);
const _: () = assert!(MEMORY_TIER_BYTES >= MEMORY_TIER_SLICES_MIN * SLICE_BYTES_MAX);

const _: () = assert!(
    DISK_TIER_SLICES_MIN >= 4 * DISK_SEGMENT_SLICES_MIN,
    "a disk has space for a few segments, of which the oldest is evicted"
);

const _: () =
    assert!(MEMORY_TIER_SLICES_MIN > DISK_WRITES_MEMORY_SHARE, "the smallest memory tier lets a slice wait");

const _: () = assert!(
    DISK_SEGMENT_BYTES_MAX >= DISK_SEGMENT_SLICES_MIN * SLICE_BYTES_MAX,
    "the largest slices fit into a segment"
);
