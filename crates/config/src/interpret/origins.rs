//! The origin of a site's bytes.

mod s3;
mod servers;
mod uncached;
mod upgrades;
mod url;

use std::net::SocketAddr;
use std::time::Duration;

use penstock_http::OriginUrl;
use penstock_tls::Authorities;
use serde_saphyr::Spanned;

use self::uncached::{spread, uncached};
use super::pem;
use super::reader::Reader;
use crate::limits;
use crate::model::{Cluster, ClusterSource, Health, HttpOrigin, Origin, OriginServer, OriginTimeouts};
use crate::raw;
use crate::section::{Position, Text, Texts, position};

pub(super) fn origin(
    origin: &Spanned<raw::Origin>,
    cluster: Option<&Cluster>,
    reader: &mut Reader<'_>,
) -> Option<Origin> {
    let raw = &origin.value;
    let kinds = [
        ("directory", raw.directory.as_ref().map(position)),
        ("http", raw.http.as_ref().map(position)),
        ("s3", raw.s3.as_ref().map(position)),
    ];
    let mut named = kinds.iter().filter_map(|(kind, here)| Some((kind, (*here)?)));
    let first = named.next();
    if let (Some((first, _)), Some((kind, here))) = (first, named.next()) {
        let what = match *first {
            "directory" => format!("{kind}: this origin has a directory already"),
            other => format!("{kind}: this origin has {other} already"),
        };
        reader.fault(here, what, "keep one of them, or make two sites");
        return None;
    }
    match raw {
        raw::Origin { directory: Some(text), .. } => {
            refuse_keys_of_http(raw, reader);
            Some(Origin::Directory(reader.directory("directory", text)))
        }
        raw::Origin { http: Some(list), .. } => {
            let targets = servers::targets(list, reader);
            let origin = http(raw, targets, position(list), reader);
            Some(Origin::Http(Box::new(shared(origin, raw, cluster, reader))))
        }
        raw::Origin { s3: Some(section), .. } => {
            let (s3, target) = s3::bucket(section, reader)?;
            if let Some(host) = &raw.host {
                let what = "host: a bucket is asked by the name that is signed";
                reader.fault(position(host), what, "remove it");
            }
            let server = OriginServer { url: target, weight: 1, is_backup: false };
            let origin = http(raw, vec![server], position(section), reader);
            let origin = HttpOrigin { s3: Some(s3), ..origin };
            Some(Origin::Http(Box::new(shared(origin, raw, cluster, reader))))
        }
        raw::Origin { .. } => {
            let instead = "add directory: /srv/video or http: [\"http://192.0.2.5:8080\"]";
            reader.fault(position(origin), "this origin has neither a directory nor http", instead);
            None
        }
    }
}

fn refuse_keys_of_http(raw: &raw::Origin, reader: &mut Reader<'_>) {
    let entries = [
        ("host", raw.host.as_ref().map(position)),
        ("ca", raw.ca.as_ref().map(position)),
        ("chain", raw.chain.as_ref().map(position)),
        ("key", raw.key.as_ref().map(position)),
        ("balance", raw.balance.as_ref().map(position)),
        ("hide", raw.hide.as_ref().map(position)),
        ("timeouts", raw.timeouts.as_ref().map(position)),
        ("connections", raw.connections.as_ref().map(position)),
        ("connection_age", raw.connection_age.as_ref().map(position)),
        ("resolver", raw.resolver.as_ref().map(position)),
        ("retries", raw.retries.as_ref().map(position)),
        ("follow_redirects", raw.follow_redirects.as_ref().map(position)),
        ("redirect_hosts", raw.redirect_hosts.as_ref().map(position)),
        ("max_unannounced", raw.max_unannounced.as_ref().map(position)),
        ("health", raw.health.as_ref().map(position)),
        ("peers", raw.peers.as_ref().map(position)),
        ("shield", raw.shield.as_ref().map(position)),
        ("cache", raw.cache.as_ref().map(position)),
        ("spread", raw.spread.as_ref().map(position)),
        ("proxy_protocol", raw.proxy_protocol.as_ref().map(position)),
        ("upgrades", raw.upgrades.as_ref().map(position)),
        ("upgrade_idle", raw.upgrade_idle.as_ref().map(position)),
    ];
    for (key, here) in entries {
        if let Some(here) = here {
            reader.fault(here, format!("{key}: a directory has none"), "remove it, or write http: [...]");
        }
    }
}

