//! Rewrite: which path the origin is asked for. All that comes behind knows the new path only: file, cache key, node.

use std::borrow::Cow;

use penstock_config::Rewrite;
use penstock_http::Request;

use crate::pipeline::Refusal;
use crate::site::{UnsignedTarget, rewritten_path};

/// The target of a request behind the rewrite of its route. `unsigned` is its target without a token, if it had one.
///
/// # Errors
/// [`Refusal::AmbiguousPath`]: the path that was sent is none.
pub(super) fn rewritten<'r>(
    rewrite: &Rewrite,
    request: &'r Request<'r>,
    unsigned: Option<UnsignedTarget<'r>>,
) -> Result<Option<UnsignedTarget<'r>>, Refusal> {
    if request.is_server_wide() {
        return Ok(unsigned);
    }
    // Behind the rewrite the path is a right one in any case.
    request.url_path().map_err(|_| Refusal::AmbiguousPath)?;
    let sent = || UnsignedTarget {
        path: Cow::Borrowed(request.raw_path()),
        query: request.query().map(Cow::Borrowed),
    };
    let UnsignedTarget { path, query } = unsigned.unwrap_or_else(sent);
    Ok(Some(UnsignedTarget { path: Cow::Owned(rewritten_path(rewrite, &path)), query }))
}
