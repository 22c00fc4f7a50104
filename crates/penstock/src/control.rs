//! The control thread: turns signals into actions of the service.

mod signals;

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use penstock_config::limits;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use self::signals::{Event, Signals};
use crate::succession::Accepted;
use crate::systemd;

/// The controlled service.
pub(crate) trait Service {
    /// Reads the configuration again, and logs the result.
    fn reload(&mut self);

    /// Whether [`Self::adopt_tiers`] is to be called from time to time.
    fn waits_for_tiers(&self) -> bool {
        false
    }

    /// Takes over the tiers of the cache once an earlier process has ended.
    fn adopt_tiers(&mut self) {}

    /// Opens log files again, after another program has renamed them.
    fn reopen_logs(&mut self);

    /// Whether a process that succeeds this one can be started now. Not while the process before this one still ends.
    fn may_hand_over(&self) -> bool {
        true
    }

    /// Starts a process that succeeds this one. The receiver resolves when that accepts connections, or with the reason why it
    /// does not. `None`, with a line in the log, if it cannot be started.
    fn begin_hand_over(&mut self) -> Option<oneshot::Receiver<HandOverOutcome>> {
        tracing::warn!(
            "SIGUSR2 is ignored: this program does not hand over to a new one; restart it instead"
        );
        None
    }

    /// Ends a successor that has not been ready yet.
    fn end_successor(&mut self) {}

    /// Leaves the listeners to the successor; connections end with their next response. Returns how long that lasts at most,
    /// until [`Self::drain`].
    fn complete_hand_over(&mut self, _successor: Accepted) -> Duration {
        Duration::ZERO
    }

    /// Whether the successor has failed: it has ended otherwise than by a stop.
    fn has_lost_successor(&mut self) -> bool {
        false
    }

    /// Takes everything back from a successor that has failed, before [`Self::drain`]. Returns whether this process serves.
    fn take_back(&mut self) -> bool {
        false
    }

    /// Whether no connection is left.
    fn is_empty(&self) -> bool {
        true
    }

    /// Tells the successor what clients have changed here.
    fn tell_changes(&mut self) {}

    /// The same, and what this process still needs.
    fn tell_successor(&mut self) {}

    /// Has health checks fail and connections end with their next response, while listeners accept. Returns how long that
    /// lasts at most, until [`Self::drain`]; zero if there is nothing to wait for.
    fn begin_lame_duck(&mut self) -> Duration {
        Duration::ZERO
    }

    /// Whether nothing is left that [`Self::begin_lame_duck`] waits for.
    fn may_drain(&self) -> bool {
        true
    }

    /// Stops accepting; running responses may finish. Returns how long they may take.
    fn drain(&mut self) -> Duration;

    /// A function that blocks until everything has ended; called after [`Self::drain`].
    fn wait(&mut self) -> impl FnOnce() + Send + 'static;

    /// Ends everything at once.
    fn stop(&mut self);
}

/// Listens for signals from the moment it exists.
pub(crate) struct Control {
    runtime: Runtime,
    signals: Signals,
}

/// The successor, or why there is none.
pub(crate) type HandOverOutcome = Result<Accepted, String>;

/// What the end of the process may take after a drain: the last lines of the access log, and leaving a fleet.
const END_LIMIT: Duration = Duration::from_secs(15);

/// How long workers may take to end after they were told to stop at once.
const STOP_LIMIT: Duration = Duration::from_secs(2);

impl Control {
    pub(crate) fn new() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let signals = {
            let _inside = runtime.enter();
            Signals::listen()?
        };
        Ok(Self { runtime, signals })
    }

    /// Obeys signals until the service has ended.
    pub(crate) fn run(self, service: impl Service) {
        let Self { runtime, signals } = self;
        // On this thread, so that the reports end when it does nothing else any more.
        drop(runtime.spawn(systemd::report_to_watchdog()));
        runtime.block_on(obey(signals, service));
    }
}

/// The end of a line in the log about a drain.
const STOP_HINT: &str = "; another signal stops at once";

/// How often a lame duck looks whether its connections have ended.
const LAME_DUCK_TICK: Duration = Duration::from_millis(50);

