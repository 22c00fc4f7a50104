//! Asking the other nodes how they are doing, for whom watches one of them.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use penstock_config::limits;
use penstock_origin::http::{Connections, Fetch, HttpOrigin};
use tokio::runtime::Runtime;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::timeout;

use crate::peers::{Peers, SUMMARY};

/// Asks the other nodes, on the thread that has it. It keeps its connections.
pub struct SummaryReader {
    runtime: Runtime,
    tasks: LocalSet,
    connections: Rc<Connections>,
}

impl SummaryReader {
    /// A reader without connections.
    ///
    /// # Errors
    /// The system has no space for another event queue.
    pub fn new() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        Ok(Self { runtime, tasks: LocalSet::new(), connections: Rc::default() })
    }

    /// Asks all other nodes at the same time. Blocks for [`limits::PEER_PROBE_MILLISECONDS`] at most. Returns the names of the
    /// nodes that have answered, with what they say, which is text of at most [`limits::PEER_SUMMARY_BYTES`].
    pub fn read(&self, peers: &Peers) -> Vec<(String, String)> {
        let asking = async {
            let mut asked = JoinSet::new();
            for peer in peers.others() {
                let connections = Rc::clone(&self.connections);
                asked.spawn_local(async move {
                    let patience = Duration::from_millis(limits::PEER_PROBE_MILLISECONDS);
                    let summary = timeout(patience, summary_of(&connections, peer.origin())).await;
                    summary.ok().flatten().map(|summary| (peer.name().to_owned(), summary))
                });
            }
            let mut answers = Vec::new();
            while let Some(ended) = asked.join_next().await {
                answers.extend(ended.ok().flatten());
            }
            answers
        };
        self.tasks.block_on(&self.runtime, asking)
    }
}

async fn summary_of(connections: &Connections, node: &Arc<HttpOrigin>) -> Option<String> {
    let fetch = Fetch { bare: true, ..Fetch::get(SUMMARY) };
    let mut answer = connections.fetch(node, &fetch).await.ok()?;
    if answer.status() != 200 {
        return None;
    }
    let mut text = Vec::new();
    while let Some(piece) = answer.next().await.ok()? {
        if text.len() + piece.len() > limits::PEER_SUMMARY_BYTES {
            return None;
        }
        text.extend_from_slice(&piece);
    }
    String::from_utf8(text).ok()
}
