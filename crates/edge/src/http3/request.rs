//! The head of a request of HTTP/3 (RFC 9114 §4.3). Its rules are those of HTTP/2.

use penstock_http::{BodyFraming, HttpVersion, ValidatedHead};

use crate::carrier::StreamRequestHead;

/// A head that passed every check.
pub(super) struct RequestHead(pub(super) penstock_http2::RequestHead);

impl StreamRequestHead for RequestHead {
    fn validated(&self, body: BodyFraming) -> ValidatedHead<'_> {
        ValidatedHead {
            version: HttpVersion::Http3,
            method: self.0.method(),
            authority: self.0.authority(),
            path: self.0.path(),
            lines: self.0.lines(),
            body,
        }
    }

    fn method(&self) -> &str {
        self.0.method()
    }

    fn content_length(&self) -> Option<u64> {
        self.0.content_length()
    }
}
