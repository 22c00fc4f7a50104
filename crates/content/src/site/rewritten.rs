//! Paths that are rewritten.

use penstock_config::Rewrite;
use penstock_config::pattern::REST;
use penstock_config::template::Variable;
use penstock_http::uri::normalise_path;

/// The path that the origin is asked for in place of `path`, in its normal form.
pub(crate) fn rewritten_path(rewrite: &Rewrite, path: &str) -> String {
    let text = rewrite.to.filled(|variable, out| match variable {
        Variable::Path => out.push_str(path),
        Variable::Capture(name) => out.push_str(rewrite.from.captured(path, name).unwrap_or_default()),
        _ => {}
    });
    // Two pieces can make a dot segment.
    normalise_path(&text).into_owned()
}

/// The beginning of all paths that the origin is asked for in place of paths that begin with `prefix`; `None` if no path is
/// rewritten. It may be shorter than needed: more is purged then.
pub(crate) fn rewritten_prefix(rewrite: &Rewrite, prefix: &str) -> Option<String> {
    let begins = rewrite.from.prefix();
    if !prefix.starts_with(begins) && !begins.starts_with(prefix) {
        return None;
    }
    let mut is_certain = rewrite.from.suffix().is_empty() && rewrite.from.matches(prefix);
    let text = rewrite.to.filled_while(|variable, out| {
        match variable {
            Variable::Path if is_certain => out.push_str(prefix),
            Variable::Capture(name) if is_certain => {
                out.push_str(rewrite.from.captured(prefix, name).unwrap_or_default());
            }
            _ => is_certain = false,
        }
        // Behind what may go on nothing is certain.
        is_certain
            && !matches!(variable, Variable::Path)
            && !matches!(variable, Variable::Capture(name) if name == REST)
    });
    Some(text)
}
