//! Which edges there are, and what each has done.
//!
//! An edge renews two entries about once a second: one that expires soon and says that it is there, and a sealed record
//! that stays for a day, so that an edge that is away is missed.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use penstock_metrics::FleetEdgeReading;
use penstock_sys::lock::Unpoisoned;
use redis::{Pipeline, Value};
use serde_json::{Value as Json, json};

use crate::counters::{Operation, Outcome};
use crate::link::{Fault, Link, bytes_of, list_of, text_of};
use crate::nodes::{NodeEntry, NodeSharing};
use crate::position::{EntryId, Position};
use crate::seal::{Purpose, Sealer};
use crate::ticket_keys::seconds;

/// An edge that says nothing for so long is away.
const PRESENT_MILLISECONDS: u64 = 5000;

/// An edge that is away for so long is forgotten.
const FORGOTTEN_SECONDS: u64 = 24 * 3600;

/// Between two looks at the other edges, if no cluster needs them sooner.
const LOOK: Duration = Duration::from_secs(5);

/// Edges that are read.
const EDGES_MAX: usize = 4096;

/// An edge of the fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeStatus {
    /// Its name.
    pub name: String,
    /// Whether it was there some seconds ago.
    pub is_present: bool,
    /// Seconds since it said something, by the clocks of both edges.
    pub seen_seconds: u64,
    /// The newest session ticket key that it has; `None` if it does not share them.
    pub newest_ticket_key: Option<String>,
    /// The node of a cluster that it is; `None` if it does not share that.
    pub node: Option<NodeEntry>,
    pub(crate) purges: Option<Position>,
    pub(crate) revoked: Option<EntryId>,
}

/// What an edge has read of the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamsRead {
    pub(crate) purges: Option<Position>,
    pub(crate) revoked: EntryId,
}

/// Writes and reads the entries of edges.
pub(crate) struct Edges {
    pub(crate) link: Arc<Link>,
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) prefix: String,
    pub(crate) name: String,
    pub(crate) nodes: NodeSharing,
    /// Whether a successor says now that the edge is there.
    pub(crate) has_successor: AtomicBool,
    pub(crate) seen: Mutex<SeenEdges>,
}

/// The edges as they were read last.
#[derive(Debug, Default)]
pub(crate) struct SeenEdges {
    at: Option<Instant>,
    edges: Vec<FleetEdgeReading>,
}

impl Edges {
    pub(crate) fn list_name(&self) -> String {
        format!("{}edges", self.prefix)
    }

    fn presence_name(&self, edge: &str) -> String {
        format!("{}edge:{edge}", self.prefix)
    }

    /// Says that this edge is there.
    pub(crate) async fn renew(&self, read: StreamsRead, newest_ticket_key: Option<String>) {
        if self.has_successor.load(Relaxed) {
            return;
        }
        let record = json!({
            "at": seconds(SystemTime::now()),
            "purges": read.purges.map(|position| position.to_string()),
            "revoked": read.revoked.to_string(),
            "ticket_key": newest_ticket_key,
            "node": self.nodes.own().map(|node| node.to_json()),
        });
        let context = [self.name.as_bytes()];
        let Some(record) = self.sealer.seal(Purpose::Edge, &context, record.to_string().as_bytes()) else {
            return;
        };
        let mut commands = Pipeline::with_capacity(2);
        commands.cmd("SET").arg(self.presence_name(&self.name)).arg(1).arg("PX").arg(PRESENT_MILLISECONDS);
        commands.cmd("HSET").arg(self.list_name()).arg(&self.name).arg(record);
        match self.link.ask_patiently(Operation::Edges, &commands).await {
            Ok(_) => self.link.counters.count(Operation::Edges, Outcome::Ok),
            Err(Fault::WrongType) => self.link.remove(Operation::Edges, &[self.list_name()]).await,
            // The next round tries again.
            Err(_) => {}
        }
    }

    /// Reads the list from time to time: for metrics, and to tell the nodes of the cluster, if this edge is one of them. Returns
    /// whether nodes were told.
    pub(crate) async fn look(&self, purges_missing: impl Fn(&Position) -> usize) -> bool {
        let sink = self.nodes.sink();
        let is_recent = self.seen().at.is_some_and(|at| at.elapsed() < LOOK);
        if sink.is_none() && is_recent {
            return false;
        }
        let Ok(edges) = self.read().await else { return false };
        let now = SystemTime::now();
        let reading = |edge: &EdgeStatus| FleetEdgeReading {
            name: edge.name.clone(),
            is_own: edge.name == self.name,
            is_present: edge.is_present,
            seen: now.checked_sub(Duration::from_secs(edge.seen_seconds)).unwrap_or(SystemTime::UNIX_EPOCH),
            purges_missing: edge.purges.as_ref().map_or(0, |position| purges_missing(position) as u64),
        };
        let readings = edges.iter().map(reading).collect();
        *self.seen() = SeenEdges { at: Some(Instant::now()), edges: readings };
        let Some(sink) = sink else { return false };
        sink.nodes(edges.into_iter().filter(|edge| edge.is_present).filter_map(|edge| edge.node).collect());
        true
    }

