//! Kernel TLS on this machine: probed and measured at the start.

use std::fmt;
use std::time::Duration;

use penstock_config::{Config, KernelTls, limits};
use penstock_egress::measure::{Costs, MeasureLimits, measure};
use penstock_egress::{KernelPlan, Wish};
use penstock_sys::ktls::{self, Support};

/// Measured costs of sealing on this machine; kept over reloads.
#[derive(Default)]
pub(crate) struct KtlsSupport {
    costs: Option<Costs>,
}

/// `tls.kernel` is `on` and the kernel cannot seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KtlsUnavailable {
    /// The `tls` module.
    Module,
    /// Every cipher that this program speaks.
    Ciphers,
}

impl fmt::Display for KtlsUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, module) = match self {
            Self::Module => ("this kernel has no `tls` module loaded", "tls"),
            Self::Ciphers => ("this kernel's `tls` supports none of the server's ciphers", "gcm"),
        };
        write!(
            f,
            "tls.kernel is `on`, but {what}: run `modprobe {module}` as root, and write `{module}` to \
             /etc/modules-load.d/penstock.conf for the next boot; or write `kernel: auto`"
        )
    }
}

impl KtlsSupport {
    /// The costs of sealing, if they had to be measured.
    pub(crate) fn costs(&self) -> Option<Costs> {
        self.costs
    }

    /// Probes kernel TLS, and measures if the choice depends on it. A reload probes again, so that a module loaded in the
    /// meantime is used.
    ///
    /// # Errors
    /// If `tls.kernel` is `on` and kernel TLS is not usable.
    pub(crate) fn plan(&mut self, config: &Config) -> Result<KernelPlan, KtlsUnavailable> {
        let wish = match config.tls.kernel {
            KernelTls::Auto => Wish::Auto,
            KernelTls::On => Wish::On,
            KernelTls::Off => Wish::Off,
        };
        let asked = wish != Wish::Off && config.listeners.iter().any(|listener| listener.tls);
        let support = if asked { probe() } else { Support::default() };
        if asked && wish == Wish::On && support.accepted.is_empty() {
            return Err(if support.ulp { KtlsUnavailable::Ciphers } else { KtlsUnavailable::Module });
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

/// Limits of the measurement at the start: about 15 ms of one core without `end_to_end`.
#[must_use]
pub fn measure_limits(end_to_end: bool) -> MeasureLimits {
    MeasureLimits {
        rounds: limits::MEASURE_ROUNDS,
        round_cpu: Duration::from_micros(limits::MEASURE_ROUND_MICROSECONDS),
        patience: Duration::from_millis(limits::MEASURE_PATIENCE_MILLISECONDS),
        source_bytes: limits::MEASURE_SOURCE_BYTES,
        batch_bytes: limits::BATCH_BYTES_MAX,
        frames_bytes: limits::BATCH_BYTES_MIN,
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
