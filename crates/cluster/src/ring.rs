//! Rendezvous hashing with weights (highest random weight): each node has a score for each block of an object, and the
//! node with the highest score owns it.
//!
//! Every node computes the same scores from the same names and weights. When a node goes, the blocks that it owned go to
//! the node with the next score, and no others move.

/// Digest that identifies an object: its site and its target.
pub type Key = [u8; 16];

/// Bytes of an object that have one owner. A film of 4 GiB so has 64 owners, and does not fill one disk.
pub const BLOCK_BYTES: u64 = 64 << 20;

/// The block of an object that a byte lies in.
pub fn block_of(byte: u64) -> u64 {
    byte / BLOCK_BYTES
}

/// A node as the ring sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name, the same on all nodes.
    pub name: String,
    /// Its share relative to the others; a node of weight 0 owns nothing.
    pub weight: u32,
}

impl Node {
    /// A node with this name and weight.
    pub fn new(name: impl Into<String>, weight: u32) -> Self {
        Self { name: name.into(), weight }
    }
}

/// The nodes of a cluster.
#[derive(Clone, Debug)]
pub struct Ring {
    nodes: Vec<Node>,
    /// Hash of each node's name.
    seeds: Vec<u64>,
}

impl Ring {
    /// A ring of these nodes. A node is later named by its place among them.
    pub fn new(nodes: impl IntoIterator<Item = Node>) -> Self {
        let nodes: Vec<Node> = nodes.into_iter().collect();
        let seeds = nodes.iter().map(|node| hash_of_name(&node.name)).collect();
        Self { nodes, seeds }
    }

    /// The nodes in the order in which they were given.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Places of the nodes that may have a block: its owner first, then each the substitute of the one before.
    pub fn rank(&self, key: &Key, block: u64) -> Vec<usize> {
        self.rank_among(key, block, 0..self.nodes.len(), |node| node.weight)
    }

    /// The same among some nodes only, each with the same share.
    pub fn rank_evenly(&self, key: &Key, block: u64, among: &[usize]) -> Vec<usize> {
        let known = among.iter().copied().filter(|place| *place < self.nodes.len());
        self.rank_among(key, block, known, |_| 1)
    }

    fn rank_among(
        &self,
        key: &Key,
        block: u64,
        among: impl Iterator<Item = usize>,
        weight: impl Fn(&Node) -> u32,
    ) -> Vec<usize> {
        let object = hash_of_block(key, block);
        let mut scored: Vec<(f64, usize)> = among
            .filter(|place| weight(&self.nodes[*place]) > 0)
            .map(|place| (score(self.seeds[place] ^ object, weight(&self.nodes[place])), place))
            .collect();
        // Names break ties, so that the order of the nodes in a configuration does not matter.
        scored.sort_by(|one, other| {
            let names = || self.nodes[one.1].name.cmp(&self.nodes[other.1].name);
            other.0.total_cmp(&one.0).then_with(names)
        });
        scored.into_iter().map(|(_, place)| place).collect()
    }
}

