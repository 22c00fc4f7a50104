//! Asking an origin for bytes of an object whose metadata are known.

use std::ops::Range;
use std::time::Duration;

use penstock_cache::Object;
use penstock_config::limits;
use penstock_origin::http::{Fetch, OriginError};
use tokio::time::sleep;

use crate::content_range::content_range;
use crate::context::Context;
use crate::fault::FillFault;
use crate::metadata::ObjectMetadata;
use crate::origins::OriginBody;
use crate::requester::Requester;
use crate::upstream::{Wanted, ask};

/// Adds fields of the client's request to a request for the origin.
pub(crate) fn forward_fields(fields: &[(String, String)], fetch: &mut Fetch) {
    for (name, value) in fields {
        fetch.pass(name, value.as_bytes());
    }
}

/// The request for a part of an object.
pub(crate) fn part_request(metadata: &ObjectMetadata, wanted: &Range<u64>) -> Fetch {
    let mut fetch = Fetch {
        range: Some((wanted.start, wanted.end - 1)),
        known: metadata.same_version_condition(),
        ..Fetch::get(metadata.target())
    };
    forward_fields(metadata.request_fields(), &mut fetch);
    fetch
}

/// Waits before the next request for bytes of a body that broke off: longer after each attempt without progress.
pub(crate) async fn wait_before_retry(attempts_without_progress: usize) {
    let exponent = u32::try_from(attempts_without_progress).unwrap_or(u32::MAX).min(8);
    sleep(Duration::from_millis(limits::FILL_RETRY_MILLISECONDS << exponent)).await;
}

/// Counts a response of the origin; those of other nodes are counted by node.
pub(crate) fn count_answer(context: &Context, answer: &dyn OriginBody) {
    if answer.peer().is_none() {
        context.metrics.origin("answered");
    }
}

/// Asks for bytes of an object. Returns the response and the byte of the object at which its body begins: the first of
/// `wanted`, or 0 if the origin ignores Range.
///
/// # Errors
/// See [`FillFault`].
pub(crate) async fn ask_for<'f>(
    context: &'f Context,
    object: &Object<ObjectMetadata>,
    requester: Requester,
    fetch: &Fetch,
    wanted: &Range<u64>,
) -> Result<(Box<dyn OriginBody + 'f>, u64), FillFault> {
    let metadata = object.description();
    let asked = Wanted { target: metadata.target(), first_byte: wanted.start, requester, loops: None };
    let answer = ask(context, &metadata.site, &asked, fetch).await?;
    match answer.status() {
        206 => {
            let (first, last, total) =
                content_range(&*answer, answer.length()).ok_or(OriginError::Malformed)?;
            if Some(total) != object.length() || !metadata.is_same_version(&*answer) {
                return Err(FillFault::Changed);
            }
            if (first, last) != (wanted.start, wanted.end - 1) {
                return Err(OriginError::Malformed.into());
            }
            count_answer(context, &*answer);
            Ok((answer, wanted.start))
        }
        200 => {
            if answer.length() != object.length() || !metadata.is_same_version(&*answer) {
                return Err(FillFault::Changed);
            }
            count_answer(context, &*answer);
            Ok((answer, 0))
        }
        404 | 410 | 412 | 416 => Err(FillFault::Changed),
        _ => Err(FillFault::ServerError),
    }
}
