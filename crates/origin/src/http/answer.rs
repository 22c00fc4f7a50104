//! A response of an origin, its body still on its way.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use hyper::Response;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::HeaderMap;
use penstock_http::OriginUrl;
use tokio::time::timeout;

use super::OriginError;
use super::connections::{Lent, Sender};
use super::target::HttpOrigin;

/// A response, its body still on its way. Dropped before its end, its connection is closed.
pub struct Answer<'c> {
    response: Response<Incoming>,
    connection: Option<Held<'c>>,
    between_bytes: Duration,
}

/// A connection while its response comes.
pub(super) enum Held<'c> {
    /// Of the worker's, and given back at the end.
    Lent(Lent<'c>),
    /// For this response only.
    Own(#[expect(dead_code, reason = "its end is the connection's end")] Sender),
}

impl<'c> Answer<'c> {
    pub(super) fn new(response: Response<Incoming>, connection: Held<'c>, between_bytes: Duration) -> Self {
        Self { response, connection: Some(connection), between_bytes }
    }

    /// The target it came from.
    pub(super) fn server<'o>(&self, origin: &'o HttpOrigin) -> Option<&'o OriginUrl> {
        match &self.connection {
            Some(Held::Lent(lent)) => Some(&origin.target(lent.place())?.url),
            Some(Held::Own(_)) | None => None,
        }
    }

    /// Status code.
    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// The fields of its head.
    pub fn fields(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The one value of a field as text; `None` if there is none, several, or not in ASCII.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields().get_all(name).iter();
        let value = values.next()?.to_str().ok()?;
        values.next().is_none().then_some(value)
    }

    /// The length of the body, if the head says it.
    pub fn length(&self) -> Option<u64> {
        self.response.body().size_hint().exact()
    }

    /// The next piece of the body; `None` at its end.
    ///
    /// # Errors
    /// [`OriginError::Timeout`], [`OriginError::CutShort`], or [`OriginError::Malformed`] for broken chunks.
    pub async fn next(&mut self) -> Result<Option<Bytes>, OriginError> {
        loop {
            let body = self.response.body_mut();
            let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
            match timeout(self.between_bytes, frame).await {
                Err(_) => return Err(OriginError::Timeout),
                Ok(Some(Err(error))) => return Err(of_body(&error)),
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if data.is_empty() => {}
                    Ok(data) => return Ok(Some(data)),
                    // Trailers: nobody asked for them.
                    Err(_) => {}
                },
                Ok(None) => {
                    if let Some(Held::Lent(connection)) = self.connection.take() {
                        connection.give_back();
                    }
                    return Ok(None);
                }
            }
        }
    }
}

/// Broken chunks come as an input error of the right kind; all the rest is an end too soon.
fn of_body(error: &hyper::Error) -> OriginError {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<std::io::Error>());
    match source.map(std::io::Error::kind) {
        Some(std::io::ErrorKind::InvalidInput | std::io::ErrorKind::InvalidData) => OriginError::Malformed,
        _ if error.is_parse() => OriginError::Malformed,
        _ => OriginError::CutShort,
    }
}

impl fmt::Debug for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("status", &self.status()).finish_non_exhaustive()
    }
}
