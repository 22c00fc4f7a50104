//! Who seals what is sent, the kernel or this program: found out at the start, decided and counted per connection.

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use penstock_config::{Config, KernelTls, limits};
use penstock_egress::measure::{Costs, MeasureLimits, measure};
use penstock_egress::{Choice, Entry, KernelPlan, Outlet, Transmission, Wish};
use penstock_sys::ktls::{self, Support};

use crate::metrics::OutletKind;
use crate::worker::Worker;

/// What is known about this machine's ways of sealing; kept over reloads.
#[derive(Default)]
pub(crate) struct Sealers {
    costs: Option<Costs>,
}

/// `tls.kernel` is `on` and the kernel cannot seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelLacks {
    /// The `tls` module.
    Module,
    /// Every cipher that this program speaks.
    Ciphers,
}

impl fmt::Display for KernelLacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, module) = match self {
            Self::Module => ("this kernel has no `tls` module loaded", "tls"),
            Self::Ciphers => ("this kernel's `tls` takes none of our ciphers", "gcm"),
        };
        write!(
            f,
            "tls.kernel is `on`, but {what}: run `modprobe {module}` as root, and write `{module}` to \
             /etc/modules-load.d/penstock.conf for the next boot; or write `kernel: auto`"
        )
    }
}

impl Sealers {
    /// What sealing costs, if it had to be measured.
    pub(crate) fn costs(&self) -> Option<Costs> {
        self.costs
    }

    /// Asks the kernel what it can do, and measures if that decides anything. A reload asks again, so that a module
    /// loaded in the meantime counts.
    ///
    /// # Errors
    /// If the kernel has to seal and cannot.
    pub(crate) fn plan(&mut self, config: &Config) -> Result<KernelPlan, KernelLacks> {
        let wish = match config.tls.kernel {
            KernelTls::Auto => Wish::Auto,
            KernelTls::On => Wish::On,
            KernelTls::Off => Wish::Off,
        };
        let asked = wish != Wish::Off && config.listeners.iter().any(|listener| listener.tls);
        let support = if asked { probe() } else { Support::default() };
        if asked && wish == Wish::On && support.accepted.is_empty() {
            return Err(if support.ulp { KernelLacks::Ciphers } else { KernelLacks::Module });
        }
        if wish == Wish::Auto && !support.accepted.is_empty() && self.costs.is_none() {
            self.costs = Some(measure(measure_limits(true)));
        }
        // Only a card that has sealed before is known to work; a loopback connection has none.
        let device = asked && ktls::statistics().is_ok_and(|seen| seen.opened_device > 0);
        Ok(KernelPlan {
            wish,
            support,
            costs: self.costs,
            device,
            body_bytes_min: limits::KERNEL_BODY_BYTES_MIN,
        })
    }
}

/// How much the start may spend on measuring what sealing costs: about 15 ms of one core without `end_to_end`.
#[must_use]
pub fn measure_limits(end_to_end: bool) -> MeasureLimits {
    MeasureLimits {
        rounds: limits::MEASURE_ROUNDS,
        round_cpu: Duration::from_micros(limits::MEASURE_ROUND_MICROSECONDS),
        patience: Duration::from_millis(limits::MEASURE_PATIENCE_MILLISECONDS),
        source_bytes: limits::MEASURE_SOURCE_BYTES,
        batch_bytes: limits::BATCH_BYTES_MAX,
        window_bytes: limits::BATCH_BYTES_MAX,
        end_to_end,
    }
}

fn probe() -> Support {
    match ktls::probe() {
        Ok(support) => support,
        Err(error) => {
            tracing::warn!(%error, "cannot ask the kernel about TLS on a loopback connection; it will not be used");
            Support::default()
        }
    }
}

/// Which way a connection sends: counted once, when it is known.
pub(crate) struct Way {
    worker: Rc<Worker>,
    /// Why the connection is to enter the kernel, as long as it may and has not.
    entering: Option<&'static str>,
}

/// Why a connection that could have entered the kernel stayed out of it to its end.
const NO_LARGE_BODY: &str = "no_large_body";

impl Way {
    /// A way without a choice.
    pub(crate) fn decided(worker: &Rc<Worker>, kind: OutletKind, reason: &'static str) -> Self {
        worker.shard.egress(kind, reason);
        Self { worker: Rc::clone(worker), entering: None }
    }

    /// Follows `choice` as far as that can be done before the first response.
    pub(crate) fn of(worker: &Rc<Worker>, outlet: &mut Outlet, choice: Choice, plan: &KernelPlan) -> Self {
        match choice {
            Choice::UserSpace(reason) => Self::decided(worker, OutletKind::UserSpace, reason),
            Choice::KernelForBodies(reason) => Self { worker: Rc::clone(worker), entering: Some(reason) },
            Choice::Kernel(reason) => {
                let mut way = Self { worker: Rc::clone(worker), entering: Some(reason) };
                way.enter(outlet, plan);
                way
            }
        }
    }

    /// Enters the kernel if this response is worth it and the connection has not decided yet.
    pub(crate) fn before_response(
        &mut self,
        outlet: &mut Outlet,
        transmission: &Transmission,
        plan: &KernelPlan,
    ) {
        if self.entering.is_some() && plan.is_worth_entering(transmission.movable_bytes()) {
            self.enter(outlet, plan);
        }
    }

    fn enter(&mut self, outlet: &mut Outlet, plan: &KernelPlan) {
        let Some(reason) = self.entering else { return };
        let (kind, reason) = match outlet.enter_kernel(plan.abilities()) {
            Entry::Entered => (OutletKind::Kernel, reason),
            Entry::Refused(reason) => (OutletKind::UserSpace, reason),
            Entry::NotYet => return,
        };
        self.entering = None;
        self.worker.shard.egress(kind, reason);
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        if self.entering.is_some() {
            self.worker.shard.egress(OutletKind::UserSpace, NO_LARGE_BODY);
        }
    }
}
