//! Listeners that are open in every worker.

use std::net::SocketAddr;
use std::sync::Arc;

use penstock_config::Listener;
use penstock_content::ListenerRules;
use penstock_egress::fast_low_water;
use penstock_http3::CongestionControl;
use penstock_sys::socket::{paces, set_unsent_low_water};

use super::sockets::{GivenSockets, ListenSocket, OpenedSockets};
use super::thread::Opened;
use crate::carrier::alternative;
use crate::http3::Passages;
use crate::metrics::{Metrics, Protocol};
use crate::settings::StartError;
use crate::worker::{Listening, Purpose};

/// A listener that is open in every worker.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) configured: Listener,
    pub(super) purpose: Purpose,
    /// Differs from the configured address where that left the port to the system.
    pub(super) address: SocketAddr,
    /// Those of all workers, for a successor. Empty once the workers close theirs: a socket is closed with its last owner.
    pub(super) sockets: Vec<ListenSocket>,
}

/// The places of open listeners that are configured still, and those that `open` adds.
///
/// # Errors
/// Those of `open`.
pub(super) fn keep_or_open<'l>(
    listeners: &[Bound],
    wanted: impl Iterator<Item = (&'l Listener, Purpose)>,
    mut open: impl FnMut((&'l Listener, Purpose)) -> Result<Bound, StartError>,
) -> Result<(Vec<usize>, Vec<Bound>), StartError> {
    let (mut kept, mut added) = (Vec::new(), Vec::new());
    for configured in wanted {
        // Several may be configured alike, when the system chooses their ports.
        let same = |(place, bound): &(usize, &Bound)| {
            (&bound.configured, bound.purpose) == configured && !kept.contains(place)
        };
        match listeners.iter().enumerate().find(same) {
            Some((place, _)) => kept.push(place),
            None => added.push(open(configured)?),
        }
    }
    Ok((kept, added))
}

/// Opens a listener in every worker. A new one must have its port to itself.
pub(super) fn open_everywhere(
    (configured, purpose): (&Listener, Purpose),
    given: &GivenSockets,
    is_new: bool,
    metrics: &Metrics,
    openings: &mut [Vec<Opened>],
) -> Result<Bound, StartError> {
    let OpenedSockets { address, mut of_workers } = given.open_tcp(configured, openings.len(), is_new)?;
    let mut sockets: Vec<ListenSocket> = of_workers.iter().flatten().cloned().collect();
    let paced_low_water = paced_low_water(&sockets, configured.socket.unsent_low_water.unwrap_or(0));
    if configured.protocols.h3 {
        let udp = given.open_udp(address, configured.socket.binding, openings.len(), is_new)?;
        sockets.extend(udp.iter().flatten().cloned());
        of_workers.iter_mut().zip(udp).for_each(|(of_worker, udp)| of_worker.extend(udp));
    }
    let protocol = if configured.tls { Protocol::Https } else { Protocol::Http };
    let id = metrics.listener(&address.to_string(), protocol);
    let Listener { tls, protocols: versions, proxy_protocol, .. } = *configured;
    let backlog = configured.socket.backlog;
    let quic_control = CongestionControl::named(configured.socket.congestion_control.as_deref());
    for (opened, sockets) in openings.iter_mut().zip(of_workers) {
        let mut passages = given.passages(address);
        for socket in sockets {
            // Each worker counts references of its own.
            let rules = ListenerRules::of(configured).map(Arc::new);
            let alt_svc = versions.h3.then(|| alternative(address.port()));
            let predecessor = match &socket {
                // The kernel gives datagrams to the first socket of each worker.
                ListenSocket::Udp(_) => std::mem::take(&mut passages),
                ListenSocket::Tcp(_) => Passages::default(),
            };
            let listening = Listening {
                id,
                tls,
                versions,
                proxy_protocol,
                purpose,
                rules,
                alt_svc,
                paced_low_water,
                quic_control,
                backlog,
            };
            opened.push(Opened { address, socket, listening, predecessor });
        }
    }
    Ok(Bound { configured: configured.clone(), purpose, address, sockets })
}

/// Has the connections of listeners whose congestion control paces begin as fast ones. Returns what slow ones get, which is
/// the `low_water` of the listener; `None` if nothing paces or the low water is as small already.
fn paced_low_water(sockets: &[ListenSocket], low_water: u32) -> Option<u32> {
    let fast = fast_low_water(low_water)?;
    if !paces(sockets.first()?).unwrap_or(false) {
        return None;
    }
    for socket in sockets {
        // Connections inherit it. Where that fails, they begin with the low water of slow ones.
        let _inherited = set_unsent_low_water(socket, fast);
    }
    Some(low_water)
}
