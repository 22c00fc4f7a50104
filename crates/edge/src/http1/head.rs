//! Heads of HTTP/1 responses: status line, the fields of the connection, framing (RFC 9112).

use std::time::Instant;

use penstock_content::ContentLength;
use penstock_http::{HttpVersion, ResponseHead, Status};

use crate::carrier::SERVER;
use crate::worker::Worker;

/// How the end of a response's content is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentFraming {
    /// By Content-Length, or by a status without content.
    Length,
    /// In chunks.
    Chunked,
    /// By the end of the connection: HTTP/1.0 has no chunks.
    UntilClose,
    /// There is no content: the connection speaks another protocol behind the head.
    Switched,
}

impl ContentFraming {
    pub(super) fn of(length: ContentLength, version: HttpVersion) -> Self {
        match (length, version) {
            (ContentLength::None | ContentLength::Known(_), _) => Self::Length,
            (ContentLength::Unknown, HttpVersion::Http11 | HttpVersion::Http2 | HttpVersion::Http3) => {
                Self::Chunked
            }
            (ContentLength::Unknown, HttpVersion::Http10) => Self::UntilClose,
        }
    }
}

/// The head of a response, made of its status and fields.
pub(super) fn head_of(
    worker: &Worker,
    head: ResponseHead,
    length: ContentLength,
    version: HttpVersion,
    (framing, keep_alive): (ContentFraming, bool),
) -> Vec<u8> {
    let (has_date, decides_server) = (head.fields.has_date(), head.fields.decides_server());
    head.into_http1(|own| {
        if !has_date {
            worker.date.with_date(Instant::now(), |date| {
                own.text("Date", |out| out.extend_from_slice(date.as_bytes()));
            });
        }
        if !decides_server {
            own.fixed("Server", SERVER);
        }
        match (version, keep_alive) {
            _ if framing == ContentFraming::Switched => {
                own.fixed("Connection", "Upgrade");
            }
            (HttpVersion::Http10, true) => {
                own.fixed("Connection", "keep-alive");
            }
            (HttpVersion::Http11, false) => {
                own.fixed("Connection", "close");
            }
            (HttpVersion::Http11, true)
            | (HttpVersion::Http10, false)
            | (HttpVersion::Http2 | HttpVersion::Http3, _) => {}
        }
        match (framing, length) {
            (ContentFraming::Length, ContentLength::Known(length)) => {
                own.content_length(length);
            }
            (ContentFraming::Chunked, _) => {
                own.fixed("Transfer-Encoding", "chunked");
            }
            (ContentFraming::Length | ContentFraming::UntilClose | ContentFraming::Switched, _) => {}
        }
    })
}

/// The answer to plain HTTP on a port for TLS.
pub(crate) fn plain_http_on_tls_port(worker: &Worker) -> Vec<u8> {
    let text = "400 Bad Request: this port speaks HTTPS; use https:// in the address\n";
    let mut head = ResponseHead::new(Status::BadRequest.code());
    head.fields.field("Content-Type", "text/plain; charset=utf-8");
    let length = ContentLength::Known(text.len() as u64);
    let mut out = head_of(worker, head, length, HttpVersion::Http11, (ContentFraming::Length, false));
    out.extend_from_slice(text.as_bytes());
    out
}
