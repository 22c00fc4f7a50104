//! Validators of an object: whether bytes of two responses belong together, and what revalidations are asked with.

use std::borrow::Cow;
use std::time::SystemTime;

use super::unix_time::{at, since_1970};
use super::{ObjectMetadata, Traits};
use penstock_origin::http::ServerId;

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

    /// The server that gave the head, and is asked for the rest first: another one may have another tag for the same bytes.
    pub(crate) fn server(&self) -> Option<ServerId> {
        Some(self.site.origin().server_id(usize::from(self.server.checked_sub(1)?)))
    }

    /// The condition of a revalidation (RFC 9111 §4.3.1).
    pub(crate) fn condition(&self) -> Option<(&'static str, String)> {
        if !self.etag().is_empty() {
            return Some(("if-none-match", self.etag().to_owned()));
        }
        self.modified_text().map(|text| ("if-modified-since", text.into_owned()))
    }

    /// Whether Last-Modified is a strong validator.
    pub(crate) fn has_strong_date(&self) -> bool {
        self.traits.has(Traits::STRONG_DATE)
    }

    /// The strong validator (RFC 9110 §8.8.1): a strong ETag, or without any ETag a strong Last-Modified. Without one, bytes
    /// of two responses must not be combined (§15.3.7.3).
    fn strong_validator(&self) -> Option<Cow<'_, str>> {
        if !self.etag().is_empty() {
            return Some(self.etag()).filter(|etag| etag.starts_with('"')).map(Cow::Borrowed);
        }
        self.modified_text().filter(|_| self.has_strong_date())
    }

    /// Whether a response has a strong validator, at `now` by the wall clock.
    pub(crate) fn has_strong_validator(answer: &dyn OriginBody, now: SystemTime) -> bool {
        match answer.field("etag") {
            Some(etag) => etag.starts_with('"'),
            None => !answer.fields().contains_key("etag") && has_strong_date(answer, now),
        }
    }

    /// Whether a 304 is about another version (RFC 9111 §4.3.4). ETags are compared weakly, as If-None-Match is: servers that
    /// compress send a weak ETag with a body and the strong one with a 304.
    pub(super) fn is_contradicted_by(&self, not_modified: &dyn OriginBody) -> bool {
        let opaque = |etag: &'_ str| etag.strip_prefix("W/").unwrap_or(etag).to_owned();
        if !self.etag().is_empty() {
            return not_modified.field("etag").is_some_and(|etag| opaque(etag) != opaque(self.etag()));
        }
        let date = |text: &str| httpdate::parse_http_date(text).ok().map(since_1970);
        let (known, said) =
            (self.texts.modified_seconds(), not_modified.field("last-modified").and_then(date));
        known.is_some() && said.is_some() && known != said
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

/// Whether Last-Modified is a strong validator (RFC 9110 §8.8.2.2): at least a second older than the response by its own Date,
/// which is of the same clock; by the clock here, `now`, if there is none.
pub(super) fn has_strong_date(answer: &dyn OriginBody, now: SystemTime) -> bool {
    let response = answer.field("date").and_then(penstock_http::date::parse).unwrap_or(now);
    let modified = answer.field("last-modified").and_then(|text| httpdate::parse_http_date(text).ok());
    modified.is_some_and(|modified| since_1970(modified) < since_1970(response))
}
