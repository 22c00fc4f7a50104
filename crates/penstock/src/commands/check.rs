//! `penstock check`: prints the faults of a configuration.

use penstock_config::{Cluster, ClusterSource, Config, Fault};
use penstock_edge::check_space;

use crate::advice;
use crate::arguments::CheckArgs;
use crate::failure::Failure;
use crate::{storage_advice, store_advice, terminal};

pub(crate) fn run(arguments: &CheckArgs) -> Result<(), Failure> {
    let config = Config::load(&arguments.config).map_err(Failure::Config)?;
    let store = store_advice::examine(&config).into_iter().filter_map(|found| {
        let instead = found.wanted?;
        let what = format!("fleet: {}: {}", found.what, found.value);
        Some(Fault { instead: format!("it should be {instead}"), ..config.fault_at(None, what) })
    });
    let store: Vec<Fault> = store.collect();
    // A start says so itself.
    let space = config.uses_cache().then(|| check_space(&config.cache)).flatten();
    for warning in config
        .warnings
        .iter()
        .chain(&config.verify_directories())
        .chain(&space.map(|what| config.fault_at(None, what)))
        .chain(&store)
        .chain(&storage_advice::advise(&config))
        .chain(&advice::advise(&config, &advice::Circumstances::read()))
    {
        terminal::complain(&format!("{warning} (warning)"));
    }
    terminal::say_well(&format!("{}: fine: {}", arguments.config.display(), summary(&config)));
    Ok(())
}

/// The nodes of a cluster.
fn nodes(cluster: &Cluster) -> String {
    match &cluster.source {
        ClusterSource::Listed => {
            let names: Vec<&str> = cluster.nodes.iter().map(|node| node.name.as_str()).collect();
            format!("a cluster of {}", names.join(", "))
        }
        ClusterSource::Fleet => "a cluster of the nodes in the store".to_owned(),
        ClusterSource::Dns { name, .. } => format!("a cluster of the nodes that DNS has for {name}"),
    }
}

fn summary(config: &Config) -> String {
    let count = |number: usize, one: &str| match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {one}s"),
    };
    let in_directories = config.tls.certificate_directories.iter().map(|directory| directory.found.len());
    let certificates = config.tls.certificates.len() + in_directories.sum::<usize>();
    let mut parts = vec![count(config.listeners.len(), "listener"), count(config.sites.len(), "site")];
    parts.extend((certificates > 0).then(|| count(certificates, "certificate")));
    let ordered = config.tls.acme.as_ref().map_or(0, |acme| acme.names.len());
    parts.extend((ordered > 0).then(|| count(ordered, "ordered name")));
    let elsewhere = config.tls.certificates.iter().filter(|one| one.remote.is_some()).count();
    parts.extend((elsewhere > 0).then(|| count(elsewhere, "remote private key")));
    parts.push(count(config.workers.get(), "worker"));
    parts.extend(config.cluster.as_ref().map(nodes));
    parts.join(", ")
}
