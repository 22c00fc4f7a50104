//! One request and its response.

use std::time::{Duration, Instant};

use super::link::{ClientConnection, ReadResult};
use crate::failure::LoadFailure;
use crate::response::ResponseReader;
use crate::workload::PreparedRequest;

/// The bytes of a body after which other connections of the thread continue.
const BYTES_PER_TURN: u64 = 1024 * 1024;

/// The facts of a whole response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseSummary {
    pub(crate) status: u16,
    pub(crate) keeps_alive: bool,
    /// From sending the request to the first byte.
    pub(crate) first_byte: Duration,
}

/// The surroundings of a request on a connection.
pub(crate) struct RequestExchange<'a> {
    /// How long the server may take for the head, and how long a body may pause.
    pub(crate) timeout: Duration,
    /// The buffer of reads; its content is not kept over a pause.
    pub(crate) scratch: &'a std::cell::RefCell<Vec<u8>>,
    /// Gets the body.
    pub(crate) body: &'a mut dyn FnMut(&[u8]),
    /// Gets the number of new bytes of the body. Says whether to continue, and when.
    pub(crate) meter: &'a mut dyn FnMut(u64) -> BodyPace,
    /// The bytes of a body after which the meter is asked.
    pub(crate) turn_bytes: u64,
}

/// How a body continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyPace {
    /// At once.
    Go,
    /// After this time.
    After(Duration),
    /// Not at all.
    Stop,
}

impl<'a> RequestExchange<'a> {
    /// Surroundings without a limit of rate.
    pub(crate) fn new(
        timeout: Duration,
        scratch: &'a std::cell::RefCell<Vec<u8>>,
        body: &'a mut dyn FnMut(&[u8]),
        meter: &'a mut dyn FnMut(u64) -> BodyPace,
    ) -> Self {
        Self { timeout, scratch, body, meter, turn_bytes: BYTES_PER_TURN }
    }

    /// Sends the request and reads the whole response. Returns `None` if the meter said stop.
    pub(crate) async fn run(
        mut self,
        link: &mut ClientConnection,
        request: &PreparedRequest,
    ) -> Result<Option<ResponseSummary>, LoadFailure> {
        let start = Instant::now();
        link.write(&request.bytes, self.timeout).await?;
        let mut receiver = ResponseReader::default();
        receiver.expect(request.for_head);
        let mut first_byte = None;
        loop {
            let turn = self.take_turn(link, &mut receiver);
            if first_byte.is_none() && receiver.has_begun() {
                first_byte = Some(start.elapsed());
            }
            match turn? {
                ReadStep::Done => break,
                ReadStep::Spent(BodyPace::Go) => tokio::task::yield_now().await,
                ReadStep::Spent(BodyPace::After(pause)) => tokio::time::sleep(pause).await,
                ReadStep::Spent(BodyPace::Stop) => return Ok(None),
                ReadStep::SendAgain => link.write(&request.bytes, self.timeout).await?,
                ReadStep::Wait(waiting) => {
                    // A head that arrives byte by byte has no more time than one that does not arrive.
                    let (limit, failure) = match receiver.head() {
                        None => (self.timeout.saturating_sub(start.elapsed()), LoadFailure::ResponseTimeout),
                        Some(_) => (self.timeout, LoadFailure::BodyTimeout),
                    };
                    if !link.wait(waiting, limit).await {
                        return Err(failure);
                    }
                }
            }
        }
        let head = receiver.head().ok_or(LoadFailure::ResponseMalformed)?;
        Ok(Some(ResponseSummary {
            status: head.status,
            keeps_alive: head.keeps_alive,
            first_byte: first_byte.unwrap_or_default(),
        }))
    }

    /// Reads what has arrived, up to the end of the response or of the turn.
    fn take_turn(
        &mut self,
        link: &mut ClientConnection,
        receiver: &mut ResponseReader,
    ) -> Result<ReadStep, LoadFailure> {
        let mut scratch = self.scratch.borrow_mut();
        let mut taken = 0;
        let turn = loop {
            let count = match link.read(&mut scratch) {
                ReadResult::Bytes(count) => count,
                ReadResult::Wait(waiting) => break Ok(ReadStep::Wait(waiting)),
                ReadResult::EarlyDataRefused => break Ok(ReadStep::SendAgain),
                end => break ended(&end, link, receiver),
            };
            let body = &mut self.body;
            let used = receiver.feed(&scratch[..count], |bytes| {
                taken += bytes.len() as u64;
                body(bytes);
            });
            match used {
                Err(failure) => break Err(failure),
                Ok(used) if receiver.is_done() && used < count => break Err(LoadFailure::BodyLong),
                Ok(_) if receiver.is_done() => break Ok(ReadStep::Done),
                Ok(_) if taken >= self.turn_bytes => break Ok(ReadStep::Spent(BodyPace::Go)),
                Ok(_) => {}
            }
        };
        let pace = if taken > 0 { (self.meter)(taken) } else { BodyPace::Go };
        match turn {
            Ok(ReadStep::Spent(_)) => Ok(ReadStep::Spent(pace)),
            Ok(ReadStep::Wait(_)) if pace != BodyPace::Go => Ok(ReadStep::Spent(pace)),
            turn => turn,
        }
    }
}

enum ReadStep {
    Done,
    Spent(BodyPace),
    SendAgain,
    Wait(super::link::Readiness),
}

fn ended(
    how: &ReadResult,
    link: &ClientConnection,
    receiver: &mut ResponseReader,
) -> Result<ReadStep, LoadFailure> {
    let begun = receiver.has_begun();
    match how {
        ReadResult::End => receiver.end().map(|()| ReadStep::Done),
        // Without close_notify the end of a body that has no length may be an attacker's (RFC 9112 §9.8).
        ReadResult::Cut if begun => Err(LoadFailure::BodyShort),
        ReadResult::Cut => Err(LoadFailure::ClosedBeforeResponse),
        ReadResult::Reset if begun => Err(LoadFailure::BodyReset),
        ReadResult::Reset => Err(LoadFailure::ResetBeforeResponse),
        // In TLS 1.3 a server rejects a client's certificate after the client's handshake is complete.
        _ => match link.alert() {
            Some(number) if !begun => Err(LoadFailure::HandshakeAlert(number)),
            _ => Err(LoadFailure::TlsBroken),
        },
    }
}
