//! References in a manifest, turned into request targets (RFC 3986 §5.2), on the same server only.

use crate::uri::{normalise, without_dots};

/// The longest target that is made.
const TARGET_BYTES_MAX: usize = 4096;

/// The target (path and query, in its [normal form](crate::uri::normalise)) that `reference` means in a manifest found
/// at `base`; `None` if it is on another server, too long, or cannot stand in a request line.
pub fn resolve(base: &str, reference: &str) -> Option<String> {
    let reference = reference.split('#').next().unwrap_or_default();
    let scheme_or_host = reference.starts_with("//")
        || reference.split(['/', '?']).next().is_some_and(|start| start.contains(':'));
    let plain = reference.bytes().all(|byte| byte.is_ascii_graphic());
    if reference.is_empty() || scheme_or_host || !plain || base.len() + reference.len() > TARGET_BYTES_MAX {
        return None;
    }
    let reference = &*normalise(reference);
    let base_path = base.split('?').next().unwrap_or_default();
    if reference.starts_with('?') {
        return Some(format!("{base_path}{reference}"));
    }
    let (path, query) = match reference.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (reference, None),
    };
    let directory = &base_path[..base_path.rfind('/')?];
    let whole = if path.starts_with('/') { path.to_owned() } else { format!("{directory}/{path}") };
    let mut target = without_dots(&whole);
    if let Some(query) = query {
        target.push('?');
        target.push_str(query);
    }
    Some(target)
}
