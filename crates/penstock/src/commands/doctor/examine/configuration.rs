//! Faults and warnings of a configuration.

use penstock_config::Fault;

use crate::commands::doctor::facts::Facts;
use crate::commands::doctor::finding::{Finding, Section};
use crate::finding::Severity;

pub(super) fn examine(facts: &Facts) -> Vec<Finding> {
    let known = facts.configuration.findings.iter();
    let judged = known.map(|one| {
        let (found, wanted) = (finding(&one.fault), remedy(&one.fault));
        match one.severity {
            Severity::Error => found.problem_if(true, wanted, ""),
            Severity::Warning | Severity::Advice => found.better_if(true, wanted, ""),
        }
    });
    judged.collect()
}

fn finding(fault: &Fault) -> Finding {
    let line = if fault.line > 0 { format!("line {}", fault.line) } else { "configuration".to_owned() };
    let one_line = Fault { file: "-".into(), line: 0, instead: String::new(), ..fault.clone() }.to_string();
    let value = one_line.trim_start_matches("-: ").to_owned();
    Finding::ok(Section::Configuration, "configuration", line, value, "see docs/configuration.md")
}

fn remedy(fault: &Fault) -> String {
    if fault.instead.is_empty() { "mend it".to_owned() } else { fault.instead.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::facts::Configuration;
    use crate::commands::doctor::finding::Rating;
    use crate::commands::doctor::fixtures::bare;
    use crate::finding;

    fn fault(line: usize) -> Fault {
        Fault {
            file: "edge.yaml".into(),
            line,
            column: 1,
            what: "access:\tno".to_owned(),
            instead: "write a file".to_owned(),
        }
    }

    #[test]
    fn a_fault_is_a_problem_and_a_warning_could_be_better() {
        let mut facts = bare();
        assert_eq!(examine(&facts), []);
        let findings = vec![finding::Finding::error(fault(3)), finding::Finding::warning(fault(0))];
        facts.configuration = Configuration { findings, ..Configuration::default() };
        let found = examine(&facts);
        assert_eq!((found[0].what.as_str(), found[0].value.as_str()), ("line 3", "access:\\tno"));
        assert_eq!(found[0].rating, Rating::Problem("write a file".to_owned()));
        assert_eq!(found[1].what, "configuration");
        assert_eq!(found[1].rating, Rating::Better("write a file".to_owned()));
    }
}
