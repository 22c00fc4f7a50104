//! The program's system calls, as strace sees them.

use std::fs;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Client, until};
use crate::kernel::{setup, with_everything};
use crate::modules::{assert_kernel_sealed, file, start_on};

/// Calls on the body's descriptor that move none of its bytes into this program.
const HARMLESS: [&str; 12] = [
    "close(",
    "openat(",
    "openat2(",
    "fstat(",
    "fstatfs(",
    "newfstatat(",
    "statx(",
    "fcntl(",
    "lseek(",
    "fadvise64(",
    "ioctl(",
    "sendfile(",
];

pub(crate) fn no_copies() {
    const BYTES: u64 = 5_000_011;
    with_everything();
    let (server, before) = start_on(&setup("on"));
    let content = file("traced.mp4", BYTES);
    // One file per thread, so that no call is split by another thread's.
    let traces = server.directory().join("traces");
    fs::create_dir(&traces).unwrap();
    let pid = server.pid().as_raw_nonzero().to_string();
    let mut strace = Command::new("strace")
        .args(["-ff", "-y", "-s", "0", "-p", &pid, "-o"])
        .arg(traces.join("thread"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("strace to watch every thread", || all_traced(&pid).then_some(()));
    content.assert_range(0..BYTES, &Client::tls(&server).get("/traced.mp4").body);
    kill_process(Pid::from_child(&strace), Signal::INT).unwrap();
    strace.wait().unwrap();
    assert_kernel_sealed(&server, before, 1);

    let texts =
        fs::read_dir(&traces).unwrap().map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    let text: String = texts.collect();
    let about_body: Vec<&str> = text.lines().filter(|line| line.contains("traced.mp4")).collect();
    let mut sent = 0;
    for call in about_body {
        // Whether a page is in memory is asked by reading one byte of it without waiting.
        let residency = call.starts_with("preadv2(") && call.contains("RWF_NOWAIT") && call.ends_with("= 1");
        let refused = call.starts_with("preadv2(") && call.contains("= -1 ");
        assert!(
            residency || refused || HARMLESS.iter().any(|name| call.starts_with(name)),
            "the body's bytes came into the program: {call}"
        );
        if call.starts_with("sendfile(") {
            let (_, result) = call.rsplit_once("= ").unwrap();
            sent += result.split(' ').next().unwrap().parse::<i64>().unwrap().max(0);
        }
    }
    assert_eq!(u64::try_from(sent).unwrap(), BYTES, "sendfile moved another number of bytes");
}

/// Whether every thread of the process has a tracer.
fn all_traced(pid: &str) -> bool {
    let traced = |entry: fs::DirEntry| {
        let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
    };
    fs::read_dir(format!("/proc/{pid}/task")).unwrap().all(|entry| traced(entry.unwrap()))
}
