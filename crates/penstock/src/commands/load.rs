//! `penstock load`: from the command line to a plan, and from its result to a report.

mod plan;

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use penstock_load::plan::LoadMode;
use penstock_load::report::{self, HdrLog};
use penstock_load::{Plan, RunResult, StopSignal};
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::{Load, OutputOptions};
use crate::descriptors;
use crate::failure::Failure;
use crate::terminal;

pub(crate) fn run(arguments: &Load) -> Result<(), Failure> {
    let (plan, output) = plan::of(&arguments.command).map_err(Failure::Usage)?;
    descriptors::raise();
    compare_with_descriptors(&plan)?;
    // An output that cannot be written is reported before the run.
    let mut log = match &output.hdr {
        Some(file) => Some(HdrLog::create(file).map_err(Failure::to_write(file))?),
        None => None,
    };
    let plot = match &output.plot {
        Some(file) => Some((File::create(file).map_err(Failure::to_write(file))?, file.as_path())),
        None => None,
    };
    if !output.quiet {
        terminal::complain(&report::heading(&plan));
    }
    let stop = StopSignal::default();
    stop_on_interrupt(stop.clone())?;
    let live = io::stderr().is_terminal() && !output.quiet;
    let mut log_fault = None;
    let ran = penstock_load::run(plan.clone(), &stop, |moment, recent, tally| {
        if live {
            show(&report::line(&plan.mode, moment, tally));
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
    // The report comes first: it must not be lost with a file that cannot be written.
    print_report(&plan, &outcome, output)?;
    let logged = log.map_or(Ok(()), HdrLog::finish);
    if let Some(error) = log_fault.or_else(|| logged.err()) {
        return Err(Failure::machine("write the log of histograms")(error));
    }
    if let Some((mut plot, file)) = plot {
        plot.write_all(report::svg(&plan, &outcome).as_bytes()).map_err(Failure::to_write(file))?;
    }
    verdict(&outcome, plan.mode, output)
}

/// Descriptors beside the connections: standard streams, outputs, runtimes.
const OTHER_DESCRIPTORS: u64 = 16;

/// Reports a lack of descriptors before the run, instead of as thousands of failures.
fn compare_with_descriptors(plan: &Plan) -> Result<(), Failure> {
    match descriptors::allowed() {
        Some(allowed) if plan.connections as u64 + OTHER_DESCRIPTORS > allowed => {
            Err(Failure::Usage(format!(
                "--connections {} are more than this process may have open, which is {allowed} files: raise that \
                 (ulimit -Hn), or lower --connections",
                plan.connections
            )))
        }
        _ => Ok(()),
    }
}

fn print_report(plan: &Plan, outcome: &RunResult, output: &OutputOptions) -> Result<(), Failure> {
    let text = if output.json {
        format!("{:#}\n", report::document(plan, outcome))
    } else {
        report::render(plan, outcome)
    };
    match io::stdout().write_all(text.as_bytes()) {
        // A reader may close its pipe early.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::machine("write the report")(error))
        }
        _ => Ok(()),
    }
}

/// The failure of the command, for scripts.
fn verdict(outcome: &RunResult, mode: LoadMode, output: &OutputOptions) -> Result<(), Failure> {
    let tally = &outcome.tally;
    if let Some(fault) = &outcome.void {
        return Err(Failure::Load(format!("the run is void: {fault}")));
    }
    let errors = tally.errors_total();
    let is_in_vain = match mode {
        LoadMode::Handshakes { .. } => tally.handshakes == 0,
        LoadMode::Requests => tally.succeeded == 0,
        LoadMode::Playback(_) => tally.playback.started == 0,
        LoadMode::Download { .. } => tally.succeeded == 0 && (tally.bytes == 0 || errors > 0),
    };
    let lack = match mode {
        LoadMode::Playback(_) if is_in_vain => "no viewer saw a picture: ",
        _ => "",
    };
    if errors > 0 && (output.strict || is_in_vain) {
        let kinds: Vec<String> = tally.errors.keys().map(|failure| failure.name().into_owned()).collect();
        let most = tally.errors.iter().max_by_key(|(_, count)| **count);
        // The table has shown the rest.
        let most = most.filter(|_| output.json);
        let why = most.map_or_else(String::new, |(failure, _)| {
            let detail = tally.details.get(failure).map_or("", String::as_str);
            format!("\n  {}: {}\n  first at {detail}", failure.name(), failure.meaning())
        });
        return Err(Failure::Load(format!("{lack}{errors} failed: {}{why}", kinds.join(", "))));
    }
    if output.strict && tally.retried_resets > 0 {
        return Err(Failure::Load(format!(
            "{} requests were sent again because the server had reset their connections",
            tally.retried_resets
        )));
    }
    if is_in_vain && let LoadMode::Playback(_) = mode {
        return Err(Failure::Load(format!(
            "{lack}{} requests were answered; give viewers more time (--duration, --watch), or lower --start",
            tally.requests
        )));
    }
    if is_in_vain {
        return Err(Failure::Load(format!(
            "no operation ended: {} were cut off; give the run a longer --duration",
            outcome.unfinished
        )));
    }
    Ok(())
}

/// Overwrites the line of progress.
fn show(line: &str) {
    const CLEAR: &str = "\r\x1b[K";
    let mut stderr = io::stderr();
    let columns = terminal::columns_of(&stderr).unwrap_or(200);
    let line: String = line.chars().take(columns.saturating_sub(1)).collect();
    drop(write!(stderr, "{CLEAR}{line}"));
    drop(stderr.flush());
}

/// SIGINT and SIGTERM end the run with its figures; a second one ends the program at once.
fn stop_on_interrupt(stop: StopSignal) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let runtime = runtime.map_err(Failure::machine("start the signal handlers"))?;
    // Signals count from here on, whenever the thread gets to wait for them.
    let interrupts = {
        let _inside = runtime.enter();
        signal(SignalKind::interrupt()).and_then(|one| Ok((one, signal(SignalKind::terminate())?)))
    };
    let (mut interrupts, mut ends) = interrupts.map_err(Failure::machine("start the signal handlers"))?;
    let waiting = move || {
        runtime.block_on(async {
            tokio::select! { _ = interrupts.recv() => {}, _ = ends.recv() => {} }
            stop.stop();
            tokio::select! { _ = interrupts.recv() => {}, _ = ends.recv() => {} }
            terminal::complain("penstock: interrupted");
            leave();
        });
    };
    let spawned = std::thread::Builder::new().name("signals".to_owned()).spawn(waiting);
    spawned.map(drop).map_err(Failure::machine("start the signal handlers"))
}

#[expect(clippy::exit, reason = "a second signal ends the program at once")]
fn leave() {
    std::process::exit(1);
}

/// The duration of a run without --duration and --requests.
const DURATION: Duration = Duration::from_secs(10);
