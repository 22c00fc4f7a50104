//! Other servers of the same cluster.

use std::net::SocketAddr;
use std::sync::Arc;

use penstock_tls::{
    Authorities, ClientCertificateLimits, ClientCertificateMode, ClientCertificates, HttpVersions,
};
use serde_saphyr::Spanned;

use super::listeners::{claim, default_options};
use super::pem::{self, is_plausible, unreadable};
use super::reader::Reader;
use crate::limits;
use crate::model::{Cluster, ClusterNode, ClusterTls, Listener};
use crate::raw;
use crate::section::{Position, Text, position, start};

/// The cluster; its own address is entered among those to listen on.
pub(super) fn cluster(
    section: Option<&Spanned<raw::Cluster>>,
    addresses: &mut Vec<(SocketAddr, Position)>,
    reader: &mut Reader<'_>,
) -> Option<Cluster> {
    let section = section?;
    let raw = &section.value;
    let nodes = nodes(section, reader);
    let own = own(section, &nodes, reader);
    let tls = tls(section, reader);
    let (own, here) = own?;
    let (name, address) = (&nodes[own].0.name, nodes[own].0.address);
    claim("cluster.nodes.address", address, here, addresses, reader);
    if raw.ca.is_none() && !nodes.iter().all(|(node, _)| node.address.ip().is_loopback()) {
        let what =
            format!("cluster: without ca every machine that reaches {address} can fill and purge the cache");
        reader.warning(
            position(section),
            what,
            "add ca, chain and key, or keep the nodes in a network of their own",
        );
    }
    if let Some(tls) = &tls
        && !tls.certificate.names().iter().any(|known| known.eq_ignore_ascii_case(name))
    {
        let what = format!(
            "chain: the certificate is not for the name `{name}`, by which the other nodes ask for it"
        );
        reader.fault(start(raw.chain.as_ref()), what, format!("issue it with the DNS name {name}"));
    }
    let listener = Listener {
        address,
        tls: raw.ca.is_some(),
        protocols: HttpVersions::H1,
        proxy_protocol: false,
        socket: default_options(),
    };
    let nodes = nodes.into_iter().map(|(node, _)| node).collect();
    Some(Cluster { own, nodes, tls, listener })
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
            let what = format!("name: {} is already defined on line {}", node.name, first.line);
            reader.fault(here, what, "give each node a name of its own");
        } else if let Some((_, first)) = nodes.iter().find(|(known, _)| known.address == node.address) {
            let what = format!("address: {} is already defined on line {}", node.address, first.line);
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
    let here = position(name);
    let fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    let text = &name.value;
    if !(1..=limits::CLUSTER_NAME_BYTES).contains(&text.len()) || !text.bytes().all(fine) {
        let what = format!("name: `{}` is not a name of a node", text.escape_debug());
        let instead = "write up to 64 lowercase letters, digits, - and ., such as edge1.example.com";
        reader.fault(here, what, instead);
        return None;
    }
    let parsed = reader.address("address", address)?;
    if parsed.port() == 0 || parsed.ip().is_unspecified() {
        let what = format!("address: other nodes cannot reach {parsed}");
        reader.fault(position(address), what, "write the IP address of the node and a port");
        return None;
    }
    Some((ClusterNode { name: text.clone(), address: parsed, weight }, here))
}

/// The place of this server among the nodes, and where that node is defined.
fn own(
    section: &Spanned<raw::Cluster>,
    nodes: &[(ClusterNode, Position)],
    reader: &mut Reader<'_>,
) -> Option<(usize, Position)> {
    let Some(text) = &section.value.own else {
        reader.fault(position(section), "self: this server has no name", "add self: NAME, one of nodes");
        return None;
    };
    let place = nodes.iter().position(|(node, _)| node.name == text.value);
    // Without nodes that is the fault to mend first.
    if place.is_none() && !nodes.is_empty() {
        let what = format!("self: `{}` is not one of nodes", text.value.escape_debug());
        reader.fault(position(text), what, "write the name of this server as nodes has it");
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
    let (authorities, clients) = authorities(ca, reader)?;
    Some(ClusterTls { authorities, clients, certificate: Arc::new(certificate?) })
}

fn authorities(text: &Text, reader: &mut Reader<'_>) -> Option<(Authorities, ClientCertificates)> {
    const LIMITS: ClientCertificateLimits = ClientCertificateLimits {
        depth: limits::CLIENT_CERTIFICATE_DEPTH,
        name_bytes: limits::CLIENT_CERTIFICATE_NAME_BYTES,
        authority_names_bytes: limits::CLIENT_AUTHORITY_NAMES_BYTES,
    };
    let path = reader.path(text);
    if !is_plausible("ca", text, &path, reader) {
        return None;
    }
    let what = match std::fs::read(&path) {
        Err(error) => unreadable(&error),
        Ok(pem) => {
            let clients = ClientCertificates::new(&pem, ClientCertificateMode::Required, LIMITS);
            match (Authorities::from_pem(&pem), clients) {
                (Ok(authorities), Ok(clients)) => return Some((authorities, clients)),
                _ => "is not a PEM file of certificates".to_owned(),
            }
        }
    };
    let instead = "write a PEM file with the authorities that sign the certificates of nodes";
    reader.fault(position(text), format!("ca: {} {what}", path.display()), instead);
    None
}
