//! From the command line to a plan.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::num::NonZeroUsize;
use std::time::Duration;

use penstock_load::Plan;
use penstock_load::plan::{ConnectionEnding, HttpProtocol, LoadMode, OfferedVersion, Resume, TlsPlan};
use penstock_load::player::{PlayerConfig, QualityChoice};
use penstock_load::workload::{self, Checksum, ObjectOrder, RangeChoice, Workload};

use crate::arguments::{
    CommonOptions, ConnectAddress, EndBy, LoadCommand, ObjectOptions, OrderBy, OutputOptions, PlayedQuality,
    ProtocolName, ResumeBy, TlsOptions, TlsVersion,
};

/// The plan of a command, and its output options.
pub(super) fn of(command: &LoadCommand) -> Result<(Plan, &OutputOptions), String> {
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
            let mode = LoadMode::Handshakes { request };
            Ok((plan(&typed.common, mode, workload, NonZeroUsize::MIN)?, &typed.common.output))
        }
        LoadCommand::Requests(typed) => {
            let mut workload = objects(&typed.common, &typed.objects)?;
            workload.connection_each = typed.no_keepalive;
            workload.methods = typed.method.clone();
            workload.think = typed.think.unwrap_or(Duration::ZERO);
            let plan = plan(&typed.common, LoadMode::Requests, workload, typed.streams)?;
            Ok((plan, &typed.common.output))
        }
        LoadCommand::Download(typed) => {
            let workload = objects(&typed.common, &typed.objects)?;
            let mode = LoadMode::Download { bitrate: typed.bitrate };
            Ok((plan(&typed.common, mode, workload, typed.streams)?, &typed.common.output))
        }
        LoadCommand::Playback(typed) => {
            let config = PlayerConfig {
                buffer: typed.buffer,
                start: typed.start,
                quality: match typed.quality {
                    PlayedQuality::Lowest => QualityChoice::Lowest,
                    PlayedQuality::Highest => QualityChoice::Highest,
                    PlayedQuality::Auto => QualityChoice::Auto,
                },
                watch: typed.watch,
                ramp: typed.ramp,
                storm: typed.storm,
                low_latency: !typed.no_low_latency,
                cmcd: typed.cmcd,
            };
            let workload = simple(&typed.common);
            let plan = plan(&typed.common, LoadMode::Playback(config), workload, NonZeroUsize::MIN)?;
            Ok((plan, &typed.common.output))
        }
    }
}

fn plan(
    common: &CommonOptions,
    mode: LoadMode,
    workload: Workload,
    streams: NonZeroUsize,
) -> Result<Plan, String> {
    let connections = common.connections.get();
    let protocol = match common.protocol {
        ProtocolName::H1 | ProtocolName::H2 if common.ack_every.is_some() => {
            return Err("--ack-every: TCP acknowledges by itself; write --protocol h3".to_owned());
        }
        ProtocolName::H1 if streams.get() > 1 => {
            return Err(
                "--streams: HTTP/1.1 has one request at a time on a connection; write --protocol h2 or h3"
                    .to_owned(),
            );
        }
        ProtocolName::H1 => HttpProtocol::Http1,
        ProtocolName::H2 => HttpProtocol::Http2 { streams },
        ProtocolName::H3 => HttpProtocol::Http3 { streams, ack_every: common.ack_every },
    };
    match (protocol, connection_field(&workload)) {
        (HttpProtocol::Http2 { .. }, Some(name)) => {
            return Err(format!("--header {name}: HTTP/2 has no such field (RFC 9113 §8.2.2); leave it out"));
        }
        (HttpProtocol::Http3 { .. }, Some(name)) => {
            return Err(format!("--header {name}: HTTP/3 has no such field (RFC 9114 §4.2); leave it out"));
        }
        _ => {}
    }
    if let HttpProtocol::Http3 { .. } = protocol {
        fits_quic(common)?;
    }
    let duration = match (common.duration, common.requests) {
        (None, None) => Some(super::DURATION),
        (duration, _) => duration,
    };
    Ok(Plan {
        addresses: addresses(common)?,
        target: common.url.clone(),
        tls: tls(&common.tls, protocol),
        protocol,
        mode,
        workload,
        connections,
        threads: common.threads.get().min(connections),
        duration,
        operations: common.requests,
        rate: common.rate,
        timeout: common.timeout,
        sessions: common.tls.sessions.clone(),
        ending: match common.ending {
            EndBy::CloseNotify => ConnectionEnding::CloseNotify,
            EndBy::Reset => ConnectionEnding::Reset,
        },
        seed: common.seed,
    })
}

/// Refuses options that QUIC has no place for.
fn fits_quic(common: &CommonOptions) -> Result<(), String> {
    let tls = &common.tls;
    let fault = match () {
        () if !common.url.tls => "is always over TLS: write an https:// URL",
        () if tls.tls == Some(TlsVersion::Tls12) => "is over TLS 1.3: leave --tls 1.2 out",
        () if tls.resume == ResumeBy::Id => {
            "is over TLS 1.3, which has no session IDs: write --resume ticket"
        }
        () if tls.sessions.is_some() => "keeps no sessions in files: leave --sessions out",
        () => return Ok(()),
    };
    Err(format!("--protocol h3: HTTP/3 {fault}"))
}

