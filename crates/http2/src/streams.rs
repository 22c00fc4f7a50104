//! The streams of a connection (RFC 9113 §5.1).

use crate::priority::{Priority, PriorityParameters};

/// How many streams that are gone are remembered.
const CLOSED: usize = 16;

/// What a stream has to send next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outgoing {
    /// Nothing at the moment: the response waits for its origin, a page, or the application.
    #[default]
    Nothing,
    /// Frames that flow control does not concern: HEADERS, an empty DATA frame with END_STREAM.
    Frames,
    /// DATA with payload.
    Data,
}

/// What the client may still send on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// A body, which the application takes.
    Body,
    /// A body that is discarded, since its request was not delivered.
    Discarded,
    /// Nothing: it sent END_STREAM.
    Ended,
}

/// What was sent of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Response {
    /// Nothing, or interim responses.
    Nothing,
    /// The head of the final response.
    Head,
    /// All of it: END_STREAM.
    Whole,
}

/// How a stream was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// Both sides ended it.
    Ended,
    /// The client reset it.
    ByClient,
    /// This side reset or refused it: frames that the client sent before it knew are ignored.
    ByServer,
    /// This side has answered before any content of the request came. If it comes, and not in one frame, the client is told
    /// that it is not needed.
    Answered,
}

/// A stream that occupies a place.
#[derive(Debug)]
pub(crate) struct StreamState {
    pub(crate) id: u32,
    /// Bytes that the client lets this side send; negative after SETTINGS made the window smaller.
    pub(crate) send_window: i64,
    /// Bytes that the client may send; negative after SETTINGS made the window smaller.
    pub(crate) receive_window: i64,
    /// Bytes that were passed on and not released.
    pub(crate) unreleased: u32,
    /// Bytes that were released and not yet announced by WINDOW_UPDATE.
    pub(crate) released: u32,
    /// Whether content of the request has come.
    pub(crate) has_content: bool,
    /// Bytes that are missing from the body, if its length is known.
    pub(crate) body_left: Option<u64>,
    /// Memory of the request's fields.
    pub(crate) held_bytes: u32,
    pub(crate) incoming: Incoming,
    pub(crate) response: Response,
    /// Whether content was sent, or the whole response.
    pub(crate) has_given: bool,
    /// Set if the stream was reset; its work has not ended.
    pub(crate) reset: Option<Closed>,
    pub(crate) outgoing: Outgoing,
    pub(crate) asked: PriorityParameters,
    pub(crate) default_urgency: u8,
    /// When the stream was last chosen, by the clock of [`Choices`].
    pub(crate) turn: u32,
}

impl StreamState {
    pub(crate) fn priority(&self) -> Priority {
        let urgency = self.asked.urgency.unwrap_or(self.default_urgency);
        Priority { urgency, incremental: self.asked.incremental }
    }

    /// Whether END_STREAM was sent.
    pub(crate) fn is_sent(&self) -> bool {
        self.response == Response::Whole
    }

    pub(crate) fn may_send(&self) -> bool {
        !self.is_sent() && self.reset.is_none()
    }
}

/// All streams that occupy a place, and what is remembered of others.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// In the order of their numbers, which grow.
    list: Vec<StreamState>,
    /// Streams that are gone, as `id << 1 | how`: numbers are odd, which leaves two bits.
    closed: [u32; CLOSED],
    next_closed: usize,
    /// Sum of `held_bytes`.
    held_bytes: u32,
    choices: Choices,
}

impl Streams {
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn held_bytes(&self) -> u32 {
        self.held_bytes
    }

    fn position(&self, id: u32) -> Option<usize> {
        self.list.binary_search_by_key(&id, |stream| stream.id).ok()
    }

