//! The extent of a whole object, from Content-Range and the length of an origin's response (RFC 9110 §14.4).

use penstock_config::limits;

use crate::origins::OriginBody;

/// The length of the whole object; `Some(None)` while only its end will tell, `None` if the response contradicts itself
/// or the request. `body` is the length of the body, if it is known; `most` the length that was asked for, of which a part
/// may be any beginning (RFC 9110 §15.3.7).
pub(crate) fn whole_length(answer: &dyn OriginBody, body: Option<u64>, most: u64) -> Option<Option<u64>> {
    if answer.status() != 206 {
        return Some(body).filter(|length| length.is_none_or(|length| length <= limits::OBJECT_BYTES_MAX));
    }
    let (first, last, total) = content_range(answer, body)?;
    (first == 0 && last < most && total <= limits::OBJECT_BYTES_MAX).then_some(Some(total))
}

/// Whether the response is a part of an object whose length the origin does not know.
pub(crate) fn has_unknown_end(answer: &dyn OriginBody) -> bool {
    let range = answer.field("content-range").filter(|_| answer.status() == 206);
    range.is_some_and(|range| range.starts_with("bytes ") && range.ends_with("/*"))
}

/// First byte, last byte and whole length by Content-Range, if the body can be as long as it says.
pub(crate) fn content_range(answer: &dyn OriginBody, body: Option<u64>) -> Option<(u64, u64, u64)> {
    let range = answer.field("content-range")?.strip_prefix("bytes ")?;
    let (range, total) = range.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last, total): (u64, u64, u64) =
        (first.parse().ok()?, last.parse().ok()?, total.parse().ok()?);
    let fits = first <= last && last < total && body.is_none_or(|length| length == last - first + 1);
    fits.then_some((first, last, total))
}
