//! Requests one after the other, on a connection that is kept or on one each.

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::{Pace, Reading, ask, back_off};
use crate::failure::Failure;
use crate::net::{Answer, Link};
use crate::run::Worker;
use crate::target::Target;
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
pub(super) struct Kept {
    link: Link,
    address: SocketAddr,
}

impl Kept {
    pub(super) fn close(self) {
        self.link.close();
    }
}

pub(super) async fn slot(worker: &Worker, pacing: Option<Pacing>) {
    let mut kept: Option<Kept> = None;
    while let Some(due) = worker.next_start().await {
        let request = worker.chooser.borrow_mut().choose();
        match paced(worker, &mut kept, &request, pacing).await {
            Ok(Some(_)) => worker.finish(due, Ok(())),
            // The end of the run cut it off; it stays in flight, and is told as unfinished.
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
        kept.close();
    }
}

/// One request, and what `keep` is given of its body; the status of the response. `elsewhere` is its server if that is
/// not the plan's.
pub(super) async fn fetch(
    worker: &Worker,
    kept: &mut Option<Kept>,
    elsewhere: Option<&Target>,
    request: &Request,
    keep: &dyn Fn(&[u8]),
) -> Result<u16, Failure> {
    let answer = once(worker, kept, elsewhere, request, &Reading { keep, ..Reading::DROP }).await?;
    answer.map(|answer| answer.status).ok_or(Failure::ResponseTimeout)
}

/// `None` when the run ended within the response.
async fn paced(
    worker: &Worker,
    kept: &mut Option<Kept>,
    request: &Request,
    pacing: Option<Pacing>,
) -> Result<Option<Answer>, Failure> {
    let bitrate = pacing.and_then(|pacing| pacing.bitrate);
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
    let turn_bytes = bitrate.map(|bitrate| (bitrate / 8 / READS_PER_SECOND).max(TURN_BYTES_MIN));
    once(worker, kept, None, request, &Reading { pace: &pace, turn_bytes, ..Reading::DROP }).await
}

async fn once(
    worker: &Worker,
    kept: &mut Option<Kept>,
    elsewhere: Option<&Target>,
    request: &Request,
    reading: &Reading<'_>,
) -> Result<Option<Answer>, Failure> {
    if let Some(mut reused) = kept.take() {
        match ask(worker, (&mut reused.link, reused.address), request, reading).await {
            // The server had ended the idle connection before it saw the request (RFC 9112 §9.3.1).
            Err(Failure::ClosedBeforeResponse | Failure::ResetBeforeResponse | Failure::RequestNotSent) => {
                worker.tally().retried += 1;
            }
            answered => return settle(worker, kept, (reused, request), answered),
        }
    }
    let address = match elsewhere {
        None => worker.next_address(),
        Some(target) => worker.look_up(target).await?,
    };
    let (link, opening) = worker.connect_to(elsewhere, address).await?;
    let mut fresh = Kept { link, address };
    let answered = ask(worker, (&mut fresh.link, fresh.address), request, reading).await;
    if opening.early_data && !fresh.link.is_in_early_data() {
        worker.note_handshake(fresh.address, &fresh.link, &opening);
    }
    settle(worker, kept, (fresh, request), answered)
}

/// Keeps the connection if that is possible and wanted, or ends it.
fn settle(
    worker: &Worker,
    kept: &mut Option<Kept>,
    (used, request): (Kept, &Request),
    answered: Result<Option<Answer>, Failure>,
) -> Result<Option<Answer>, Failure> {
    match &answered {
        Ok(Some(answer)) if answer.keeps_alive && !worker.plan.workload.connection_each => *kept = Some(used),
        Ok(_) => used.close(),
        Err(failure) => worker.blame(used.address, &used.link, request, *failure),
    }
    answered
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
