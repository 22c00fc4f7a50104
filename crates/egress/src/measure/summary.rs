//! Evaluation of measurements: pure functions of numbers.

use std::fmt;
use std::time::Duration;

use penstock_sys::aead::Cipher;

use crate::traffic::Traffic;

const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

/// A speed: bytes of body per second of CPU time. Positive and finite.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Rate(f64);

impl Rate {
    /// A speed in bytes per second of CPU time; `None` if that is no positive, finite number.
    #[must_use]
    pub fn new(bytes_per_second: f64) -> Option<Self> {
        (bytes_per_second.is_finite() && bytes_per_second > 0.0).then_some(Self(bytes_per_second))
    }

    /// Bytes per second of CPU time.
    #[must_use]
    pub fn bytes_per_second(self) -> f64 {
        self.0
    }

    /// Seconds of CPU time per GiB.
    #[must_use]
    pub fn seconds_per_gib(self) -> f64 {
        GIB / self.0
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} GB/s", self.0 / 1e9)
    }
}

/// Costs of one cipher. `None` if not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Sealing full records in user space, without sending them.
    pub user_space_seal: Option<Rate>,
    /// Sealing in user space and sending over loopback.
    pub user_space_send: Option<Rate>,
    /// The kernel's way: `sendfile` over loopback with the keys in the kernel.
    pub kernel_send: Option<Rate>,
    /// The kernel's way for frames: `sendmsg` of headers and mapped content over loopback with the keys in the kernel.
    pub kernel_send_frames: Option<Rate>,
}

impl Cost {
    /// The better figures of two measurements: whatever disturbs one only makes it slower.
    #[must_use]
    fn best_of(self, other: Self) -> Self {
        Self {
            user_space_seal: fastest([self.user_space_seal, other.user_space_seal]),
            user_space_send: fastest([self.user_space_send, other.user_space_send]),
            kernel_send: fastest([self.kernel_send, other.kernel_send]),
            kernel_send_frames: fastest([self.kernel_send_frames, other.kernel_send_frames]),
        }
    }

    /// Sending what a connection sends with the keys in the kernel.
    #[must_use]
    pub fn kernel_send_of(&self, traffic: Traffic) -> Option<Rate> {
        match traffic {
            Traffic::Files => self.kernel_send,
            Traffic::Frames => self.kernel_send_frames,
        }
    }
}

/// Costs of each cipher.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// AES-128 in Galois/Counter mode.
    pub aes_128_gcm: Cost,
    /// AES-256 in Galois/Counter mode.
    pub aes_256_gcm: Cost,
    /// ChaCha20 with Poly1305.
    pub chacha20_poly1305: Cost,
}

impl Costs {
    /// The better figures of two measurements.
    #[must_use]
    pub fn best_of(self, other: Self) -> Self {
        Self {
            aes_128_gcm: self.aes_128_gcm.best_of(other.aes_128_gcm),
            aes_256_gcm: self.aes_256_gcm.best_of(other.aes_256_gcm),
            chacha20_poly1305: self.chacha20_poly1305.best_of(other.chacha20_poly1305),
        }
    }

    /// The cost of one cipher.
    #[must_use]
    pub fn of(&self, cipher: Cipher) -> &Cost {
        match cipher {
            Cipher::Aes128Gcm => &self.aes_128_gcm,
            Cipher::Aes256Gcm => &self.aes_256_gcm,
            Cipher::ChaCha20Poly1305 => &self.chacha20_poly1305,
        }
    }
}

/// One round of a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Bytes of body dealt with.
    pub bytes: u64,
    /// CPU time it took.
    pub cpu: Duration,
}

impl Sample {
    fn rate(self) -> Option<Rate> {
        Rate::new(self.bytes as f64 / self.cpu.as_secs_f64())
    }
}

/// The fastest of several rounds: whatever disturbs a round only makes it slower.
#[must_use]
pub fn best(samples: &[Sample]) -> Option<Rate> {
    fastest(samples.iter().map(|sample| sample.rate()))
}

