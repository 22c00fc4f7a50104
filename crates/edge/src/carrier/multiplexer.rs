//! A protocol that carries many responses at once on one connection: HTTP/2, HTTP/3.
//!
//! [`Multiplexer`] is what the two have in common for responses: whose turn it is, how much flow control lets a stream send,
//! heads, content, resets. The streams of such a connection are in [`streams`](super::streams); its task, which reads from
//! the client and knows its deadlines, belongs to the protocol.

use penstock_egress::{SendError, Transmission};
use penstock_http::{BodyFraming, ResponseHead, ValidatedHead};
use penstock_sys::socket::Carriage;

use crate::metrics::{HttpLabel, Shard, ShortReason};

/// The head of a response, before it is encoded.
pub(crate) struct StreamHead {
    /// Status and fields.
    pub(crate) response: ResponseHead,
    /// For Content-Length.
    pub(crate) length: Option<u64>,
    /// Whether the stream ends with it.
    pub(crate) end: bool,
}

/// The value of Server, unless a rule of the site says something else.
pub(crate) const SERVER: &str = "penstock";

impl StreamHead {
    /// The value of Server that the protocol adds, empty if it adds none.
    pub(crate) fn server(&self) -> &'static [u8] {
        if self.response.fields.decides_server() { b"" } else { SERVER.as_bytes() }
    }
}

/// The head of a request that passed every check of its protocol (RFC 9113 §8.3, RFC 9114 §4.3).
pub(crate) trait StreamRequestHead {
    /// The head, with a body that is delimited as `body` says.
    fn validated(&self, body: BodyFraming) -> ValidatedHead<'_>;

    /// The method.
    fn method(&self) -> &str;

    /// Content-Length.
    fn content_length(&self) -> Option<u64>;
}

/// What a stream has to send next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outgoing {
    /// Nothing at the moment: the response waits for its origin, a page, or a task.
    Nothing,
    /// A head or the end of the stream, which flow control does not concern.
    Frames,
    /// Content.
    Content,
}

/// The window that keeps the content of a stream back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stalled {
    /// The stream's own window is empty.
    Stream,
    /// The stream only waits for its share of the connection's window.
    Connection,
}

/// What is counted of the streams of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamCount {
    /// The client has opened a stream. One `Closed` follows.
    Opened,
    /// The work for a stream has ended.
    Closed,
    /// A stream was reset by this server, for this reason.
    Reset(&'static str),
}

/// One connection that carries many responses at once. It does no input and output, and never waits: what is put into a batch
/// leaves when the task of the connection sends the batch.
///
/// The methods that put something return whether the protocol has taken it. If not, [`next_stream`](Self::next_stream) names
/// the stream again as soon as it can.
pub(crate) trait Multiplexer {
    /// The version of HTTP, for counters.
    const VERSION: HttpLabel;

    /// Identifies a stream of the connection. A stream that was opened later is greater.
    type StreamId: Copy + Ord;

    /// The head of a request.
    type RequestHead: StreamRequestHead;

    /// What is sent together.
    type Batch<'b>;

    /// Counts streams.
    fn count(shard: &Shard, count: StreamCount);

    /// The number of a stream, for the access log.
    fn number(stream: Self::StreamId) -> u64;

    /// Sets what a stream has to send. No effect on a stream that was reset or has sent its end.
    fn set_outgoing(&mut self, stream: Self::StreamId, outgoing: Outgoing);

    /// Sets the urgency (RFC 9218 §4.1), 0 to 7, of a response for which the client said none.
    fn set_default_urgency(&mut self, stream: Self::StreamId, urgency: u8);

    /// The same, if there is one, and [`set_outgoing`](Self::set_outgoing).
    fn set_response(&mut self, stream: Self::StreamId, urgency: Option<u8>, outgoing: Outgoing);

    /// Puts what concerns the connection itself into a new batch.
    fn put_control(&mut self, batch: &mut Self::Batch<'_>);

    /// The stream whose turn it is (RFC 9218 §10), among those that have something to send and that flow control lets send;
    /// `None` if there is none, or if the batch is full. The turn ends with this call.
    fn next_stream(&mut self, batch: &Self::Batch<'_>) -> Option<Self::StreamId>;

    /// Puts an interim response (RFC 9110 §15.2).
    fn put_interim(
        &mut self,
        stream: Self::StreamId,
        interim: &ResponseHead,
        batch: &mut Self::Batch<'_>,
    ) -> bool;

    /// Puts a head. `date` is the value of Date, empty if the head has one.
    fn put_head(
        &mut self,
        stream: Self::StreamId,
        head: &StreamHead,
        date: &[u8],
        batch: &mut Self::Batch<'_>,
    ) -> bool;

    /// The most bytes of content that the stream may put next: what batch and flow control allow; 0 for none.
    fn content_bytes_max(&self, stream: Self::StreamId, batch: &Self::Batch<'_>) -> usize;

    /// Puts the next `length` bytes of `transmission`, which are [available](Transmission::available) and no more than
    /// [`content_bytes_max`](Self::content_bytes_max). The stream ends behind them if `end` is set and all were taken.
    /// Returns how many bytes were taken, by which the transmission has advanced.
    ///
    /// # Errors
    /// The content cannot be read. None of it was put; other streams go on.
    fn put_content(
        &mut self,
        stream: Self::StreamId,
        transmission: &mut Transmission,
        length: usize,
        end: bool,
        batch: &mut Self::Batch<'_>,
    ) -> Result<usize, SendError>;

    /// Ends the stream without more content.
    fn put_end(&mut self, stream: Self::StreamId, batch: &mut Self::Batch<'_>) -> bool;

    /// The window that lets the stream send nothing; `None` if it may send.
    fn stalled(&self, stream: Self::StreamId) -> Option<Stalled>;

    /// Resets a stream whose response ends early for this reason.
    fn reset(&mut self, stream: Self::StreamId, why: ShortReason);

    /// The work for a stream has ended. A response that was not sent to its end is reset.
    fn finished(&mut self, stream: Self::StreamId);

    /// The client may send `bytes` more of the body of a request, which were used.
    fn release(&mut self, stream: Self::StreamId, bytes: usize);

    /// The client may send `bytes` more on other streams. The body of this stream is not used.
    fn discard(&mut self, stream: Self::StreamId, bytes: usize);

    /// How the network carries what is sent, if the protocol knows it; `None` if the socket is to be asked.
    fn carriage(&self) -> Option<Carriage> {
        None
    }

    /// Gives back memory that an idle connection does not need.
    fn release_memory(&mut self);
}
