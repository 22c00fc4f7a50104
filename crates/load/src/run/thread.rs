//! A thread of a run, from its start to its end.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};

use crate::drive;
use crate::net::Connector;
use crate::plan::{LoadMode, Plan};
use crate::worker::{LoadThread, RunState};

/// How long operations that have begun may take after the duration of the run.
const GRACE: Duration = Duration::from_secs(1);

/// Runs a thread until everything is done or the duration is over. Returns the time of its last progress.
pub(super) fn run(
    plan: &Arc<Plan>,
    shared: &Arc<RunState>,
    index: usize,
    connector: Connector,
    stop: watch::Receiver<bool>,
) -> Result<Instant, String> {
    let worker = Rc::new(LoadThread::new(plan, shared, index, connector, stop));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => {
            let local = LocalSet::new();
            local.block_on(&runtime, work(&worker)).map_err(|error| format!("cannot keep time: {error}"))
        }
        Err(error) => Err(format!("cannot start a runtime: {error}")),
    };
    let end = worker.end();
    worker.tally().punctuality = worker.punctuality();
    shared.end(worker.backlog());
    result.map(|()| end)
}

async fn work(worker: &Rc<LoadThread>) -> std::io::Result<()> {
    let mut tasks = JoinSet::new();
    for number in 0..worker.connections() {
        let worker = Rc::clone(worker);
        tasks.spawn_local(async move { drive::slot(&worker, number).await });
    }
    let all_done = async { while tasks.join_next().await.is_some() {} };
    let released = worker.release_starts();
    let over = time_is_up(worker);
    tokio::pin!(all_done, released, over);
    let mut is_releasing = true;
    loop {
        tokio::select! {
            () = &mut all_done => return Ok(()),
            () = &mut over => return Ok(()),
            result = &mut released, if is_releasing => {
                is_releasing = false;
                result?;
            }
        }
    }
}

/// Ready when the run must end, whatever is under way.
async fn time_is_up(worker: &LoadThread) {
    let deadline = worker.shared.deadline();
    let grace = match worker.plan.mode {
        // Players leave by themselves and report what happened.
        LoadMode::Handshakes { .. } | LoadMode::Requests | LoadMode::Playback(_) => GRACE,
        LoadMode::Download { .. } => Duration::ZERO,
    };
    let passed = async {
        match deadline {
            Some(deadline) => tokio::time::sleep_until((deadline + grace).into()).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = passed => {}
        () = worker.stopped() => {
            if let LoadMode::Playback(_) = worker.plan.mode {
                tokio::time::sleep(grace).await;
            }
        }
    }
}
