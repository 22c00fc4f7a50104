//! One request and its response.

use std::time::{Duration, Instant};

use super::link::{Input, Link};
use crate::failure::Failure;
use crate::response::Receiver;
use crate::workload::Request;

/// Bytes after which others of this thread get their turn, and the meter is told.
const BYTES_PER_TURN: u64 = 1024 * 1024;

/// A whole response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) keeps_alive: bool,
    /// From sending the request.
    pub(crate) first_byte: Duration,
}

/// What an exchange needs beside link and request.
pub(crate) struct Exchange<'a> {
    /// How long nothing may come.
    pub(crate) timeout: Duration,
    /// Takes what was read; nothing of it is kept over a pause.
    pub(crate) scratch: &'a std::cell::RefCell<Vec<u8>>,
    /// Gets the body.
    pub(crate) body: &'a mut dyn FnMut(&[u8]),
    /// Told of every so many bytes of the body; says whether to go on, and when.
    pub(crate) meter: &'a mut dyn FnMut(u64) -> Pace,
    /// How much of the body may come before the meter has to be asked.
    pub(crate) turn_bytes: u64,
}

/// What the meter says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// At once.
    Go,
    /// After that long.
    After(Duration),
    /// The run is over.
    Stop,
}

impl<'a> Exchange<'a> {
    /// An exchange whose body is not paced.
    pub(crate) fn new(
        timeout: Duration,
        scratch: &'a std::cell::RefCell<Vec<u8>>,
        body: &'a mut dyn FnMut(&[u8]),
        meter: &'a mut dyn FnMut(u64) -> Pace,
    ) -> Self {
        Self { timeout, scratch, body, meter, turn_bytes: BYTES_PER_TURN }
    }

    /// Sends the request and reads the whole response. `None` when the meter said stop.
    pub(crate) async fn run(mut self, link: &mut Link, request: &Request) -> Result<Option<Answer>, Failure> {
        let start = Instant::now();
        link.write(&request.bytes, self.timeout).await?;
        let mut receiver = Receiver::default();
        receiver.expect(request.for_head);
        let mut first_byte = None;
        loop {
            let turn = self.take_turn(link, &mut receiver);
            if first_byte.is_none() && receiver.has_begun() {
                first_byte = Some(start.elapsed());
            }
            match turn? {
                Turn::Done => break,
                Turn::Spent(Pace::Go) => tokio::task::yield_now().await,
                Turn::Spent(Pace::After(pause)) => tokio::time::sleep(pause).await,
                Turn::Spent(Pace::Stop) => return Ok(None),
                Turn::SendAgain => link.write(&request.bytes, self.timeout).await?,
                Turn::Wait(waiting) => {
                    if !link.wait(waiting, self.timeout).await {
                        let begun = receiver.has_begun();
                        return Err(if begun { Failure::BodyTimeout } else { Failure::ResponseTimeout });
                    }
                }
            }
        }
        let head = receiver.head().ok_or(Failure::ResponseMalformed)?;
        Ok(Some(Answer {
            status: head.status,
            keeps_alive: head.keeps_alive,
            first_byte: first_byte.unwrap_or_default(),
        }))
    }

    /// Reads as much as there is, up to the end of the response or of the turn.
    fn take_turn(&mut self, link: &mut Link, receiver: &mut Receiver) -> Result<Turn, Failure> {
        let mut scratch = self.scratch.borrow_mut();
        let mut taken = 0;
        let turn = loop {
            let count = match link.read(&mut scratch) {
                Input::Bytes(count) => count,
                Input::Wait(waiting) => break Ok(Turn::Wait(waiting)),
                Input::EarlyDataRefused => break Ok(Turn::SendAgain),
                end => break ended(&end, link, receiver),
            };
            let body = &mut self.body;
            let used = receiver.feed(&scratch[..count], |bytes| {
                taken += bytes.len() as u64;
                body(bytes);
            });
            match used {
                Err(failure) => break Err(failure),
                Ok(used) if receiver.is_done() && used < count => break Err(Failure::BodyLong),
                Ok(_) if receiver.is_done() => break Ok(Turn::Done),
                Ok(_) if taken >= self.turn_bytes => break Ok(Turn::Spent(Pace::Go)),
                Ok(_) => {}
            }
        };
        let pace = if taken > 0 { (self.meter)(taken) } else { Pace::Go };
        match turn {
            Ok(Turn::Spent(_)) => Ok(Turn::Spent(pace)),
            Ok(Turn::Wait(_)) if pace != Pace::Go => Ok(Turn::Spent(pace)),
            turn => turn,
        }
    }
}

enum Turn {
    Done,
    Spent(Pace),
    SendAgain,
    Wait(super::link::Waiting),
}

fn ended(how: &Input, link: &Link, receiver: &mut Receiver) -> Result<Turn, Failure> {
    let begun = receiver.has_begun();
    match how {
        Input::End => receiver.end().map(|()| Turn::Done),
        // Without close_notify an end that the body's length does not confirm may be an attacker's (RFC 9112 §9.8).
        Input::Cut if begun => Err(Failure::BodyShort),
        Input::Cut => Err(Failure::ClosedBeforeResponse),
        Input::Reset if begun => Err(Failure::BodyReset),
        Input::Reset => Err(Failure::ResetBeforeResponse),
        // In TLS 1.3 a server refuses a client's certificate only after the client has taken the handshake for over.
        _ => match link.alert() {
            Some(number) if !begun => Err(Failure::HandshakeAlert(number)),
            _ => Err(Failure::TlsBroken),
        },
    }
}
