//! How the nodes of the cluster are doing, as each says itself. They are asked while someone looks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use penstock_config::limits;
use penstock_content::{Peers, SummaryReader};
use penstock_sys::lock::Unpoisoned;

use super::NodeSummary;

/// Pause between two questions.
const PAUSE: Duration = Duration::from_secs(1);

/// The last answers of the other nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct ClusterView(Arc<Mutex<ViewState>>);

#[derive(Default)]
struct ViewState {
    /// The nodes in force, and when they were last asked for.
    looked: Option<(Arc<Peers>, Instant)>,
    /// Whether a thread asks.
    is_asking: bool,
    /// By name; the time of the answer.
    answers: BTreeMap<String, (NodeSummary, Instant)>,
}

impl fmt::Debug for ViewState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ViewState").field("answers", &self.answers).finish_non_exhaustive()
    }
}

impl ClusterView {
    /// The answers that are not too old, by the names of the nodes. Has the nodes asked for some seconds from now on.
    pub(super) fn look(&self, peers: &Arc<Peers>, now: Instant) -> BTreeMap<String, NodeSummary> {
        let mut state = self.0.lock().unpoisoned();
        state.looked = Some((Arc::clone(peers), now));
        if !state.is_asking && !peers.others().is_empty() {
            let view = self.clone();
            let thread = thread::Builder::new().name("cluster-view".to_owned());
            // Without a thread the next look tries again.
            state.is_asking = thread.spawn(move || view.ask()).is_ok();
        }
        let old = Duration::from_secs(limits::CLUSTER_VIEW_SECONDS);
        state.answers.retain(|_, (_, at)| now.saturating_duration_since(*at) < old);
        state.answers.iter().map(|(name, (summary, _))| (name.clone(), summary.clone())).collect()
    }

    /// Asks once a second until no look has come for some seconds.
    fn ask(&self) {
        let Ok(reader) = SummaryReader::new() else {
            self.0.lock().unpoisoned().is_asking = false;
            return;
        };
        while let Some(peers) = self.wanted(Instant::now()) {
            let answers = reader.read(&peers);
            let at = Instant::now();
            let read = |(name, text): (String, String)| Some((name, (NodeSummary::read(&text)?, at)));
            self.0.lock().unpoisoned().answers.extend(answers.into_iter().filter_map(read));
            drop(peers);
            thread::sleep(PAUSE);
        }
    }

    /// The nodes to ask; `None` if it ends here.
    fn wanted(&self, now: Instant) -> Option<Arc<Peers>> {
        let mut state = self.0.lock().unpoisoned();
        let patience = Duration::from_secs(limits::CLUSTER_VIEW_SECONDS);
        let recent = state.looked.take_if(|(_, at)| now.saturating_duration_since(*at) >= patience).is_none();
        let peers = state.looked.as_ref().filter(|_| recent).map(|(peers, _)| Arc::clone(peers));
        state.is_asking = peers.is_some();
        peers
    }
}
