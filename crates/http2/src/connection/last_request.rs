//! The last request of a connection: most others differ from it in their path, or not at all.

use std::ops::Range;

use crate::fields::is_visible;
use crate::hpack;
use crate::limits::Http2Limits;
use crate::priority::PriorityParameters;
use crate::request_head::RequestHead;

/// Requests that are larger, encoded or decoded, are not remembered. Bytes.
const BYTES_MAX: usize = 2048;

/// A field block that does not change the table of the decoder, and what it says, until the table changes.
#[derive(Debug)]
pub(super) struct LastRequest {
    block: Vec<u8>,
    /// Where the block has the path as a string literal; empty if it has none.
    path_at: Range<usize>,
    head: RequestHead,
    priority: PriorityParameters,
    /// Bytes of the field section without the path (RFC 9113 §6.5.2).
    list_bytes: usize,
}

impl LastRequest {
    /// Takes note of a request; `list_bytes` are those of its whole field section.
    pub(super) fn new(
        block: &[u8],
        path_at: Range<usize>,
        (head, priority): &(RequestHead, PriorityParameters),
        list_bytes: usize,
    ) -> Option<Self> {
        let is_small = block.len() <= BYTES_MAX && head.held_bytes() as usize <= BYTES_MAX;
        is_small.then(|| Self {
            block: block.to_vec(),
            path_at,
            head: head.clone(),
            priority: *priority,
            list_bytes: list_bytes - head.path().unwrap_or_default().len(),
        })
    }

    /// What a block says if it differs from this one in its path at most; otherwise, and if the path is in doubt, it has to be
    /// decoded. `scratch` is overwritten.
    pub(super) fn decode(
        &self,
        block: &[u8],
        limits: &Http2Limits,
        scratch: &mut Vec<u8>,
    ) -> Option<(RequestHead, PriorityParameters)> {
        if block == self.block {
            return Some((self.head.clone(), self.priority));
        }
        let (before, behind) = (&self.block[..self.path_at.start], &self.block[self.path_at.end..]);
        let literal = block.strip_prefix(before)?.strip_suffix(behind)?;
        if self.path_at.is_empty() || !hpack::is_string(literal, scratch) {
            return None;
        }
        let path = str::from_utf8(scratch)
            .ok()
            .filter(|path| path.starts_with('/') && is_visible(path.as_bytes()))?;
        let is_allowed = path.len() <= limits.target_bytes as usize
            && self.list_bytes + path.len() <= limits.header_list_bytes as usize;
        is_allowed.then(|| (self.head.with_path(path), self.priority))
    }
}
