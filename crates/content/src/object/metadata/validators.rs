//! Validators of an object: whether bytes of two responses belong together, and what revalidations are asked with.

use std::borrow::Cow;
use std::time::SystemTime;

use super::ObjectMetadata;
use super::unix_time::{at, since_1970};
use crate::origins::OriginBody;

impl ObjectMetadata {
    /// ETag; empty if there is none.
    pub(crate) fn etag(&self) -> &str {
        self.texts.etag()
    }

    /// Last-Modified as it was sent.
    pub(super) fn modified_text(&self) -> Option<Cow<'_, str>> {
        Some(self.texts.modified()).filter(|text| !text.is_empty())
    }

    /// The date that conditions are compared with: when the response came if the origin names no other.
    pub(crate) fn date(&self) -> SystemTime {
        at(self.texts.modified_seconds().unwrap_or_else(|| self.texts.received()))
    }

    /// When the response came.
    pub(crate) fn received(&self) -> SystemTime {
        at(self.texts.received())
    }

    /// The condition of a revalidation (RFC 9111 §4.3.1).
    pub(crate) fn condition(&self) -> Option<(&'static str, String)> {
        if !self.etag().is_empty() {
            return Some(("if-none-match", self.etag().to_owned()));
        }
        self.modified_text().map(|text| ("if-modified-since", text.into_owned()))
    }

    /// The strong validator (RFC 9110 §8.8.1): a strong ETag, or without any ETag a Last-Modified at least a second older
    /// than the response. Without one, bytes of two responses must not be combined (§15.3.7.3).
    fn strong_validator(&self) -> Option<Cow<'_, str>> {
        if !self.etag().is_empty() {
            return Some(self.etag()).filter(|etag| etag.starts_with('"')).map(Cow::Borrowed);
        }
        let is_older = self.texts.modified_seconds()? < self.texts.received();
        self.modified_text().filter(|_| is_older)
    }

    /// Whether a response has a strong validator, at `now` by the wall clock.
    pub(crate) fn has_strong_validator(answer: &dyn OriginBody, now: SystemTime) -> bool {
        match answer.field("etag") {
            Some(etag) => etag.starts_with('"'),
            None if answer.fields().contains_key("etag") => false,
            None => answer
                .field("last-modified")
                .and_then(|text| httpdate::parse_http_date(text).ok())
                .is_some_and(|modified| since_1970(modified) < since_1970(now)),
        }
    }

    /// The If-Range of a request for a part: of another version the origin sends all (RFC 9110 §13.1.5). `None` if the
    /// object has no strong validator.
    pub(crate) fn same_version_condition(&self) -> Option<(&'static str, String)> {
        self.strong_validator().map(|validator| ("if-range", validator.into_owned()))
    }

    /// Whether the object may be fetched in parts.
    pub(crate) fn may_be_fetched_in_parts(&self) -> bool {
        self.strong_validator().is_some()
    }

    /// Whether a response is of the same version, by strong comparison (RFC 9110 §8.8.3.2).
    pub(crate) fn is_same_version(&self, answer: &dyn OriginBody) -> bool {
        let name = if self.etag().is_empty() { "last-modified" } else { "etag" };
        self.strong_validator().is_some_and(|validator| answer.field(name) == Some(&*validator))
    }
}
