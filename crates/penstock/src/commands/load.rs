//! `penstock load`: from what was typed to a plan, and from its outcome to a report.

mod plan;

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use penstock_load::report::{self, Log};
use penstock_load::{Outcome, Plan, Stop};
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::{Load, Output};
use crate::descriptors;
use crate::failure::Failure;
use crate::terminal;

pub(crate) fn run(arguments: &Load) -> Result<(), Failure> {
    let (plan, output) = plan::of(&arguments.command).map_err(Failure::Usage)?;
    descriptors::raise();
    let mut log = match &output.hdr {
        Some(file) => Some(Log::create(file).map_err(Failure::machine(format!("write {}", file.display())))?),
        None => None,
    };
    if !output.quiet {
        terminal::complain(&report::heading(&plan));
    }
    let stop = Stop::default();
    stop_on_interrupt(stop.clone())?;
    let live = io::stderr().is_terminal() && !output.quiet;
    let mut log_fault = None;
    let ran = penstock_load::run(plan.clone(), &stop, |moment, recent, tally| {
        if live {
            show(&report::line(moment, tally));
        }
        if let Some(log) = &mut log
            && let Err(error) = log.add(moment.at.saturating_sub(moment.length), moment.length, recent)
        {
            log_fault = Some(error);
        }
    });
    if live {
        show("");
    }
    let outcome = ran.map_err(Failure::Usage)?;
    let logged = log.map_or(Ok(()), Log::finish);
    if let Some(error) = log_fault.or_else(|| logged.err()) {
        return Err(Failure::machine("write the log of histograms")(error));
    }
    tell(&plan, &outcome, output)
}

fn tell(plan: &Plan, outcome: &Outcome, output: &Output) -> Result<(), Failure> {
    if let Some(file) = &output.plot {
        let written = fs::write(file, report::svg(plan, outcome));
        written.map_err(Failure::machine(format!("write {}", file.display())))?;
    }
    if output.json {
        terminal::say(&format!("{:#}", report::document(plan, outcome)));
    } else {
        terminal::say(report::render(plan, outcome).trim_end_matches('\n'));
    }
    verdict(outcome, output.strict)
}

/// Failures that a script should notice.
fn verdict(outcome: &Outcome, strict: bool) -> Result<(), Failure> {
    let tally = &outcome.tally;
    if let Some(fault) = &outcome.void {
        return Err(Failure::Load(format!("the run is void: {fault}")));
    }
    let errors = tally.errors_total();
    if errors > 0 && (strict || tally.total.count() == 0) {
        let kinds: Vec<String> = tally.errors.keys().map(|failure| failure.name().into_owned()).collect();
        return Err(Failure::Load(format!("{errors} failed: {}", kinds.join(", "))));
    }
    Ok(())
}

/// Overwrites the line of progress.
fn show(line: &str) {
    const CLEAR: &str = "\r\x1b[K";
    let line: String = line.chars().take(terminal::columns().unwrap_or(200).saturating_sub(1)).collect();
    let mut stderr = io::stderr();
    drop(write!(stderr, "{CLEAR}{line}"));
    drop(stderr.flush());
}

/// An interrupt ends the run early, with its figures; a second one ends the program as usual.
fn stop_on_interrupt(stop: Stop) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let runtime = runtime.map_err(Failure::machine("start the signal handlers"))?;
    // From here on an interrupt is heard, whenever the thread comes to wait for it.
    let interrupts = {
        let _inside = runtime.enter();
        signal(SignalKind::interrupt())
    };
    let mut interrupts = interrupts.map_err(Failure::machine("start the signal handlers"))?;
    let waiting = move || {
        runtime.block_on(async {
            interrupts.recv().await;
            stop.stop();
            interrupts.recv().await;
            terminal::complain("penstock: interrupted");
            leave();
        });
    };
    let spawned = std::thread::Builder::new().name("signals".to_owned()).spawn(waiting);
    spawned.map(drop).map_err(Failure::machine("start the signal handlers"))
}

#[expect(clippy::exit, reason = "asked to end at once, there is nothing left to wait for")]
fn leave() {
    std::process::exit(1);
}

/// Without a duration or a count, runs last so long.
const DURATION: Duration = Duration::from_secs(10);
