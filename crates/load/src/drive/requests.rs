//! Requests one after the other, on a connection that is kept or on one each.

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::{Pace, ask, back_off};
use crate::failure::Failure;
use crate::net::{Link, Opening};
use crate::run::Worker;
use crate::workload::Request;

/// How fast a body may come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacing {
    /// In bits per second; else as fast as it comes.
    pub(super) bitrate: Option<u64>,
}

/// How often a paced stream reads.
const READS_PER_SECOND: u64 = 20;
/// Less is not read at once: it is the size of a record.
const TURN_BYTES_MIN: u64 = 16 * 1024;

/// A connection that is kept between two requests.
struct Kept {
    link: Link,
    address: SocketAddr,
}

pub(super) async fn slot(worker: &Worker, pacing: Option<Pacing>) {
    let mut kept: Option<Kept> = None;
    while let Some(due) = worker.next_start().await {
        let request = worker.chooser.borrow_mut().choose();
        let outcome = once(worker, &mut kept, &request, pacing).await;
        match outcome {
            Ok(true) => worker.finish(due, Ok(())),
            // The end of the run cut it off; it stays in flight, and is told as unfinished.
            Ok(false) => break,
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
        kept.link.close();
    }
}

/// Whether the whole response came before the end of the run.
async fn once(
    worker: &Worker,
    kept: &mut Option<Kept>,
    request: &Request,
    pacing: Option<Pacing>,
) -> Result<bool, Failure> {
    if let Some(mut reused) = kept.take() {
        match attempt(worker, &mut reused.link, request, pacing).await {
            // The server had ended the idle connection before it saw the request (RFC 9112 §9.3.1).
            Err(Failure::ClosedBeforeResponse | Failure::ResetBeforeResponse | Failure::RequestNotSent) => {
                worker.tally().retried += 1
            }
            other => return settle(worker, kept, reused, other),
        }
    }
    let address = worker.next_address();
    let (link, opening) = worker.connect(address).await?;
    let mut fresh = Kept { link, address };
    let answered = attempt(worker, &mut fresh.link, request, pacing).await;
    note_early(worker, &fresh, &opening);
    settle(worker, kept, fresh, answered)
}

fn note_early(worker: &Worker, fresh: &Kept, opening: &Opening) {
    if opening.early_data && !fresh.link.is_in_early_data() {
        worker.note_handshake(fresh.address, &fresh.link, opening);
    }
}

/// Keeps the connection or ends it. `answered` says whether it may be kept, or that the run has ended.
fn settle(
    worker: &Worker,
    kept: &mut Option<Kept>,
    used: Kept,
    answered: Result<Option<bool>, Failure>,
) -> Result<bool, Failure> {
    match answered {
        Ok(Some(true)) if !worker.plan.workload.connection_each => *kept = Some(used),
        Ok(_) => used.link.close(),
        Err(failure) => {
            worker.tally().at(used.address).errors += 1;
            return Err(failure);
        }
    }
    Ok(answered?.is_some())
}

/// Whether the connection may be used again; `None` when the run ended.
async fn attempt(
    worker: &Worker,
    link: &mut Link,
    request: &Request,
    pacing: Option<Pacing>,
) -> Result<Option<bool>, Failure> {
    let bitrate = pacing.and_then(|pacing| pacing.bitrate);
    let turn_bytes = bitrate.map(|bitrate| (bitrate / 8 / READS_PER_SECOND).max(TURN_BYTES_MIN));
    let begin = Instant::now();
    let so_far = Cell::new(0_u64);
    let pace = |bytes: u64| {
        so_far.set(so_far.get() + bytes);
        if pacing.is_some() && worker.shared.is_over() {
            return Pace::Stop;
        }
        match bitrate.map(|bitrate| ahead(so_far.get(), bitrate, begin.elapsed())) {
            None | Some(Duration::ZERO) => Pace::Go,
            Some(pause) => Pace::After(pause),
        }
    };
    let answer = ask(worker, link, request, turn_bytes, &pace).await?;
    Ok(answer.map(|answer| answer.keeps_alive))
}

/// How long to wait until so many bytes are no more than the bitrate allows.
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
