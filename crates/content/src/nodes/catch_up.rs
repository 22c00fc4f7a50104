//! Purges that this node missed while its process did not run.
//!
//! The other nodes repeat them some seconds after it is back (see [`super::purge_cluster()`]). That is too late for its first
//! clients, so a process that begins with objects of an earlier one asks all other nodes at its start, and holds these
//! objects back until one pass over the nodes has brought an answer, or [`PATIENCE`] has passed.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderName, HeaderValue};
use penstock_cache::purge::{Pattern, UndeliveredPurge};
use penstock_config::limits;
use penstock_origin::http::{Connections, Fetch, HttpOrigin};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep, timeout};

use crate::clock::Clock;
use crate::nodes::purge_cluster::restore_missed;
use crate::peers::peer_fields::{PURGES_OF, escape};
use crate::peers::{ALIVE, Peers};
use crate::store::Store;

/// How long objects of an earlier process are held back if no node answers.
const PATIENCE: Duration = Duration::from_secs(3);

/// Between two passes over the nodes while none answers.
const PAUSE: Duration = Duration::from_millis(100);

/// The longest answer in bytes: more than the purges that a node keeps for others become.
const ANSWER_BYTES_MAX: usize = 4 * (limits::PEER_MISSED_PURGE_BYTES + 256 * limits::PEER_MISSED_PURGES);

/// Asks the other nodes which purges this one missed, on a thread of its own, and applies them. Until then no object of an
/// earlier process is used. To be called before the first client is served.
pub fn catch_up(store: &Arc<Store>, peers: &Arc<Peers>) {
    if peers.others().is_empty() {
        return;
    }
    let Some(held) = store.hold_restores() else { return };
    let (store, peers) = (Arc::clone(store), Arc::clone(peers));
    let run = move || {
        match ask(&peers) {
            Some(missed) => apply(&store, &peers, missed),
            None => tracing::warn!(
                "no other node has said within {} s which purges this one missed: it serves what it has",
                PATIENCE.as_secs()
            ),
        }
        drop(held);
    };
    if let Err(error) = std::thread::Builder::new().name("catch-up".to_owned()).spawn(run) {
        tracing::error!("cannot start the thread that asks which purges this node missed: {error}");
    }
}

/// The purges that a node has missed, as text for it.
pub(super) fn missed_by(node: &str, store: Option<&Arc<Store>>, peers: &Peers) -> String {
    if let Some(store) = store {
        // This process may have started a moment ago, too.
        restore_missed(store, peers);
    }
    let clock = Clock::system();
    UndeliveredPurge::write_list(&peers.missed.undelivered_to(node, (clock.now(), clock.wall())))
}

fn apply(store: &Store, peers: &Peers, missed: Vec<(Pattern, bool)>) {
    let clock = Clock::system();
    if missed.is_empty() {
        return;
    }
    peers.note_purge(clock.now());
    tracing::info!("purges of other nodes that this one had missed: {}", missed.len());
    for (pattern, soft) in missed {
        if let Err(failure) = store.purge_pattern(&pattern, soft, (clock.now(), clock.wall())) {
            tracing::error!("a purge that this node had missed: {failure}");
        }
    }
}

/// The purges that the nodes name which answer; `None` if none does within [`PATIENCE`].
fn ask(peers: &Peers) -> Option<Vec<(Pattern, bool)>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().ok()?;
    let mut fetch = Fetch { bare: true, ..Fetch::get(ALIVE) };
    let own = HeaderValue::from_str(&escape(peers.own_name().as_bytes())).ok()?;
    fetch.fields.insert(HeaderName::from_static(PURGES_OF), own);
    let asking = async {
        let connections = Rc::new(Connections::default());
        loop {
            let answers = ask_each(&connections, peers, &fetch).await;
            if !answers.is_empty() {
                // Several nodes name the same purges.
                let mut purges = Vec::new();
                for UndeliveredPurge { pattern, soft, .. } in answers.into_iter().flatten() {
                    if !purges.contains(&(pattern.clone(), soft)) {
                        purges.push((pattern, soft));
                    }
                }
                return purges;
            }
            sleep(PAUSE).await;
        }
    };
    LocalSet::new().block_on(&runtime, async { timeout(PATIENCE, asking).await.ok() })
}

/// One pass: the lists of the nodes that have answered.
async fn ask_each(connections: &Rc<Connections>, peers: &Peers, fetch: &Fetch) -> Vec<Vec<UndeliveredPurge>> {
    let mut asked = JoinSet::new();
    for peer in peers.others() {
        let (connections, fetch) = (Rc::clone(connections), fetch.clone());
        asked.spawn_local(async move {
            let patience = Duration::from_millis(limits::PEER_PROBE_MILLISECONDS);
            timeout(patience, list_of(&connections, peer.origin(), &fetch)).await.ok().flatten()
        });
    }
    let mut answers = Vec::new();
    while let Some(ended) = asked.join_next().await {
        answers.extend(ended.ok().flatten());
    }
    answers
}

async fn list_of(
    connections: &Connections,
    node: &Arc<HttpOrigin>,
    fetch: &Fetch,
) -> Option<Vec<UndeliveredPurge>> {
    let mut answer = connections.fetch(node, fetch).await.ok()?;
    if answer.status() != 200 {
        return None;
    }
    let mut text = Vec::new();
    while let Some(piece) = answer.next().await.ok()? {
        if text.len() + piece.len() > ANSWER_BYTES_MAX {
            return None;
        }
        text.extend_from_slice(&piece);
    }
    UndeliveredPurge::read_list(str::from_utf8(&text).ok()?)
}
