//! One request after the other, on a kept connection or on one each.

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::ask::{BodyHandling, ask, back_off};
use crate::failure::LoadFailure;
use crate::net::{BodyPace, ClientConnection, ResponseSummary};
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

/// A connection that is kept between requests.
pub(super) struct KeptConnection {
    link: ClientConnection,
    address: SocketAddr,
}

impl KeptConnection {
    pub(super) fn into_link(self) -> ClientConnection {
        self.link
    }
}

pub(super) async fn slot(worker: &LoadThread, pacing: Option<Pacing>) {
    let mut kept: Option<KeptConnection> = None;
    while let Some(due) = worker.next_start().await {
        let request = worker.chooser.borrow_mut().choose();
        match paced(worker, &mut kept, &request, pacing).await {
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
    if let Some(kept) = kept {
        worker.end_connection(kept.link).await;
    }
}

/// Sends one request and returns the status of the response. `elsewhere` is the server if it is not the plan's.
pub(super) async fn fetch(
    worker: &LoadThread,
    kept: &mut Option<KeptConnection>,
    elsewhere: Option<&TargetUrl>,
    request: &PreparedRequest,
    handling: &BodyHandling<'_>,
) -> Result<u16, LoadFailure> {
    let answer = once(worker, kept, elsewhere, request, handling).await?;
    answer.map(|answer| answer.status).ok_or(LoadFailure::ResponseTimeout)
}

/// Returns `None` if the run ended within the response.
async fn paced(
    worker: &LoadThread,
    kept: &mut Option<KeptConnection>,
    request: &PreparedRequest,
    pacing: Option<Pacing>,
) -> Result<Option<ResponseSummary>, LoadFailure> {
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
    once(worker, kept, None, request, &BodyHandling { pace: &pace, turn_bytes, ..BodyHandling::DROP }).await
}

async fn once(
    worker: &LoadThread,
    kept: &mut Option<KeptConnection>,
    elsewhere: Option<&TargetUrl>,
    request: &PreparedRequest,
    reading: &BodyHandling<'_>,
) -> Result<Option<ResponseSummary>, LoadFailure> {
    if let Some(mut reused) = kept.take() {
        match ask(worker, (&mut reused.link, reused.address), request, reading).await {
            // The server ended the idle connection before it saw the request (RFC 9112 §9.3.1).
            Err(
                LoadFailure::ClosedBeforeResponse
                | LoadFailure::ResetBeforeResponse
                | LoadFailure::RequestNotSent,
            ) => {
                worker.tally().retried += 1;
            }
            answered => return settle(worker, kept, (reused, request), answered).await,
        }
    }
    let address = match elsewhere {
        None => worker.next_address(),
        Some(target) => worker.look_up(target).await?,
    };
    let (link, opening) = worker.connect_to(elsewhere, address).await?;
    let mut fresh = KeptConnection { link, address };
    let answered = ask(worker, (&mut fresh.link, fresh.address), request, reading).await;
    if opening.early_data && !fresh.link.is_in_early_data() {
        worker.note_handshake(fresh.address, &fresh.link, &opening);
    }
    settle(worker, kept, (fresh, request), answered).await
}

/// Keeps the connection if possible and wanted; otherwise ends it.
async fn settle(
    worker: &LoadThread,
    kept: &mut Option<KeptConnection>,
    (used, request): (KeptConnection, &PreparedRequest),
    answered: Result<Option<ResponseSummary>, LoadFailure>,
) -> Result<Option<ResponseSummary>, LoadFailure> {
    match &answered {
        Ok(Some(answer)) if answer.keeps_alive && !worker.plan.workload.connection_each => *kept = Some(used),
        Ok(Some(_)) => worker.end_connection(used.link).await,
        // The response was given up: the connection cannot be ended in an orderly way.
        Ok(None) => drop(used),
        Err(failure) => worker.blame(used.address, &used.link, request, *failure),
    }
    answered
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
