//! Purging on all nodes of the cluster.
//!
//! An object goes from the origin to a shield, to its owner and to the other nodes, so while nodes purge one after the
//! other, one that has purged may fetch the old object again from one that has not. Each round purges all nodes after
//! all have ended the round before: old objects are left one step further from the origin after each round, and there are
//! as many rounds as steps. No clock is compared with that of another node.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderName, HeaderValue};
use penstock_cache::purge::Pattern;
use penstock_config::limits;
use penstock_origin::http::{Connections, Fetch, Method};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::timeout;

use crate::clock::Clock;
use crate::peer_requests::purge_fields;
use crate::peers::{ALIVE, Peers};
use crate::purge::{PurgeFailure, PurgeOrder, Purged, PurgedNodes, pattern};
use crate::site::SiteTable;
use crate::store::Store;

/// Steps from the origin to the last cache: a shield, a substitute that had the object while its owner was away, the
/// owner, and the node of the client.
const ROUNDS: usize = 4;

/// Purges here and on all other nodes. Blocks until each has confirmed it or had [`limits::PEER_PURGE_SECONDS`] for a
/// round.
///
/// # Errors
/// See [`PurgeFailure`]; of this node only.
pub fn purge_cluster(
    store: &Store,
    order: &PurgeOrder,
    sites: &SiteTable,
    peers: &Arc<Peers>,
) -> Result<Purged, PurgeFailure> {
    let pattern = pattern(&order.what, sites).map_err(PurgeFailure::Wrong)?;
    let here = || {
        let clock = Clock::system();
        peers.note_purge(clock.now());
        store.purge_pattern(&pattern, order.soft, (clock.now(), clock.wall()))
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    let Ok(runtime) = runtime else {
        let missing = peers.others().map(|peer| peer.name.clone()).collect();
        let nodes = PurgedNodes { confirmed: Vec::new(), missing };
        return Ok(Purged { cluster: Some(nodes), ..here()? });
    };
    let purging = async {
        let connections = Rc::new(Connections::default());
        let mut missing = Vec::new();
        let mut first = None;
        for _ in 0..ROUNDS {
            let purged = here()?;
            first.get_or_insert(purged.objects);
            ask_others(&connections, peers, &pattern, order.soft, &mut missing).await;
        }
        let confirmed = peers.others().map(|peer| peer.name.clone());
        let confirmed = confirmed.filter(|name| !missing.contains(name)).collect();
        let cluster = Some(PurgedNodes { confirmed, missing });
        Ok(Purged { objects: first.unwrap_or_default(), cluster })
    };
    LocalSet::new().block_on(&runtime, purging)
}

/// One round: all nodes that have not failed one before.
async fn ask_others(
    connections: &Rc<Connections>,
    peers: &Arc<Peers>,
    pattern: &Pattern,
    soft: bool,
    missing: &mut Vec<String>,
) {
    let fetch = request(pattern, soft);
    let mut asked = JoinSet::new();
    for peer in peers.others().filter(|peer| !missing.contains(&peer.name)) {
        let (connections, fetch) = (Rc::clone(connections), fetch.clone());
        let (origin, name) = (Arc::clone(peer.origin()), peer.name.clone());
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

fn request(pattern: &Pattern, soft: bool) -> Fetch {
    let mut fetch = Fetch { method: Method::POST, bare: true, ..Fetch::get(ALIVE) };
    for (name, value) in purge_fields(pattern, soft) {
        if let Ok(value) = HeaderValue::from_str(&value) {
            fetch.fields.insert(HeaderName::from_static(name), value);
        }
    }
    fetch
}
