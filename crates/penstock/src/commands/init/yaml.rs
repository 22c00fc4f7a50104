//! Values in YAML.

use std::path::Path;

/// A value in double quotes, as YAML and as a configuration read it: what looks like a variable is none.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text.replace("${", "$${")).to_string()
}

/// The same for a path.
pub(super) fn quoted_path(path: &Path) -> String {
    quoted(&path.display().to_string())
}
