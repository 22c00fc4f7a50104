//! Which node of a cluster owns an object: rendezvous hashing with weights, bounded load, and what a node remembers of
//! the others. Nothing here opens a socket or reads a clock: time is an argument.
//!
//! ```
//! use penstock_cluster::{Node, Ring, block_of};
//!
//! let ring = Ring::new([("edge1", 1), ("edge2", 1), ("edge3", 2)].map(|(name, weight)| Node::new(name, weight)));
//! // The key is a digest of site and target; a large object has an owner for each block of it.
//! let rank = ring.rank(&[7; 16], block_of(0));
//! assert_eq!(rank.len(), 3, "the owner, then those who take its share when it is away");
//! ```
#![forbid(unsafe_code)]

mod latency;
mod load;
mod popularity;
mod ring;
mod roster;

pub use latency::Latency;
pub use load::{Load, LoadLimits, first_below_bound};
pub use popularity::Popularity;
pub use ring::{BLOCK_BYTES, Key, Node, Ring, block_of};
pub use roster::{Member, Roster};
