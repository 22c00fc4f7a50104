//! `penstock revoke`: has the edges of a fleet refuse tokens by their ids.

use std::io;

use penstock_config::{Config, limits};
use penstock_edge::tokens::makers::encode;
use serde_json::Value;

use crate::admin_client;
use crate::arguments::RevokeArgs;
use crate::commands::fleet_report::{FleetOrder, confirmed};
use crate::failure::Failure;
use crate::terminal;

const REVOCATION: FleetOrder = FleetOrder {
    action: "revoke on every edge",
    unpublished: "the other edges refuse these tokens once it does",
    missing: "each refuses these tokens once it has read the store",
};

/// Bytes of the ids in one request, as they are written there: the head of a request to the admin listener is bounded.
const IDS_BYTES: usize = 4096;

pub(crate) fn run(arguments: &RevokeArgs) -> Result<(), Failure> {
    let config = Config::load(&arguments.config).map_err(Failure::Config)?;
    let admin = admin_client::listener_of(&config, &arguments.config)?;
    let fleet = if arguments.fleet { "&fleet=1" } else { "" };
    let (mut revoked, mut last) = (0, Value::Null);
    for ids in queries(&arguments.ids) {
        let target = format!("/tokens/revoke?expires={}{fleet}{ids}", encode(&arguments.expires));
        let (status, body) = admin_client::ask(admin, "POST", &target)?;
        last = serde_json::from_str(&body).unwrap_or_default();
        match (status, last["revoked"].as_u64(), last["error"].as_str()) {
            (200, Some(count), _) => revoked += count,
            (400, _, Some(error)) => return Err(Failure::Usage(error.to_owned())),
            (_, _, Some(error)) => {
                return Err(Failure::machine("revoke")(io::Error::other(error.to_owned())));
            }
            _ => {
                let what = format!("the admin listener answered {status}: {}", body.trim());
                return Err(Failure::machine("revoke")(io::Error::other(what)));
            }
        }
    }
    terminal::say(&format!("revoked {revoked} id{}", if revoked == 1 { "" } else { "s" }));
    if arguments.fleet {
        return confirmed(&last["fleet"], &REVOCATION);
    }
    if last["fleet"]["published"] != true {
        terminal::say(&format!("the store does not answer; {}", REVOCATION.unpublished));
    }
    Ok(())
}

/// The ids as parts of queries, each for one request.
fn queries(ids: &[String]) -> Vec<String> {
    let mut queries: Vec<(String, usize)> = Vec::new();
    for id in ids {
        let written = format!("&id={}", encode(id));
        match queries.last_mut() {
            Some((query, count))
                if query.len() + written.len() <= IDS_BYTES && *count < limits::REVOKED_IDS_PER_ORDER =>
            {
                query.push_str(&written);
                *count += 1;
            }
            _ => queries.push((written, 1)),
        }
    }
    queries.into_iter().map(|(query, _)| query).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_several_requests_and_no_id_is_lost() {
        for (count, length) in [(1, 5000), (600, 1), (300, 64)] {
            let ids: Vec<String> = (0..count).map(|number| format!("{number:0length$}")).collect();
            let queries = queries(&ids);
            let found: Vec<&str> = queries.iter().flat_map(|query| query.split("&id=").skip(1)).collect();
            assert_eq!(found, ids);
            for query in &queries {
                let count = query.split("&id=").skip(1).count();
                assert!(count == 1 || (query.len() <= IDS_BYTES && count <= limits::REVOKED_IDS_PER_ORDER));
            }
        }
    }
}
