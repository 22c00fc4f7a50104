//! Purging on all nodes of the cluster.
//!
//! An object goes from the origin to a shield, to its owner and to the other nodes, so while nodes purge one after the
//! other, one that has purged may fetch the old object again from one that has not. Each round purges all nodes after
//! all have ended the round before: old objects are left one step further from the origin after each round, and there are
//! as many rounds as steps. No clock is compared with that of another node.
//!
//! A node that does not confirm a round may hand out old objects like an origin that has them. The next round names it: no
//! node asks it for objects any more, and each repeats the purge once the node that took the order is away. After that
//! there are as many rounds again.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderName, HeaderValue};
use penstock_cache::purge::{NotKept, Pattern, PurgeOrder};
use penstock_config::limits;
use penstock_origin::http::{Connections, Fetch, Method};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::timeout;

use crate::clock::Clock;
use crate::nodes::purge::{PurgeFailure, Purged, PurgedNodes, patterns};
use crate::nodes::purge_fields::{missing_text, purge_fields};
use crate::peers::peer_fields::PURGE_MISSING;
use crate::peers::{ALIVE, MissedPurge, MissingNodes, Peer, Peers, nanoseconds};
use crate::site_table::SiteTable;
use crate::store::Store;

/// Steps from the origin to the last cache: a shield, a substitute that had the object while its owner was away, the
/// owner, and the node of the client.
const ROUNDS: usize = 4;

/// Purges here and on all other nodes. Blocks until each has confirmed it or had [`limits::PEER_PURGE_SECONDS`] for a
/// round. Nodes that have not confirmed it get it again once they answer: see [`repeat_missed_purges`].
///
/// # Errors
/// See [`PurgeFailure`]; of this node only.
pub fn purge_cluster(
    store: &Store,
    order: &PurgeOrder,
    sites: &SiteTable,
    peers: &Peers,
) -> Result<Purged, PurgeFailure> {
    let mut all = Purged { objects: 0, cluster: None };
    for pattern in patterns(&order.target, sites).map_err(PurgeFailure::Wrong)? {
        let (objects, nodes) = purge_pattern_in_cluster(store, &pattern, order.soft, peers)?;
        all.objects += objects;
        all.cluster = Some(match all.cluster {
            None => nodes,
            Some(mut before) => {
                before.missing.extend(nodes.missing);
                before.missing.sort_unstable();
                before.missing.dedup();
                before.confirmed.retain(|name| nodes.confirmed.contains(name));
                before
            }
        });
    }
    Ok(all)
}

/// Purges what one pattern selects.
fn purge_pattern_in_cluster(
    store: &Store,
    pattern: &Pattern,
    soft: bool,
    peers: &Peers,
) -> Result<(usize, PurgedNodes), PurgeFailure> {
    let ordered = nanoseconds(Clock::system().wall());
    let purge = Ordered { pattern, soft, number: ordered };
    let Rounds { objects, nodes, kept } = in_rounds(store, peers, &purge, Last::None);
    peers.missed.add(pattern, soft, &nodes.missing, ordered, Clock::system().now());
    let missed_kept = keep_missed(store, peers).map_err(PurgeFailure::NotKept);
    kept.and(missed_kept)?;
    Ok((objects, nodes))
}

/// Takes over the purges that an earlier process with the same cache could not deliver.
pub(super) fn restore_missed(store: &Store, peers: &Peers) {
    let undelivered = store.purges.take_undelivered();
    if undelivered.is_empty() {
        return;
    }
    tracing::info!("purges of an earlier process that nodes have missed: {}", undelivered.len());
    let others: Vec<String> = peers.others().iter().map(|peer| peer.name().to_owned()).collect();
    let clock = Clock::system();
    peers.missed.restore(undelivered, &others, (clock.now(), clock.wall()));
}

