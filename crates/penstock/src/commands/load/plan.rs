//! From what was typed to a plan.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use penstock_load::Plan;
use penstock_load::plan::{Mode, Resume, Tls, Version};
use penstock_load::player::{Habits, Quality};
use penstock_load::workload::{self, Checksum, Order, Range, Workload};

use crate::arguments::{
    Address, Common, LoadCommand, Objects, OrderBy, Output, PlayedQuality, ResumeBy, TlsOptions, TlsVersion,
};

/// The plan, and what to do with its outcome.
pub(super) fn of(command: &LoadCommand) -> Result<(Plan, &Output), String> {
    match command {
        LoadCommand::Handshakes(typed) => {
            let request = !typed.no_request;
            if !request && typed.common.tls.resume == ResumeBy::EarlyData {
                return Err("early data is a request: leave --no-request out".to_owned());
            }
            if !typed.common.url.tls {
                return Err("there are no handshakes without TLS: write an https:// URL".to_owned());
            }
            let workload = simple(&typed.common);
            Ok((plan(&typed.common, Mode::Handshakes { request }, workload)?, &typed.common.output))
        }
        LoadCommand::Requests(typed) => {
            let mut workload = objects(&typed.common, &typed.objects)?;
            workload.connection_each = typed.no_keepalive;
            workload.methods = typed.method.clone();
            workload.think = typed.think.unwrap_or(Duration::ZERO);
            Ok((plan(&typed.common, Mode::Requests, workload)?, &typed.common.output))
        }
        LoadCommand::Download(typed) => {
            let workload = objects(&typed.common, &typed.objects)?;
            let mode = Mode::Download { bitrate: typed.bitrate };
            Ok((plan(&typed.common, mode, workload)?, &typed.common.output))
        }
        LoadCommand::Playback(typed) => {
            let habits = Habits {
                buffer: typed.buffer,
                start: typed.start,
                quality: match typed.quality {
                    PlayedQuality::Lowest => Quality::Lowest,
                    PlayedQuality::Highest => Quality::Highest,
                    PlayedQuality::Auto => Quality::Auto,
                },
                watch: typed.watch,
                ramp: typed.ramp,
                storm: typed.storm,
                low_latency: !typed.no_low_latency,
            };
            let workload = simple(&typed.common);
            Ok((plan(&typed.common, Mode::Playback(habits), workload)?, &typed.common.output))
        }
    }
}

fn plan(common: &Common, mode: Mode, workload: Workload) -> Result<Plan, String> {
    let connections = common.connections.get();
    let duration = match (common.duration, common.requests) {
        (None, None) => Some(super::DURATION),
        (duration, _) => duration,
    };
    Ok(Plan {
        addresses: addresses(common)?,
        target: common.url.clone(),
        tls: tls(&common.tls),
        mode,
        workload,
        connections,
        threads: common.threads.get().min(connections),
        duration,
        operations: common.requests,
        rate: common.rate,
        timeout: common.timeout,
        sessions: common.tls.sessions.clone(),
        seed: common.seed,
    })
}

/// Those given, or the first that the name stands for and somebody listens at: taking all of them would mix what IPv4
/// and IPv6 lead to.
fn addresses(common: &Common) -> Result<Vec<SocketAddr>, String> {
    let url = &common.url;
    if !common.address.is_empty() {
        let with_port = |address: &Address| match *address {
            Address::Host(ip) => SocketAddr::new(ip, url.port),
            Address::Socket(address) => address,
        };
        return Ok(common.address.iter().map(with_port).collect());
    }
    let found = (url.host.as_str(), url.port).to_socket_addrs();
    let found: Vec<_> =
        found.map_err(|error| format!("{}: {error}; give its address with --address", url.host))?.collect();
    let chosen = choose(&found, common.timeout).ok_or_else(|| format!("{} has no address", url.host))?;
    Ok(vec![chosen])
}