fn http(
    raw: &raw::Origin,
    targets: Vec<OriginServer>,
    here: Position,
    reader: &mut Reader<'_>,
) -> HttpOrigin {
    let secure = targets.iter().any(|server| server.url.is_secure());
    let follow_redirects = reader.number(
        "follow_redirects",
        raw.follow_redirects.as_ref(),
        &(0..=limits::ORIGIN_REDIRECTS_MAX),
        0,
    );
    let mut authorities = authorities(raw.ca.as_ref(), secure, follow_redirects > 0, here, reader);
    if authorities.is_none() && follow_redirects > 0 {
        // A redirection may lead to https, whose certificates need authorities.
        authorities = Authorities::of_system().ok();
    }
    let connections = 1..=limits::ORIGIN_CONNECTIONS_MAX;
    let uncached = uncached(raw, reader);
    HttpOrigin {
        balance: servers::balance(raw.balance.as_ref(), reader),
        spread: spread(raw, uncached.is_none(), reader),
        identity: servers::identity(raw, secure, reader),
        hide: servers::hidden_fields(raw.hide.as_ref(), reader),
        s3: None,
        host: raw.host.as_ref().and_then(|text| host(text, reader)),
        authorities,
        timeouts: timeouts(raw.timeouts.as_ref(), reader),
        connections: reader.number(
            "connections",
            raw.connections.as_ref(),
            &connections,
            limits::ORIGIN_CONNECTIONS,
        ),
        connection_age: reader.time(
            "connection_age",
            raw.connection_age.as_ref(),
            &(Duration::from_secs(limits::ORIGIN_CONNECTION_AGE_SECONDS_MIN)
                ..=Duration::from_secs(limits::ORIGIN_CONNECTION_AGE_SECONDS_MAX)),
            Duration::from_secs(limits::ORIGIN_CONNECTION_AGE_SECONDS),
        ),
        retries: reader.number(
            "retries",
            raw.retries.as_ref(),
            &(0..=limits::ORIGIN_RETRIES_MAX),
            limits::ORIGIN_RETRIES,
        ),
        follow_redirects,
        resolvers: resolvers(raw.resolver.as_ref(), reader),
        redirect_hosts: redirect_hosts(raw.redirect_hosts.as_ref(), reader),
        max_unannounced: reader.size(
            "max_unannounced",
            raw.max_unannounced.as_ref(),
            &(limits::ORIGIN_UNANNOUNCED_BYTES_MIN..=limits::OBJECT_BYTES_MAX),
            limits::ORIGIN_UNANNOUNCED_BYTES,
        ),
        health: health(raw.health.as_ref(), reader),
        targets,
        peers: false,
        shield: Vec::new(),
        uncached,
        upgrades: upgrades::upgrades(raw, reader),
    }
}

/// The origin with the nodes of the cluster that share it.
fn shared(
    origin: HttpOrigin,
    raw: &raw::Origin,
    cluster: Option<&Cluster>,
    reader: &mut Reader<'_>,
) -> HttpOrigin {
    let peers = reader.flag("peers", raw.peers.as_ref(), false);
    if let (Some(text), true, None) = (&raw.peers, peers, cluster) {
        let instead = "add cluster: {self: NAME, nodes: [{name: NAME, address: 192.0.2.1:8443}]}";
        reader.fault(position(text), "peers: there is no cluster", instead);
    }
    let mut shield = Vec::new();
    for text in raw.shield.iter().flat_map(|list| &list.value) {
        let listed = cluster.filter(|cluster| cluster.source == ClusterSource::Listed);
        let nodes = listed.map_or(&[][..], |cluster| &cluster.nodes);
        // The names of a list from elsewhere are known later.
        let is_known =
            cluster.is_some() && listed.is_none() || nodes.iter().any(|node| node.name == text.value);
        match is_known {
            true if shield.contains(&text.value) => {
                let what = format!("shield: {} is listed twice", text.value);
                reader.fault(position(text), what, "keep one of them");
            }
            true => shield.push(text.value.clone()),
            false => {
                let what = format!("shield: `{}` is not a node of the cluster", text.value.escape_debug());
                reader.fault(position(text), what, "write a name that cluster.nodes has");
            }
        }
    }
    if let (Some(list), false) = (&raw.shield, peers || shield.is_empty()) {
        reader.fault(position(list), "shield: this site has no peers", "add peers: true");
    }
    HttpOrigin { peers, shield, ..origin }
}

/// A value of Host: a name with or without a port.
fn host(text: &Text, reader: &mut Reader<'_>) -> Option<String> {
    let name = text.value.as_str();
    match OriginUrl::parse(&format!("http://{name}")) {
        Ok(url) if !name.contains('/') => Some(url.authority().to_owned()),
        _ => {
            let what = format!("host: `{name}` is not a host name");
            reader.fault(position(text), what, "write a name such as origin.example.com");
            None
        }
    }
}

