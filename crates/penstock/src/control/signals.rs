//! Events: signals, and what a phase waits for.

use std::future;
use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{HandOverOutcome, Phase};

/// The signals that the program obeys.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    hangup: Signal,
    user1: Signal,
    user2: Signal,
}

/// An event for a running server.
pub(super) enum Event {
    Terminate,
    Reload,
    ReopenLogs,
    /// SIGUSR2: a new process is to succeed this one.
    HandOver,
    /// It accepts connections, or it has ended.
    HandedOver(HandOverOutcome),
    /// It is time to look for what has changed by itself.
    Tick,
    /// Every worker has ended.
    Ended,
}

impl Signals {
    /// Listens from now on. Called inside a runtime.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
        })
    }

    /// Waits for a signal, for what the phase waits for, or for the tick.
    pub(super) async fn next_event(&mut self, phase: &mut Phase, tick: Option<Duration>) -> Event {
        let ticked = async {
            match tick {
                Some(tick) => tokio::time::sleep(tick).await,
                None => future::pending().await,
            }
        };
        let of_phase = async {
            match phase {
                Phase::Draining { ended, .. } => {
                    // Nothing is ever sent: the waiting thread drops its end.
                    let _dropped = ended.await.is_err();
                    Event::Ended
                }
                Phase::HandingOver { outcome, .. } => {
                    let panicked = |_| Err("its thread panicked".to_owned());
                    Event::HandedOver(outcome.await.unwrap_or_else(panicked))
                }
                Phase::Serving | Phase::LameDuck(_) | Phase::Succeeded { .. } => future::pending().await,
            }
        };
        // In this order: a stop that came while a successor started is obeyed before the news that this one is ready.
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Event::Terminate,
            _ = self.interrupt.recv() => Event::Terminate,
            _ = self.quit.recv() => Event::Terminate,
            _ = self.hangup.recv() => Event::Reload,
            _ = self.user1.recv() => Event::ReopenLogs,
            _ = self.user2.recv() => Event::HandOver,
            event = of_phase => event,
            () = ticked => Event::Tick,
        }
    }
}
