//! The HTTPS records (RFC 9460) that tell clients of HTTP/3 before their first connection.

use penstock_config::{Config, HostPattern, Listener, limits};
use penstock_tls::ech::{EchDirectory, EchKey};

/// The port of `https://` URLs without one.
const HTTPS: u16 = 443;

/// A record for each host of each listener with HTTP/3, in the form of zone files.
pub(crate) fn of(config: &Config) -> Vec<String> {
    let listeners: Vec<&Listener> =
        config.listeners.iter().filter(|one| one.protocols.h3 && one.address.port() != 0).collect();
    if listeners.is_empty() {
        return Vec::new();
    }
    let directory = config.tls.ech.as_deref();
    let keys = directory
        .and_then(|path| EchDirectory::read(path, limits::ECH_KEYS_MAX, limits::ECH_FILE_BYTES).ok());
    let newest = keys.as_ref().and_then(|found| found.keys.first());
    let mut records = Vec::new();
    for listener in listeners {
        for site in &config.sites {
            let is_here =
                |names: &Vec<String>| listener.name.as_ref().is_some_and(|name| names.contains(name));
            if !site.listeners.as_ref().is_none_or(is_here) {
                continue;
            }
            records.extend(site.hosts.iter().filter_map(|host| record(host, listener, newest)));
        }
    }
    records.sort();
    records.dedup();
    records
}

/// `None` for a host that DNS has no name for.
fn record(host: &HostPattern, listener: &Listener, newest: Option<&EchKey>) -> Option<String> {
    let name = match host {
        HostPattern::Exact(name) if name.parse::<std::net::IpAddr>().is_ok() => return None,
        HostPattern::Exact(_) | HostPattern::Under(_) => host.to_string(),
        HostPattern::Any => return None,
    };
    let versions = listener.protocols;
    let second = if versions.h2 { ",h2" } else { "" };
    // HTTP/1.1 is what a record means that says nothing else.
    let default = if versions.h1 { "" } else { " no-default-alpn" };
    let is_public = |key: &&EchKey| key.public_names().contains(&name);
    let ech = newest.filter(|key| !is_public(key)).map(|key| format!(" ech={}", key.dns_value()));
    let ech = ech.unwrap_or_default();
    let parameters = |port: &str| format!("alpn=h3{second}{default}{port}{ech}");
    Some(match (listener.address.port(), host) {
        (HTTPS, _) => format!("{name}. HTTPS 1 . {}", parameters("")),
        // A wildcard is the first label of a name or none.
        (_, HostPattern::Under(_)) => return None,
        (port, _) => {
            format!("_{port}._https.{name}. HTTPS 1 {name}. {}", parameters(&format!(" port={port}")))
        }
    })
}
