//! What one connection does over and over.

mod handshakes;
mod playback;
mod requests;

use std::cell::RefCell;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use boring::sha::Sha256;

use crate::failure::Failure;
use crate::net::{Answer, Exchange, Link};
use crate::plan::Mode;
use crate::run::Worker;
use crate::workload::{Checksum, Request};

use crate::net::Pace;

/// A closed loop waits so long after a connection that failed: otherwise it would only measure how fast it fails.
const AFTER_FAILURE: Duration = Duration::from_millis(5);

/// Runs connection `number` of this thread until there is nothing more to do.
pub(crate) async fn slot(worker: &Worker, number: usize) {
    match worker.plan.mode {
        Mode::Handshakes { request } => handshakes::slot(worker, request).await,
        Mode::Requests => requests::slot(worker, None).await,
        Mode::Download { bitrate } => requests::slot(worker, Some(requests::Pacing { bitrate })).await,
        Mode::Playback(habits) => playback::slot(worker, habits, worker.place(number)).await,
    }
}

/// What becomes of a body while it comes.
struct Reading<'a> {
    /// Gets all of it.
    keep: &'a dyn Fn(&[u8]),
    /// Says when to go on.
    pace: &'a dyn Fn(u64) -> Pace,
    /// How much may come before that is asked.
    turn_bytes: Option<u64>,
}

impl Reading<'static> {
    /// At once and as fast as it comes.
    const DROP: Self = Self { keep: &|_| (), pace: &|_| Pace::Go, turn_bytes: None };
}

/// Pauses after a failure to connect in a closed loop.
async fn back_off(worker: &Worker, failure: Failure) {
    if failure.is_before_request() && worker.plan.rate.is_none() {
        tokio::time::sleep(AFTER_FAILURE).await;
    }
}

/// One request on an open connection: its response counted by status, its body compared. `None` when the run ended.
async fn ask(
    worker: &Worker,
    (link, address): (&mut Link, SocketAddr),
    request: &Request,
    reading: &Reading<'_>,
) -> Result<Option<Answer>, Failure> {
    let digest = RefCell::new(Sha256::new());
    let wanted = worker.plan.workload.checksum;
    let mut body = |bytes: &[u8]| {
        if wanted != Checksum::Off {
            digest.borrow_mut().update(bytes);
        }
        (reading.keep)(bytes);
    };
    let mut meter = |bytes: u64| {
        worker.tally().bytes += bytes;
        worker.progress();
        (reading.pace)(bytes)
    };
    let mut exchange = Exchange::new(worker.plan.timeout, &worker.scratch, &mut body, &mut meter);
    exchange.turn_bytes = reading.turn_bytes.unwrap_or(exchange.turn_bytes);
    let Some(answer) = exchange.run(link, request).await? else { return Ok(None) };
    let mut tally = worker.tally();
    tally.respond(answer.status);
    tally.first_byte.note(answer.first_byte);
    drop(tally);
    let whole = matches!(answer.status, 200 | 206) && !request.for_head;
    let is_wrong = whole && {
        let found = digest.into_inner().finish();
        !worker.shared.is_right_body(wanted, &request.object, found)
    };
    let range_ignored = request.ranged && answer.status == 200;
    let mut tally = worker.tally();
    let content = [range_ignored.then_some(Failure::RangeIgnored), is_wrong.then_some(Failure::BodyWrong)];
    content.into_iter().flatten().for_each(|failure| tally.fail(failure));
    let faults = [Failure::of_status(answer.status)].into_iter().chain(content).flatten();
    let said = Described { status: answer.status, request };
    let found = faults.map(|failure| tally.blame(address, failure, &said)).count();
    tally.succeeded += u64::from(found == 0);
    Ok(Some(answer))
}

/// What a report says of the first response with a fault.
struct Described<'a> {
    status: u16,
    request: &'a Request,
}

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}", self.status, self.request.object.trim_end())
    }
}
