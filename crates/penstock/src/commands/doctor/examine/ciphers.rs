//! Whether the CPU seals as fast as it should.

use penstock_egress::measure::{CipherOrder, cipher_order};
use penstock_sys::machine::CpuFeature;

use crate::commands::doctor::facts::Facts;
use crate::commands::doctor::finding::{Finding, Section};

pub(super) fn examine(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![instructions(facts)];
    findings.extend(order(facts));
    findings
}

fn instructions(facts: &Facts) -> Finding {
    let why = "without AES instructions AES-GCM, which most clients ask for, is slower than ChaCha20; hypervisors can \
               hide them";
    let names: Vec<_> = facts.machine.cpu.features.iter().map(|feature| CpuFeature::name(*feature)).collect();
    let value = if names.is_empty() { "none that help".to_owned() } else { names.join(", ") };
    Finding::ok(Section::Ciphers, "cpu_features", "CPU instructions", value, why).problem_if(
        !facts.aes_hardware,
        "AES",
        "",
    )
}

/// The same assessment as the server's at its start.
fn order(facts: &Facts) -> Option<Finding> {
    let costs = facts.costs.as_ref()?;
    let why = "AES instructions that are there but not used: something hides them from the crypto library";
    let (aes, chacha20) = (costs.aes_128_gcm.user_space_seal?, costs.chacha20_poly1305.user_space_seal?);
    let times = aes.bytes_per_second() / chacha20.bytes_per_second();
    let value = format!("{times:.1} times as fast as ChaCha20");
    // Without the instructions it is slower for the reason that the line above gives.
    let broken = matches!(cipher_order(costs, facts.aes_hardware), CipherOrder::AesSlower { .. });
    Some(Finding::ok(Section::Ciphers, "aes_against_chacha20", "AES-128-GCM", value, why).problem_if(
        broken,
        "faster",
        "env | grep OPENSSL_ia32cap",
    ))
}

#[cfg(test)]
mod tests {
    use penstock_egress::measure::Rate;

    use super::*;
    use crate::commands::doctor::finding::Rating;
    use crate::commands::doctor::fixtures::{bare, fast};

    #[test]
    fn a_cpu_without_aes_is_a_problem() {
        assert_eq!(instructions(&bare()).rating, Rating::Problem("AES".into()));
        assert_eq!(instructions(&fast()).rating, Rating::Ok);
    }

    #[test]
    fn slow_aes_is_a_problem_of_its_own_only_where_the_instructions_are_there() {
        let mut facts = fast();
        assert_eq!(order(&facts).unwrap().rating, Rating::Ok);
        let mut costs = facts.costs.unwrap();
        costs.aes_128_gcm.user_space_seal = Rate::new(1e9);
        facts.costs = Some(costs);
        assert_eq!(order(&facts).unwrap().rating, Rating::Problem("faster".into()));
        facts.aes_hardware = false;
        assert_eq!(order(&facts).unwrap().rating, Rating::Ok);
        facts.costs = None;
        assert_eq!(order(&facts), None);
    }
}
