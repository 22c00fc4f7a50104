//! One request and its response, whatever the protocol.

use std::time::Duration;

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
}