/// Keeps what nodes have missed for the next process.
fn keep_missed(store: &Store, peers: &Peers) -> Result<(), NotKept> {
    let clock = Clock::system();
    store.purges.keep_undelivered(|| peers.missed.undelivered((clock.now(), clock.wall())))
}

/// Notes what another node tells of a purge that nodes have missed, for the next process too.
pub(crate) fn learn_missed(store: &Store, peers: &Peers, purge: (&Pattern, bool), told: MissingNodes) {
    let is_other = |name: &str| peers.is_other(name);
    if peers.missed.learn(purge.0, purge.1, told, is_other, Clock::system().now())
        && let Err(error) = keep_missed(store, peers)
    {
        tracing::error!("a purge that other nodes have missed is not known to the next process: {error}");
    }
}

/// Repeats a purge that nodes have missed, on a thread of its own, if one of these nodes answers again. To be called about
/// once a second by any number of workers.
///
/// All rounds are repeated on all nodes: a node may have fetched an old object from the one that had missed the purge.
pub fn repeat_missed_purges(store: &Arc<Store>, peers: &Arc<Peers>) {
    // Tiers may be taken over from a process that ends later than this one starts.
    restore_missed(store, peers);
    if store.purges.take_outdated() {
        keep_missed_again(Arc::clone(store), Arc::clone(peers));
    }
    let (is_up, is_first) =
        (|name: &str| peers.is_up(name), |purge: &MissedPurge| peers.is_first_with(purge));
    let Some(missed) = peers.missed.claim(is_up, is_first, Clock::system().now()) else { return };
    let (store, peers) = (Arc::clone(store), Arc::clone(peers));
    let claimed = (missed.clone(), Arc::clone(&peers));
    let repeat = move || {
        let purge = Ordered { pattern: &missed.pattern, soft: missed.soft, number: missed.ordered };
        let Rounds { nodes: PurgedNodes { missing, .. }, kept, .. } =
            in_rounds(&store, &peers, &purge, Last::Settles);
        if let Err(failure) = kept {
            tracing::error!("a purge that nodes had missed: {failure}");
        }
        let is_member = |name: &str| peers.is_member(name);
        peers.missed.repeated(&missed, &missing, is_member, Clock::system().now());
        for name in missed.missing.iter().filter(|name| peers.is_member(name) && !missing.contains(name)) {
            tracing::info!("{name} has confirmed a purge that it had missed");
        }
        if let Err(error) = keep_missed(&store, &peers) {
            tracing::error!("a purge that nodes had missed may be repeated by the next process: {error}");
        }
    };
    if let Err(error) = std::thread::Builder::new().name("purge-again".to_owned()).spawn(repeat) {
        tracing::error!("cannot start the thread that repeats missed purges, will retry: {error}");
        let (missed, peers) = claimed;
        let missing: Vec<String> = missed.missing.iter().cloned().collect();
        peers.missed.repeated(&missed, &missing, |_| true, Clock::system().now());
    }
}

/// Writes once more what nodes have missed, on a thread of its own: a disk that was full may have space now.
fn keep_missed_again(store: Arc<Store>, peers: Arc<Peers>) {
    let keep = move || match keep_missed(&store, &peers) {
        Ok(()) => tracing::info!("purges that nodes have missed are kept for the next process again"),
        Err(error) => tracing::debug!("purges that nodes have missed: {error}"),
    };
    if let Err(error) = std::thread::Builder::new().name("purge-again".to_owned()).spawn(keep) {
        tracing::error!("purges that nodes have missed are not kept for the next process: {error}");
    }
}

/// A purge that is carried out.
struct Ordered<'p> {
    pattern: &'p Pattern,
    soft: bool,
    number: u64,
}

/// What follows the rounds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    None,
    /// The other nodes are told that all have confirmed the purge but those that are named.
    Settles,
}

/// How a purge went.
struct Rounds {
    /// The number of objects here.
    objects: usize,
    /// The nodes that have confirmed each round, and the others.
    nodes: PurgedNodes,
    /// Whether it could be stored here. It is in force in any case, and the other nodes are asked.
    kept: Result<(), PurgeFailure>,
}

