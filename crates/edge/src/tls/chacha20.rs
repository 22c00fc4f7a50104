//! Chooses clients for ChaCha20-Poly1305: as configured, as ordered through the admin listener, or as the CPU allows.
//!
//! It costs a server two to three times as much as AES-GCM, so giving phones AES-GCM too is the cheapest way to carry
//! more traffic. A client that offers only ChaCha20
//! gets it at any time.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use penstock_config::limits;
use penstock_egress::measure::Costs;
use penstock_sys::aead::Cipher;
use penstock_sys::lock::Unpoisoned;
use penstock_tls::{ChaCha20, ChaCha20Switch};

use crate::metrics::{ChaCha20Cause, GivenUp, Sacrifice};

/// Decides, and tells all handshakes.
#[derive(Debug)]
pub struct ChaCha20Control {
    /// The value that handshakes read.
    switch: Arc<ChaCha20Switch>,
    state: Mutex<ChaCha20State>,
    switches: [AtomicU64; ChaCha20Cause::ALL.len()],
    given_up: Arc<GivenUp>,
}

#[derive(Debug)]
struct ChaCha20State {
    configured: ChaCha20,
    /// Holds until the next reload.
    ordered: Option<ChaCha20>,
    /// Whether the CPU is short.
    is_short: bool,
    aes_is_cheaper: bool,
}

/// How things stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChaCha20Status {
    /// The mode in force.
    pub mode: ChaCha20,
    /// Whether it was ordered through the admin listener; otherwise it is the configured one.
    pub ordered: bool,
    /// Whether ChaCha20 is the last choice now.
    pub is_last: bool,
}

/// A word that is no mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownMode(String);

impl fmt::Display for UnknownMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no mode: write client, never or auto", self.0.escape_debug())
    }
}

impl std::error::Error for UnknownMode {}

impl ChaCha20Control {
    pub(crate) fn new(given_up: Arc<GivenUp>) -> Self {
        let state = ChaCha20State {
            configured: ChaCha20::Client,
            ordered: None,
            is_short: false,
            aes_is_cheaper: false,
        };
        Self { switch: Arc::default(), state: Mutex::new(state), switches: Default::default(), given_up }
    }

    /// The value that handshakes read.
    pub(crate) fn switch(&self) -> Arc<ChaCha20Switch> {
        Arc::clone(&self.switch)
    }

    /// Takes the mode from a configuration that comes into force. An earlier order ends.
    pub(crate) fn configure(&self, mode: ChaCha20) {
        let mut state = self.lock();
        state.configured = mode;
        state.ordered = None;
        self.decide(&state, ChaCha20Cause::Configuration);
    }

    /// Changes the mode for new connections, until the next reload. The words are those of the configuration.
    ///
    /// # Errors
    /// Another word.
    pub fn order(&self, mode: &str) -> Result<ChaCha20Status, UnknownMode> {
        let mode = ChaCha20::named(mode).ok_or_else(|| UnknownMode(mode.chars().take(32).collect()))?;
        let mut state = self.lock();
        state.ordered = Some(mode);
        tracing::info!("chacha20: mode {} ordered through the admin listener", mode.name());
        self.decide(&state, ChaCha20Cause::Admin);
        Ok(self.status_of(&state))
    }

    /// Takes in whether the CPU is short, and what the ciphers cost.
    pub(crate) fn observe(&self, is_short: bool, costs: &Costs) {
        let mut state = self.lock();
        (state.is_short, state.aes_is_cheaper) = (is_short, aes_is_cheaper(costs));
        self.decide(&state, ChaCha20Cause::Pressure);
    }

    /// How things stand.
    #[must_use]
    pub fn status(&self) -> ChaCha20Status {
        self.status_of(&self.lock())
    }

    /// Changes of the clients that get ChaCha20, in the order of [`ChaCha20Cause::ALL`].
    pub(crate) fn switches(&self) -> [u64; ChaCha20Cause::ALL.len()] {
        std::array::from_fn(|cause| self.switches[cause].load(Relaxed))
    }

    fn status_of(&self, state: &ChaCha20State) -> ChaCha20Status {
        ChaCha20Status {
            mode: state.mode(),
            ordered: state.ordered.is_some(),
            is_last: self.switch.is_last(),
        }
    }