/// The first that takes a connection, as browsers choose; the first of all if there is no choice or none does.
fn choose(found: &[SocketAddr], timeout: Duration) -> Option<SocketAddr> {
    let limit = timeout.min(PATIENCE);
    let listens = |address: &&SocketAddr| TcpStream::connect_timeout(address, limit).is_ok();
    match found {
        [] => None,
        [only] => Some(*only),
        several => several.iter().find(listens).or_else(|| several.first()).copied(),
    }
}

/// How long an address that may be the wrong one is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

fn tls(typed: &TlsOptions) -> Tls {
    // A file of sessions is for resuming them.
    let resume = match typed.resume {
        ResumeBy::None if typed.sessions.is_some() => Resume::Ticket,
        ResumeBy::None => Resume::None,
        ResumeBy::Ticket => Resume::Ticket,
        ResumeBy::Id => Resume::Id,
        ResumeBy::EarlyData => Resume::EarlyData,
    };
    Tls {
        version: typed.tls.map(|version| match version {
            TlsVersion::Tls12 => Version::Tls12,
            TlsVersion::Tls13 => Version::Tls13,
        }),
        ciphers: typed.cipher.clone(),
        groups: typed.group.clone(),
        signature_algorithms: typed.signature_algorithm.clone(),
        server_name: typed.sni.clone(),
        alpn: typed.alpn.iter().filter(|name| !name.is_empty()).cloned().collect(),
        client_certificate: typed.client_certificate.clone().zip(typed.client_key.clone()),
        authorities: typed.ca.clone(),
        insecure: typed.insecure,
        resume,
        no_tickets: typed.no_tickets,
    }
}

fn simple(common: &Common) -> Workload {
    let mut workload = Workload::simple(common.url.authority(), &common.url.path);
    workload.fields.clone_from(&common.header);
    if let Some(host) = common.header.iter().find_map(|field| host_of(field)) {
        workload.host = host.to_owned();
        workload.fields.retain(|field| host_of(field).is_none());
    }
    workload
}

fn host_of(field: &str) -> Option<&str> {
    let (name, value) = field.split_once(':')?;
    name.eq_ignore_ascii_case("host").then(|| value.trim())
}

fn objects(common: &Common, typed: &Objects) -> Result<Workload, String> {
    let mut workload = simple(common);
    if let Some(file) = &typed.urls {
        let text =
            std::fs::read_to_string(file).map_err(|error| format!("--urls {}: {error}", file.display()))?;
        let listed = workload::paths(&text, &common.url);
        workload.paths = listed.map_err(|error| format!("--urls {}: {error}", file.display()))?;
    }
    workload.objects = typed.objects;
    workload.order = match typed.order {
        OrderBy::Turn => Order::InTurn,
        OrderBy::Random => Order::Random,
        OrderBy::Zipf => Order::Zipf(typed.exponent),
    };
    workload.range = match (&typed.range, typed.random_range) {
        (Some(range), _) => Range::Fixed(range.clone()),
        (None, Some((length, size))) => Range::Random { length, size },
        (None, None) => Range::Whole,
    };
    workload.checksum = match (typed.sha256, typed.checksum) {
        (Some(sum), _) => Checksum::Exactly(sum),
        (None, true) => Checksum::Consistent,
        (None, false) => Checksum::Off,
    };
    Ok(workload)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn of_the_addresses_of_a_name_the_first_that_listens_is_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let listening = listener.local_addr().expect("its address");
        // Port 1 of an address that nothing listens at.
        let closed = SocketAddr::from(([127, 0, 0, 77], 1));
        assert_eq!(choose(&[closed, listening], PATIENCE), Some(listening));
        assert_eq!(choose(&[closed, closed], PATIENCE), Some(closed));
        assert_eq!(choose(&[closed], PATIENCE), Some(closed));
        assert_eq!(choose(&[], PATIENCE), None);
    }
}
