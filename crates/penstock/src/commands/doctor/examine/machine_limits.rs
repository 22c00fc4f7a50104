//! Limits of the machine for one program.

use penstock_config::limits;

use crate::commands::doctor::facts::Facts;
use crate::commands::doctor::finding::{Finding, Section};

/// Clocks that a program reads without a system call.
const FAST_CLOCKS: [&str; 4] = ["tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page"];

/// Below this a site of any size runs into it.
const DESCRIPTORS_MIN: u64 = 4096;

pub(super) fn examine(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![descriptors(facts), clock(facts), huge_pages(facts)];
    findings.extend(nodes(facts));
    findings
}

fn finding(name: &'static str, what: &str, value: impl Into<String>, why: &str) -> Finding {
    Finding::ok(Section::Limits, name, what, value, why)
}

fn descriptors(facts: &Facts) -> Finding {
    let why = "each connection and each open file takes one; this is the shell's hard limit, a service has that of its unit";
    let workers = facts.machine.cpu.available.unwrap_or(1) as u64;
    let wanted = limits::CONNECTIONS as u64 + limits::OPEN_FILES_PER_WORKER as u64 * workers;
    let Some(hard) = facts.machine.descriptors.hard else {
        return finding("nofile", "open files", "no limit", why);
    };
    let round = wanted.next_power_of_two();
    let command = format!("systemctl edit penstock # [Service] LimitNOFILE={round}");
    let value = format!("{hard} at most");
    let finding =
        finding("nofile", "open files", value, why).better_if(hard < wanted, round.to_string(), &command);
    finding.problem_if(hard < DESCRIPTORS_MIN, round.to_string(), command)
}

fn clock(facts: &Facts) -> Finding {
    let why = "every request asks the time; this clock takes a system call and slow hardware to answer";
    let Some(clock) = &facts.machine.clock_source else {
        return Finding::unknown(Section::Limits, "clock_source", "clock", why);
    };
    let slow = !FAST_CLOCKS.contains(&clock.as_str());
    let faster = facts.machine.clock_sources.iter().find(|name| FAST_CLOCKS.contains(&name.as_str()));
    let wanted = faster.map_or("tsc", String::as_str);
    let command = faster.map_or_else(String::new, |name| {
        format!("echo {name} > /sys/devices/system/clocksource/clocksource0/current_clocksource")
    });
    finding("clock_source", "clock", clock, why).problem_if(slow, wanted, command)
}

/// Nothing to advise: neither way has been measured to matter for files on disks.
fn huge_pages(facts: &Facts) -> Finding {
    let why =
        "Penstock asks for none; files on tmpfs are mapped in larger pieces with shmem_enabled or huge=";
    let memory = &facts.machine.memory;
    match (&memory.huge_pages, &memory.shared_huge_pages) {
        (None, None) => Finding::unknown(Section::Limits, "huge_pages", "huge pages", why),
        (programs, files) => {
            let word = |choice: &Option<String>| choice.clone().unwrap_or_else(|| "not known".to_owned());
            let value = format!("{}; for files in memory: {}", word(programs), word(files));
            finding("huge_pages", "huge pages", value, why)
        }
    }
}

fn nodes(facts: &Facts) -> Option<Finding> {
    let nodes = facts.machine.numa_nodes?;
    let why = "bytes that cross from one node to another cost bandwidth twice";
    Some(finding("numa_nodes", "NUMA nodes", nodes.to_string(), why).better_if(
        nodes > 1,
        "one Penstock for each node",
        "numactl --cpunodebind=0 --membind=0 penstock serve ...",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::finding::Rating;
    use crate::commands::doctor::fixtures::{bare, fast};

    #[test]
    fn the_limit_on_descriptors_is_judged_by_what_the_program_may_open() {
        let mut facts = fast();
        let mut verdict = |hard| {
            facts.machine.descriptors.hard = hard;
            descriptors(&facts).rating
        };
        assert_eq!(verdict(None), Rating::Ok);
        assert_eq!(verdict(Some(1 << 20)), Rating::Ok);
        assert!(matches!(verdict(Some(65536)), Rating::Better(_)));
        assert!(matches!(verdict(Some(1024)), Rating::Problem(_)));
    }

    #[test]
    fn a_slow_clock_is_exchanged_only_for_one_that_is_there() {
        let mut facts = bare();
        facts.machine.clock_source = Some("hpet".into());
        assert_eq!(clock(&facts).rating, Rating::Problem("tsc".into()));
        assert_eq!(clock(&facts).command, None);
        facts.machine.clock_sources = vec!["hpet".into(), "kvm-clock".into()];
        assert!(clock(&facts).command.unwrap().starts_with("echo kvm-clock >"));
        facts.machine.clock_source = Some("kvm-clock".into());
        assert_eq!(clock(&facts).rating, Rating::Ok);
    }

    #[test]
    fn one_node_needs_no_binding() {
        let mut facts = bare();
        assert_eq!(nodes(&facts), None);
        facts.machine.numa_nodes = Some(1);
        assert_eq!(nodes(&facts).unwrap().rating, Rating::Ok);
        facts.machine.numa_nodes = Some(2);
        assert!(matches!(nodes(&facts).unwrap().rating, Rating::Better(_)));
    }
}
