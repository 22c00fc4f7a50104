//! What `tls.kernel: auto` would do here, in words.

use penstock_config::limits;
use penstock_egress::Choice;
use penstock_sys::aead::Cipher;

use super::facts::{Facts, bytes_text, cipher_name};

/// Who seals the connections of one cipher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) cipher: Cipher,
    /// Whether the kernel seals, at least large bodies.
    pub(crate) kernel: bool,
    /// Why, as in the label of `penstock_egress_connections_total`.
    pub(crate) reason: &'static str,
    /// All of it for people.
    pub(crate) sentence: String,
}

/// One way for each cipher; `None` if nothing was measured and that would have decided.
pub(crate) fn ways(facts: &Facts) -> Option<Vec<Way>> {
    let way = |(cipher, choice)| {
        let (kernel, reason) = match choice {
            Choice::Kernel(reason) | Choice::KernelForBodies(reason) => (true, reason),
            Choice::UserSpace(reason) => (false, reason),
        };
        if facts.costs.is_none() && reason == NOT_MEASURED {
            return None;
        }
        let sentence = sentence(facts, cipher, kernel, reason);
        Some(Way { cipher, kernel, reason, sentence })
    };
    facts.choices().into_iter().map(way).collect()
}

/// The ways in lines; ciphers that go the same way share one.
pub(crate) fn lines(ways: &[Way]) -> Vec<String> {
    let mut lines: Vec<(Vec<&str>, &str)> = Vec::new();
    for way in ways {
        let name = cipher_name(way.cipher);
        match lines.iter_mut().find(|(_, sentence)| *sentence == way.sentence) {
            Some((names, _)) => names.push(name),
            None => lines.push((vec![name], &way.sentence)),
        }
    }
    let line = |(names, sentence): (Vec<&str>, &str)| {
        let names = if names.len() == ways.len() { "all ciphers".to_owned() } else { names.join(", ") };
        format!("{names} {sentence}")
    };
    lines.into_iter().map(line).collect()
}

const NOT_MEASURED: &str = "kernel_not_measured";

fn sentence(facts: &Facts, cipher: Cipher, kernel: bool, reason: &str) -> String {
    let who = if kernel {
        format!("in the kernel, for bodies from {} on", bytes_text(limits::KERNEL_BODY_BYTES_MIN))
    } else {
        "in user space".to_owned()
    };
    let why = match reason {
        "kernel_lacks_tls" => "the kernel cannot seal".to_owned(),
        "cipher_not_in_kernel" => "the kernel does not take this cipher".to_owned(),
        "network_card_seals" => "a network card seals".to_owned(),
        "kernel_measured_faster" | "kernel_measured_slower" => compared(facts, cipher),
        NOT_MEASURED => "the kernel's way could not be measured".to_owned(),
        other => other.replace('_', " "),
    };
    format!("{who}: {why}")
}

fn compared(facts: &Facts, cipher: Cipher) -> String {
    let cost = facts.costs.map(|costs| *costs.of(cipher)).unwrap_or_default();
    let (Some(kernel), Some(user_space)) = (cost.kernel_send, cost.user_space_send) else {
        return "measured so".to_owned();
    };
    let share = kernel.seconds_per_gib() / user_space.seconds_per_gib();
    let per_cent = ((share - 1.0) * 100.0).round();
    if share >= 2.0 {
        format!("the kernel needs {share:.1} times the CPU")
    } else if per_cent < 0.0 {
        format!("it needs {:.0} % less CPU", -per_cent)
    } else {
        format!("the kernel needs {per_cent:.0} % more CPU")
    }
}

#[cfg(test)]
mod tests {
    use penstock_egress::measure::Rate;
    use penstock_sys::ktls::Support;

    use super::*;
    use crate::commands::doctor::fixtures::{bare, fast, fresh};

    #[test]
    fn each_cipher_goes_its_own_way() {
        let ways = ways(&fast()).unwrap();
        assert_eq!(
            lines(&ways),
            [
                "AES-128-GCM, AES-256-GCM in the kernel, for bodies from 64 KiB on: it needs 20 % less CPU",
                "ChaCha20-Poly1305 in user space: the kernel needs 36 % more CPU",
            ]
        );
        assert_eq!((ways[0].kernel, ways[0].reason), (true, "kernel_measured_faster"));
    }

    #[test]
    fn a_kernel_that_is_far_slower_is_counted_in_times() {
        let mut facts = fast();
        let mut costs = facts.costs.unwrap();
        costs.aes_128_gcm.kernel_send = Rate::new(0.49e9);
        facts.costs = Some(costs);
        assert_eq!(ways(&facts).unwrap()[0].sentence, "in user space: the kernel needs 10.0 times the CPU");
    }

    #[test]
    fn without_tls_in_the_kernel_all_go_one_way() {
        assert_eq!(lines(&ways(&fresh()).unwrap()), ["all ciphers in user space: the kernel cannot seal"]);
        assert_eq!(ways(&bare()).unwrap()[0].reason, "kernel_lacks_tls");
    }

    #[test]
    fn what_was_not_measured_is_not_guessed() {
        let mut facts = fast();
        facts.costs = None;
        assert_eq!(ways(&facts), None);
        facts.support = Some(Support { ulp: true, ..Support::default() });
        assert_eq!(ways(&facts).unwrap()[0].reason, "cipher_not_in_kernel");
    }
}
