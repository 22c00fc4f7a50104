//! What the task of a connection waits for, whichever its protocol.

use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::time::sleep_until;

use super::{SharedConnection, StreamTasks};
use crate::carrier::Multiplexer;
use crate::clients::IdleEntry;

/// What ends a wait beside the streams and the transport.
pub(crate) struct Wait<'a> {
    /// The entry of a connection that is idle: it ends for another one.
    pub(crate) idle: Option<&'a IdleEntry>,
    pub(crate) deadline: Option<Instant>,
    /// Whether the client still has to be told that the worker drains.
    pub(crate) follows_drain: bool,
}

impl<M: Multiplexer> SharedConnection<M> {
    /// Runs the tasks until one has ended or changed the state of its stream, `transport` is ready, or one of `wait` has come.
    pub(crate) async fn run_until<F: Future<Output = ()>, N>(
        &self,
        tasks: &mut StreamTasks<F, N>,
        wait: &Wait<'_>,
        transport: Pin<&mut impl Future<Output = ()>>,
    ) {
        // Written in the branches: a future with a name would have its space twice.
        tokio::select! {
            biased;
            () = poll_fn(|context| {
                let any = tasks.run(context);
                if self.take_changed() || any { Poll::Ready(()) } else { Poll::Pending }
            }) => {}
            () = transport => {}
            () = self.worker.phase_changed(), if wait.follows_drain => {}
            () = async {
                match wait.idle {
                    Some(idle) => idle.woken().await,
                    None => pending().await,
                }
            } => {}
            () = async {
                match wait.deadline {
                    Some(deadline) => sleep_until(deadline.into()).await,
                    None => pending().await,
                }
            } => {}
        }
    }
}

/// Calls `f` with the context of the task.
pub(crate) async fn now_with<T>(f: impl FnOnce(&mut Context<'_>) -> T) -> T {
    let mut f = Some(f);
    poll_fn(|context| f.take().map_or(Poll::Pending, |f| Poll::Ready(f(context)))).await
}
