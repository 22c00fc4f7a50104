//! Validates the raw form and turns it into the model.

mod access;
mod acme;
mod admin;
mod bounds;
mod cache;
mod certificates;
mod chains;
mod ciphers;
mod client_certificates;
mod cluster;
mod compression;
mod cors;
mod early_data;
mod ech;
mod error_pages;
mod exposed;
mod field_rules;
mod fleet;
mod forwarding;
mod hosts;
pub(crate) mod keyserver;
mod listeners;
mod log;
mod metrics;
mod ocsp;
mod origins;
mod pem;
mod players;
mod private_keys;
mod query;
pub(crate) mod reader;
mod redirects;
mod routes;
mod settings;
mod signed_urls;
mod site_limits;
mod site_tokens;
mod sites;
mod tickets;
mod tls;
mod tokens;
mod unknown_keys;
mod versions;

use std::num::NonZeroUsize;
use std::thread;

use crate::limits;
use crate::model::{Config, ConfigSource, CountedMetrics, Log};
use crate::places;
use crate::raw;
use crate::section::{Text, position};
use crate::users::{self, User};
pub use exposed::exposes;
pub(crate) use listeners::{default_options, default_versions};
use reader::Reader;
use settings::Surroundings;

/// Reads the whole configuration. The result counts only if `reader` has no faults afterwards.
pub(crate) fn interpret(root: &raw::Root, reader: &mut Reader<'_>) -> Config {
    unknown_keys::report(root, reader);
    let workers = workers(root.workers.as_ref(), reader);
    let affinity = reader.flag("affinity", root.affinity.as_ref(), true);
    let user = root.user.as_ref().and_then(|text| user(text, reader));
    let mut tls = tls::tls(root.tls.as_ref(), reader);
    let admin = admin::admin(root.admin.as_ref(), reader);
    let (listeners, mut addresses) = listeners::listeners(root, admin.as_ref(), tls.newest, reader);
    let cluster = cluster::cluster(root.cluster.as_ref(), root.fleet.is_some(), &mut addresses, reader);
    let fleet = fleet::fleet(root.fleet.as_ref(), &listeners, reader);
    fleet::require(&tls, root.tls.as_ref(), root.fleet.is_some(), reader);
    let sites = sites::sites(root.sites.as_ref(), &Surroundings::new(cluster.as_ref(), &listeners), reader);
    if let Some(section) = root.tls.as_ref().and_then(|tls| tls.value.acme.as_ref()) {
        acme::add(section, &mut tls, &sites, &listeners, root.fleet.is_some(), reader);
    }
    let cache = cache::cache(root.cache.as_ref(), reader);
    let log = root.log.as_ref().map_or_else(Log::default, |section| log::log(&section.value, &sites, reader));
    let metrics = root.metrics.as_ref();
    let metrics =
        metrics.map_or_else(CountedMetrics::default, |section| metrics::metrics(&section.value, reader));
    let limits = bounds::limits(root.limits.as_ref(), reader);
    exposed::warn(&sites, reader);
    let admin = admin.map(|(admin, _)| admin);
    let places = places::places(root, addresses);
    let source = ConfigSource { files: reader.files.clone(), places, paths: reader.paths.take() };
    Config {
        workers,
        affinity,
        user,
        listeners,
        tls,
        sites,
        cache,
        cluster,
        fleet,
        admin,
        log,
        metrics,
        limits,
        warnings: Vec::new(),
        source,
    }
}

/// One worker for each core this process may use: affinity masks and CPU quotas count.
pub(crate) fn worker_for_each_core() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

fn user(text: &Text, reader: &mut Reader<'_>) -> Option<User> {
    let user = users::find(&text.value);
    let (what, instead) = match &user {
        None => (
            format!("user: there is no user `{}`", text.value.escape_debug()),
            "write a name of /etc/passwd, or uid:gid",
        ),
        Some(user) if user.uid == 0 => {
            ("user: root keeps all privileges".to_owned(), "write another user, such as penstock")
        }
        Some(_) => return user,
    };
    reader.fault(position(text), what, instead);
    None
}

fn workers(raw: Option<&Text>, reader: &mut Reader<'_>) -> NonZeroUsize {
    let automatic = worker_for_each_core();
    let Some(text) = raw.filter(|text| text.value != "auto") else { return automatic };
    let most = limits::WORKERS_MAX;
    match text.value.parse::<NonZeroUsize>() {
        Ok(number) if number.get() <= most => number,
        Ok(_) | Err(_) => {
            let instead = format!("write auto or a number from 1 to {most}");
            reader.fault(
                position(text),
                format!("workers: `{}` is not a number of workers", text.value),
                instead,
            );
            automatic
        }
    }
}
