//! `penstock check`: prints the findings about a configuration.

use std::io;
use std::path::{Path, PathBuf};

use penstock_config::{Cluster, ClusterSource, Config, Fault};

use crate::advice::Circumstances;
use crate::arguments::CheckArgs;
use crate::failure::Failure;
use crate::finding::{self, Finding, Severity};
use crate::findings;
use crate::terminal;

/// The name of a configuration from standard input in messages.
const STDIN: &str = "<stdin>";

pub(crate) fn run(arguments: &CheckArgs) -> Result<(), Failure> {
    let Source { shown, text, config } = read(arguments);
    let (findings, summary) = match &config {
        Ok(config) => {
            let mut found = findings::examine(config, &Circumstances::read());
            found.extend(findings::of_store(config));
            (found, Some(summary(config)))
        }
        Err(faults) => (faults.iter().cloned().map(Finding::error).collect(), None),
    };
    let findings: Vec<Finding> = findings.into_iter().map(|found| shown_as(found, &shown)).collect();
    if arguments.json {
        let document = finding::document(&findings, (&shown.name, text.as_deref()), summary.as_deref());
        terminal::say(&format!("{document:#}"));
    } else if let Some(summary) = &summary {
        findings.iter().for_each(|finding| terminal::complain(&finding.to_string()));
        terminal::say_well(&format!("{}: fine: {summary}", shown.name.display()));
    }
    let of = |severity: Severity| findings.iter().filter(move |one| one.severity == severity);
    match (of(Severity::Error).count(), of(Severity::Warning).count()) {
        (count @ 1.., _) if arguments.json => Err(Failure::Refused { count }),
        (1.., _) => Err(Failure::Config(of(Severity::Error).map(|one| one.fault.clone()).collect())),
        (0, count @ 1..) if arguments.strict => Err(Failure::Findings { count }),
        _ => Ok(()),
    }
}

/// A configuration and where it is from.
struct Source {
    shown: Shown,
    /// The text of standard input; `None` for a file.
    text: Option<String>,
    config: Result<Config, Vec<Fault>>,
}

/// How the file given with `-c` is called.
struct Shown {
    /// The path at which it was read.
    path: PathBuf,
    /// Its name in messages.
    name: PathBuf,
}

fn read(arguments: &CheckArgs) -> Source {
    // The parser of the command line demands one of them.
    let path = arguments.file.as_deref().or(arguments.config.as_deref()).unwrap_or_else(|| Path::new("-"));
    if path != Path::new("-") {
        let shown = Shown { path: path.to_owned(), name: path.to_owned() };
        return Source { shown, text: None, config: Config::load(path) };
    }
    let path = arguments.base.join(STDIN);
    let (text, config) = Config::read_from(io::stdin().lock(), &path);
    Source { shown: Shown { path, name: PathBuf::from(STDIN) }, text: Some(text), config }
}

fn shown_as(finding: Finding, shown: &Shown) -> Finding {
    if finding.fault.file != shown.path {
        return finding;
    }
    let fault = Fault { file: shown.name.clone(), ..finding.fault };
    Finding { fault, ..finding }
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
