//! What the pipeline asks of the connection or stream that carries a request.

use penstock_http::{Rejection, ResponseHead};
use penstock_origin::http::BodySender;

/// The body of a request, as the connection or stream that carries it gives it.
///
/// Each method that fails says how the request is answered instead. Its carrier remembers whether the body has been read
/// completely.
pub trait RequestBody {
    /// Reads past a body that is not used.
    fn pass_over(&mut self) -> impl Future<Output = Result<(), Rejection>>;

    /// Takes a place among the forwarded requests of the client's network, and checks the announced length. The place is kept
    /// until the body is dropped.
    ///
    /// # Errors
    /// The network has no place left, or the length is over the limit.
    fn admit(&mut self) -> Result<(), Rejection>;

    /// Asks the client for a body that it holds back (RFC 9110 §10.1.1).
    fn send_continue(&mut self) -> impl Future<Output = ()>;

    /// Sends an interim response (RFC 9110 §15.2). Called before the response only. A client that does not take it in time
    /// leaves the connection as one that does not take its response.
    fn send_interim(&mut self, _head: ResponseHead) -> impl Future<Output = ()> {
        async {}
    }

    /// Gives the origin's end of the body, for [`send`](Self::send).
    fn begin(&mut self, origin: BodySender);

    /// Sends the body to the origin as it comes, and no faster than the origin takes it. A call that is dropped loses
    /// nothing: the next one goes on.
    ///
    /// # Errors
    /// The body is malformed, too long, incomplete or too slow.
    fn send(&mut self) -> impl Future<Output = Result<(), Rejection>>;

    /// Leaves the rest of the body to the carrier, which sends it on while it sends the response.
    fn go_on(&mut self);

    /// Resolves when the client has left.
    fn departed(&self) -> impl Future<Output = Rejection>;
}
