//! The handshake of a connection over QUIC.

use std::net::SocketAddr;
use std::pin::Pin;
use std::time::{Duration, Instant};

use penstock_config::Network;
use penstock_http3::{ConnectionId, ServerConnection};
use penstock_metrics::Timing;
use penstock_tls::{
    Acceptor, HandshakeFailure, Negotiated, QuicAnswer, QuicHandshake, TRANSPORT_PARAMETER_ERROR,
    has_faulty_parameters, quic_failure,
};
use tokio::time::sleep_until;

use super::link::Link;
use crate::carrier::{CarriedBy, record_connection};
use crate::metrics::{Direction, HandshakeFacts};
use crate::worker::{Worker, labels};

/// `CONNECTION_REFUSED` of RFC 9000 §20.1: the client may try again.
const CONNECTION_REFUSED: u64 = 0x2;

type Waiting<'w> = (Instant, Pin<Box<dyn Future<Output = Result<QuicAnswer<'w>, HandshakeFailure>> + 'w>>);

/// Performs the handshake until `deadline`, and counts it; with early data up to the client's part of it. Returns what was agreed on and what it cost the worker; `None` if it fails, which the client is told.
pub(super) async fn handshake(
    link: &mut Link,
    connection: &mut ServerConnection,
    worker: &Worker,
    acceptor: &Acceptor,
    (client, client_id, deadline): (SocketAddr, ConnectionId, Instant),
) -> Option<(Negotiated, Duration)> {
    let started = Instant::now();
    let promises = connection.promises();
    // Without memory the library fails the handshake below, too.
    let _without_memory =
        acceptor.begin_quic(connection.as_mut(), (client.ip(), client_id.as_bytes()), &promises);
    let mut handshake = QuicHandshake::new(&worker.signing_limiter);
    match drive(link, connection, worker, &mut handshake, (client, deadline)).await {
        Ok(()) => {
            let took = started.elapsed();
            let early_data = acceptor.quic_early_data(connection.as_mut()).await;
            let (facts, timing) = handshake.finished(acceptor, connection.as_mut(), early_data, took);
            count(worker, client, &facts, &timing);
            Some((facts, timing.busy()))
        }
        Err(failure) => {
            worker.shard.handshake_failed(failure.reason);
            if failure.retried {
                worker.shard.hello_retried();
            }
            if let Some(number) = failure.alert_sent {
                worker.shard.alert(Direction::Sent, penstock_tls::alert::name(number));
            }
            record_connection(CarriedBy::nothing(worker, client), started, Some(failure.reason));
            tracing::debug!(%failure, "handshake over QUIC failed");
            if connection.local_error().is_none() {
                connection.refuse(CONNECTION_REFUSED);
            }
            link.flush(connection, usize::MAX);
            None
        }
    }
}

async fn drive<'w>(
    link: &mut Link,
    connection: &mut ServerConnection,
    worker: &'w Worker,
    handshake: &mut QuicHandshake<'w>,
    (client, deadline): (SocketAddr, Instant),
) -> Result<(), HandshakeFailure> {
    let network = Network::of_remote(client.ip()).map(Network::number);
    let mut waiting: Option<Waiting<'w>> = None;
    loop {
        link.inbox.take(|datagram, path| {
            handshake.call(connection, |connection| connection.receive(datagram, path));
        });
        if has_faulty_parameters(connection.as_mut()) {
            connection.refuse(TRANSPORT_PARAMETER_ERROR);
        }
        if link.unsent.is_none() {
            handshake.call(connection, |connection| link.flush(connection, usize::MAX));
        }
        if connection.is_established() || connection.is_in_early_data() {
            return Ok(());
        }
        if connection.end().is_some() || connection.local_error().is_some() {
            let code = connection.local_error();
            return Err(quic_failure(connection.as_mut(), code));
        }
        if let Some(wait) = handshake.wait(connection.as_mut()) {
            waiting = Some((Instant::now(), Box::pin(wait.done(&worker.signing_limiter, network))));
        }
        let timer = connection.deadline().into_iter().chain(link.due).fold(deadline, Instant::min);
        let answer = async {
            match &mut waiting {
                Some((since, answer)) => (*since, answer.await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            (since, answer) = answer => {
                waiting = None;
                handshake.resume(connection.as_mut(), answer?, since.elapsed());
            }
            () = link.inbox.arrived() => {}
            _ = link.endpoint.outbox.socket().writable(), if link.unsent.is_some() => link.flush_unsent(),
            () = sleep_until(timer.into()) => {
                if Instant::now() >= deadline {
                    return Err(HandshakeFailure::silent("timeout"));
                }
                if connection.deadline().is_some_and(|due| Instant::now() >= due) {
                    connection.on_timeout();
                }
            }
        }
    }
}

fn count(worker: &Worker, client: SocketAddr, facts: &Negotiated, timing: &Timing) {
    if timing.queued > Duration::ZERO {
        worker.shard.handshake_queued();
    }
    labels::count_early_data(&worker.shard, facts.early_data);
    if facts.retried {
        worker.shard.hello_retried();
    }
    worker.shard.tickets(facts.tickets.issued.into(), facts.tickets.offered);
    let after = worker.recent_clients.last(client.ip(), Instant::now());
    worker.shard.handshake_done(&facts_of(facts), timing, after);
    worker.shard.extensions(&facts.extensions, facts.resumed);
}

/// What counters and the access log say of a handshake.
pub(super) fn facts_of(facts: &Negotiated) -> HandshakeFacts {
    HandshakeFacts {
        version: facts.version,
        cipher: facts.cipher,
        group: facts.group,
        resumed: facts.resumed,
        certificate: facts.certificate,
    }
}