    fn decide(&self, state: &ChaCha20State, cause: ChaCha20Cause) {
        let last = state.wants_last();
        let is_given_up = last && state.mode() == ChaCha20::Auto;
        self.given_up.set(Sacrifice::ChaCha20, is_given_up.then(SystemTime::now));
        if last == self.switch.is_last() {
            return;
        }
        self.switch.set_last(last);
        self.switches[cause as usize].fetch_add(1, Relaxed);
        let what = if last { "is the last choice now" } else { "is for clients that prefer it again" };
        match (cause, last) {
            (ChaCha20Cause::Pressure, true) => {
                tracing::info!("chacha20 {what}: the CPU was short for {} s", limits::BUSY_HIGH_SECONDS)
            }
            (ChaCha20Cause::Pressure, false) => {
                tracing::info!("chacha20 {what}: the CPU was not short for {} s", limits::BUSY_LOW_SECONDS)
            }
            (cause, _) => {
                tracing::info!("chacha20 {what}: mode {} by {}", state.mode().name(), cause.label())
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, ChaCha20State> {
        self.state.lock().unpoisoned()
    }
}

impl ChaCha20State {
    fn mode(&self) -> ChaCha20 {
        self.ordered.unwrap_or(self.configured)
    }

    fn wants_last(&self) -> bool {
        match self.mode() {
            ChaCha20::Client => false,
            ChaCha20::Never => true,
            ChaCha20::Auto => self.aes_is_cheaper && self.is_short,
        }
    }
}

/// Whether AES-GCM was measured to be the faster cipher. Before that is known nothing is gained for sure.
fn aes_is_cheaper(costs: &Costs) -> bool {
    let rate = |cipher| costs.of(cipher).user_space_seal.map(|rate| rate.bytes_per_second());
    match (rate(Cipher::Aes128Gcm), rate(Cipher::ChaCha20Poly1305)) {
        (Some(aes), Some(chacha20)) => aes > chacha20,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use penstock_egress::measure::{Cost, Rate};

    use super::*;

    fn costs(aes: f64, chacha20: f64) -> Costs {
        let cost = |rate| Cost { user_space_seal: Rate::new(rate), ..Cost::default() };
        Costs { aes_128_gcm: cost(aes), aes_256_gcm: cost(aes), chacha20_poly1305: cost(chacha20) }
    }

    const FAST: f64 = 6e9;
    const SLOW: f64 = 2e9;

    fn control() -> ChaCha20Control {
        ChaCha20Control::new(Arc::default())
    }

    #[test]
    fn auto_follows_the_cpu_and_counts_each_switch() {
        let control = control();
        control.configure(ChaCha20::Auto);
        for (is_short, switches) in [(false, 0), (true, 1), (true, 1), (false, 2)] {
            control.observe(is_short, &costs(FAST, SLOW));
            assert_eq!(control.status().is_last, is_short);
            assert_eq!(control.given_up.is(Sacrifice::ChaCha20), is_short);
            assert_eq!(control.switches(), [0, 0, switches]);
        }
    }

    #[test]
    fn auto_leaves_chacha20_alone_where_aes_is_not_known_to_be_cheaper() {
        for costs in [costs(SLOW, FAST), Costs::default()] {
            let control = control();
            control.configure(ChaCha20::Auto);
            control.observe(true, &costs);
            assert!(!control.status().is_last, "{costs:?}");
        }
    }

    #[test]
    fn the_other_modes_do_not_follow_the_cpu() {
        let control = control();
        control.observe(true, &costs(FAST, SLOW));
        assert!(!control.status().is_last);
        control.configure(ChaCha20::Never);
        control.observe(false, &costs(FAST, SLOW));
        assert!(control.status().is_last);
        assert!(!control.given_up.is(Sacrifice::ChaCha20), "that is configured, not given up");
    }

    #[test]
    fn an_order_holds_until_the_next_reload() {
        let control = control();
        let status = control.order("never").unwrap();
        assert_eq!(status, ChaCha20Status { mode: ChaCha20::Never, ordered: true, is_last: true });
        control.configure(ChaCha20::Client);
        let status = control.status();
        assert_eq!(status, ChaCha20Status { mode: ChaCha20::Client, ordered: false, is_last: false });
        assert_eq!(control.switches(), [1, 1, 0]);
    }

    #[test]
    fn only_the_words_of_the_configuration_are_orders() {
        let control = control();
        for word in ["", "Never", "off", "never\n"] {
            assert!(control.order(word).is_err(), "{word:?}");
        }
        let message = control.order(&"\x1b".repeat(5000)).unwrap_err().to_string();
        assert!(message.is_ascii() && message.len() < 400 && !message.contains('\x1b'), "{message}");
        assert!(!control.status().ordered);
    }
}
