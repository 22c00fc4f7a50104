//! The work of the fleet's thread: it connects, follows the streams of purges and revoked ids, and renews what this edge shares.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use penstock_sys::lock::Unpoisoned;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::census::Census;
use crate::connect::{StoreAddress, StoreLogin, connect};
use crate::counters::Operation;
use crate::edges::{Edges, StreamsRead};
use crate::link::{Fault, Link};
use crate::outage::{Loss, Outage};
use crate::purges::Purges;
use crate::revocations::Revocations;
use crate::sessions::SessionWriter;
use crate::shared_tickets::SharedTickets;
use crate::strikes::FleetStrikes;
use crate::ticket_keys::seconds;

/// Between two looks at the stream of purges. Each is also the probe of the circuit.
const POLL: Duration = Duration::from_millis(100);

/// Between two renewals of ticket keys, strike register and presence.
const RENEWAL: Duration = Duration::from_secs(1);

/// From the first byte of a connection with the store to the end of the login.
pub(crate) const CONNECT: Duration = Duration::from_secs(1);

/// The first pause after a connection failed; it doubles each time.
const RETRY_MIN: Duration = Duration::from_millis(100);

/// The longest such pause. A store that answers for so long begins with the first one again.
const RETRY_MAX: Duration = Duration::from_secs(2);

