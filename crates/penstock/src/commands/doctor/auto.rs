//! Describes the choice of `tls.kernel: auto` on this machine.

use penstock_config::limits;
use penstock_egress::{SealerChoice, Traffic};
use penstock_sys::aead::Cipher;

use super::facts::{Facts, bytes_text, cipher_name};

/// The sealing path of connections with one cipher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SealingChoice {
    pub(crate) cipher: Cipher,
    /// Whether the kernel seals, at least large bodies.
    pub(crate) kernel: bool,
    /// Why, as in the label of `penstock_egress_connections_total`.
    pub(crate) reason: &'static str,
    /// All of it for people.
    pub(crate) sentence: String,
}

/// One choice for each cipher, for connections that send this; `None` if nothing was measured and that would have decided.
pub(crate) fn choices(facts: &Facts, traffic: Traffic) -> Option<Vec<SealingChoice>> {
    let choice = |(cipher, choice)| {
        let (kernel, reason) = match choice {
            SealerChoice::Kernel(reason) | SealerChoice::KernelForBodies(reason) => (true, reason),
            SealerChoice::UserSpace(reason) => (false, reason),
        };
        if facts.costs.is_none() && reason == NOT_MEASURED {
            return None;
        }
        let sentence = sentence(facts, (cipher, traffic), kernel, reason);
        Some(SealingChoice { cipher, kernel, reason, sentence })
    };
    facts.choices(traffic).into_iter().map(choice).collect()
}

/// All choices in lines; `None` if nothing was measured and that would have decided. Those of HTTP/2 follow where they differ.
pub(crate) fn lines(facts: &Facts) -> Option<Vec<String>> {
    let mut lines = lines_of(&choices(facts, Traffic::Files)?);
    let frames = lines_of(&choices(facts, Traffic::Frames)?);
    if frames != lines {
        lines.extend(frames.iter().map(|line| format!("HTTP/2: {line}")));
    }
    Some(lines)
}

/// The choices in lines; ciphers with the same choice share one.
fn lines_of(choices: &[SealingChoice]) -> Vec<String> {
    let mut lines: Vec<(Vec<&str>, &str)> = Vec::new();
    for choice in choices {
        let name = cipher_name(choice.cipher);
        match lines.iter_mut().find(|(_, sentence)| *sentence == choice.sentence) {
            Some((names, _)) => names.push(name),
            None => lines.push((vec![name], &choice.sentence)),
        }
    }
    let line = |(names, sentence): (Vec<&str>, &str)| {
        let names = if names.len() == choices.len() { "all ciphers".to_owned() } else { names.join(", ") };
        format!("{names} {sentence}")
    };
    lines.into_iter().map(line).collect()
}

const NOT_MEASURED: &str = "kernel_not_measured";

fn sentence(facts: &Facts, (cipher, traffic): (Cipher, Traffic), kernel: bool, reason: &str) -> String {
    let who = if kernel {
        format!("in the kernel, for bodies from {} on", bytes_text(limits::KERNEL_BODY_BYTES_MIN))
    } else {
        "in user space".to_owned()
    };
    let why = match reason {
        "kernel_lacks_tls" => "the kernel cannot seal".to_owned(),
        "cipher_not_in_kernel" => "the kernel does not take this cipher".to_owned(),
        "network_card_seals" => "a network card seals".to_owned(),
        "kernel_measured_faster" | "kernel_measured_slower" => compared(facts, cipher, traffic),
        NOT_MEASURED => "the kernel's choice could not be measured".to_owned(),
        other => other.replace('_', " "),
    };
    format!("{who}: {why}")
}

fn compared(facts: &Facts, cipher: Cipher, traffic: Traffic) -> String {
    let cost = facts.costs.map(|costs| *costs.of(cipher)).unwrap_or_default();
    let (Some(kernel), Some(user_space)) = (cost.kernel_send_of(traffic), cost.user_space_send) else {
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
        let choices = choices(&fast(), Traffic::Files).unwrap();
        assert_eq!(
            lines(&fast()).unwrap(),
            [
                "AES-128-GCM, AES-256-GCM in the kernel, for bodies from 64 KiB on: it needs 20 % less CPU",
                "ChaCha20-Poly1305 in user space: the kernel needs 36 % more CPU",
                "HTTP/2: AES-128-GCM, AES-256-GCM in the kernel, for bodies from 64 KiB on: it needs 11 % less CPU",
                "HTTP/2: ChaCha20-Poly1305 in user space: the kernel needs 51 % more CPU",
            ]
        );
        assert_eq!((choices[0].kernel, choices[0].reason), (true, "kernel_measured_faster"));
    }

    #[test]
    fn a_kernel_that_is_far_slower_is_counted_in_times() {
        let mut facts = fast();
        let mut costs = facts.costs.unwrap();
        costs.aes_128_gcm.kernel_send = Rate::new(0.49e9);
        facts.costs = Some(costs);
        assert_eq!(
            choices(&facts, Traffic::Files).unwrap()[0].sentence,
            "in user space: the kernel needs 10.0 times the CPU"
        );
    }

    #[test]
    fn without_tls_in_the_kernel_all_go_one_way() {
        assert_eq!(lines(&fresh()).unwrap(), ["all ciphers in user space: the kernel cannot seal"]);
        assert_eq!(choices(&bare(), Traffic::Files).unwrap()[0].reason, "kernel_lacks_tls");
    }

    #[test]
    fn a_cost_that_was_not_measured_is_not_guessed() {
        let mut facts = fast();
        facts.costs = None;
        assert_eq!(choices(&facts, Traffic::Files), None);
        assert_eq!(lines(&facts), None);
        facts.support = Some(Support { ulp: true, ..Support::default() });
        assert_eq!(choices(&facts, Traffic::Frames).unwrap()[0].reason, "cipher_not_in_kernel");
    }
}
