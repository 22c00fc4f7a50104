//! A thread of the generator: its share of the plan, its counters, its connections.

mod run_state;
mod starts;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::watch;

pub(crate) use self::run_state::RunState;
use self::starts::StartQueue;
use crate::failure::LoadFailure;
use crate::net::{ConnectReport, Connector, HandshakeFacts, HttpConnection};
use crate::plan::{LoadMode, Plan};
use crate::schedule::{Punctuality, Schedule};
use crate::tally::Tally;
use crate::target::TargetUrl;
use crate::workload::{PreparedRequest, RequestChooser};

/// The size of a read.
const SCRATCH_BYTES: usize = 64 * 1024;

/// How long a server may take to end its side of a connection.
const ENDING_TIME_MAX: Duration = Duration::from_secs(1);

/// The most servers of manifests whose addresses are kept.
const SERVERS_MAX: usize = 1000;

/// The state that the operations of a thread share.
pub(crate) struct LoadThread {
    pub(crate) plan: Arc<Plan>,
    pub(crate) shared: Arc<RunState>,
    pub(crate) connector: Connector,
    pub(crate) chooser: RefCell<RequestChooser>,
    pub(crate) scratch: RefCell<Vec<u8>>,
    /// The addresses of servers that a manifest named.
    elsewhere: RefCell<HashMap<(String, u16), SocketAddr>>,
    starts: StartQueue,
    stop: watch::Receiver<bool>,
    index: usize,
    next_address: Cell<usize>,
    /// When the last operation ended, or the last bytes arrived.
    progressed: Cell<Instant>,
}

impl LoadThread {
    /// Thread `index` of a run.
    pub(crate) fn new(
        plan: &Arc<Plan>,
        shared: &Arc<RunState>,
        index: usize,
        connector: Connector,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let schedule = plan.rate.map(|rate| Schedule::new(rate, index, plan.threads));
        let workload = Arc::new(plan.workload.clone());
        Self {
            plan: Arc::clone(plan),
            shared: Arc::clone(shared),
            connector,
            chooser: RefCell::new(RequestChooser::new(workload, plan.seed, index, plan.threads)),
            scratch: RefCell::new(vec![0; SCRATCH_BYTES]),
            elsewhere: RefCell::default(),
            starts: StartQueue::new(schedule),
            stop,
            index,
            next_address: Cell::new(index),
            progressed: Cell::new(shared.began),
        }
    }

    /// The number of connections of this thread. The first threads take the remainder.
    pub(crate) fn connections(&self) -> usize {
        let (all, threads) = (self.plan.connections, self.plan.threads);
        all / threads + usize::from(self.index < all % threads)
    }

    /// Releases starts as they become due, until the run is over. In a closed loop it returns at once.
    pub(crate) async fn release_starts(&self) -> std::io::Result<()> {
        self.starts.release(&self.shared).await
    }

    /// Starts that were due and did not begin.
    pub(crate) fn backlog(&self) -> u64 {
        self.starts.backlog()
    }

    /// How punctual the starts were.
    pub(crate) fn punctuality(&self) -> Punctuality {
        self.starts.punctuality()
    }

