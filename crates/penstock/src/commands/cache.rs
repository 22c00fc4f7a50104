//! `penstock cache`: purges the cache of a running server and reads its tiers.

mod inspect;

use std::io;

use penstock_config::Config;
use penstock_edge::tokens::makers::encode;

use crate::admin_client;
use crate::arguments::{CacheArgs, CacheCommand, PurgeArgs};
use crate::commands::fleet_report::{FleetOrder, confirmed};
use crate::failure::Failure;
use crate::terminal;

const PURGE: FleetOrder = FleetOrder {
    action: "purge on every edge",
    unpublished: "the other edges get the purge once it does",
    missing: "each applies it before it serves again from its cache",
};

pub(crate) fn run(arguments: &CacheArgs) -> Result<(), Failure> {
    match &arguments.command {
        CacheCommand::Purge(purge) => run_purge(purge),
        CacheCommand::Ls(list) => inspect::list(list),
        CacheCommand::Stat(tiers) => inspect::stat(tiers),
        CacheCommand::Verify(tiers) => inspect::verify(tiers),
    }
}

fn run_purge(arguments: &PurgeArgs) -> Result<(), Failure> {
    let config = Config::load(&arguments.config).map_err(Failure::Config)?;
    let admin = admin_client::listener_of(&config, &arguments.config)?;
    let target = arguments.target.target();
    let (name, value) = (target.kind().label(), target.text());
    let soft = if arguments.soft { "&soft=1" } else { "" };
    let fleet = if arguments.fleet { "&fleet=1" } else { "" };
    if arguments.fleet && config.fleet.is_none() {
        let file = arguments.config.display();
        return Err(Failure::Usage(format!("{file} has no fleet; add fleet: {{valkey: URL, secret: FILE}}")));
    }
    let target = format!("/cache/purge?{name}={}{soft}{fleet}", encode(value));
    let (status, body) = admin_client::ask(admin, "POST", &target)?;
    let answer: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
    let mut nodes = Ok(());
    match (status, answer["purged"].as_u64(), answer["error"].as_str()) {
        (200, Some(count), _) if answer["cluster"].is_object() => {
            nodes = tell_of_nodes(count, &answer["cluster"]);
        }
        (200, Some(1), _) => terminal::say("purged 1 object"),
        (200, Some(count), _) => terminal::say(&format!("purged {count} objects")),
        (400, _, Some(error)) => return Err(Failure::Usage(error.to_owned())),
        (_, _, Some(error)) => return Err(Failure::machine("purge")(io::Error::other(error.to_owned()))),
        _ => {
            let what = format!("the admin listener answered {status}: {}", body.trim());
            return Err(Failure::machine("purge")(io::Error::other(what)));
        }
    }
    if arguments.fleet { confirmed(&answer["fleet"], &PURGE).and(nodes) } else { nodes }
}

/// Says which nodes of the cluster have purged. An unconfirmed purge is a failure: the node may send what it has.
fn tell_of_nodes(objects: u64, cluster: &serde_json::Value) -> Result<(), Failure> {
    let names = |key: &str| -> Vec<&str> {
        cluster[key].as_array().into_iter().flatten().filter_map(|name| name.as_str()).collect()
    };
    let (confirmed, missing) = (names("confirmed"), names("missing"));
    terminal::say(&format!(
        "purged {objects} object{} here, confirmed by {} of {} other nodes",
        if objects == 1 { "" } else { "s" },
        confirmed.len(),
        confirmed.len() + missing.len()
    ));
    if missing.is_empty() {
        return Ok(());
    }
    let what = format!("{} did not confirm it: it is repeated once they answer", missing.join(", "));
    Err(Failure::machine("purge all nodes")(io::Error::other(what)))
}
