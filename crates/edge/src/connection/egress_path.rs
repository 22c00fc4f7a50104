//! The egress path of each connection: user space or kernel TLS.

use std::rc::Rc;

use penstock_egress::{KernelEntry, KernelPlan, Outlet, SealerChoice, Transmission};

use crate::metrics::OutletKind;
use crate::worker::Worker;

/// The egress path of a connection, counted once when it is known.
pub(crate) struct EgressPath {
    worker: Rc<Worker>,
    /// The reason for kernel TLS, as long as the connection may still enter the kernel.
    entering: Option<&'static str>,
}

/// The reason of a connection that could have entered the kernel and did not.
const NO_LARGE_BODY: &str = "no_large_body";

impl EgressPath {
    /// A path that does not change.
    pub(crate) fn decided(worker: &Rc<Worker>, kind: OutletKind, reason: &'static str) -> Self {
        worker.shard.egress(kind, reason);
        Self { worker: Rc::clone(worker), entering: None }
    }

    /// Follows `choice` as far as possible before the first response.
    pub(crate) fn of(
        worker: &Rc<Worker>,
        outlet: &mut Outlet,
        choice: SealerChoice,
        plan: &KernelPlan,
    ) -> Self {
        match choice {
            SealerChoice::UserSpace(reason) => Self::decided(worker, OutletKind::UserSpace, reason),
            SealerChoice::KernelForBodies(reason) => {
                Self { worker: Rc::clone(worker), entering: Some(reason) }
            }
            SealerChoice::Kernel(reason) => {
                let mut path = Self { worker: Rc::clone(worker), entering: Some(reason) };
                path.enter(outlet, plan);
                path
            }
        }
    }

    /// Enters the kernel if one of these responses is large enough and the connection has not entered yet.
    pub(crate) fn before_responses<'t>(
        &mut self,
        outlet: &mut Outlet,
        transmissions: impl IntoIterator<Item = &'t Transmission>,
        plan: &KernelPlan,
    ) {
        let is_large = |transmission: &Transmission| plan.is_worth_entering(transmission.movable_bytes());
        if self.entering.is_some() && transmissions.into_iter().any(is_large) {
            self.enter(outlet, plan);
        }
    }

    fn enter(&mut self, outlet: &mut Outlet, plan: &KernelPlan) {
        let Some(reason) = self.entering else { return };
        let (kind, reason) = match outlet.enter_kernel(plan.abilities()) {
            KernelEntry::Entered => (OutletKind::Kernel, reason),
            KernelEntry::Refused(reason) => (OutletKind::UserSpace, reason),
            KernelEntry::NotYet => return,
        };
        self.entering = None;
        self.worker.shard.egress(kind, reason);
    }
}

impl Drop for EgressPath {
    fn drop(&mut self) {
        if self.entering.is_some() {
            self.worker.shard.egress(OutletKind::UserSpace, NO_LARGE_BODY);
        }
    }
}
