//! Other servers of the same cluster.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use penstock_tls::HttpVersions;
use serde_saphyr::Spanned;

use super::client_certificates::client_rules;
use super::listeners::{claim, default_options};
use super::pem;
use super::reader::Reader;
use crate::limits;
use crate::model::{Cluster, ClusterNode, ClusterSource, ClusterTls, Listener};
use crate::raw;
use crate::section::{Position, Text, position, start};

/// The cluster; its own address is entered among those to listen on.
pub(super) fn cluster(
    section: Option<&Spanned<raw::Cluster>>,
    has_fleet: bool,
    addresses: &mut Vec<(SocketAddr, Position)>,
    reader: &mut Reader<'_>,
) -> Option<Cluster> {
    let section = section?;
    let raw = &section.value;
    let source = source(section, has_fleet, reader);
    let (nodes, own) = match source {
        ClusterSource::Listed => {
            refuse_own_keys(raw, reader);
            let nodes = nodes(section, reader);
            let own = own(section, &nodes, reader);
            (nodes, own)
        }
        ClusterSource::Fleet | ClusterSource::Dns { .. } => {
            let node = own_entry(section, &source, reader);
            let own = node.as_ref().map(|(_, here)| (0, *here));
            (node.into_iter().collect(), own)
        }
    };
    let tls = tls(section, reader);
    let (most, default) = (0..=100, limits::CLUSTER_COPIES_PERCENT);
    let copies_percent = reader.number("copies_percent", raw.copies_percent.as_ref(), &most, default);
    let (own, here) = own?;
    let (name, address) = (&nodes[own].0.name, nodes[own].0.address);
    let key = if source == ClusterSource::Listed { "cluster.nodes.address" } else { "cluster.address" };
    claim(key, address, here, addresses, reader);
    if raw.ca.is_none() && !nodes.iter().all(|(node, _)| node.address.ip().is_loopback()) {
        let what =
            format!("cluster: without ca every machine that reaches {address} can fill and purge the cache");
        reader.warning(
            position(section),
            what,
            "add ca, chain and key, or keep the nodes in a network of their own",
        );
    }
    let is_for =
        |tls: &ClusterTls| tls.certificate.names().iter().any(|known| known.eq_ignore_ascii_case(name));
    // The names of a certificate that are addresses are checked by the nodes that connect.
    if name.parse::<IpAddr>().is_err() && tls.as_ref().is_some_and(|tls| !is_for(tls)) {
        let what = format!(
            "chain: the certificate is not for the name `{name}`, by which the other nodes ask for it"
        );
        reader.fault(start(raw.chain.as_ref()), what, format!("issue it with the DNS name {name}"));
    }
    let listener = Listener {
        address,
        name: None,
        redirect: None,
        tls: raw.ca.is_some(),
        protocols: HttpVersions::H1,
        proxy_protocol: false,
        health: None,
        socket: default_options(),
    };
    let nodes = nodes.into_iter().map(|(node, _)| node).collect();
    Some(Cluster { source, own, nodes, tls, copies_percent, listener })
}

/// Where the nodes come from.
fn source(section: &Spanned<raw::Cluster>, has_fleet: bool, reader: &mut Reader<'_>) -> ClusterSource {
    let raw = &section.value;
    let valkey = reader.flag("valkey", raw.valkey.as_ref(), false);
    let resolver = raw.resolver.as_ref().and_then(|text| reader.address("resolver", text));
    let mut found = Vec::new();
    if let Some(text) = raw.valkey.as_ref().filter(|_| valkey) {
        if !has_fleet {
            let instead = "add fleet: {valkey: \"redis://127.0.0.1:6379\", secret: fleet.key} to the file";
            reader.fault(position(text), "valkey: valkey needs a store", instead);
        }
        found.push(("valkey", position(text), ClusterSource::Fleet));
    }
    if let Some(text) = &raw.dns {
        let name = text.value.trim_end_matches('.').to_ascii_lowercase();
        let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(fine);
        if name.len() > 253 || !name.split('.').all(is_label) {
            let what = format!("dns: `{}` is not a name", text.value.escape_debug());
            reader.fault(
                position(text),
                what,
                "write one such as nodes.example.com or _penstock._tcp.example.com",
            );
        }
        found.push(("dns", position(text), ClusterSource::Dns { name, resolver }));
    }
    if let (Some(text), false) =
        (&raw.resolver, raw.dns.as_ref().is_some_and(|dns| dns.value.starts_with('_')))
    {
        let what = "resolver: only SRV records are asked for there";
        reader.fault(position(text), what, "write dns: _SERVICE._tcp.NAME, or remove it");
    }
    if let Some(list) = raw.nodes.as_ref().filter(|_| !found.is_empty()) {
        let what = format!("nodes: the nodes come from {} already", found[0].0);
        reader.fault(position(list), what, "keep one of both");
    }
    if let [_, (key, here, _)] = &found[..] {
        reader.fault(*here, format!("{key}: the nodes come from valkey already"), "keep one of both");
    }
    found.into_iter().next().map_or(ClusterSource::Listed, |(_, _, source)| source)
}