/// How far the service is on its way to its end.
enum Phase {
    Serving,
    /// A successor starts. With `ends` this process ends in any case.
    HandingOver {
        outcome: oneshot::Receiver<HandOverOutcome>,
        ends: bool,
    },
    /// It accepts until then.
    LameDuck(Instant),
    /// A successor accepts. Connections end with their next response until `end`, or until there is none from `least` on. With
    /// `ends` this process ends even if the successor fails.
    Succeeded {
        least: Instant,
        end: Instant,
        ends: bool,
    },
    /// It has closed its listeners; the receiver resolves when all has ended.
    Draining {
        ended: oneshot::Receiver<()>,
        has_successor: bool,
        /// Whether a signal to stop has come.
        is_stopped: bool,
    },
}

/// How often a process that ends tells its successor what it still needs.
const SUCCESSOR_TICK: Duration = Duration::from_millis(limits::BUSY_SLOTS_MILLISECONDS);

/// For how long at least a process can take back what it has handed over.
const SUCCESSOR_TRIAL: Duration = Duration::from_secs(limits::SUCCESSOR_TRIAL_SECONDS);

impl Phase {
    /// When to look for what has changed by itself.
    fn next_tick(&self, service: &impl Service, hand_over_is_due: bool) -> Option<Duration> {
        match self {
            Self::Serving if hand_over_is_due => {
                Some(Duration::from_millis(limits::WAITING_TIER_MILLISECONDS))
            }
            // A server that is about to end leaves the tiers to its successor.
            Self::Serving if service.waits_for_tiers() => {
                Some(Duration::from_millis(limits::WAITING_TIER_MILLISECONDS))
            }
            Self::LameDuck(end) | Self::Succeeded { end, .. } => {
                Some(LAME_DUCK_TICK.min(end.saturating_duration_since(Instant::now())))
            }
            Self::Draining { has_successor: true, .. } => Some(SUCCESSOR_TICK),
            Self::Serving | Self::HandingOver { .. } | Self::Draining { .. } => None,
        }
    }
}

async fn obey(mut signals: Signals, mut service: impl Service) {
    let mut phase = Phase::Serving;
    // SIGUSR2 has come, and the process before still ends.
    let mut hand_over_is_due = false;
    loop {
        let tick = phase.next_tick(&service, hand_over_is_due);
        let event = signals.next_event(&mut phase, tick).await;
        phase = match (event, phase) {
            (Event::Tick, Phase::LameDuck(end)) if Instant::now() >= end || service.may_drain() => {
                drain(&mut service)
            }
            (Event::Tick, phase @ Phase::Succeeded { .. }) => follow_successor(&mut service, phase),
            (Event::Tick, Phase::Serving) => {
                service.adopt_tiers();
                begin_hand_over_if_due(&mut service, &mut hand_over_is_due)
            }
            (Event::Tick, phase @ Phase::Draining { .. }) => {
                service.tell_successor();
                phase
            }
            (Event::Tick, phase) => phase,
            (Event::Reload, phase) => {
                reload(&mut service, &phase);
                phase
            }
            (Event::ReopenLogs, phase) => {
                service.reopen_logs();
                phase
            }
            (Event::HandOver, Phase::Serving) => {
                if !service.may_hand_over() && !hand_over_is_due {
                    tracing::info!(
                        "handing over when the process before has ended: it still sends responses"
                    );
                }
                hand_over_is_due = true;
                begin_hand_over_if_due(&mut service, &mut hand_over_is_due)
            }
            (Event::HandOver, phase) => {
                tracing::info!("not handing over: this server does so already, or is about to end");
                phase
            }
            (Event::HandedOver(outcome), Phase::HandingOver { ends, .. }) => {
                handed_over(&mut service, outcome, ends)
            }
            (Event::HandedOver(_), phase) => phase,
            (Event::Terminate, Phase::Serving) => begin_to_end(&mut service),
            (Event::Terminate, Phase::HandingOver { outcome, ends: false }) => {
                service.end_successor();
                Phase::HandingOver { outcome, ends: true }
            }
            // A service manager tells all its processes, and this one is about to end.
            (Event::Terminate, Phase::Succeeded { .. }) => drain_for_successor(&mut service, true),
            (Event::Terminate, Phase::Draining { ended, has_successor, is_stopped: false }) => {
                tracing::info!("draining already: running responses may finish{STOP_HINT}");
                Phase::Draining { ended, has_successor, is_stopped: true }
            }
            (Event::Terminate, phase) => {
                tracing::info!("stopping at once");
                return stop(&mut service, phase).await;
            }
            (Event::Ended, _) => {
                service.tell_changes();
                tracing::info!("stopped");
                return;
            }
        };
    }
}

