//! Heads of HTTP/1 responses: status line, the fields of the connection, framing (RFC 9112).

use std::time::Instant;

use penstock_content::{ContentLength, Response};
use penstock_http::{HeadWriter, HttpVersion, Status};

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
}

impl ContentFraming {
    pub(super) fn of(length: ContentLength, version: HttpVersion) -> Self {
        match (length, version) {
            (ContentLength::None | ContentLength::Known(_), _) => Self::Length,
            (ContentLength::Unknown, HttpVersion::Http11 | HttpVersion::Http2 | HttpVersion::Http3) => Self::Chunked,
            (ContentLength::Unknown, HttpVersion::Http10) => Self::UntilClose,
        }
    }
}

/// The head of a response, whose fields are taken.
pub(super) fn head_of(
    worker: &Worker,
    response: &mut Response,
    version: HttpVersion,
    framing: ContentFraming,
    keep_alive: bool,
) -> Vec<u8> {
    let mut out = response.fields.take_lines();
    let fields = out.len();
    // Written behind the fields and moved to the front: cheaper than a second buffer.
    let mut head = begin(worker, &mut out, response.status, !response.has_date);
    match (version, keep_alive) {
        (HttpVersion::Http10, true) => {
            head.field("Connection", "keep-alive");
        }
        (HttpVersion::Http11, false) => {
            head.field("Connection", "close");
        }
        (HttpVersion::Http11, true) | (HttpVersion::Http10, false) | (HttpVersion::Http2 | HttpVersion::Http3, _) => {}
    }
    match (framing, response.body.length()) {
        (ContentFraming::Length, ContentLength::Known(length)) => {
            head.content_length(length);
        }
        (ContentFraming::Chunked, _) => {
            head.field("Transfer-Encoding", "chunked");
        }
        (ContentFraming::Length | ContentFraming::UntilClose, _) => {}
    }
    out.rotate_left(fields);
    HeadWriter::continuing(&mut out).finish();
    out
}

/// The answer to plain HTTP on a port for TLS.
pub(crate) fn plain_http_on_tls_port(worker: &Worker) -> Vec<u8> {
    let text = "400 Bad Request: this port speaks HTTPS; use https:// in the address\n";
    let mut out = Vec::with_capacity(2 * HEAD_BYTES);
    let mut head = begin(worker, &mut out, Status::BadRequest.code(), true);
    head.field("Connection", "close");
    head.field("Content-Type", "text/plain; charset=utf-8").content_length(text.len() as u64);
    head.finish();
    out.extend_from_slice(text.as_bytes());
    out
}

/// Space for status line, Date, Server, Connection and framing, in bytes.
const HEAD_BYTES: usize = 192;

fn begin<'o>(worker: &Worker, out: &'o mut Vec<u8>, code: u16, dated: bool) -> HeadWriter<'o> {
    let mut head = HeadWriter::with_code(out, code);
    if dated {
        worker.date.with_date(Instant::now(), |date| {
            head.date(date);
        });
    }
    head.field("Server", "penstock");
    head
}