/// The addresses given, or the first address of the name that accepts a connection. Using all of them would mix IPv4
/// and IPv6.
fn addresses(common: &CommonOptions) -> Result<Vec<SocketAddr>, String> {
    let url = &common.url;
    if !common.address.is_empty() {
        let with_port = |address: &ConnectAddress| match *address {
            ConnectAddress::Host(ip) => SocketAddr::new(ip, url.port),
            ConnectAddress::Socket(address) => address,
        };
        return Ok(common.address.iter().map(with_port).collect());
    }
    let found = (url.host.as_str(), url.port).to_socket_addrs();
    let found: Vec<_> =
        found.map_err(|error| format!("{}: {error}; give its address with --address", url.host))?.collect();
    let chosen = choose(&found, common.timeout).ok_or_else(|| format!("{} has no address", url.host))?;
    Ok(vec![chosen])
}

/// The first address that accepts a connection, as in browsers; otherwise the first of all.
fn choose(found: &[SocketAddr], timeout: Duration) -> Option<SocketAddr> {
    let limit = timeout.min(TRY_TIME);
    let listens = |address: &&SocketAddr| TcpStream::connect_timeout(address, limit).is_ok();
    match found {
        [] => None,
        [only] => Some(*only),
        several => several.iter().find(listens).or_else(|| several.first()).copied(),
    }
}

/// How long a connection attempt to one of several addresses may take.
const TRY_TIME: Duration = Duration::from_secs(1);

fn tls(typed: &TlsOptions, protocol: HttpProtocol) -> TlsPlan {
    let alpn = match &typed.alpn[..] {
        [] => vec![protocol.alpn().to_owned()],
        // `--alpn ''` offers none.
        names => names.iter().filter(|name| !name.is_empty()).cloned().collect(),
    };
    // A session file is for resumption.
    let resume = match typed.resume {
        ResumeBy::None if typed.sessions.is_some() => Resume::Ticket,
        ResumeBy::None => Resume::None,
        ResumeBy::Ticket => Resume::Ticket,
        ResumeBy::Id => Resume::Id,
        ResumeBy::EarlyData => Resume::EarlyData,
    };
    TlsPlan {
        version: typed.tls.map(|version| match version {
            TlsVersion::Tls12 => OfferedVersion::Tls12,
            TlsVersion::Tls13 => OfferedVersion::Tls13,
        }),
        ciphers: typed.cipher.clone(),
        groups: typed.group.clone(),
        signature_algorithms: typed.signature_algorithm.clone(),
        server_name: typed.sni.clone(),
        alpn,
        client_certificate: typed.client_certificate.clone().zip(typed.client_key.clone()),
        authorities: typed.ca.clone(),
        insecure: typed.insecure,
        resume,
        no_tickets: typed.no_tickets,
    }
}

fn simple(common: &CommonOptions) -> Workload {
    let mut workload = Workload::simple(common.url.authority(), &common.url.path);
    let fields = common.header.iter().filter_map(|field| field.split_once(':'));
    let fields = fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    let (hosts, fields) = fields.partition(|(name, _)| name.eq_ignore_ascii_case("host"));
    workload.fields = fields;
    let mut hosts: Vec<(String, String)> = hosts;
    if !hosts.is_empty() {
        workload.host = hosts.swap_remove(0).1;
    }
    workload
}

/// The first field that describes a connection of HTTP/1.1.
fn connection_field(workload: &Workload) -> Option<&str> {
    const NAMES: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
    let names = workload.fields.iter().map(|(name, _)| name.as_str());
    names.into_iter().find(|name| NAMES.iter().any(|known| name.eq_ignore_ascii_case(known)))
}

fn objects(common: &CommonOptions, typed: &ObjectOptions) -> Result<Workload, String> {
    let mut workload = simple(common);
    if let Some(file) = &typed.urls {
        let text =
            std::fs::read_to_string(file).map_err(|error| format!("--urls {}: {error}", file.display()))?;
        let listed = workload::paths(&text, &common.url);
        workload.paths = listed.map_err(|error| format!("--urls {}: {error}", file.display()))?;
    }
    workload.objects = typed.objects;
    workload.order = match typed.order {
        OrderBy::Turn => ObjectOrder::InTurn,
        OrderBy::Random => ObjectOrder::Random,
        OrderBy::Zipf => ObjectOrder::Zipf(typed.exponent),
    };
    workload.range = match (&typed.range, typed.random_range) {
        (Some(range), _) => RangeChoice::Fixed(range.clone()),
        (None, Some((length, size))) => RangeChoice::Random { length, size },
        (None, None) => RangeChoice::Whole,
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
        assert_eq!(choose(&[closed, listening], TRY_TIME), Some(listening));
        assert_eq!(choose(&[closed, closed], TRY_TIME), Some(closed));
        assert_eq!(choose(&[closed], TRY_TIME), Some(closed));
        assert_eq!(choose(&[], TRY_TIME), None);
    }
}
