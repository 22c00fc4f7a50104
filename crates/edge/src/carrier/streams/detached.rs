//! Small responses without a task of their own: the connection sends, counts and logs them.
//!
//! Most of them leave with the next batch. One that has not left when the connection has to wait gets a task again, so that
//! all that can happen while a response waits for its client is in one place, `crate::carrier::drive`.

use std::time::Instant;

use penstock_config::limits;
use penstock_content::{Body, BodyChunk, ChunkSource, ContentLength, Response};
use penstock_egress::{Part, Parts, Transmission};

use crate::carrier::answered::CarriedBy;
use crate::carrier::drive::Sent;
use crate::carrier::record::Recording;
use crate::metrics::ShortReason;
use crate::worker::{LocalSettings, Worker};

/// A response without a task.
pub(super) struct Detached {
    pub(super) number: u64,
    pub(super) settings: LocalSettings,
    pub(super) started: Instant,
    pub(super) recording: Recording,
    /// Keeps the bytes of an object in the cache.
    pub(super) chunks: Option<Box<(BodyChunk, ChunkSource)>>,
}

impl Detached {
    /// Counts and logs the response, of which all was sent that will be.
    pub(super) fn end(self, carrier: &CarriedBy<'_>, sent: &Sent, now: Instant) {
        if let (Some(ShortReason::Truncated), Some(chunks)) = (sent.short, &self.chunks) {
            chunks.0.report_failure();
        }
        self.recording.end(carrier, sent, now, &self.settings);
    }
}

/// The content of a response that can be sent at once, and what keeps it in place.
pub(super) type Content = (Option<Transmission>, Option<Box<(BodyChunk, ChunkSource)>>);

/// Takes the content out of a response, which keeps its length, if it is small and can be sent without waiting for anything but the client.
pub(super) fn take_content(response: &mut Response, worker: &Worker, now: Instant) -> Option<Content> {
    let is_small = match response.body.length() {
        ContentLength::None => true,
        ContentLength::Known(length) => length <= limits::HTTP2_DETACHED_BYTES_MAX,
        ContentLength::Unknown => false,
    };
    // While the worker drains, each response must be found by the order to end it.
    if !is_small || worker.is_draining() {
        return None;
    }
    let extent = match &response.body {
        Body::None | Body::Empty | Body::Withheld(_) | Body::Tunnel(_) => return Some((None, None)),
        Body::Part(Part::Extent(extent)) => Some(extent),
        Body::Part(Part::Owned(_) | Part::Shared(_) | Part::External(_)) => None,
        Body::Stream(_, stream) => match &**stream {
            (BodyChunk { parts, .. }, rest) if rest.is_at_end() => match &parts[..] {
                [Part::Extent(extent)] => Some(extent),
                _ => return None,
            },
            _ => return None,
        },
        Body::Part(Part::Source(_)) | Body::Parts(_) => return None,
    };
    let warm = extent.map(|extent| extent.len);
    if extent.is_some_and(|extent| !worker.residency.is_resident(extent, extent.len, now)) {
        return None;
    }
    let withheld = match response.body.length() {
        ContentLength::Known(length) => Some(length),
        ContentLength::None | ContentLength::Unknown => None,
    };
    let (parts, stream) = match std::mem::replace(&mut response.body, Body::Withheld(withheld)) {
        Body::Stream(_, mut stream) => (std::mem::take(&mut stream.0.parts), Some(stream)),
        Body::Part(part) => (Parts::from_iter([part]), None),
        Body::None | Body::Empty | Body::Withheld(_) | Body::Parts(_) | Body::Tunnel(_) => {
            (Parts::new(), None)
        }
    };
    let mut transmission = Transmission::new(parts);
    if let Some(warm) = warm {
        transmission.warmed(warm);
    }
    Some((Some(transmission), stream))
}