fn reload(service: &mut impl Service, phase: &Phase) {
    match phase {
        Phase::Serving => {
            systemd::reloading();
            service.reload();
            systemd::ready();
        }
        Phase::HandingOver { .. } => {
            tracing::warn!("not reloading: a new process starts; send SIGHUP to that one");
        }
        Phase::LameDuck(_) | Phase::Succeeded { .. } | Phase::Draining { .. } => {
            tracing::info!("not reloading: this server is about to end");
        }
    }
}

fn begin_hand_over_if_due(service: &mut impl Service, is_due: &mut bool) -> Phase {
    if !*is_due || !service.may_hand_over() {
        return Phase::Serving;
    }
    *is_due = false;
    let begun = service.begin_hand_over();
    begun.map_or(Phase::Serving, |outcome| Phase::HandingOver { outcome, ends: false })
}

/// A successor accepts connections, or there is none.
fn handed_over(service: &mut impl Service, outcome: HandOverOutcome, ends: bool) -> Phase {
    match outcome {
        Ok(successor) => {
            let id = successor.id;
            systemd::succeeded_by(id);
            let longest = service.complete_hand_over(successor);
            tracing::info!(
                "process {id} has taken over; this one ends its connections with their next response, for {longest:?}"
            );
            let now = Instant::now();
            Phase::Succeeded { least: now + SUCCESSOR_TRIAL, end: now + longest, ends }
        }
        Err(why) => {
            tracing::error!("not handed over: {why}; this process goes on");
            if ends { begin_to_end(service) } else { Phase::Serving }
        }
    }
}

/// While both processes run: the successor may fail with its first connections.
fn follow_successor(service: &mut impl Service, phase: Phase) -> Phase {
    let Phase::Succeeded { least, end, ends } = phase else { return phase };
    if service.has_lost_successor() && service.take_back() {
        systemd::is_main_again();
        return if ends { begin_to_end(service) } else { Phase::Serving };
    }
    let now = Instant::now();
    if now >= end || (now >= least && service.is_empty()) {
        return drain_for_successor(service, ends);
    }
    service.tell_changes();
    Phase::Succeeded { least, end, ends }
}

/// Ends what is left. The service manager watches the successor by now, and is not told.
fn drain_for_successor(service: &mut impl Service, is_stopped: bool) -> Phase {
    let longest = service.drain();
    service.tell_successor();
    tracing::info!(
        "running responses may finish within {longest:?}{}",
        if is_stopped { STOP_HINT } else { "" }
    );
    Phase::Draining { ended: watch(service.wait()), has_successor: true, is_stopped }
}

/// The first signal to stop.
fn begin_to_end(service: &mut impl Service) -> Phase {
    let longest = service.begin_lame_duck();
    if longest.is_zero() {
        return drain(service);
    }
    systemd::stopping(longest + END_LIMIT);
    tracing::info!(
        "stopping: health checks fail and responses end their connections; listeners close in {longest:?}; \
         another signal stops at once"
    );
    Phase::LameDuck(Instant::now() + longest)
}

fn drain(service: &mut impl Service) -> Phase {
    // Before the line in the log, so that health checks agree with it.
    systemd::stopping(service.drain() + END_LIMIT);
    tracing::info!("draining: running responses may finish{STOP_HINT}");
    Phase::Draining { ended: watch(service.wait()), has_successor: false, is_stopped: true }
}

/// Another signal to stop: ends everything now.
async fn stop(service: &mut impl Service, phase: Phase) {
    let ended = match phase {
        Phase::Draining { ended, .. } => ended,
        Phase::Serving | Phase::HandingOver { .. } | Phase::LameDuck(_) | Phase::Succeeded { .. } => {
            // Closes the admin listener, and tells a successor that this process ends.
            _ = service.drain();
            watch(service.wait())
        }
    };
    service.stop();
    if tokio::time::timeout(STOP_LIMIT, ended).await.is_err() {
        tracing::info!("not all has ended within {STOP_LIMIT:?}: the rest ends with the process");
    }
}

/// Runs a blocking function on a thread of its own, so that signals are still handled.
fn watch(wait: impl FnOnce() + Send + 'static) -> oneshot::Receiver<()> {
    let (sender, receiver) = oneshot::channel::<()>();
    let spawned = thread::Builder::new().name("drain".to_owned()).spawn(move || {
        wait();
        drop(sender);
    });
    if let Err(error) = spawned {
        tracing::error!("cannot wait for the workers: {error}");
    }
    receiver
}
