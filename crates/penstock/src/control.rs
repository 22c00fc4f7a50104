//! The control thread: turns signals into actions of the service.

use std::future;
use std::io;
use std::thread;
use std::time::Duration;

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
    /// It is time to look for the tiers of an earlier process.
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
        runtime.block_on(obey(signals, service));
    }
}

async fn obey(mut signals: Signals, mut service: impl Service) {
    let mut ended: Option<oneshot::Receiver<()>> = None;
    loop {
        // A server that is about to end leaves the tiers to its successor.
        let ticks = ended.is_none() && service.waits_for_tiers();
        match signals.next_event(ended.as_mut(), ticks).await {
            Event::Tick => service.adopt_tiers(),
            Event::Reload if ended.is_some() => tracing::info!("not reloading: this server is about to end"),
            Event::Reload => {
                systemd::reloading();
                service.reload();
                systemd::ready();
            }
            Event::ReopenLogs => service.reopen_logs(),
            Event::HandOver => {
                tracing::warn!(
                    "SIGUSR2 is ignored: this version cannot hand over to a new binary; restart it instead"
                );
            }
            Event::Terminate => match &mut ended {
                None => {
                    // Before the line in the log, so that health checks agree with it.
                    systemd::stopping(service.drain() + END_LIMIT);
                    tracing::info!("draining: running responses may finish; another signal stops at once");
                    ended = Some(watch(service.wait()));
                }
                Some(ended) => {
                    tracing::info!("stopping at once");
                    service.stop();
                    // Workers that are still busy after this end with the process.
                    drop(tokio::time::timeout(STOP_LIMIT, ended).await);
                    return;
                }
            },
            Event::Ended => {
                tracing::info!("stopped");
                return;
            }
        }
    }
}

impl Signals {
    async fn next_event(&mut self, ended: Option<&mut oneshot::Receiver<()>>, ticks: bool) -> Event {
        let tick = Duration::from_millis(limits::WAITING_TIER_MILLISECONDS);
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
            _ = self.hangup.recv() => Event::Reload,
            _ = self.user1.recv() => Event::ReopenLogs,
            _ = self.user2.recv() => Event::HandOver,
            () = ended => Event::Ended,
            () = tokio::time::sleep(tick), if ticks => Event::Tick,
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