fn resolvers(list: Option<&Texts>, reader: &mut Reader<'_>) -> Vec<SocketAddr> {
    let Some(list) = list else { return Vec::new() };
    let most = limits::ORIGIN_RESOLVERS_MAX;
    if let Some(text) = list.value.get(most) {
        let what = format!("resolver: more than {most} servers take longer than a connection may");
        reader.fault(position(text), what, "keep the nearest");
    }
    list.value.iter().take(most).filter_map(|text| reader.address("resolver", text)).collect()
}

fn redirect_hosts(list: Option<&Texts>, reader: &mut Reader<'_>) -> Vec<String> {
    let mut hosts = Vec::new();
    for text in list.iter().flat_map(|list| &list.value) {
        match OriginUrl::parse(&format!("http://{}", text.value)) {
            // Addresses of IPv6 have colons of their own, and no redirection needs one.
            Ok(url) if url.authority() == text.value && !text.value.contains('[') => {
                hosts.push(text.value.clone());
            }
            _ => {
                let what = format!("redirect_hosts: `{}` is not a host name", text.value);
                reader.fault(
                    position(text),
                    what,
                    "write a name such as cdn.example.com or cdn.example.com:8080",
                );
            }
        }
    }
    hosts
}

pub(super) fn authorities(
    file: Option<&Text>,
    secure: bool,
    leads_elsewhere: bool,
    here: Position,
    reader: &mut Reader<'_>,
) -> Option<Authorities> {
    let Some(text) = file else {
        if !secure {
            return None;
        }
        return match Authorities::of_system() {
            Ok(authorities) => Some(authorities),
            Err(places) => {
                let places: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
                let what = format!(
                    "http: https needs authorities that sign certificates, and none of {} has any",
                    places.join(", ")
                );
                reader.fault(here, what, "install ca-certificates, or add ca: FILE.pem");
                None
            }
        };
    };
    if !secure && !leads_elsewhere {
        reader.fault(
            position(text),
            "ca: none of these servers speaks https",
            "remove it, or write https://",
        );
        return None;
    }
    pem::authorities("ca", text, reader)
}

fn timeouts(section: Option<&Spanned<raw::OriginTimeouts>>, reader: &mut Reader<'_>) -> OriginTimeouts {
    let default = OriginTimeouts::default();
    let Some(Spanned { value: raw, .. }) = section else { return default };
    let range = Duration::from_millis(limits::ORIGIN_TIMEOUT_MILLISECONDS_MIN)
        ..=Duration::from_secs(limits::ORIGIN_TIMEOUT_SECONDS_MAX);
    OriginTimeouts {
        connect: reader.time("connect", raw.connect.as_ref(), &range, default.connect),
        first_byte: reader.time("first_byte", raw.first_byte.as_ref(), &range, default.first_byte),
        between_bytes: reader.time(
            "between_bytes",
            raw.between_bytes.as_ref(),
            &range,
            default.between_bytes,
        ),
    }
}

fn health(section: Option<&Spanned<raw::Health>>, reader: &mut Reader<'_>) -> Health {
    let default = Health::default();
    let Some(Spanned { value: raw, .. }) = section else { return default };
    let many = 1..=limits::ORIGIN_FAILURES_MAX;
    let often = Duration::from_secs(1)..=Duration::from_secs(limits::ORIGIN_CHECK_SECONDS_MAX);
    for (key, text) in [("interval", &raw.interval), ("healthy_after", &raw.healthy_after)] {
        if let (Some(text), None) = (text, &raw.path) {
            let what = format!("{key}: there are no checks without a path");
            reader.fault(position(text), what, "add path: /healthz, or remove it");
        }
    }
    Health {
        unhealthy_after: reader.number(
            "unhealthy_after",
            raw.unhealthy_after.as_ref(),
            &many,
            default.unhealthy_after,
        ),
        check: raw.path.as_ref().and_then(|text| check_path(text, reader)),
        interval: reader.time("interval", raw.interval.as_ref(), &often, default.interval),
        healthy_after: reader.number(
            "healthy_after",
            raw.healthy_after.as_ref(),
            &many,
            default.healthy_after,
        ),
    }
}

fn check_path(text: &Text, reader: &mut Reader<'_>) -> Option<String> {
    let path = text.value.as_str();
    if is_path(path) {
        return Some(path.to_owned());
    }
    reader.fault(position(text), format!("path: `{path}` is not a path"), "write a path such as /healthz");
    None
}

/// Whether this is a path, perhaps with a query, that a request can have.
pub(super) fn is_path(path: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_graphic() && !b"#\\\"<>^`{|}".contains(&byte);
    path.starts_with('/') && path.bytes().all(fine)
}
