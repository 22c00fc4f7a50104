//! Parts of a configuration that do not fit together, although each is right. A server starts with them.

use std::collections::HashSet;
use std::net::IpAddr;

use crate::fault::Fault;
use crate::model::{Config, HostPattern, Listener, Site};
use crate::places::ConfigPart;

impl Config {
    /// Sites without a certificate, and content that clients get without the certificate that they need elsewhere.
    #[must_use]
    pub fn inconsistencies(&self) -> Vec<Fault> {
        let mut found = self.hosts_without_certificate();
        found.extend(self.listeners_around_client_certificates());
        found.extend(self.steering_behind_a_drain());
        found
    }

    /// Hosts of sites on HTTPS listeners that no certificate is for. Any host and IP addresses are not looked at: a client
    /// names no address in its handshake.
    fn hosts_without_certificate(&self) -> Vec<Fault> {
        let names = Names::of(self);
        let has_tls = |site: &Site| self.listeners.iter().any(|one| one.tls && answers(site, one));
        let mut found = Vec::new();
        for (number, site) in self.sites.iter().enumerate().filter(|(_, site)| has_tls(site)) {
            for (place, host) in site.hosts.iter().enumerate() {
                if names.cover(host) {
                    continue;
                }
                let what = format!(
                    "hosts: no certificate is for {host}: clients get another one over HTTPS, and refuse it"
                );
                let instead =
                    "add one to tls.certificates, or let the site answer on listeners without TLS only";
                let fault = self.fault_of(ConfigPart::Host(number, place), what);
                found.push(Fault { instead: instead.to_owned(), ..fault });
            }
        }
        found
    }

    /// Steering manifests that players ask for too seldom to leave a node of the cluster that drains.
    fn steering_behind_a_drain(&self) -> Vec<Fault> {
        let lasts = self.limits.lame_duck;
        let late = self.sites.iter().enumerate().filter_map(|(number, site)| {
            let steering = site.settings.players.steering.as_ref().filter(|_| self.cluster.is_some())?;
            (steering.ttl >= lasts).then(|| {
                let what = format!(
                    "steering: players ask every {:?}, and a node that drains is gone {lasts:?} after the signal",
                    steering.ttl
                );
                let instead = "write a limits.lame_duck that is longer than ttl, or a shorter ttl";
                Fault { instead: instead.to_owned(), ..self.fault_of(ConfigPart::Steering(number), what) }
            })
        });
        late.collect()
    }

    /// Listeners without TLS that serve sites, although clients need a certificate.
    fn listeners_around_client_certificates(&self) -> Vec<Fault> {
        if !self.tls.client_certificates.as_ref().is_some_and(|rules| rules.are_required()) {
            return Vec::new();
        }
        let serves = |listener: &Listener| self.sites.iter().any(|site| answers(site, listener));
        let plain = self.listeners.iter().filter(|one| !one.tls && one.redirect.is_none() && serves(one));
        plain
            .map(|listener| {
                let address = listener.address;
                let what = format!(
                    "client_certificates: they are required, and {address} serves without TLS to everyone"
                );
                let instead = "add redirect: https to this listener, or name the others and add listeners: to each site";
                Fault { instead: instead.to_owned(), ..self.fault_of(ConfigPart::Address(address), what) }
            })
            .collect()
    }
}

/// Whether a site answers on a listener.
fn answers(site: &Site, listener: &Listener) -> bool {
    match (&site.listeners, &listener.name) {
        (None, _) => true,
        (Some(names), Some(name)) => names.contains(name),
        (Some(_), None) => false,
    }
}

/// The names of all certificates, also of those that are ordered, in lower case.
struct Names {
    names: HashSet<String>,
    /// Each name without its first label.
    parents: HashSet<String>,
}

impl Names {
    fn of(config: &Config) -> Self {
        let own = config.tls.certificates.iter().flat_map(|one| one.certificate.names());
        let found = config.tls.certificate_directories.iter().flat_map(|directory| &directory.found);
        let ordered = config.tls.acme.iter().flat_map(|acme| &acme.names);
        let all = own.chain(found.flat_map(|one| one.summary.names())).chain(ordered);
        let names: HashSet<String> = all.map(|name| name.to_ascii_lowercase()).collect();
        let parents = names.iter().filter_map(|name| Some(name.split_once('.')?.1.to_owned())).collect();
        Self { names, parents }
    }

    /// Whether a certificate is for a host, or for one of the hosts of a pattern (RFC 6125 section 6.4.3).
    fn cover(&self, host: &HostPattern) -> bool {
        match host {
            HostPattern::Any => true,
            HostPattern::Exact(name) if name.parse::<IpAddr>().is_ok() => true,
            HostPattern::Exact(name) => {
                let wildcard = name.split_once('.').map(|(_, parent)| format!("*.{parent}"));
                self.names.contains(name) || wildcard.is_some_and(|one| self.names.contains(&one))
            }
            HostPattern::Under(domain) => self.parents.contains(domain),
        }
    }
}
