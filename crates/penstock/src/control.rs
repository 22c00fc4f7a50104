//! The control thread: turns signals into actions of the service.

use std::future;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use penstock_config::limits;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

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
    fn wait(&self) -> impl FnOnce() + Send + 'static;

    /// Ends everything at once.
    fn stop(&mut self);
}

/// Listens for signals from the moment it exists.
pub(crate) struct Control {
    runtime: Runtime,
    signals: Signals,
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    hangup: Signal,
    user1: Signal,
    user2: Signal,
}

/// An event for a running server.
enum Event {
    Terminate,
    Reload,
    ReopenLogs,
    /// SIGUSR2, which will mean to hand over to a new binary.
    HandOver,
    /// It is time to look for what has changed by itself.
    Tick,
    /// Every worker has ended.
    Ended,
}

/// What the end of the process may take after a drain: the last lines of the access log, and leaving a fleet.
const END_LIMIT: Duration = Duration::from_secs(15);

/// How long workers may take to end after they were told to stop at once.
const STOP_LIMIT: Duration = Duration::from_secs(2);

impl Control {
    pub(crate) fn new() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let signals = {
            let _inside = runtime.enter();
            Signals {
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
                quit: signal(SignalKind::quit())?,
                hangup: signal(SignalKind::hangup())?,
                user1: signal(SignalKind::user_defined1())?,
                user2: signal(SignalKind::user_defined2())?,
            }
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

/// How often a lame duck looks whether its connections have ended.
const LAME_DUCK_TICK: Duration = Duration::from_millis(50);

/// How far the service is on its way to its end.
enum Phase {
    Serving,
    /// It accepts until then.
    LameDuck(Instant),
    /// It has closed its listeners; the receiver resolves when all has ended.
    Draining(oneshot::Receiver<()>),
}

impl Phase {
    /// When to look for what has changed by itself.
    fn next_tick(&self, service: &impl Service) -> Option<Duration> {
        match self {
            // A server that is about to end leaves the tiers to its successor.
            Self::Serving if service.waits_for_tiers() => {
                Some(Duration::from_millis(limits::WAITING_TIER_MILLISECONDS))
            }
            Self::LameDuck(end) => Some(LAME_DUCK_TICK.min(end.saturating_duration_since(Instant::now()))),
            Self::Serving | Self::Draining(_) => None,
        }
    }
}

async fn obey(mut signals: Signals, mut service: impl Service) {
    let mut phase = Phase::Serving;
    loop {
        let tick = phase.next_tick(&service);
        let ended = match &mut phase {
            Phase::Draining(ended) => Some(ended),
            Phase::Serving | Phase::LameDuck(_) => None,
        };
        let event = signals.next_event(ended, tick).await;
        match (event, &mut phase) {
            (Event::Tick, Phase::LameDuck(end)) => {
                if Instant::now() >= *end || service.may_drain() {
                    phase = drain(&mut service);
                }
            }
            (Event::Tick, _) => service.adopt_tiers(),
            (Event::Reload, Phase::Serving) => {
                systemd::reloading();
                service.reload();
                systemd::ready();
            }
            (Event::Reload, _) => tracing::info!("not reloading: this server is about to end"),
            (Event::ReopenLogs, _) => service.reopen_logs(),
            (Event::HandOver, _) => {
                tracing::warn!(
                    "SIGUSR2 is ignored: this version cannot hand over to a new binary; restart it instead"
                );
            }
            (Event::Terminate, Phase::Serving) => phase = begin_to_end(&mut service),
            (Event::Terminate, _) => {
                tracing::info!("stopping at once");
                return stop(&mut service, phase).await;
            }
            (Event::Ended, _) => {
                tracing::info!("stopped");
                return;
            }
        }
    }
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
    tracing::info!("draining: running responses may finish; another signal stops at once");
    Phase::Draining(watch(service.wait()))
}

/// Another signal to stop: ends everything now.
async fn stop(service: &mut impl Service, phase: Phase) {
    let ended = match phase {
        Phase::Draining(ended) => ended,
        Phase::Serving | Phase::LameDuck(_) => {
            // Closes the admin listener, and tells a successor that this process ends.
            _ = service.drain();
            watch(service.wait())
        }
    };
    service.stop();
    // Workers that are still busy after this end with the process.
    drop(tokio::time::timeout(STOP_LIMIT, ended).await);
}

impl Signals {
    async fn next_event(
        &mut self,
        ended: Option<&mut oneshot::Receiver<()>>,
        tick: Option<Duration>,
    ) -> Event {
        let ticked = async {
            match tick {
                Some(tick) => tokio::time::sleep(tick).await,
                None => future::pending().await,
            }
        };
        let ended = async {
            match ended {
                // Nothing is ever sent: the waiting thread drops its end.
                Some(ended) => drop(ended.await.is_err()),
                None => future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => Event::Terminate,
            _ = self.interrupt.recv() => Event::Terminate,
            _ = self.quit.recv() => Event::Terminate,
            _ = self.hangup.recv() => Event::Reload,
            _ = self.user1.recv() => Event::ReopenLogs,
            _ = self.user2.recv() => Event::HandOver,
            () = ended => Event::Ended,
            () = ticked => Event::Tick,
        }
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
