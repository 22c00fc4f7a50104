//! The body of an answer on its way in, and a look into it: a manifest is read whole before anybody sees it.

use std::collections::VecDeque;
use std::time::Duration;

use hyper::body::Bytes;
use penstock_config::limits;
use penstock_http::manifest::{Likeness, Manifest};
use penstock_origin::http::{Answer, OriginError};
use tokio::time::timeout;

use super::fill::whole_length;
use super::live::Reading;

/// An answer whose body may have been looked into.
pub(super) struct Arriving<'c> {
    pub(super) answer: Answer<'c>,
    pub(super) reading: Reading,
    /// What has been looked at, and is still to be taken.
    seen: VecDeque<Bytes>,
    /// The length of the whole body, if it was known at its start or is known by now.
    pub(super) length: Option<u64>,
    ended: bool,
}

impl<'c> Arriving<'c> {
    /// Takes an answer as it is.
    pub(super) fn unread(answer: Answer<'c>) -> Self {
        let length = answer.length();
        Self { answer, reading: Reading::Other, seen: VecDeque::new(), length, ended: false }
    }

    /// Looks whether the answer to a request for `target` is a manifest. If it may be one, this returns when it is
    /// here, or is known to be something else.
    ///
    /// # Errors
    /// A manifest that breaks off, or takes too long: there is no use in half of one.
    pub(super) async fn look(answer: Answer<'c>, target: &str) -> Result<Self, OriginError> {
        let mut this = Self::unread(answer);
        if !matches!(this.answer.status(), 200 | 206) {
            return Ok(this);
        }
        let content_type = this.answer.field("content-type").unwrap_or_default();
        let likeness = Manifest::likeness(content_type, target);
        if likeness == Likeness::None {
            return Ok(this);
        }
        let named = if likeness == Likeness::Named { Reading::Unread } else { Reading::Other };
        let part = whole_length(&this.answer, this.length, u64::MAX) != Some(this.length);
        let encoded = this.answer.fields().contains_key("content-encoding");
        if encoded || part || this.length.is_some_and(|length| length > limits::MANIFEST_BYTES) {
            this.reading = named;
            return Ok(this);
        }
        let whole = timeout(Duration::from_secs(limits::MANIFEST_SECONDS), this.gather()).await;
        let whole = match (whole, likeness) {
            (Ok(whole), _) => whole?,
            // What comes slowly and is not called a manifest is none.
            (Err(_), Likeness::Possible) => None,
            (Err(_), _) => return Err(OriginError::Timeout),
        };
        this.reading = whole.and_then(|body| Manifest::parse(&body)).map_or(named, Reading::Manifest);
        Ok(this)
    }

    /// The whole body; `None` if it is no manifest, or too long for one.
    async fn gather(&mut self) -> Result<Option<Vec<u8>>, OriginError> {
        let mut body = Vec::new();
        while let Some(chunk) = self.answer.next().await? {
            body.extend_from_slice(&chunk);
            self.seen.push_back(chunk);
            if !Manifest::may_begin_with(&body) || body.len() as u64 > limits::MANIFEST_BYTES {
                return Ok(None);
            }
        }
        self.ended = true;
        self.length = Some(body.len() as u64);
        Ok(Some(body))
    }

    /// The next piece of the body; `None` at its end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, OriginError> {
        match self.seen.pop_front() {
            Some(chunk) => Ok(Some(chunk)),
            None if self.ended => Ok(None),
            None => self.answer.next().await,
        }
    }
}
