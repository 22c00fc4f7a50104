//! The command line under test.

use serde_json::Value;

use penstock_testkit::{Finished, Tool};

/// Runs `penstock load` with these arguments, and no progress.
pub(crate) fn load(arguments: &[&str]) -> Finished {
    Tool::penstock().arg("load").args(arguments).arg("--quiet").run()
}

/// The same, returning its JSON. The exit code is not checked.
pub(crate) fn report(arguments: &[&str]) -> Value {
    let finished = load(&[arguments, &["--json"]].concat());
    serde_json::from_slice(&finished.stdout)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}{}", finished.text(), finished.stderr))
}

/// A count of the report, such as `errors.body_short`; 0 if it is not there.
pub(crate) fn count(report: &Value, path: &str) -> u64 {
    let found = path.split('.').try_fold(report, |value, key| value.get(key));
    found.map_or(0, |value| value.as_u64().unwrap_or_else(|| panic!("{path} is {value}")))
}
