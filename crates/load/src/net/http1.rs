//! One request and its response over HTTP/1.1.

use std::time::Instant;

use super::exchange::{BodyPace, RequestExchange, ResponseSummary};
use super::link::{ClientConnection, ReadResult, Readiness};
use crate::failure::LoadFailure;
use crate::response::ResponseReader;
use crate::workload::PreparedRequest;

impl RequestExchange<'_> {
    /// Sends the request and reads the whole response. Returns `None` if the meter said stop.
    pub(super) async fn run(
        mut self,
        link: &mut ClientConnection,
        request: &PreparedRequest,
    ) -> Result<Option<ResponseSummary>, LoadFailure> {
        let start = Instant::now();
        let bytes = request.head();
        link.write(&bytes, self.timeout).await?;
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
                ReadStep::SendAgain => link.write(&bytes, self.timeout).await?,
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
    Wait(Readiness),
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