fn fastest(rates: impl IntoIterator<Item = Option<Rate>>) -> Option<Rate> {
    rates.into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0))
}

/// Which cipher is faster in user space, and whether that is as it should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CipherOrder {
    /// AES-GCM is faster, as on every server CPU of the last decade.
    AesFirst,
    /// The CPU (or the virtual machine) has no AES instructions.
    NoAesHardware,
    /// The CPU has AES instructions, and AES-GCM is slower all the same: the detection of its features is broken.
    AesSlower {
        /// AES-128-GCM.
        aes: Rate,
        /// ChaCha20-Poly1305.
        chacha20: Rate,
    },
    /// Nothing was measured.
    Unknown,
}

/// Compares AES-128-GCM with ChaCha20-Poly1305.
#[must_use]
pub fn cipher_order(costs: &Costs, aes_hardware: bool) -> CipherOrder {
    let aes = costs.aes_128_gcm.user_space_seal;
    let chacha20 = costs.chacha20_poly1305.user_space_seal;
    match (aes, chacha20) {
        _ if !aes_hardware => CipherOrder::NoAesHardware,
        (Some(aes), Some(chacha20)) if aes < chacha20 => CipherOrder::AesSlower { aes, chacha20 },
        (Some(_), Some(_)) => CipherOrder::AesFirst,
        _ => CipherOrder::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal_only(bytes_per_second: f64) -> Cost {
        Cost { user_space_seal: Rate::new(bytes_per_second), ..Cost::default() }
    }

    #[test]
    fn of_two_measurements_each_figure_is_the_better_one() {
        let one =
            Costs { aes_128_gcm: seal_only(1e9), chacha20_poly1305: seal_only(3e9), ..Costs::default() };
        let sent = Cost { kernel_send: Rate::new(2e9), ..seal_only(2e9) };
        let other = Costs { aes_128_gcm: sent, chacha20_poly1305: seal_only(1e9), ..Costs::default() };
        let both = Costs { aes_128_gcm: sent, chacha20_poly1305: seal_only(3e9), ..Costs::default() };
        assert_eq!((one.best_of(other), other.best_of(one)), (both, both));
    }

    #[test]
    fn the_best_round_counts_and_empty_ones_do_not() {
        let round = |bytes, milliseconds| Sample { bytes, cpu: Duration::from_millis(milliseconds) };
        let rate = best(&[round(1000, 4), round(1000, 1), round(1000, 2), round(0, 5), round(5, 0)]);
        assert_eq!(rate, Rate::new(1e6));
        assert_eq!(best(&[round(0, 0)]), None);
        assert_eq!(best(&[]), None);
    }

    #[test]
    fn one_gib_per_second_is_one_second_per_gib() {
        let rate = Rate::new(GIB).unwrap();
        assert_eq!(rate.seconds_per_gib(), 1.0);
        assert_eq!(rate.to_string(), "1.07 GB/s");
    }

    #[test]
    fn a_rate_is_positive_and_finite() {
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Rate::new(wrong), None);
        }
    }

    #[test]
    fn aes_slower_than_chacha20_is_told_apart_from_missing_hardware() {
        let costs =
            Costs { aes_128_gcm: seal_only(1e9), chacha20_poly1305: seal_only(2e9), ..Costs::default() };
        assert!(matches!(cipher_order(&costs, true), CipherOrder::AesSlower { .. }));
        assert_eq!(cipher_order(&costs, false), CipherOrder::NoAesHardware);
        let healthy =
            Costs { aes_128_gcm: seal_only(8e9), chacha20_poly1305: seal_only(2e9), ..Costs::default() };
        assert_eq!(cipher_order(&healthy, true), CipherOrder::AesFirst);
        assert_eq!(cipher_order(&Costs::default(), true), CipherOrder::Unknown);
    }
}