/// What waits for the first rounds of the thread.
#[derive(Default)]
pub(crate) struct Milestones {
    reached: Mutex<Reached>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reached {
    /// An attempt to connect failed.
    pub(crate) unreachable: bool,
    /// Ticket keys were compared with the store.
    pub(crate) tickets: bool,
    /// The streams of purges and revoked ids were read to their ends.
    pub(crate) streams: bool,
    /// How often the nodes of the cluster were read.
    pub(crate) node_lists: u64,
}

impl Milestones {
    pub(crate) fn note(&self, change: impl FnOnce(&mut Reached)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits until `is_done`; returns what was reached by then or after `patience`.
    pub(crate) fn wait(&self, patience: Duration, is_done: impl Fn(&Reached) -> bool) -> Reached {
        let waited = self.changed.wait_timeout_while(self.lock(), patience, |reached| !is_done(reached));
        *waited.unpoisoned().0
    }

    fn lock(&self) -> MutexGuard<'_, Reached> {
        self.reached.lock().unpoisoned()
    }
}

/// Everything that the thread renews. Shared with the threads that ask.
pub(crate) struct FleetDuties {
    pub(crate) link: Arc<Link>,
    pub(crate) purges: Arc<Purges>,
    pub(crate) revocations: Arc<Revocations>,
    pub(crate) tickets: Arc<SharedTickets>,
    pub(crate) strikes: Arc<FleetStrikes>,
    pub(crate) edges: Arc<Edges>,
    pub(crate) census: Census,
    pub(crate) milestones: Milestones,
}

/// The thread's own state.
pub(crate) struct Duty {
    pub(crate) parts: Arc<FleetDuties>,
    pub(crate) sessions: SessionWriter,
    pub(crate) address: StoreAddress,
    pub(crate) login: StoreLogin,
}

impl Duty {
    /// Works until the future is dropped.
    pub(crate) async fn run(mut self) {
        let mut outage = Outage::new(RETRY_MIN, RETRY_MAX);
        let parts = Arc::clone(&self.parts);
        let link = &parts.link;
        loop {
            let connecting = connect(&self.address, &self.login, &link.meter);
            let lost = match timeout(CONNECT, connecting).await {
                Ok(Ok((connection, driver))) => {
                    parts.strikes.doubt();
                    link.connected(connection);
                    let lost = tokio::select! {
                        () = driver => Loss::Broken,
                        lost = rounds(&parts, &mut outage) => lost,
                        () = self.sessions.run(link) => Loss::Broken,
                    };
                    link.disconnected();
                    lost
                }
                Ok(Err(error)) => Loss::Unreachable(error),
                Err(_) => Loss::Unanswered,
            };
            let lost = if link.meter.take_exceeded() { Loss::TooLarge } else { lost };
            link.losses.count(&lost);
            link.circuit.open(Instant::now());
            parts.milestones.note(|reached| reached.unreachable = true);
            sleep(outage.lost(&lost)).await;
        }
    }
}

/// Probes without an answer before the connection is given up.
const PROBES_LOST: u32 = 2;

/// Follows purges and renews; ends, with the reason, when the store no longer answers.
async fn rounds(parts: &FleetDuties, outage: &mut Outage) -> Loss {
    let began = Instant::now();
    match parts.link.identify().await {
        Ok(()) => parts.purges.note_store(parts.link.run()),
        Err(_) => return Loss::Unanswered,
    }
    if outage.take_too_large() {
        begin_again(parts).await;
    }
    let mut ticks = interval(POLL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut lost, mut renewed) = (0, None::<Instant>);
    loop {
        ticks.tick().await;
        match follow(parts).await {
            Ok(()) => {
                lost = 0;
                outage.answered(began.elapsed());
            }
            Err(Fault::Refused) => return Loss::Refused(parts.link.refusal()),
            Err(Fault::ReadOnly) => return Loss::Replica,
            Err(_) if lost + 1 >= PROBES_LOST => return Loss::Unanswered,
            Err(_) => {
                lost += 1;
                if parts.link.circuit.open(Instant::now()) {
                    tracing::warn!(
                        "fleet: the store does not answer; handshakes do without it until it does"
                    );
                }
                continue;
            }
        }
        if renewed.is_none_or(|then| then.elapsed() >= RENEWAL) {
            renewed = Some(Instant::now());
            if parts.strikes.keep().await == Err(Fault::ReadOnly) {
                return Loss::Replica;
            }
            let compared = parts.tickets.round().await;
            parts.purges.write_own().await;
            keep_revocations(parts).await;
            renew(parts).await;
            parts.census.round().await;
            let nodes = parts.edges.look(|position| parts.purges.progress().missing_at(position)).await;
            parts.milestones.note(|reached| {
                reached.tickets |= compared;
                reached.node_lists += u64::from(nodes);
            });
        }
    }
}

/// Removes the entries whose answers can be too large, so that the next connection does not end the same way. What is lost is
/// what an emptied store loses.
async fn begin_again(parts: &FleetDuties) {
    tracing::debug!("fleet: the purges, revoked ids and the list of edges in the store are written anew");
    let lists = [parts.edges.list_name(), Census::list_name()];
    let names = [&parts.purges.names()[..], &parts.revocations.names(), &lists].concat();
    parts.link.remove(Operation::PurgeRead, &names).await;
}

/// Reads the streams to their ends, or some thousand entries of each.
async fn follow(parts: &FleetDuties) -> Result<(), Fault> {
    let before = read_of(parts);
    let (follows, mut is_at_end) = (parts.purges.sink.get().is_some(), false);
    for _ in 0..parts.purges.polls_max() {
        let began = Instant::now();
        is_at_end = !parts.purges.poll().await?;
        parts.link.meter.answered();
        if is_at_end {
            probed(&parts.link, began.elapsed());
            break;
        }
    }
    let mut knows_revoked = false;
    for _ in 0..parts.revocations.polls_max() {
        knows_revoked = !parts.revocations.poll().await?;
        parts.link.meter.answered();
        if knows_revoked {
            break;
        }
    }
    if follows && is_at_end && knows_revoked {
        parts.milestones.note(|reached| reached.streams = true);
    }
    if read_of(parts) != before {
        renew(parts).await;
    }
    Ok(())
}

fn read_of(parts: &FleetDuties) -> StreamsRead {
    StreamsRead { purges: parts.purges.position(), revoked: parts.revocations.position() }
}

/// Forgets revoked ids that have ended, and keeps the others for the next process.
async fn keep_revocations(parts: &FleetDuties) {
    parts.revocations.known.forget(seconds(SystemTime::now()));
    let now = Instant::now();
    if parts.revocations.is_unsaved(now) {
        let revocations = Arc::clone(&parts.revocations);
        // A failure is logged.
        drop(tokio::task::spawn_blocking(move || revocations.save(now)).await);
    }
}

fn probed(link: &Link, took: Duration) {
    link.latency.store(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
    match (link.circuit.is_open(), took <= link.deadline) {
        // Operations count by themselves.
        (false, _) => {}
        (true, true) => link.succeeded(),
        (true, false) => drop(link.circuit.failed(Instant::now())),
    }
}

async fn renew(parts: &FleetDuties) {
    parts.edges.renew(read_of(parts), parts.tickets.newest()).await;
}
