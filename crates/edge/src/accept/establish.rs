//! From an accepted socket to a connection that can be served: PROXY header, handshake, outlet.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use penstock_config::{Network, limits};
use penstock_content::NetworkEntry;
use penstock_egress::{Outlet, Traffic};
use penstock_http::proxy;
use penstock_sys::ConnectedSocket;
use penstock_tls::{
    ApplicationProtocol, ConnectingClient, Established, HandshakeFailure, HttpVersions, alert,
};
use tokio::time::{timeout, timeout_at};

use crate::carrier::{CarriedBy, record_connection};
use crate::clients::Inbound;
use crate::connection::{Connection, EgressPath, Linger, UnfinishedHandshake, linger};
use crate::http1::plain_http_on_tls_port;
use crate::metrics::{Direction, HandshakeFacts, OutletKind, Refusal, Work, doing_all};
use crate::settings::Settings;
use crate::worker::{Listening, Purpose, Worker, labels};

/// The reason of the egress path, for `penstock_egress_connections_total`.
const NO_TLS: &str = "no_tls";

/// Makes a connection of a socket, with its place among the connections of the client's network; `None` if handshake or PROXY header fail, which is counted.
pub(crate) async fn establish(
    worker: &Rc<Worker>,
    listening: &Listening,
    socket: ConnectedSocket,
    peer: SocketAddr,
) -> Option<(Box<Connection>, NetworkEntry)> {
    let socket = Rc::new(socket);
    let settings = worker.settings();
    let (client, prefix) = if listening.proxy_protocol {
        let deadline = Instant::now() + Duration::from_secs(limits::PROXY_HEADER_DEADLINE_SECONDS);
        // Boxed, as what follows a failed handshake: a handshake in progress must not carry the memory that few need.
        match timeout_at(deadline.into(), Box::pin(read_proxy_header(worker, &socket))).await {
            Ok(Some((client, prefix))) => (client.unwrap_or(peer), prefix),
            Ok(None) | Err(_) => {
                worker.shard.rejected("no_proxy_header");
                return None;
            }
        }
    } else {
        (peer, Vec::new())
    };
    let place = enter(worker, &settings, listening, client)?;
    let mut connection = if listening.tls {
        handshake(worker, &settings, socket, (prefix, listening), client).await?
    } else {
        plain(worker, &settings, socket, prefix, client)
    };
    serve_as(&mut connection, listening);
    Some((connection, place))
}

/// [`establish`] for a listener of plain HTTP without PROXY headers, which has nothing to wait for.
pub(crate) fn establish_plain(
    worker: &Rc<Worker>,
    listening: &Listening,
    socket: ConnectedSocket,
    client: SocketAddr,
) -> Option<(Box<Connection>, NetworkEntry)> {
    let settings = worker.settings();
    let place = enter(worker, &settings, listening, client)?;
    let mut connection = plain(worker, &settings, Rc::new(socket), Vec::new(), client);
    serve_as(&mut connection, listening);
    Some((connection, place))
}

/// Takes a place among the connections of the client's network.
fn enter(
    worker: &Worker,
    settings: &Settings,
    listening: &Listening,
    client: SocketAddr,
) -> Option<NetworkEntry> {
    let most = match listening.purpose {
        Purpose::Clients => settings.limits.connections_per_network,
        // The nodes of a cluster often share a network.
        Purpose::Peers => 0,
    };
    let place = worker.connected.enter(client.ip(), most);
    if place.is_err() {
        worker.shard.refused(Refusal::Network);
    }
    place.ok()
}

fn plain(
    worker: &Rc<Worker>,
    settings: &Settings,
    socket: Rc<ConnectedSocket>,
    prefix: Vec<u8>,
    client: SocketAddr,
) -> Box<Connection> {
    let path = EgressPath::decided(worker, OutletKind::Plain, NO_TLS);
    let outlet = Outlet::plain(Rc::clone(&socket), settings.outlet);
    let inbound = Inbound::Plain { socket: Rc::clone(&socket), prefix };
    Box::new(Connection::new(Rc::clone(worker), socket, inbound, outlet, path, client, None))
}

fn serve_as(connection: &mut Connection, listening: &Listening) {
    if !listening.tls || connection.versions.h1 && !listening.versions.h1 {
        // Without ALPN the first bytes tell.
        connection.versions = listening.versions;
    }
    connection.purpose = listening.purpose;
    connection.alt_svc = listening.alt_svc.clone();
    connection.rules = listening.rules.clone();
    if let Some(low_water) = listening.paced_low_water {
        connection.outlet.follow_pacing(low_water);
    }
}

/// The client that the balancer names, if it names one, and the bytes behind the header.
async fn read_proxy_header(
    worker: &Worker,
    socket: &ConnectedSocket,
) -> Option<(Option<SocketAddr>, Vec<u8>)> {
    let mut received = Vec::new();
    loop {
        socket.readable().await.ok()?;
        let read = worker.with_scratch(|scratch| {
            let count = socket.try_receive(scratch)?;
            received.extend_from_slice(&scratch[..count]);
            Ok::<_, std::io::Error>(count)
        });
        match read {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(_) => return None,
        }
        if let Some(header) = proxy::read(&received, limits::PROXY_HEADER_BYTES).ok()? {
            return Some((header.client, received.split_off(header.length)));
        }
    }
}