/// Refuses keys of this node that its entry in `nodes` has.
fn refuse_own_keys(raw: &raw::Cluster, reader: &mut Reader<'_>) {
    for (key, text) in [("address", &raw.address), ("weight", &raw.weight)] {
        if let Some(text) = text {
            let what = format!("{key}: the entry of this node in nodes has it");
            reader.fault(
                position(text),
                what,
                "remove it, or write valkey: true or dns: NAME instead of nodes",
            );
        }
    }
}

/// This node as the others find it in a store or in DNS.
fn own_entry(
    section: &Spanned<raw::Cluster>,
    source: &ClusterSource,
    reader: &mut Reader<'_>,
) -> Option<(ClusterNode, Position)> {
    let raw = &section.value;
    let weights = 0..=limits::CLUSTER_WEIGHT_MAX;
    let mut weight = reader.number("weight", raw.weight.as_ref(), &weights, 1);
    if let ClusterSource::Dns { .. } = source {
        if let Some(text) = &raw.weight {
            reader.fault(
                position(text),
                "weight: DNS says it",
                "write it into the SRV records, and remove it here",
            );
        }
        // Until DNS lists it.
        weight = 0;
    }
    let has_addresses_only = matches!(source, ClusterSource::Dns { name, .. } if !name.starts_with('_'));
    let name = match &raw.own {
        Some(name) => Some((name.value.clone(), position(name))),
        // A name of this kind is an address, which the machine's name is not.
        None if has_addresses_only => None,
        None => Some((reader.host_name.to_ascii_lowercase(), position(section))),
    };
    let (Some((name, here)), Some(address)) = (name, &raw.address) else {
        let (missing, instead) = match &raw.address {
            Some(_) => ("self: this server has no name", "add self: NAME"),
            None => ("address: this node has none", "add address: 192.0.2.1:8443"),
        };
        reader.fault(position(section), missing, instead);
        return None;
    };
    let parsed = node_address(address, reader)?;
    if has_addresses_only {
        let ip = parsed.ip().to_string();
        if name != ip {
            let what = format!("self: `{}` is not the address of this node", name.escape_debug());
            reader.fault(here, what, format!("write {ip}: nodes have no other name in A records"));
        }
    } else {
        node_name("self", &name, here, reader)?;
    }
    Some((ClusterNode { name, address: parsed, weight }, position(address)))
}

fn nodes(section: &Spanned<raw::Cluster>, reader: &mut Reader<'_>) -> Vec<(ClusterNode, Position)> {
    let list = section.value.nodes.as_ref();
    let entries = list.map_or(&[][..], |list| &list.value);
    let here = if list.is_some() { start(list) } else { position(section) };
    if entries.is_empty() {
        let instead = "add nodes: [{name: edge1, address: 192.0.2.1:8443}] with all servers";
        reader.fault(here, "cluster: there are no nodes", instead);
    }
    if entries.len() > limits::CLUSTER_NODES {
        let what = format!("nodes: {} nodes are too many", entries.len());
        reader.fault(here, what, format!("write at most {}", limits::CLUSTER_NODES));
    }
    let mut nodes: Vec<(ClusterNode, Position)> = Vec::new();
    for entry in entries {
        let Some((node, here)) = node(entry, reader) else { continue };
        if let Some((_, first)) = nodes.iter().find(|(known, _)| known.name == node.name) {
            let what = format!("name: {} is already defined on {}", node.name, reader.line(*first, here));
            reader.fault(here, what, "give each node a name of its own");
        } else if let Some((_, first)) = nodes.iter().find(|(known, _)| known.address == node.address) {
            let what =
                format!("address: {} is already defined on {}", node.address, reader.line(*first, here));
            reader.fault(here, what, "give each node an address of its own");
        } else {
            nodes.push((node, here));
        }
    }
    if !nodes.is_empty() && nodes.iter().all(|(node, _)| node.weight == 0) {
        reader.fault(here, "nodes: no node owns anything", "give at least one a weight above 0");
    }
    nodes
}

