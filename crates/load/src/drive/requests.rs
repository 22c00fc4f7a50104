//! Requests on kept connections or on one each, one after the other or several at a time.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::ask::{BodyHandling, back_off};
use super::route::{RequestOutcome, Route, once};
use crate::failure::LoadFailure;
use crate::net::BodyPace;
use crate::plan::HttpProtocol;
use crate::target::TargetUrl;
use crate::worker::LoadThread;
use crate::workload::PreparedRequest;

/// The rate of a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacing {
    /// Bits per second; `None` is full speed.
    pub(super) bitrate: Option<u64>,
}

/// Reads per second of a paced body.
const READS_PER_SECOND: u64 = 20;
/// The smallest read of a paced body: a TLS record.
const TURN_BYTES_MIN: u64 = 16 * 1024;

/// Runs the requests of a connection, several at a time if the protocol allows it.
pub(super) async fn slot(worker: &Rc<LoadThread>, pacing: Option<Pacing>) {
    let mut route = match worker.plan.protocol {
        HttpProtocol::Http1 => Route::Alone(None),
        HttpProtocol::Http2 { .. } | HttpProtocol::Http3 { .. } => Route::Shared(Rc::default()),
    };
    let mut streams = JoinSet::new();
    if let Route::Shared(shared) = &route {
        for _ in 1..worker.plan.protocol.streams() {
            let (worker, mut route) = (Rc::clone(worker), Route::Shared(Rc::clone(shared)));
            streams.spawn_local(async move { repeat(&worker, &mut route, pacing).await });
        }
    }
    repeat(worker, &mut route, pacing).await;
    while streams.join_next().await.is_some() {}
    if let Some(connection) = route.into_connection() {
        worker.end_connection(connection).await;
    }
}

/// Sends one request after the other.
async fn repeat(worker: &LoadThread, route: &mut Route, pacing: Option<Pacing>) {
    while let Some(due) = worker.next_start().await {
        let request = worker.chooser.borrow_mut().choose();
        match paced(worker, route, &request, pacing).await {
            Ok(Some(_)) => worker.finish(due, Ok(())),
            // The end of the run cut the response: it stays in flight and is reported as unfinished.
            Ok(None) => break,
            Err(failure) => {
                worker.finish(due, Err(failure));
                back_off(worker, failure).await;
            }
        }
        if worker.plan.rate.is_none() {
            let pause = worker.chooser.borrow_mut().think();
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        }
    }
}

/// Sends one request and returns the status of the response. `elsewhere` is the server if it is not the plan's.
pub(super) async fn fetch(
    worker: &LoadThread,
    route: &mut Route,
    elsewhere: Option<&TargetUrl>,
    request: &PreparedRequest,
    handling: &BodyHandling<'_>,
) -> Result<u16, LoadFailure> {
    let answer = once(worker, route, elsewhere, request, handling).await?;
    answer.map(|answer| answer.status).ok_or(LoadFailure::ResponseTimeout)
}

async fn paced(
    worker: &LoadThread,
    route: &mut Route,
    request: &PreparedRequest,
    pacing: Option<Pacing>,
) -> RequestOutcome {
    let bitrate = pacing.and_then(|pacing| pacing.bitrate);
    let begin = Instant::now();
    let so_far = Cell::new(0_u64);
    let pace = |bytes: u64| {
        so_far.set(so_far.get() + bytes);
        if pacing.is_some() && worker.shared.is_over() {
            return BodyPace::Stop;
        }
        match bitrate.map(|bitrate| ahead(so_far.get(), bitrate, begin.elapsed())) {
            None | Some(Duration::ZERO) => BodyPace::Go,
            Some(pause) => BodyPace::After(pause),
        }
    };
    let turn_bytes = bitrate.map(|bitrate| (bitrate / 8 / READS_PER_SECOND).max(TURN_BYTES_MIN));
    once(worker, route, None, request, &BodyHandling { pace: &pace, turn_bytes, ..BodyHandling::DROP }).await
}

/// The pause until this many bytes fit the bitrate.
fn ahead(bytes: u64, bitrate: u64, elapsed: Duration) -> Duration {
    #[expect(clippy::cast_precision_loss, reason = "a pause need not be exact")]
    let wanted = Duration::from_secs_f64(bytes as f64 * 8.0 / bitrate as f64);
    wanted.saturating_sub(elapsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paced_stream_waits_until_its_bitrate_allows_more() {
        let second = Duration::from_secs(1);
        assert_eq!(ahead(1_000_000, 8_000_000, Duration::ZERO), second);
        assert_eq!(ahead(1_000_000, 8_000_000, second / 4), second * 3 / 4);
        assert_eq!(ahead(1_000_000, 8_000_000, second * 2), Duration::ZERO);
    }
}
