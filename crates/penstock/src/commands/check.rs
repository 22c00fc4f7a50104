//! `penstock check`: prints the findings about a configuration.

use std::path::Path;

use penstock_config::{Cluster, ClusterSource, Config};

use crate::advice::Circumstances;
use crate::arguments::CheckArgs;
use crate::failure::Failure;
use crate::finding::{self, Finding, Severity};
use crate::findings;
use crate::given_config::GivenConfig;
use crate::https_records;
use crate::terminal;

pub(crate) fn run(arguments: &CheckArgs) -> Result<(), Failure> {
    // The parser of the command line demands one of them.
    let path = arguments.file.as_deref().or(arguments.config.as_deref()).unwrap_or_else(|| Path::new("-"));
    let given = GivenConfig::read(path, &arguments.base);
    let (findings, summary) = match &given.config {
        Ok(config) => {
            let mut found = findings::examine(config, &Circumstances::read());
            found.extend(findings::of_store(config));
            (found, Some(summary(config)))
        }
        Err(faults) => (faults.iter().cloned().map(Finding::error).collect(), None),
    };
    let records = given.config.as_ref().map(https_records::of).unwrap_or_default();
    let findings: Vec<Finding> = findings.into_iter().map(|found| given.named(found)).collect();
    if arguments.json {
        let result = summary.as_deref().map(|summary| (summary, &records[..]));
        let document = finding::document(&findings, (&given.name, given.text.as_deref()), result);
        terminal::say(&format!("{document:#}"));
    } else if let Some(summary) = &summary {
        findings.iter().for_each(|finding| terminal::complain(&finding.to_string()));
        terminal::say_well(&format!("{}: fine: {summary}", given.name.display()));
        if !records.is_empty() {
            terminal::say("records for DNS, so that clients begin with HTTP/3 (RFC 9460):");
            records.iter().for_each(|record| terminal::say(record));
        }
    }
    let of = |severity: Severity| findings.iter().filter(move |one| one.severity == severity);
    match (of(Severity::Error).count(), of(Severity::Warning).count()) {
        (count @ 1.., _) if arguments.json => Err(Failure::Refused { count }),
        (1.., _) => Err(Failure::Config(of(Severity::Error).map(|one| one.fault.clone()).collect())),
        (0, count @ 1..) if arguments.strict => Err(Failure::Findings { count }),
        _ => Ok(()),
    }
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