fn node(entry: &Spanned<raw::ClusterNode>, reader: &mut Reader<'_>) -> Option<(ClusterNode, Position)> {
    let raw = &entry.value;
    let weights = 0..=limits::CLUSTER_WEIGHT_MAX;
    let weight = reader.number("weight", raw.weight.as_ref(), &weights, 1);
    let (Some(name), Some(address)) = (&raw.name, &raw.address) else {
        let missing = if raw.name.is_none() { "name" } else { "address" };
        let what = format!("this node has no {missing}");
        reader.fault(position(entry), what, "write {name: edge1, address: 192.0.2.1:8443}");
        return None;
    };
    node_name("name", &name.value, position(name), reader)?;
    let address = node_address(address, reader)?;
    Some((ClusterNode { name: name.value.clone(), address, weight }, position(name)))
}

/// Checks the name of a node.
fn node_name(key: &str, name: &str, here: Position, reader: &mut Reader<'_>) -> Option<()> {
    let fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    if (1..=limits::CLUSTER_NAME_BYTES).contains(&name.len()) && name.bytes().all(fine) {
        return Some(());
    }
    let what = format!("{key}: `{}` is not a name of a node", name.escape_debug());
    let instead = "write up to 64 lowercase letters, digits, - and ., such as edge1.example.com";
    reader.fault(here, what, instead);
    None
}

fn node_address(text: &Text, reader: &mut Reader<'_>) -> Option<SocketAddr> {
    let address = reader.address("address", text)?;
    if address.port() == 0 || address.ip().is_unspecified() {
        let what = format!("address: other nodes cannot reach {address}");
        reader.fault(position(text), what, "write the IP address of the node and a port");
        return None;
    }
    Some(address)
}

/// The place of this server among the nodes, and where that node is defined.
fn own(
    section: &Spanned<raw::Cluster>,
    nodes: &[(ClusterNode, Position)],
    reader: &mut Reader<'_>,
) -> Option<(usize, Position)> {
    let own = section.value.own.as_ref();
    let name = own.map_or_else(|| reader.host_name.to_ascii_lowercase(), |text| text.value.clone());
    let place = nodes.iter().position(|(node, _)| node.name == name);
    // Without nodes that is the fault to mend first.
    match own {
        _ if place.is_some() || nodes.is_empty() => {}
        Some(text) => {
            let what = format!("self: `{}` is not one of nodes", name.escape_debug());
            reader.fault(position(text), what, "write the name of this server as nodes has it");
        }
        None => {
            let what = format!("self: the host name `{}` is not one of nodes", name.escape_debug());
            reader.fault(position(section), what, "add self: NAME, one of nodes");
        }
    }
    place.map(|place| (place, nodes[place].1))
}

fn tls(section: &Spanned<raw::Cluster>, reader: &mut Reader<'_>) -> Option<ClusterTls> {
    let raw = &section.value;
    let Some(ca) = &raw.ca else {
        for (key, text) in [("chain", &raw.chain), ("key", &raw.key)] {
            if let Some(text) = text {
                let what = format!("{key}: without ca the nodes speak plain HTTP");
                reader.fault(position(text), what, "add ca: FILE.pem, or remove it");
            }
        }
        return None;
    };
    let certificate = match (&raw.chain, &raw.key) {
        (Some(chain), Some(key)) => pem::certificate(chain, key, reader),
        (chain, _) => {
            let missing = if chain.is_none() { "chain" } else { "key" };
            let what = format!("ca: the certificate of this node has no {missing}");
            reader.fault(position(ca), what, format!("add {missing}: FILE.pem"));
            None
        }
    };
    let authorities = pem::authorities("ca", ca, reader)?;
    let clients = client_rules(ca, None, reader)?;
    Some(ClusterTls { authorities, clients, certificate: Arc::new(certificate?) })
}
