//! Limits of clusters.

/// Nodes of a cluster.
pub const CLUSTER_NODES: usize = 64;

/// The largest weight of a node.
pub const CLUSTER_WEIGHT_MAX: u64 = 1000;

/// Of the memory tier, the part that copies of what other nodes own may have while others need the space, in percent.
pub const CLUSTER_COPIES_PERCENT: u64 = 25;

/// Length of a node's name in bytes.
pub const CLUSTER_NAME_BYTES: usize = 64;

/// From the first packet to a connection with another node, TLS included.
pub const PEER_CONNECT_MILLISECONDS: u64 = 1000;

/// How long a node that is asked may answer nothing before it is asked whether it is alive: the 95th percentile of its
/// answers, within these bounds.
pub const PEER_PATIENCE_MILLISECONDS_MIN: u64 = 50;

/// See [`PEER_PATIENCE_MILLISECONDS_MIN`].
pub const PEER_PATIENCE_MILLISECONDS_MAX: u64 = 1000;

/// How long a node may take to say that it is alive. Past that its requests go to the next node.
pub const PEER_PROBE_MILLISECONDS: u64 = 1000;

/// How often each node is asked whether it is alive while nothing else is asked of it; also the longest time that the
/// answer may take.
pub const PEER_CHECK_MILLISECONDS: u64 = 1000;

/// Answers in a row after which a node that was out is in again.
pub const PEER_HEALTHY_AFTER: u32 = 2;

/// Nodes that one request may ask in turn before it goes to the origin.
pub const PEER_ATTEMPTS: usize = 2;

/// From a request to another node to the head of its response. The node itself has the limits of the origin; one that is
/// alive is waited for.
pub const PEER_FIRST_BYTE_SECONDS: u64 = 600;

/// Pause before the next request to a node that answers probes but has answered no request for longer than its origin may
/// take.
pub const PEER_STALLED_SECONDS: u64 = 60;

/// Connections to one other node, of all workers together.
pub const PEER_CONNECTIONS: usize = 4096;

/// Idle connections that one worker keeps to one other node.
pub const PEER_IDLE_CONNECTIONS: usize = 64;

/// Load of a node, as a percentage of the mean of all nodes, above which new objects go to the next in rank.
pub const PEER_LOAD_PERCENT: u64 = 125;

/// Requests of other nodes under way that are never too many for one node.
pub const PEER_LOAD_ALWAYS: u64 = 256;

/// How long an object of another node is remembered: a second request within that time has it kept here.
pub const PEER_POPULAR_SECONDS: u64 = 60;

/// Objects that are remembered so, of each of two generations; 16 bytes each.
pub const PEER_POPULAR_OBJECTS: usize = 65_536;

/// How long after its start, or after a node came or went, an owner asks the next in rank whether it has an object before
/// it asks the origin.
pub const PEER_TAKEOVER_SECONDS: u64 = 600;

/// From a purge to the last confirmation of another node, for each of the rounds.
pub const PEER_PURGE_SECONDS: u64 = 5;

/// The CDN-Loop of a request that goes on to the next server; a longer one is replaced.
pub const CDN_LOOP_BYTES: usize = 4096;

/// How often a request of another node that waits here is compared with what this node asks others for.
pub const PEER_CYCLE_CHECK_MILLISECONDS: u64 = 100;

/// How long after a purge an owner does not ask its substitute for objects: longer than all rounds of a purge.
pub const PEER_PURGED_SECONDS: u64 = 30;

/// Open connections of clients and nodes that are never too many for one node; see [`PEER_LOAD_ALWAYS`].
pub const PEER_LOAD_CONNECTIONS: u64 = 4096;

/// Share of the time that the workers of a node work, in thousandths, that is never too much for it.
pub const PEER_LOAD_BUSY_THOUSANDTHS: u64 = 700;

/// Blocks of objects that a node asks other nodes for at once; those beyond that it asks the origin for. About 64 bytes
/// each.
pub const PEER_OUTGOING: usize = 65_536;

/// Bytes of the names of nodes that have missed a purge, as other nodes are told them.
pub const PEER_MISSING_BYTES: usize = 4096;

/// Purges kept for nodes that have not confirmed them; beyond that they become one of everything.
pub const PEER_MISSED_PURGES: usize = 256;

/// Bytes of these purges.
pub const PEER_MISSED_PURGE_BYTES: usize = 65_536;

/// How long they are kept.
pub const PEER_MISSED_SECONDS: u64 = 24 * 3600;

/// The longest time between two attempts to repeat them while a node answers and does not confirm them; the first is
/// one second.
pub const PEER_REPEAT_SECONDS_MAX: u64 = 60;

/// How long a node that a store or DNS no longer lists still belongs to the cluster.
pub const CLUSTER_ABSENCE_SECONDS: u64 = 15;

/// How often DNS is asked for the nodes.
pub const CLUSTER_DNS_SECONDS: u64 = 2;

/// How long an object that came too slowly from another node, or not to its end, is asked of the origin instead, at least.
pub const PEER_INCOMPLETE_SECONDS: u64 = 60;

/// Such objects that are remembered, of each of two generations; 16 bytes each.
pub const PEER_INCOMPLETE_OBJECTS: usize = 4096;

/// What a node says of itself to another one: some numbers, and eight problems of 200 characters.
pub const PEER_SUMMARY_BYTES: usize = 16 * 1024;

/// How long the other nodes are asked once a second after someone has looked at the cluster, and how old an answer may be.
pub const CLUSTER_VIEW_SECONDS: u64 = 10;