    /// The edges as they were read last, by name.
    pub(crate) fn readings(&self) -> Vec<FleetEdgeReading> {
        self.seen().edges.clone()
    }

    fn seen(&self) -> MutexGuard<'_, SeenEdges> {
        self.seen.lock().unpoisoned()
    }

    /// Takes this edge off the list: it ends in an orderly way. A successor stays on it.
    pub(crate) async fn leave(&self) {
        if self.has_successor.load(Relaxed) {
            return;
        }
        let mut commands = Pipeline::with_capacity(2);
        commands.cmd("DEL").arg(self.presence_name(&self.name));
        commands.cmd("HDEL").arg(self.list_name()).arg(&self.name);
        // Without an answer it stays on the list as one that is away.
        drop(self.link.ask_patiently(Operation::Edges, &commands).await);
    }

    /// All edges by name. Removes those that were away for too long, and what no edge of the fleet wrote.
    pub(crate) async fn read(&self) -> Result<Vec<EdgeStatus>, Fault> {
        let mut commands = Pipeline::with_capacity(1);
        commands.cmd("HGETALL").arg(self.list_name());
        let answers = self.link.ask_patiently(Operation::Edges, &commands).await?;
        let now = seconds(SystemTime::now());
        let (mut edges, mut gone): (Vec<EdgeStatus>, Vec<Vec<u8>>) = (Vec::new(), Vec::new());
        for pair in list_of(answers.first().unwrap_or(&Value::Nil)).chunks_exact(2) {
            match self.edge(&pair[0], &pair[1], now) {
                Some(edge) if edges.len() < EDGES_MAX => edges.push(edge),
                Some(_) => {}
                None => {
                    self.link.counters.count(Operation::Edges, Outcome::Forged);
                    gone.extend(bytes_of(&pair[0]).map(<[u8]>::to_vec));
                }
            }
        }
        edges.sort_by(|one, other| one.name.cmp(&other.name));
        if edges.is_empty() {
            self.forget(&gone).await;
            return Ok(edges);
        }
        commands.clear();
        for edge in &edges {
            commands.cmd("EXISTS").arg(self.presence_name(&edge.name));
        }
        let present = self.link.ask_patiently(Operation::Edges, &commands).await?;
        for (edge, answer) in edges.iter_mut().zip(&present) {
            edge.is_present = *answer == Value::Int(1);
        }
        edges.retain(|edge| {
            let is_gone = !edge.is_present && edge.seen_seconds > FORGOTTEN_SECONDS;
            if is_gone {
                gone.push(edge.name.clone().into_bytes());
            }
            !is_gone
        });
        self.forget(&gone).await;
        self.link.counters.count(Operation::Edges, Outcome::Ok);
        Ok(edges)
    }

    fn edge(&self, name: &Value, record: &Value, now: u64) -> Option<EdgeStatus> {
        let name = text_of(name)?;
        let plain = self.sealer.open(Purpose::Edge, &[name.as_bytes()], bytes_of(record)?)?;
        edge_of(name, plain.expose(), now)
    }

    async fn forget(&self, gone: &[Vec<u8>]) {
        if gone.is_empty() {
            return;
        }
        let mut commands = Pipeline::with_capacity(1);
        commands.cmd("HDEL").arg(self.list_name()).arg(gone);
        // The next reader tries again.
        drop(self.link.ask_patiently(Operation::Edges, &commands).await);
    }
}

/// Reads what an edge says about itself; `None` if it is of a later version or damaged.
pub(crate) fn edge_of(name: &str, plain: &[u8], now: u64) -> Option<EdgeStatus> {
    let record: Json = serde_json::from_slice(plain).ok()?;
    Some(EdgeStatus {
        name: name.to_owned(),
        is_present: false,
        seen_seconds: now.saturating_sub(record["at"].as_u64()?),
        newest_ticket_key: record["ticket_key"].as_str().map(str::to_owned),
        node: NodeEntry::from_json(&record["node"]),
        purges: record["purges"].as_str().and_then(Position::parse),
        revoked: record["revoked"].as_str().and_then(EntryId::parse),
    })
}
