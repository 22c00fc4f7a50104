//! Runs cases one after the other and prints what the usual test harness prints.

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::Instant;

/// A name and what it runs; a panic is a failure.
pub(crate) type Case = (&'static str, fn());

pub(crate) fn run(cases: &[Case]) -> ExitCode {
    let chosen = chosen(cases);
    println!("\nrunning {} tests in the guest", chosen.len());
    let mut failed = Vec::new();
    for (name, case) in &chosen {
        let began = Instant::now();
        let passed = catch_unwind(case).is_ok();
        let verdict = if passed { "ok" } else { "FAILED" };
        println!("test {name} ... {verdict} ({:.1} s)", began.elapsed().as_secs_f32());
        if !passed {
            failed.push(*name);
        }
    }
    println!("\n{} passed; {} failed {failed:?}", chosen.len() - failed.len(), failed.len());
    if failed.is_empty() && !chosen.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Those whose name contains one of the arguments; all if there are none. Options of the usual harness mean nothing.
pub(crate) fn chosen(cases: &[Case]) -> Vec<Case> {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let matches = |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str()));
    cases.iter().filter(|(name, _)| matches(name)).copied().collect()
}
