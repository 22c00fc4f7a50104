//! Boots the guest with this very program inside.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::runner::{Case, chosen};

/// The kernel as a program, of Debian's package user-mode-linux.
const KERNEL: &str = "/usr/bin/linux";
const NEEDED: [(&str, &str); 3] =
    [(KERNEL, "user-mode-linux"), ("/usr/sbin/modprobe", "kmod"), ("/usr/bin/strace", "strace")];
const INIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/guest/init");
/// Printed by the guest's first process; what the kernel says before is of no interest.
const MARKER: &str = "-- guest:";
/// Printed by user-mode Linux on processors whose floating-point state is larger than it knows, such as those with AMX: it
/// cannot set the state of a process there (ptrace fails with EFAULT).
const UNSUPPORTED_PROCESSOR: &str = "ptrace set fp regs failed";
/// The guest takes some five minutes of one core, and other tests run beside it.
const GUEST_DEADLINE: Duration = Duration::from_secs(1800);
/// Set by `scripts/rust-tests`, which starts the guest by itself, beside the other tests.
const STARTED_APART: &str = "PENSTOCK_GUEST_APART";

/// Runs the cases in a guest. A machine without its programs is a failure in CI, and a loud warning elsewhere.
pub(crate) fn boot(cases: &[Case]) -> ExitCode {
    let chosen = chosen(cases);
    if std::env::args().any(|argument| argument == "--list") {
        chosen.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    if std::env::var_os(STARTED_APART).is_some() {
        println!("\nthe tests of the guest run apart");
        return ExitCode::SUCCESS;
    }
    if chosen.is_empty() {
        println!("\nrunning 0 tests");
        return ExitCode::SUCCESS;
    }
    let missing: Vec<&str> =
        NEEDED.iter().filter(|(file, _)| !Path::new(file).exists()).map(|(_, package)| *package).collect();
    if !missing.is_empty() {
        println!(
            "\nNOT TESTED: sending by the kernel (kTLS). It takes: apt-get install {}",
            missing.join(" ")
        );
        return if std::env::var_os("CI").is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    let directory = penstock_testkit::disk_directory();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    fs::write(directory.path().join("arguments"), arguments.join(" ")).unwrap();
    std::os::unix::fs::symlink(std::env::current_exe().unwrap(), directory.path().join("program")).unwrap();
    let finished = Guest::start(directory.path()).show_until(Instant::now() + GUEST_DEADLINE);
    let result = fs::read_to_string(directory.path().join("result")).unwrap_or_default();
    match (finished, result.trim()) {
        (End::Ended, "0") => ExitCode::SUCCESS,
        (End::UnsupportedProcessor, _) => {
            println!(
                "\nNOT TESTED: sending by the kernel (kTLS). User-mode Linux does not run on this processor \
                 ({UNSUPPORTED_PROCESSOR}); make test-ktls-stock runs the same tests in QEMU.\n"
            );
            ExitCode::SUCCESS
        }
        (End::Ended, "") => {
            println!("the guest ended without a result");
            ExitCode::FAILURE
        }
        (End::Ended, _) => ExitCode::FAILURE,
        (End::TimedOut, _) => {
            println!("the guest did not end in {GUEST_DEADLINE:?}");
            ExitCode::FAILURE
        }
    }
}

/// How a guest ended.
enum End {
    Ended,
    TimedOut,
    /// User-mode Linux does not run on this processor.
    UnsupportedProcessor,
}

struct Guest {
    child: Child,
    lines: Receiver<String>,
}

impl Guest {
    fn start(directory: &Path) -> Self {
        let mut child = Command::new(KERNEL)
            .args(["mem=1G", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw"])
            .arg(format!("init={}", fs::canonicalize(INIT).unwrap().display()))
            .args(["con=null", "con0=fd:0,fd:1", "quiet"])
            .arg(format!("PENSTOCK_GUEST={}", directory.display()))
            .arg("PENSTOCK_MODULES=/usr/lib/uml/modules")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let console = child.stdout.take().unwrap();
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(console).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// Prints the guest's output until it ends or the deadline passes.
    fn show_until(mut self, deadline: Instant) -> End {
        let mut before = Vec::new();
        let mut begun = false;
        let mut end = loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if begun || line.starts_with(MARKER) => {
                    begun = true;
                    println!("{line}");
                }
                Ok(line) => before.push(line),
                Err(RecvTimeoutError::Disconnected) => break End::Ended,
                Err(RecvTimeoutError::Timeout) => break End::TimedOut,
            }
        };
        if !begun && before.iter().any(|line| line.contains(UNSUPPORTED_PROCESSOR)) {
            end = End::UnsupportedProcessor;
        } else if !begun {
            println!("the guest did not start. Its output:\n{}", before.join("\n"));
        }
        // All of the guest's processes are threads of its kernel, in a group of their own.
        let _gone_already = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        self.child.wait().unwrap();
        end
    }
}