/// All rounds of a purge.
fn in_rounds(store: &Store, peers: &Peers, purge: &Ordered<'_>, last: Last) -> Rounds {
    let (mut objects, mut kept) = (None, Ok(()));
    let mut here = || {
        let clock = Clock::system();
        peers.note_purge(clock.now());
        match store.purge_pattern(purge.pattern, purge.soft, (clock.now(), clock.wall())) {
            Ok(purged) => drop(objects.get_or_insert(purged.objects)),
            Err(failure) => kept = Err(failure),
        }
    };
    let others = peers.others();
    let names = || others.iter().map(|peer| peer.name().to_owned());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    let Ok(runtime) = runtime else {
        here();
        let nodes = PurgedNodes { confirmed: Vec::new(), missing: names().collect() };
        return Rounds { objects: objects.unwrap_or_default(), nodes, kept };
    };
    let purging = async {
        let connections = Rc::new(Connections::default());
        let mut missing: Vec<String> = Vec::new();
        let told = |missing: &[String], settled| {
            let (ordered, taker) = (purge.number, peers.own_name().to_owned());
            request(purge, Some(MissingNodes { ordered, taker, nodes: missing.to_vec(), settled }))
        };
        let mut left = ROUNDS;
        while left > 0 {
            here();
            let known = missing.len();
            let fetch = if known == 0 { request(purge, None) } else { told(&missing, false) };
            ask_others(&connections, &others, &fetch, &mut missing).await;
            left = if missing.len() > known && missing.len() < others.len() { ROUNDS } else { left - 1 };
            // From here on this node does not ask them either.
            if missing.len() > known {
                let now = Clock::system().now();
                peers.missed.mark(purge.pattern, purge.soft, &missing, purge.number, now);
            }
        }
        if last == Last::Settles {
            ask_others(&connections, &others, &told(&missing, true), &mut missing).await;
        }
        let confirmed = names().filter(|name| !missing.contains(name)).collect();
        PurgedNodes { confirmed, missing }
    };
    let nodes = LocalSet::new().block_on(&runtime, purging);
    Rounds { objects: objects.unwrap_or_default(), nodes, kept }
}

/// One round: all nodes that have not failed one before.
async fn ask_others(
    connections: &Rc<Connections>,
    others: &[Arc<Peer>],
    fetch: &Fetch,
    missing: &mut Vec<String>,
) {
    let mut asked = JoinSet::new();
    for peer in others.iter().filter(|peer| !missing.iter().any(|name| name == peer.name())) {
        let (connections, fetch) = (Rc::clone(connections), fetch.clone());
        let (origin, name) = (Arc::clone(peer.origin()), peer.name().to_owned());
        asked.spawn_local(async move {
            let answer = connections.fetch(&origin, &fetch);
            let answer = timeout(Duration::from_secs(limits::PEER_PURGE_SECONDS), answer).await;
            let Ok(Ok(mut answer)) = answer else { return Some(name) };
            let done = answer.status() == 204;
            // To its end, so that the connection is used again.
            while let Ok(Some(_)) = answer.next().await {}
            (!done).then_some(name)
        });
    }
    while let Some(ended) = asked.join_next().await {
        missing.extend(ended.ok().flatten());
    }
}

fn request(purge: &Ordered<'_>, missing: Option<MissingNodes>) -> Fetch {
    let mut fetch = Fetch { method: Method::POST, bare: true, ..Fetch::get(ALIVE) };
    let missing = missing.and_then(|missing| missing_text(&missing)).map(|text| (PURGE_MISSING, text));
    for (name, value) in purge_fields(purge.pattern, purge.soft).into_iter().chain(missing) {
        if let Ok(value) = HeaderValue::from_str(&value) {
            fetch.fields.insert(HeaderName::from_static(name), value);
        }
    }
    fetch
}
