//! Says which edges of a fleet have carried out an order.

use std::io;

use serde_json::Value;

use crate::failure::Failure;
use crate::terminal;

/// The words for an order.
pub(crate) struct FleetOrder {
    /// What could not be done.
    pub(crate) action: &'static str,
    /// What follows if the store does not answer.
    pub(crate) unpublished: &'static str,
    /// What edges do that are missing.
    pub(crate) missing: &'static str,
}

/// Says how many edges have applied an order, by the field `fleet` of the answer.
///
/// # Errors
/// The store does not answer, or an edge has not applied it.
pub(crate) fn confirmed(fleet: &Value, order: &FleetOrder) -> Result<(), Failure> {
    let failed = |what: String| Err(Failure::machine(order.action)(io::Error::other(what)));
    if fleet["published"] != true {
        return failed(format!("the store does not answer; {}", order.unpublished));
    }
    let count = |name: &str| fleet[name].as_u64().unwrap_or(0);
    terminal::say(&format!("applied by {} of {} edges", count("applied"), count("edges")));
    let missing = fleet["missing"].as_array().map_or(&[][..], Vec::as_slice);
    if missing.is_empty() && count("edges") > 0 {
        return Ok(());
    }
    let shown = missing.iter().map(|edge| {
        let name = edge["name"].as_str().unwrap_or("?");
        match edge["present"].as_bool() {
            Some(true) => format!("{name} has not answered yet"),
            _ => format!("{name} is away, last seen {} s ago", edge["seen_seconds_ago"]),
        }
    });
    let shown: Vec<String> = shown.collect();
    failed(format!("{}; {}", shown.join(", "), order.missing))
}