    pub(crate) fn get(&self, id: u32) -> Option<&StreamState> {
        self.position(id).map(|at| &self.list[at])
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut StreamState> {
        self.position(id).map(|at| &mut self.list[at])
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut StreamState> {
        self.list.iter_mut()
    }

    /// Adds a stream, whose number is the highest.
    pub(crate) fn push(&mut self, mut stream: StreamState) {
        stream.turn = self.choices.clock;
        self.held_bytes += stream.held_bytes;
        self.list.push(stream);
    }

    /// Takes a stream out.
    pub(crate) fn remove(&mut self, id: u32) -> Option<StreamState> {
        let stream = self.list.remove(self.position(id)?);
        self.held_bytes -= stream.held_bytes;
        Some(stream)
    }

    pub(crate) fn remember(&mut self, id: u32, how: Closed) {
        let how = match how {
            Closed::Ended => 0,
            Closed::ByClient => 1,
            Closed::ByServer => 2,
            Closed::Answered => 3,
        };
        self.closed[self.next_closed] = (id >> 1) << 2 | how;
        self.next_closed = (self.next_closed + 1) % CLOSED;
    }

    /// How a stream was closed that is gone; `None` if it was never open or that was long ago.
    pub(crate) fn closed(&self, id: u32) -> Option<Closed> {
        let newest_first = self.closed[..self.next_closed].iter().rev();
        let mut entries = newest_first.chain(self.closed[self.next_closed..].iter().rev());
        // An entry of the first stream that ended is 0, as an empty one is: both say the same of it.
        let entry = entries.find(|&&entry| entry >> 2 == id >> 1)?;
        Some(match entry & 3 {
            0 => Closed::Ended,
            1 => Closed::ByClient,
            2 => Closed::ByServer,
            _ => Closed::Answered,
        })
    }

    /// The stream to send a frame of (RFC 9218 §10). See [`ServerConnection::next_stream`](crate::ServerConnection).
    pub(crate) fn next(&mut self, connection_window: i64) -> Option<u32> {
        let mut best: Option<Candidate> = None;
        // One bit for each urgency whose first sequential stream was found.
        let mut sequential_seen = 0u8;
        for (at, stream) in self.list.iter().enumerate() {
            let is_ready = match stream.outgoing {
                Outgoing::Nothing => false,
                Outgoing::Frames => true,
                Outgoing::Data => connection_window > 0 && stream.send_window > 0,
            };
            let Priority { urgency, incremental } = stream.priority();
            let bit = 1 << urgency;
            if !is_ready || !incremental && sequential_seen & bit != 0 {
                continue;
            }
            let turn = if incremental {
                stream.turn
            } else {
                sequential_seen |= bit;
                self.choices.sequential[usize::from(urgency)]
            };
            let candidate = Candidate { at, urgency, waited: self.choices.clock.wrapping_sub(turn) };
            if best.is_none_or(|best| candidate.is_before(best)) {
                best = Some(candidate);
            }
        }
        let Candidate { at, urgency, .. } = best?;
        let stream = &mut self.list[at];
        self.choices.clock = self.choices.clock.wrapping_add(1);
        if stream.asked.incremental {
            stream.turn = self.choices.clock;
        } else {
            self.choices.sequential[usize::from(urgency)] = self.choices.clock;
        }
        Some(stream.id)
    }

    /// Gives back memory if there is no stream.
    pub(crate) fn shrink(&mut self) {
        if self.list.is_empty() {
            self.list = Vec::new();
        }
    }
}

/// When streams were chosen, in numbers of choices.
#[derive(Debug, Default)]
struct Choices {
    clock: u32,
    /// For each urgency, when a stream that is not incremental was last chosen: they share one turn.
    sequential: [u32; Priority::URGENCY_MAX as usize + 1],
}

#[derive(Clone, Copy)]
struct Candidate {
    at: usize,
    urgency: u8,
    waited: u32,
}

impl Candidate {
    fn is_before(self, other: Self) -> bool {
        self.urgency < other.urgency || self.urgency == other.urgency && self.waited > other.waited
    }
}
