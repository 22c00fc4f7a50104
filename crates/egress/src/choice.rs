//! The choice between sealing by the kernel and in user space: pure policy. Either is correct.

use penstock_sys::aead::Cipher;
use penstock_sys::ktls::Support;
use penstock_sys::traffic::{ProtocolVersion, SendKeys};

use crate::abilities::KernelAbilities;
use crate::measure::Costs;
use crate::traffic::Traffic;

/// The operator's setting (`tls.kernel`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// The kernel where it is faster here.
    Auto,
    /// The kernel wherever it can.
    On,
    /// Never the kernel.
    Off,
}

/// Inputs of the choice that are the same for every connection.
#[derive(Clone, Debug)]
pub struct KernelPlan {
    /// The operator's setting.
    pub wish: Wish,
    /// Features of the kernel.
    pub support: Support,
    /// Measured costs; used with [`Wish::Auto`] only.
    pub costs: Option<Costs>,
    /// Whether network cards seal here, so that pages which never change need no copy.
    pub device: bool,
    /// The smallest body, in bytes, for which a connection enters the kernel.
    pub body_bytes_min: u64,
}

/// The sealer of a connection, and the reason as a label of `penstock_egress_connections_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealerChoice {
    /// The kernel, from the first byte.
    Kernel(&'static str),
    /// The kernel from the first response with a large body on, for this reason; this program until then.
    KernelForBodies(&'static str),
    /// This program, to the end of the connection.
    UserSpace(&'static str),
}

/// The reason why a connection with a CBC suite stays in user space: no kernel has these ciphers.
pub(crate) const CBC_SUITE: &str = "cbc_suite";

impl KernelPlan {
    /// Chooses for a connection with these keys.
    pub fn choose_for(&self, keys: &SendKeys, traffic: Traffic) -> SealerChoice {
        match keys {
            SendKeys::Aead(keys) => self.choose(keys.version, keys.cipher, traffic),
            SendKeys::Cbc(_) => SealerChoice::UserSpace(CBC_SUITE),
        }
    }

    /// Chooses for a connection with this record format and cipher.
    pub fn choose(&self, version: ProtocolVersion, cipher: Cipher, traffic: Traffic) -> SealerChoice {
        if self.wish == Wish::Off {
            return SealerChoice::UserSpace("configured_off");
        }
        if !self.support.ulp {
            return SealerChoice::UserSpace("kernel_lacks_tls");
        }
        if !self.support.accepts(version, cipher) {
            return SealerChoice::UserSpace("cipher_not_in_kernel");
        }
        if self.wish == Wish::On {
            return SealerChoice::Kernel("configured_on");
        }
        if self.device {
            return SealerChoice::KernelForBodies("network_card_seals");
        }
        let cost = self.costs.as_ref().map(|costs| costs.of(cipher));
        match cost.map(|cost| (cost.kernel_send_of(traffic), cost.user_space_send)) {
            Some((Some(kernel), Some(user_space))) if kernel > user_space => {
                SealerChoice::KernelForBodies("kernel_measured_faster")
            }
            Some((Some(_), Some(_))) => SealerChoice::UserSpace("kernel_measured_slower"),
            _ => SealerChoice::UserSpace("kernel_not_measured"),
        }
    }

    /// Whether a response with this number of bytes of files is worth entering the kernel for. Small bodies and bodies in memory
    /// cost less in user space.
    pub fn is_worth_entering(&self, movable_bytes: u64) -> bool {
        movable_bytes >= self.body_bytes_min
    }

    /// Features for a connection that enters the kernel.
    pub fn abilities(&self) -> KernelAbilities {
        KernelAbilities { rekey: self.support.rekey, zerocopy: self.device }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Cost, Rate};

    fn plan(wish: Wish, kernel: f64, user_space: f64) -> KernelPlan {
        let cost = Cost {
            user_space_seal: None,
            user_space_send: Rate::new(user_space),
            kernel_send: Rate::new(kernel),
            kernel_send_frames: Rate::new(kernel / 2.0),
        };
        KernelPlan {
            wish,
            support: Support {
                ulp: true,
                accepted: vec![
                    (ProtocolVersion::Tls13, Cipher::Aes128Gcm),
                    (ProtocolVersion::Tls12, Cipher::Aes128Gcm),
                ],
                rekey: false,
            },
            costs: Some(Costs { aes_128_gcm: cost, ..Costs::default() }),
            device: false,
            body_bytes_min: 64 * 1024,
        }
    }

    fn choose(plan: &KernelPlan) -> SealerChoice {
        plan.choose(ProtocolVersion::Tls13, Cipher::Aes128Gcm, Traffic::Files)
    }

    #[test]
    fn auto_follows_the_measurement() {
        assert_eq!(
            choose(&plan(Wish::Auto, 3e9, 2e9)),
            SealerChoice::KernelForBodies("kernel_measured_faster")
        );
        assert_eq!(choose(&plan(Wish::Auto, 2e9, 3e9)), SealerChoice::UserSpace("kernel_measured_slower"));
        assert_eq!(choose(&plan(Wish::Auto, 2e9, 2e9)), SealerChoice::UserSpace("kernel_measured_slower"));
    }

    #[test]
    fn frames_have_a_measurement_of_their_own() {
        let choose =
            |plan: KernelPlan| plan.choose(ProtocolVersion::Tls13, Cipher::Aes128Gcm, Traffic::Frames);
        let slower = SealerChoice::UserSpace("kernel_measured_slower");
        assert_eq!(choose(plan(Wish::Auto, 3e9, 2e9)), slower);
        let faster = SealerChoice::KernelForBodies("kernel_measured_faster");
        assert_eq!(choose(plan(Wish::Auto, 5e9, 2e9)), faster);
    }

    #[test]
    fn auto_without_a_measurement_stays_in_user_space() {
        let unmeasured = KernelPlan { costs: None, ..plan(Wish::Auto, 3e9, 2e9) };
        assert_eq!(choose(&unmeasured), SealerChoice::UserSpace("kernel_not_measured"));
        assert_eq!(choose(&plan(Wish::Auto, 0.0, 2e9)), SealerChoice::UserSpace("kernel_not_measured"));
    }

    #[test]
    fn on_asks_for_nothing_but_support() {
        assert_eq!(choose(&plan(Wish::On, 1e9, 2e9)), SealerChoice::Kernel("configured_on"));
        let other = plan(Wish::On, 1e9, 2e9);
        let other = other.choose(ProtocolVersion::Tls13, Cipher::ChaCha20Poly1305, Traffic::Files);
        assert_eq!(other, SealerChoice::UserSpace("cipher_not_in_kernel"));
    }

    #[test]
    fn off_is_off_and_no_support_is_named_before_the_measurement() {
        assert_eq!(choose(&plan(Wish::Off, 3e9, 2e9)), SealerChoice::UserSpace("configured_off"));
        let lacking = KernelPlan { support: Support::default(), ..plan(Wish::Auto, 3e9, 2e9) };
        assert_eq!(choose(&lacking), SealerChoice::UserSpace("kernel_lacks_tls"));
    }

    #[test]
    fn a_card_that_seals_decides_whatever_the_cpu_would_cost() {
        let card = KernelPlan { device: true, ..plan(Wish::Auto, 1e9, 2e9) };
        assert_eq!(choose(&card), SealerChoice::KernelForBodies("network_card_seals"));
    }

    #[test]
    fn small_bodies_do_not_enter() {
        let plan = plan(Wish::Auto, 3e9, 2e9);
        assert!(!plan.is_worth_entering(0));
        assert!(!plan.is_worth_entering(64 * 1024 - 1));
        assert!(plan.is_worth_entering(64 * 1024));
    }
}
