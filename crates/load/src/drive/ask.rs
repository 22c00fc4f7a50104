//! One request on an open connection.

use std::cell::RefCell;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use boring::sha::Sha256;

use crate::failure::LoadFailure;
use crate::net::{BodyPace, HttpConnection, RequestExchange, ResponseSummary};
use crate::worker::LoadThread;
use crate::workload::{Checksum, PreparedRequest};

/// The pause of a closed loop after a failed connection; without it the loop measures only how fast it fails.
const AFTER_FAILURE: Duration = Duration::from_millis(5);

/// The handling of a body.
pub(super) struct BodyHandling<'a> {
    /// Gets the bytes.
    pub(super) keep: &'a dyn Fn(&[u8]),
    /// Says when to continue.
    pub(super) pace: &'a dyn Fn(u64) -> BodyPace,
    /// The bytes after which `pace` is asked.
    pub(super) turn_bytes: Option<u64>,
}

impl BodyHandling<'static> {
    /// Dropped, at full speed.
    pub(super) const DROP: Self = Self { keep: &|_| (), pace: &|_| BodyPace::Go, turn_bytes: None };
}

/// Pauses after a failed connection in a closed loop.
pub(super) async fn back_off(worker: &LoadThread, failure: LoadFailure) {
    if failure.is_before_request() && worker.plan.rate.is_none() {
        tokio::time::sleep(AFTER_FAILURE).await;
    }
}

/// Sends a request and counts the response. Returns `None` when the run has ended.
pub(super) async fn ask(
    worker: &LoadThread,
    (connection, address): (&mut HttpConnection, SocketAddr),
    request: &PreparedRequest,
    reading: &BodyHandling<'_>,
) -> Result<Option<ResponseSummary>, LoadFailure> {
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
    let mut exchange = RequestExchange::new(worker.plan.timeout, &worker.scratch, &mut body, &mut meter);
    exchange.turn_bytes = reading.turn_bytes.unwrap_or(exchange.turn_bytes);
    let Some(answer) = connection.exchange(exchange, request).await? else { return Ok(None) };
    let mut tally = worker.tally();
    tally.respond(answer.status, request.is_delta);
    tally.first_byte.note(answer.first_byte);
    drop(tally);
    let whole = matches!(answer.status, 200 | 206) && !request.for_head;
    let is_wrong = whole && {
        let found = digest.into_inner().finish();
        !worker.shared.is_right_body(wanted, &request.object, found)
    };
    let range_ignored = request.ranged && answer.status == 200;
    let mut tally = worker.tally();
    let content =
        [range_ignored.then_some(LoadFailure::RangeIgnored), is_wrong.then_some(LoadFailure::BodyWrong)];
    content.into_iter().flatten().for_each(|failure| tally.fail(failure));
    let faults =
        [LoadFailure::of_status(answer.status, request.is_delta)].into_iter().chain(content).flatten();
    let said = ResponseDescription { status: answer.status, request };
    let found = faults.map(|failure| tally.blame(address, failure, &said)).count();
    tally.succeeded += u64::from(found == 0);
    Ok(Some(answer))
}

/// A faulty response, as shown in reports.
struct ResponseDescription<'a> {
    status: u16,
    request: &'a PreparedRequest,
}

impl fmt::Display for ResponseDescription<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}", self.status, self.request.object.trim_end())
    }
}
