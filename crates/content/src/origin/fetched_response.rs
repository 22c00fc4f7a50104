//! The response of an origin on its way into the cache. A manifest is read whole before it is used.

use std::time::Duration;

use bytes::Bytes;
use penstock_config::limits;
use penstock_http::manifest::{Likeness, Manifest};
use penstock_origin::http::OriginError;
use tokio::time::timeout;

use crate::origin::content_range::whole_length;
use crate::origins::OriginBody;
use crate::site::BodyKind;

/// A response whose body may have been read in part, to see whether it is a manifest.
pub(crate) struct FetchedResponse<'c> {
    pub(crate) head: Box<dyn OriginBody + 'c>,
    pub(crate) kind: BodyKind,
    /// Bytes that have been read and not yet taken, as one piece: an origin may send a manifest in pieces of one byte, and
    /// each [`Bytes`] takes far more memory than that.
    seen: Vec<u8>,
    /// Length of the whole body in bytes, if the head announces it or the end has been read.
    pub(crate) length: Option<u64>,
    ended: bool,
}

impl<'c> FetchedResponse<'c> {
    /// A response of which nothing has been read.
    pub(crate) fn unread(head: Box<dyn OriginBody + 'c>) -> Self {
        let length = head.length();
        Self { head, kind: BodyKind::Other, seen: Vec::new(), length, ended: false }
    }

    /// Finds out whether the response to a request for `target` is a manifest. If it may be one, this returns when all of
    /// it has come, or when it is known not to be one.
    ///
    /// # Errors
    /// A manifest that breaks off or takes too long: a part of one is of no use.
    pub(crate) async fn read_kind(head: Box<dyn OriginBody + 'c>, target: &str) -> Result<Self, OriginError> {
        let mut this = Self::unread(head);
        if !matches!(this.head.status(), 200 | 206) {
            return Ok(this);
        }
        let content_type = this.head.field("content-type").unwrap_or_default();
        let likeness = Manifest::likeness(content_type, target);
        if likeness == Likeness::None {
            return Ok(this);
        }
        let named = if likeness == Likeness::Named { BodyKind::UnreadableManifest } else { BodyKind::Other };
        let part = whole_length(&*this.head, this.length, u64::MAX) != Some(this.length);
        let encoded = this.head.fields().contains_key("content-encoding");
        if encoded || part || this.length.is_some_and(|length| length > limits::MANIFEST_BYTES) {
            this.kind = named;
            return Ok(this);
        }
        let whole = timeout(Duration::from_secs(limits::MANIFEST_SECONDS), this.gather()).await;
        let whole = match (whole, likeness) {
            (Ok(whole), _) => whole?,
            // A slow body that is not named a manifest is treated as none.
            (Err(_), Likeness::Possible) => None,
            (Err(_), _) => return Err(OriginError::Timeout),
        };
        this.kind = whole.and_then(Manifest::parse).map_or(named, BodyKind::Manifest);
        Ok(this)
    }

    /// Reads the whole body into `seen`; `None` if it is no manifest, or too long for one.
    async fn gather(&mut self) -> Result<Option<&[u8]>, OriginError> {
        while let Some(chunk) = self.head.next().await? {
            let is_undecided = self.seen.len() < Manifest::START_BYTES;
            self.seen.extend_from_slice(&chunk);
            let is_none = is_undecided && !Manifest::may_begin_with(&self.seen);
            if is_none || self.seen.len() as u64 > limits::MANIFEST_BYTES {
                return Ok(None);
            }
        }
        self.ended = true;
        self.length = Some(self.seen.len() as u64);
        Ok(Some(&self.seen))
    }

    /// The next piece of the body; `None` at its end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, OriginError> {
        if !self.seen.is_empty() {
            return Ok(Some(std::mem::take(&mut self.seen).into()));
        }
        if self.ended { Ok(None) } else { self.head.next().await }
    }
}
