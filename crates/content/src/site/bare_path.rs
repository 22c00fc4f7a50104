//! Paths as tokens are compared with them.

use std::borrow::Cow;

use penstock_http::uri::percent_decoded;

/// A request's target without its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnsignedTarget<'r> {
    pub(crate) path: Cow<'r, str>,
    pub(crate) query: Option<Cow<'r, str>>,
}

/// The token in front of a path, and the path behind it.
pub(crate) fn split_path<'r>(path: &'r str, parameter: &str) -> Option<(&'r str, &'r str)> {
    let rest = path.strip_prefix('/')?.strip_prefix(parameter)?.strip_prefix('=')?;
    match rest.find('/') {
        Some(slash) => Some((&rest[..slash], &rest[slash..])),
        None => Some((rest, "/")),
    }
}

/// The decoded path that tokens are compared with. `None` if it could name something else for an origin that decodes or
/// resolves more than it should: an encoded slash, or a segment that climbs behind any decoding.
pub(crate) fn bare_path(path: &str) -> Option<Cow<'_, [u8]>> {
    let decoded = percent_decoded(path.as_bytes())?;
    let is_other = path.contains("%2F") || climbs(path);
    (!is_other).then_some(decoded)
}

/// Whether a path has a dot segment behind one or two decodings. Its normal form has none that is plain.
pub(crate) fn climbs(path: &str) -> bool {
    // Some origins take `..;x` for `..`, and some a backslash for a slash.
    let is_climb = |segment: &[u8]| {
        let name = segment.split(|byte| *byte == b';').next().unwrap_or_default();
        matches!(name, b"." | b"..")
    };
    let has_climb = |path: &[u8]| path.split(|byte| matches!(byte, b'/' | b'\\')).any(is_climb);
    let Some(decoded) = percent_decoded(path.as_bytes()) else { return false };
    has_climb(&decoded) || percent_decoded(&decoded).is_some_and(|path| has_climb(&path))
}