    /// The counters of this thread. Must not be held across an `await`.
    pub(crate) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.shared.tally(self.index)
    }

    /// Waits for the next start. Returns when it was due; `None` if there are no more.
    pub(crate) async fn next_start(&self) -> Option<Instant> {
        if *self.stop.borrow() {
            return None;
        }
        let due = self.starts.next(&self.shared).await?;
        self.tally().in_flight += 1;
        Some(due)
    }

    /// Ready when the run is ended from outside.
    pub(crate) async fn stopped(&self) {
        let mut stop = self.stop.clone();
        if stop.wait_for(|stopped| *stopped).await.is_err() {
            // The sender is gone: nothing can end the run from outside.
            std::future::pending::<()>().await;
        }
    }

    /// The share of all connections that come before connection `number` of this thread.
    #[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
    pub(crate) fn place(&self, number: usize) -> f64 {
        let before = number * self.plan.threads + self.index;
        before as f64 / self.plan.connections as f64
    }

    /// Ends an operation whose requests were counted one by one.
    pub(crate) fn leave(&self) {
        self.tally().in_flight -= 1;
    }

    /// Ends a connection in the way of the plan. The operation is over already and does not count this time.
    pub(crate) async fn end_connection(&self, link: HttpConnection) {
        self.end_connections(vec![link]).await;
    }

    /// Ends connections one after the other, within the time for one; the rest is closed at once.
    pub(crate) async fn end_connections(&self, links: Vec<HttpConnection>) {
        let limit = self.plan.timeout.min(ENDING_TIME_MAX);
        let all = async {
            for link in links {
                link.end(self.plan.ending, limit).await;
            }
        };
        drop(tokio::time::timeout(limit, all).await);
    }

    /// Notes progress.
    pub(crate) fn progress(&self) {
        self.progressed.set(Instant::now());
    }

    /// When this thread ended. Waits after the deadline that brought nothing do not count towards rates.
    pub(crate) fn end(&self) -> Instant {
        let now = Instant::now();
        match (self.plan.mode, self.shared.deadline()) {
            (LoadMode::Playback(_), _) => now,
            (_, None) if *self.stop.borrow() => now,
            (_, None) => self.progressed.get(),
            (_, Some(deadline)) => now.min(deadline.max(self.progressed.get())),
        }
    }

    /// Notes where and how a request failed.
    pub(crate) fn blame(
        &self,
        address: SocketAddr,
        link: &HttpConnection,
        request: &PreparedRequest,
        failure: LoadFailure,
    ) {
        let path = request.object.trim_end();
        let chosen =
            link.protocol().filter(|chosen| chosen != self.plan.protocol.alpn() && chosen != "http/1.0");
        let mut tally = self.tally();
        match chosen {
            Some(chosen) => tally.blame(
                address,
                failure,
                &format_args!("{path} over {chosen}, which is not the protocol of --protocol"),
            ),
            None => tally.blame(address, failure, &path),
        }
    }

    /// Ends an operation.
    pub(crate) fn finish(&self, due: Instant, outcome: Result<(), LoadFailure>) {
        self.progress();
        let mut tally = self.tally();
        tally.in_flight -= 1;
        match outcome {
            Ok(()) => tally.finish(self.progressed.get().saturating_duration_since(due)),
            Err(failure) => tally.fail(failure),
        }
    }

    /// The next address in turn.
    pub(crate) fn next_address(&self) -> SocketAddr {
        let place = self.next_address.get();
        self.next_address.set(place.wrapping_add(1));
        let addresses = &self.plan.addresses;
        addresses[place % addresses.len()]
    }

    /// The address of a server that is not the plan's.
    pub(crate) async fn look_up(&self, target: &TargetUrl) -> Result<SocketAddr, LoadFailure> {
        let name = (target.host.clone(), target.port);
        if let Some(found) = self.elsewhere.borrow().get(&name) {
            return Ok(*found);
        }
        let found = match tokio::net::lookup_host((target.host.as_str(), target.port)).await {
            Ok(mut addresses) => addresses.next(),
            Err(_) => None,
        };
        let address = found.ok_or(LoadFailure::ConnectFailed)?;
        let mut elsewhere = self.elsewhere.borrow_mut();
        if elsewhere.len() < SERVERS_MAX {
            elsewhere.insert(name, address);
        }
        Ok(address)
    }

    /// Opens a connection to the plan's server, and counts.
    pub(crate) async fn connect(
        &self,
        address: SocketAddr,
    ) -> Result<(HttpConnection, ConnectReport), LoadFailure> {
        self.connect_to(None, address).await
    }

    /// Opens a connection, and counts. `elsewhere` is the server if it is not the plan's.
    pub(crate) async fn connect_to(
        &self,
        elsewhere: Option<&TargetUrl>,
        address: SocketAddr,
    ) -> Result<(HttpConnection, ConnectReport), LoadFailure> {
        let mut opening = ConnectReport::default();
        let opened = self.connector.open(elsewhere, address, &mut opening).await;
        self.progress();
        self.note_opening(address, &opening);
        let opened = match opened {
            Ok(link) => {
                if let Some(tls) = opening.tls {
                    self.tally().tls.note(tls);
                }
                // With early data the result of the handshake is known only after the response.
                if !opening.early_data {
                    self.note_handshake(address, link.facts(), &opening);
                }
                self.connector.start(link).await
            }
            Err(fault) => Err(fault),
        };
        opened.map(|connection| (connection, opening)).map_err(|(failure, detail)| {
            self.tally().blame(address, failure, &detail);
            failure
        })
    }

    /// Counts a connection and the session that was offered.
    fn note_opening(&self, address: SocketAddr, opening: &ConnectReport) {
        let mut tally = self.tally();
        // Over QUIC there is nothing but the handshake.
        tally.connections += u64::from(opening.tcp.or(opening.tls).is_some());
        if let Some(tcp) = opening.tcp {
            tally.tcp.note(tcp);
        }
        tally.offered += u64::from(opening.offered);
        tally.at(address).offered += u64::from(opening.offered);
    }

    /// Counts a complete handshake.
    pub(crate) fn note_handshake(
        &self,
        address: SocketAddr,
        facts: Option<HandshakeFacts>,
        opening: &ConnectReport,
    ) {
        let Some(facts) = facts else { return };
        let mut tally = self.tally();
        tally.handshakes += 1;
        tally.resumed += u64::from(facts.resumed);
        tally.early_data_sent += u64::from(opening.early_data);
        tally.early_data_accepted += u64::from(facts.early_data_accepted);
        let at = tally.at(address);
        at.handshakes += 1;
        at.resumed += u64::from(facts.resumed);
        match tally.agreed.get_mut(&facts.agreed) {
            Some(count) => *count += 1,
            None => {
                tally.agreed.insert(facts.agreed, 1);
            }
        }
    }
}
