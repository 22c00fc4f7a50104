//! The store of a fleet.

use crate::commands::doctor::facts::Facts;
use crate::commands::doctor::finding::{Finding, Section};
use crate::store_advice::StoreFinding;

pub(super) fn examine(facts: &Facts) -> Vec<Finding> {
    facts.configuration.store.iter().map(finding).collect()
}

fn finding(store: &StoreFinding) -> Finding {
    let found = Finding::ok(Section::Fleet, store.name, store.what, store.value.as_str(), store.why);
    found.better_if(store.wanted.is_some(), store.wanted.as_deref().unwrap_or_default(), "")
}
