//! The facts about the machine, gathered before any rating.

use std::path::Path;
use std::time::Duration;

use penstock_config::limits;
use penstock_edge::{RemoteKeyCheck, check_remote_keys};
use penstock_egress::measure::{CIPHERS, Costs, MeasureLimits, measure};
use penstock_egress::{KernelPlan, SealerChoice, Traffic, Wish};
use penstock_sys::aead::Cipher;
use penstock_sys::ktls::{self, Statistics, Support};
use penstock_sys::machine::{Machine, has_aes_hardware};
use penstock_sys::traffic::ProtocolVersion;
use rustix::process::geteuid;

use super::certificates::{self, CertificateFact};
use super::logind;
use super::quic::QuicFacts;
use crate::advice::Circumstances;
use crate::finding::Finding;
use crate::findings;
use crate::given_config::GivenConfig;
use crate::store_advice::{self, StoreFinding};

/// All facts.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) machine: Machine,
    pub(crate) aes_hardware: bool,
    /// Versions and ciphers of the kernel's TLS; `None` if it could not be asked.
    pub(crate) support: Option<Support>,
    pub(crate) statistics: Option<Statistics>,
    /// `None` if nothing was measured.
    pub(crate) costs: Option<Costs>,
    /// Whether logind deletes files in shared memory of users that log out; `None` without logind.
    pub(crate) removes_ipc: Option<bool>,
    /// The user of this process.
    pub(crate) uid: u32,
    /// Faults and warnings of a configuration.
    pub(crate) configuration: Configuration,
}

/// Faults and warnings of a configuration, its keys that are elsewhere, and its store; all empty without one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Configuration {
    pub(crate) findings: Vec<Finding>,
    /// The store of its fleet.
    pub(crate) store: Vec<StoreFinding>,
    /// Its certificates, and those that it shows to other servers.
    pub(crate) certificates: Vec<CertificateFact>,
    /// What keyservers and tokens have signed; empty if they were not asked.
    pub(crate) remote_keys: Vec<RemoteKeyCheck>,
    /// What HTTP/3 needs, if a listener speaks it.
    pub(crate) quic: Option<QuicFacts>,
}

impl Configuration {
    /// `asking` has keyservers and tokens sign.
    pub(crate) fn of(given: &GivenConfig, asking: bool) -> Self {
        let named = |findings: Vec<Finding>| findings.into_iter().map(|found| given.named(found)).collect();
        match &given.config {
            Err(faults) => {
                let findings = named(faults.iter().cloned().map(Finding::error).collect());
                Self { findings, ..Self::default() }
            }
            Ok(config) => {
                let store = store_advice::examine(config);
                let findings = named(findings::examine(config, &Circumstances::read()));
                let remote_keys = if asking { check_remote_keys(&config.tls) } else { Ok(Vec::new()) };
                // Only a machine without space for threads fails here, which other findings show.
                let remote_keys = remote_keys.unwrap_or_default();
                let certificates = certificates::of(config);
                let quic = QuicFacts::of(config);
                Self { findings, remote_keys, store, certificates, quic }
            }
        }
    }
}

const LIMITS: MeasureLimits = MeasureLimits {
    rounds: limits::DOCTOR_ROUNDS,
    round_cpu: Duration::from_micros(limits::DOCTOR_ROUND_MICROSECONDS),
    patience: Duration::from_millis(limits::DOCTOR_PATIENCE_MILLISECONDS),
    source_bytes: limits::DOCTOR_SOURCE_BYTES,
    batch_bytes: limits::BATCH_BYTES_MAX,
    frames_bytes: limits::BATCH_BYTES_MIN,
    window_bytes: limits::BATCH_BYTES_MAX,
    end_to_end: true,
};

impl Facts {
    /// Asks the machine; measuring takes a moment.
    pub(crate) fn gather(measuring: bool, given: Option<&GivenConfig>) -> Self {
        // The kernel first: asking may load its modules, which the facts then show.
        let support = ktls::probe().ok();
        Self {
            support,
            statistics: ktls::statistics().ok(),
            machine: Machine::read(),
            aes_hardware: has_aes_hardware(),
            costs: measuring.then(|| measure(LIMITS)),
            removes_ipc: logind::removes_ipc(Path::new("/")),
            uid: geteuid().as_raw(),
            configuration: given.map(|given| Configuration::of(given, measuring)).unwrap_or_default(),
        }
    }

    /// Whether the kernel's TLS can be used at all.
    pub(crate) fn has_kernel_tls(&self) -> bool {
        self.support.as_ref().is_some_and(|support| support.ulp)
    }

    /// The choice of `tls.kernel: auto` for a TLS 1.3 connection with each cipher.
    pub(crate) fn choices(&self, traffic: Traffic) -> [(Cipher, SealerChoice); 3] {
        let plan = KernelPlan {
            wish: Wish::Auto,
            support: self.support.clone().unwrap_or_default(),
            costs: self.costs,
            device: self.statistics.is_some_and(|seen| seen.opened_device > 0),
            body_bytes_min: limits::KERNEL_BODY_BYTES_MIN,
        };
        CIPHERS.map(|cipher| (cipher, plan.choose(ProtocolVersion::Tls13, cipher, traffic)))
    }
}

/// The name of a cipher for people.
pub(crate) fn cipher_name(cipher: Cipher) -> &'static str {
    match cipher {
        Cipher::Aes128Gcm => "AES-128-GCM",
        Cipher::Aes256Gcm => "AES-256-GCM",
        Cipher::ChaCha20Poly1305 => "ChaCha20-Poly1305",
    }
}

/// Bytes for people: `1.5 GiB`, `512 KiB`.
pub(crate) fn bytes_text(bytes: u64) -> String {
    let units = [("GiB", limits::GIB), ("MiB", limits::MIB), ("KiB", limits::KIB)];
    for (unit, size) in units {
        if bytes >= size {
            let tenths = u128::from(bytes) * 10 / u128::from(size);
            let (whole, tenth) = (tenths / 10, tenths % 10);
            return if tenth == 0 { format!("{whole} {unit}") } else { format!("{whole}.{tenth} {unit}") };
        }
    }
    format!("{bytes} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_cut_to_one_digit_and_never_round_up_to_more_than_there_is() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (512 * 1024, "512 KiB"),
            (212_992, "208 KiB"),
            (2 * limits::GIB - 1, "1.9 GiB"),
            (u64::MAX, "17179869183.9 GiB"),
        ] {
            assert_eq!(bytes_text(bytes), text);
        }
    }
}