async fn handshake(
    worker: &Rc<Worker>,
    settings: &Settings,
    socket: Rc<ConnectedSocket>,
    (prefix, listening): (Vec<u8>, &Listening),
    client: SocketAddr,
) -> Option<Box<Connection>> {
    let (acceptor, most) = match listening.purpose {
        Purpose::Clients => (settings.acceptor.as_ref()?, worker.handshakes_per_network()),
        Purpose::Peers => (settings.cluster.as_ref()?.acceptor.as_ref()?, 0),
    };
    let Ok(_counted) = worker.networks.enter(client.ip(), most) else {
        worker.shard.refused(Refusal::Network);
        return None;
    };
    let began = Instant::now();
    let deadline = began + settings.limits.handshake_deadline;
    let network = Network::of_remote(client.ip()).map(Network::number);
    let connecting = ConnectingClient { address: Some(client.ip()), network };

    let accepting =
        acceptor.accept(Rc::clone(&socket), prefix, listening.versions, &worker.signing_limiter, connecting);
    let outcome = timeout_at(deadline.into(), doing_all(Work::Handshakes, Box::pin(accepting))).await;
    match outcome.unwrap_or(Err(HandshakeFailure::silent("timeout"))) {
        Ok(established) => take_over(worker, settings, socket, established, client, deadline),
        Err(failure) => {
            count_failure(worker, &failure);
            if listening.purpose == Purpose::Clients {
                record_connection(CarriedBy::nothing(worker, client), began, Some(failure.reason));
            }
            Box::pin(part(worker, settings, &socket, &failure)).await;
            None
        }
    }
}

fn take_over(
    worker: &Rc<Worker>,
    settings: &Settings,
    socket: Rc<ConnectedSocket>,
    established: Established,
    client: SocketAddr,
    deadline: Instant,
) -> Option<Box<Connection>> {
    let Established { keys, tickets, receiver, facts, timing } = established;
    if !timing.queued.is_zero() {
        worker.shard.handshake_queued();
    }
    if let Some(wait) = facts.lookup_wait {
        worker.shard.waited_for_session(wait);
    }
    labels::count_early_data(&worker.shard, facts.early_data);
    let unfinished = UnfinishedHandshake::after(facts.early_data, settings, deadline);
    if facts.retried {
        worker.shard.hello_retried();
    }
    let (extensions, ja4, client_certificate) = (facts.extensions, facts.ja4, facts.client_certificate);
    let http2 = match facts.protocol {
        ApplicationProtocol::Http1 => false,
        ApplicationProtocol::Http2 => true,
        // Nothing is sent on such a connection.
        ApplicationProtocol::AcmeChallenge => return None,
    };
    worker.shard.tickets(facts.tickets.issued.into(), facts.tickets.offered);
    let facts = HandshakeFacts {
        version: facts.version,
        cipher: facts.cipher,
        group: facts.group,
        resumed: facts.resumed,
        certificate: facts.certificate,
    };
    let after = worker.recent_clients.last(client.ip(), Instant::now());
    worker.shard.handshake_done(&facts, &timing, after);
    worker.shard.extensions(&extensions, facts.resumed);
    let traffic = if http2 { Traffic::Frames } else { Traffic::Files };
    let choice = settings.kernel.choose_for(&keys, traffic);
    let Ok(mut outlet) = Outlet::user_space(Rc::clone(&socket), keys, settings.outlet) else {
        worker.shard.handshake_failed("keys_unavailable");
        return None;
    };
    outlet.begin_with(tickets);
    let path = EgressPath::of(worker, &mut outlet, choice, &settings.kernel);
    let inbound = Inbound::Tls(Box::new(receiver));
    let connection = Connection::new(Rc::clone(worker), socket, inbound, outlet, path, client, Some(facts));
    let mut connection = Box::new(connection);
    connection.unfinished_handshake = unfinished;
    connection.versions = HttpVersions { h1: !http2, h2: http2, h3: false };
    connection.handshake_busy = timing.busy();
    connection.ja4 = ja4;
    connection.client_certificate = client_certificate.map(String::into_boxed_str);
    Some(connection)
}

fn count_failure(worker: &Worker, failure: &HandshakeFailure) {
    worker.shard.handshake_failed(failure.reason);
    if failure.retried {
        worker.shard.hello_retried();
    }
    if let Some(number) = failure.alert_sent {
        worker.shard.alert(Direction::Sent, alert::name(number));
    }
    if let Some(number) = failure.alert_received {
        worker.shard.alert(Direction::Received, alert::name(number));
    }
    tracing::debug!(%failure, "handshake failed");
}

/// Ends a failed handshake so that its alert arrives. A client of plain HTTP gets an answer in plain HTTP.
async fn part(worker: &Worker, settings: &Settings, socket: &ConnectedSocket, failure: &HandshakeFailure) {
    if failure.is_plain_http() {
        let answer = plain_http_on_tls_port(worker);
        // A new socket takes a few hundred bytes at once, unless the client prevents it.
        drop(socket.try_send(&answer));
    }
    if failure.alert_sent.is_some() || failure.is_plain_http() {
        let lingering = linger(worker, socket, Linger::SHORT);
        drop(timeout(settings.limits.handshake_deadline, lingering).await);
    }
}
