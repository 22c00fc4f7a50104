//! Positions of parts of a configuration that are checked after it was read, on the machine that it is for.

use std::net::SocketAddr;

use crate::raw;
use crate::section::{Position, position};

/// A part of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigPart {
    /// An address to listen on: of a listener, the admin listener or the listener for nodes.
    Address(SocketAddr),
    /// `congestion_control` of the listener with this number.
    CongestionControl(usize),
    /// The user of the server.
    User,
    /// The memory tier of the cache.
    MemoryTier,
    /// The disk tier with this number.
    DiskTier(usize),
    /// A host of a site, by both numbers.
    Host(usize, usize),
    /// The content steering of the site with this number.
    Steering(usize),
    /// The store of the fleet.
    Store,
    /// The access log.
    AccessLog,
}

/// The positions of all parts that are written. `addresses` are those of listeners.
pub(crate) fn places(
    root: &raw::Root,
    addresses: Vec<(SocketAddr, Position)>,
) -> Vec<(ConfigPart, Position)> {
    let addresses = addresses.into_iter().map(|(address, here)| (ConfigPart::Address(address), here));
    let mut places: Vec<_> = addresses.collect();
    let listeners = root.listeners.iter().flat_map(|list| &list.value).enumerate();
    places.extend(listeners.filter_map(|(number, listener)| {
        let text = listener.value.congestion_control.as_ref()?;
        Some((ConfigPart::CongestionControl(number), position(text)))
    }));
    places.extend(root.user.as_ref().map(|text| (ConfigPart::User, position(text))));
    places.extend(root.cache.iter().flat_map(|section| tiers(&section.value)));
    places.extend(hosts(root));
    let sites = root.sites.iter().flat_map(|list| &list.value).enumerate();
    places.extend(sites.filter_map(|(number, site)| {
        Some((ConfigPart::Steering(number), position(site.value.settings.steering.as_ref()?)))
    }));
    let store = root.fleet.as_ref().map(|section| {
        let url = section.value.valkey.as_ref();
        (ConfigPart::Store, url.map_or_else(|| position(section), position))
    });
    places.extend(store);
    let log = root.log.as_ref().and_then(|section| section.value.access.as_ref());
    places.extend(log.map(|text| (ConfigPart::AccessLog, position(text))));
    places
}

fn tiers(cache: &raw::Cache) -> Vec<(ConfigPart, Position)> {
    let memory = cache.memory.as_ref().map(|section| (ConfigPart::MemoryTier, position(section)));
    let disks = cache.disk.iter().flat_map(|list| &list.value).enumerate();
    let disks = disks.map(|(number, section)| (ConfigPart::DiskTier(number), position(section)));
    memory.into_iter().chain(disks).collect()
}

fn hosts(root: &raw::Root) -> Vec<(ConfigPart, Position)> {
    let mut found = Vec::new();
    for (site, section) in root.sites.iter().flat_map(|list| &list.value).enumerate() {
        match &section.value.hosts {
            None => found.push((ConfigPart::Host(site, 0), position(section))),
            Some(list) => {
                let texts = list.value.iter().enumerate();
                found.extend(texts.map(|(host, text)| (ConfigPart::Host(site, host), position(text))));
            }
        }
    }
    found
}