/// The score of a node: an exponentially distributed number scaled by the weight, so that each node wins in proportion to
/// its weight.
fn score(hash: u64, weight: u32) -> f64 {
    // 53 bits, in (0, 1): never 0, whose logarithm is infinite, and never 1, whose logarithm is 0.
    let uniform = ((mixed(hash) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    -f64::from(weight) / uniform.ln()
}

fn hash_of_block(key: &Key, block: u64) -> u64 {
    let (low, high) = key.split_at(8);
    let half = |bytes: &[u8]| bytes.iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
    mixed(half(low) ^ mixed(half(high) ^ mixed(block)))
}

fn hash_of_name(name: &str) -> u64 {
    name.bytes().fold(0x9e37_79b9_7f4a_7c15, |hash, byte| mixed(hash ^ u64::from(byte)))
}

/// The finalizer of SplitMix64: each bit of the result depends on all bits of the argument.
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use penstock_sys::digest::sha256;

    use super::*;

    fn key(number: u32) -> Key {
        let mut key = Key::default();
        key.copy_from_slice(&sha256(&[b"site", &number.to_be_bytes()])[..16]);
        key
    }

    fn nodes(weights: impl IntoIterator<Item = u32>) -> Vec<Node> {
        let named = weights.into_iter().enumerate();
        named.map(|(number, weight)| Node::new(format!("edge{number}"), weight)).collect()
    }

    fn owner<'r>(ring: &'r Ring, key: &Key) -> &'r str {
        &ring.nodes()[ring.rank(key, 0)[0]].name
    }

    /// Objects of each node.
    fn shares(ring: &Ring, objects: u32) -> Vec<u32> {
        let mut shares = vec![0; ring.nodes().len()];
        for number in 0..objects {
            shares[ring.rank(&key(number), 0)[0]] += 1;
        }
        shares
    }

    #[test]
    fn a_hundred_nodes_have_nearly_the_same_share() {
        let ring = Ring::new(nodes([1; 100]));
        let shares = shares(&ring, 50_000);
        let most = *shares.iter().max().unwrap();
        assert!(f64::from(most) <= 1.15 * 500.0, "{most} objects instead of 500");
    }

    #[test]
    fn shares_are_in_proportion_to_weights() {
        let ring = Ring::new(nodes([1, 2, 3, 0]));
        let shares = shares(&ring, 60_000);
        for (share, expected) in shares.iter().zip([10_000, 20_000, 30_000, 0]) {
            assert!(share.abs_diff(expected) <= expected / 20, "{shares:?}");
        }
    }

    #[test]
    fn only_the_share_of_a_lost_node_moves() {
        let all = Ring::new(nodes([1; 100]));
        let left = Ring::new(nodes([1; 100]).into_iter().filter(|node| node.name != "edge42"));
        let mut moved = 0;
        for number in 0..10_000 {
            let key = key(number);
            let rank = all.rank(&key, 0);
            let before = &all.nodes()[rank[0]].name;
            let after = owner(&left, &key);
            if before == "edge42" {
                moved += 1;
                assert_eq!(after, all.nodes()[rank[1]].name, "the substitute is the next in rank");
            } else {
                assert_eq!(after, before);
            }
        }
        assert!((50..=150).contains(&moved), "{moved} of 10,000 objects had edge42 as their owner");
    }

    #[test]
    fn the_share_of_a_lost_node_goes_to_all_others() {
        let ring = Ring::new(nodes([1; 10]));
        let mut substitutes = [0; 10];
        for number in 0..20_000 {
            let rank = ring.rank(&key(number), 0);
            if rank[0] == 3 {
                substitutes[rank[1]] += 1;
            }
        }
        let others = substitutes.iter().enumerate().filter(|(place, _)| *place != 3);
        assert!(others.clone().all(|(_, count)| *count > 100), "{substitutes:?}");
    }

    #[test]
    fn the_order_of_the_nodes_does_not_matter() {
        let ring = Ring::new(nodes([1, 2, 3]));
        let turned = Ring::new(nodes([1, 2, 3]).into_iter().rev());
        let names = |ring: &Ring, key: &Key| -> Vec<String> {
            ring.rank(key, 5).into_iter().map(|place| ring.nodes()[place].name.clone()).collect()
        };
        for number in 0..100 {
            assert_eq!(names(&ring, &key(number)), names(&turned, &key(number)));
        }
    }

    #[test]
    fn blocks_of_an_object_have_owners_of_their_own() {
        let ring = Ring::new(nodes([1; 8]));
        let mut owners = [0; 8];
        for block in 0..400 {
            owners[ring.rank(&key(1), block)[0]] += 1;
        }
        assert!(owners.iter().all(|blocks| (20..=80).contains(blocks)), "{owners:?}");
        assert_eq!((block_of(BLOCK_BYTES - 1), block_of(BLOCK_BYTES)), (0, 1));
    }

    #[test]
    fn a_rank_among_some_nodes_ignores_weights() {
        let ring = Ring::new(nodes([1, 0, 0]));
        let mut first = [0; 3];
        for number in 0..1000 {
            let rank = ring.rank_evenly(&key(number), 0, &[1, 2, 7]);
            assert_eq!(rank.len(), 2);
            first[rank[0]] += 1;
        }
        assert!(first[0] == 0 && first[1] > 400 && first[2] > 400, "{first:?}");
    }

    /// Other versions of the program in the same cluster have to agree.
    #[test]
    fn ranks_stay_the_same() {
        let ring = Ring::new(nodes([1, 1, 1, 2, 2]));
        let ranks: Vec<_> = (0..4).map(|number| ring.rank(&key(number), 0)).collect();
        assert_eq!(ranks, STORED_RANKS);
    }

    const STORED_RANKS: [[usize; 5]; 4] =
        [[4, 3, 2, 1, 0], [4, 1, 0, 3, 2], [2, 3, 4, 1, 0], [3, 1, 4, 0, 2]];
}
