//! Which cipher is faster on this machine: measured once beside serving, shown in the metrics, and said aloud when
//! it is the wrong one. A server whose CPU detection fails runs on unnoticed at a quarter of its speed.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use penstock_edge::{Collector, measure_limits};
use penstock_egress::measure::{CipherOrder, Costs, Rate, cipher_order, measure};
use penstock_sys::machine::has_aes_hardware;

/// Measurements after one that found the wrong order: a disturbance passes, what is broken stays so.
const AGAIN: usize = 5;

/// Before each of them.
const PAUSE: Duration = Duration::from_secs(2);

/// Measures on a thread of its own, so that it neither delays the start nor shows in what clients see; what had to be
/// known before the start is not measured again.
pub(super) fn start(collector: Arc<Collector>) {
    let work = move || {
        let aes_hardware = has_aes_hardware();
        let mut costs = collector.costs();
        if costs.aes_128_gcm.user_space_seal.is_none() {
            costs = measure(measure_limits(false));
        }
        collector.set_costs(costs);
        for _ in 0..AGAIN {
            if !matches!(cipher_order(&costs, aes_hardware), CipherOrder::AesSlower { .. }) {
                break;
            }
            thread::sleep(PAUSE);
            costs = costs.best_of(measure(measure_limits(false)));
            collector.set_costs(costs);
        }
        match assess(&costs, aes_hardware) {
            Assessment::Fine(line) => tracing::debug!("{line}"),
            Assessment::Wrong(line) => tracing::warn!("{line}"),
        }
    };
    let started = thread::Builder::new().name("calibration".to_owned()).spawn(work);
    if let Err(error) = started {
        tracing::warn!("cannot measure the ciphers, so a slow cipher will not be reported: {error}");
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Assessment {
    Fine(String),
    Wrong(String),
}

fn assess(costs: &Costs, aes_hardware: bool) -> Assessment {
    let speed =
        |rate: Option<Rate>| rate.map_or_else(|| "an unknown speed".to_owned(), |rate| rate.to_string());
    let aes = speed(costs.aes_128_gcm.user_space_seal);
    let chacha20 = speed(costs.chacha20_poly1305.user_space_seal);
    let speeds = format!("one core seals {aes} with AES-128-GCM and {chacha20} with ChaCha20-Poly1305");
    match cipher_order(costs, aes_hardware) {
        CipherOrder::AesFirst => Assessment::Fine(speeds),
        CipherOrder::Unknown => Assessment::Fine("the ciphers could not be measured".to_owned()),
        CipherOrder::NoAesHardware => Assessment::Wrong(format!(
            "this CPU has no AES instructions, or the hypervisor hides them: {speeds}; see `penstock doctor`"
        )),
        CipherOrder::AesSlower { .. } => Assessment::Wrong(format!(
            "AES-GCM is slower than ChaCha20-Poly1305 though this CPU has AES instructions: {speeds}; most clients \
             ask for AES-GCM, so find out why (see `penstock doctor`)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use penstock_egress::measure::Cost;

    use super::*;

    fn costs(aes: f64, chacha20: f64) -> Costs {
        let cost = |rate| Cost { user_space_seal: Rate::new(rate), ..Cost::default() };
        Costs { aes_128_gcm: cost(aes), aes_256_gcm: cost(aes), chacha20_poly1305: cost(chacha20) }
    }

    #[test]
    fn a_healthy_machine_is_not_mentioned_above_debug() {
        let line = "one core seals 7.80 GB/s with AES-128-GCM and 2.40 GB/s with ChaCha20-Poly1305";
        assert_eq!(assess(&costs(7.8e9, 2.4e9), true), Assessment::Fine(line.to_owned()));
    }

    #[test]
    fn missing_or_slow_aes_is_said_with_both_speeds() {
        for (costs, hardware) in [(costs(0.3e9, 1.2e9), false), (costs(0.3e9, 1.2e9), true)] {
            let Assessment::Wrong(line) = assess(&costs, hardware) else { panic!("no warning") };
            assert!(line.contains("0.30 GB/s with AES-128-GCM and 1.20 GB/s"), "{line}");
            assert!(line.contains("penstock doctor"), "{line}");
        }
    }

    #[test]
    fn missing_measurements_are_no_reason_to_warn() {
        assert!(matches!(assess(&Costs::default(), true), Assessment::Fine(_)));
    }
}
