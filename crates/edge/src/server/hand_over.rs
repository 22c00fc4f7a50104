//! A server hands over to a process that succeeds it, and no client notices.
//!
//! Both run beside each other for a moment. [`Server::begin_hand_over`] gives what the successor needs; from then on this server
//! fills nothing and evicts nothing. Once the successor accepts, [`Server::complete_hand_over`] closes the listeners here, and
//! each connection ends with its next response; [`Server::drain`] ends the others. If the successor ends before it accepts,
//! [`Server::cancel_hand_over`] goes back; if it fails before this server drains, [`Server::take_back`].

use std::io;
use std::sync::Arc;
use std::time::Instant;

use penstock_config::{Config, Listener};
use penstock_content::{BusySlots, GivenTier};
use penstock_sys::traffic::Secret;

use super::{CHANGE_PATIENCE, Control, InheritedSockets, Server};
use crate::http3::{self, QuicPassage};
use crate::server::bound::{Bound, open_everywhere};
use crate::server::orders::order_certificates;
use crate::server::sockets::{GivenSockets, steer};
use crate::server::thread::{Command, Opened};
use crate::settings::StartError;

/// What a server takes over from the process that it succeeds.
#[derive(Debug, Default)]
pub struct Inheritance {
    /// The sockets of all listeners.
    pub sockets: InheritedSockets,
    /// The memory tier of the cache; `None` if there is none, or if the successor has to wait for it.
    pub tier: Option<GivenTier>,
    /// The random ticket keys; `None` without a process before.
    pub ticket_keys: Option<Secret>,
}

impl Server {
    /// Whether the process before still reads from the memory tier.
    pub fn has_predecessor(&self) -> bool {
        self.control().settings.store.as_ref().is_some_and(|store| store.has_predecessor())
    }

    /// Gives a successor what it needs to begin. Both may accept from now on.
    pub fn begin_hand_over(&self) -> Inheritance {
        // Two processes have the name of the edge from now on.
        self.retire();
        let tier = self.control().settings.store.as_ref().and_then(|store| store.give_away());
        let ticket_keys = Some(self.tickets.ring().random_keys(Instant::now()));
        let passages = self.control().share_quic().unwrap_or_else(|error| {
            tracing::warn!(
                "connections over QUIC will end: the new process cannot pass their datagrams on: {error}"
            );
            Vec::new()
        });
        let sockets = InheritedSockets { passages, ..self.sockets() };
        Inheritance { sockets, tier, ticket_keys }
    }

    /// Uses everything again: the successor has ended before it was ready.
    pub fn cancel_hand_over(&self) {
        if let Some(fleet) = &self.tls_state.fleet {
            fleet.take_back();
        }
        let control = self.control();
        if let Some(store) = &control.settings.store {
            store.take_back();
        }
        for bound in &control.listeners {
            // It may have steered datagrams to another number of workers.
            if let Err(error) = steer(&bound.sockets, control.workers.len()) {
                tracing::error!("cannot steer HTTP/3 on {}: {error}", bound.address);
            }
        }
    }

    /// Leaves the listeners to the successor. Each connection ends after its next response.
    pub fn complete_hand_over(&self) {
        if let Some(fleet) = &self.tls_state.fleet {
            fleet.hand_over();
        }
        let mut control = self.control();
        // The successor orders.
        control.orders = None;
        // The sockets stay open here until the drain, for a successor that fails.
        control.tell(|| Command::LeaveListeners);
    }

    /// Serves again: the successor has failed, and this server has not drained. Connections that wait in the queues of the listeners
    /// are accepted. What clients of the successor have changed in the last moment is not known here, as after any failure.
    ///
    /// # Errors
    /// See [`StartError`]; the listeners then stay closed here.
    pub fn take_back(&self, config: &Config) -> Result<(), StartError> {
        let sockets = self.sockets();
        let mut guard = self.control();
        let control = &mut *guard;
        let given = GivenSockets::new(sockets, control.listeners.iter().map(|bound| &bound.configured))?;
        let mut openings: Vec<Vec<Opened>> = control.workers.iter().map(|_| Vec::new()).collect();
        let mut listeners = Vec::new();
        for bound in &control.listeners {
            // Its port may have been chosen by the system.
            let listener = Listener { address: bound.address, ..bound.configured.clone() };
            let opened =
                open_everywhere((&listener, bound.purpose), &given, false, &self.metrics, &mut openings)?;
            listeners.push(Bound { configured: bound.configured.clone(), ..opened });
        }
        control.listeners = listeners;
        if let Some(store) = &control.settings.store {
            store.take_back();
            if let Err(error) = store.read_purges_again() {
                tracing::error!("purges of the new process may be missing here; repeat them: {error}");
            }
        }
        if let Some(fleet) = &self.tls_state.fleet {
            fleet.take_back();
        }
        control.orders = order_certificates(config, None, &self.tls_state).unwrap_or_else(|error| {
            tracing::error!("certificates are not ordered until the next reload: {error}");
            None
        });
        control.tell(|| Command::TakeBack);
        let applied = control.tell_workers(&Arc::clone(&control.settings), openings, &[]);
        drop(guard);
        // A worker that is busy opens them before it accepts again.
        let _is_applied = applied.wait(CHANGE_PATIENCE);
        Ok(())
    }

    /// Forgets what only later requests would find, and returns the slots of the memory tier that running responses still read.
    /// `None` without a cache.
    pub fn busy_slots(&self) -> Option<BusySlots> {
        let store = self.control().settings.store.clone()?;
        store.forget_for_successor();
        Some(store.busy_slots())
    }

    /// Targets that clients have changed since this was asked last, for the successor.
    pub fn changes_for_successor(&self) -> String {
        let store = self.control().settings.store.clone();
        store.map(|store| store.changes_for_successor()).unwrap_or_default()
    }

    /// Forgets responses of targets that clients of the predecessor have changed.
    pub fn take_changes_of_predecessor(&self, changes: &str) {
        if let Some(store) = self.control().settings.store.clone() {
            store.take_changes_of_predecessor(changes);
        }
    }

    /// The predecessor takes no more purges, and a purge that it has taken holds here from now on.
    pub fn take_purges_of_predecessor(&self) {
        let store = self.control().settings.store.clone();
        if let Some(Err(error)) = store.map(|store| store.read_purges_again()) {
            tracing::error!("purges of the process before may be missing here; repeat them: {error}");
        }
    }

    /// What the predecessor still reads of the memory tier; `None` if it has ended.
    pub fn set_predecessor(&self, busy: Option<&BusySlots>) {
        let store = self.control().settings.store.clone();
        if let Some(store) = store {
            store.set_predecessor(busy);
        }
    }
}

impl Control {
    /// Has each worker take datagrams from the successor too; returns the successor's ends.
    fn share_quic(&self) -> io::Result<Vec<QuicPassage>> {
        let mut given = Vec::new();
        for listener in self.listeners.iter().filter(|bound| bound.configured.protocols.h3) {
            for (worker, commands) in (0..).zip(&self.workers) {
                let (passage, its) = http3::pair(listener.address, worker)?;
                // A worker that is gone has no connections.
                drop(commands.send(Command::ShareQuic { listener: listener.address, passage }));
                given.push(its);
            }
        }
        Ok(given)
    }

    /// Sends a command to each worker. One that is gone has no connections to tell.
    pub(super) fn tell(&self, command: impl Fn() -> Command) {
        for commands in &self.workers {
            drop(commands.send(command()));
        }
    }
}
