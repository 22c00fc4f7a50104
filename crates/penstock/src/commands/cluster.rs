//! `penstock cluster`: the nodes of a running server, and the owner of an object.

use std::io;

use penstock_config::Config;
use penstock_edge::locate;

use crate::admin_client;
use crate::arguments::{ClusterArgs, ClusterCommand, LocateArgs, StatusArgs};
use crate::failure::Failure;
use crate::terminal;

pub(crate) fn run(arguments: &ClusterArgs) -> Result<(), Failure> {
    match &arguments.command {
        ClusterCommand::Status(status) => print_status(status),
        ClusterCommand::Locate(wanted) => print_location(wanted),
    }
}

fn print_status(arguments: &StatusArgs) -> Result<(), Failure> {
    let config = Config::load(&arguments.config).map_err(Failure::Config)?;
    let admin = admin_client::listener_of(&config, &arguments.config)?;
    let (_, body) = admin_client::ask(admin, "GET", "/status.json")?;
    let status: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
    let Some(nodes) = status["cluster"].as_array() else {
        return Err(Failure::Usage("the server has no cluster; add a cluster section".to_owned()));
    };
    if arguments.json {
        terminal::say(&status["cluster"].to_string());
    } else {
        nodes.iter().for_each(print_node);
    }
    let out = nodes.iter().filter(|node| node["up"] == false).filter_map(|node| node["name"].as_str());
    let out: Vec<&str> = out.collect();
    if out.is_empty() {
        return Ok(());
    }
    Err(Failure::machine("reach all nodes")(io::Error::other(format!("{} is out", out.join(", ")))))
}

fn print_node(node: &serde_json::Value) {
    let text = |key: &str| node[key].as_str().unwrap_or_default();
    let number = |value: &serde_json::Value| value.as_u64().unwrap_or_default();
    let state = match (node["self"] == true, node["up"] == true) {
        (true, _) => "this node".to_owned(),
        (false, true) => match number(&node["purges_missed"]) {
            0 => "up".to_owned(),
            purges => format!("up, has yet to confirm {purges} purges"),
        },
        (false, false) => format!("out: {}", text("fault")),
    };
    let requests = &node["requests"];
    terminal::say(&format!(
        "{}  weight {}  load {}  connections {}  busy {:.0} %  answered {}  failed {}  {state}",
        text("name"),
        number(&node["weight"]),
        number(&node["load"]),
        number(&node["connections"]),
        100.0 * node["busy"].as_f64().unwrap_or_default(),
        number(&requests["answered"]),
        number(&requests["failed"]),
    ));
}

fn print_location(arguments: &LocateArgs) -> Result<(), Failure> {
    let config = Config::load(&arguments.config).map_err(Failure::Config)?;
    let rank = locate(&config, &arguments.url, arguments.byte).map_err(Failure::Usage)?;
    for (place, name) in rank.iter().enumerate() {
        terminal::say(&match place {
            0 => format!("{name}  owner"),
            place => format!("{name}  substitute {place}"),
        });
    }
    Ok(())
}
