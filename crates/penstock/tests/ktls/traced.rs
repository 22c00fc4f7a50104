//! The program's system calls, as strace sees them.

use std::fs;

use penstock_testkit::{Client, Strace};

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
    // One file per thread (`-ff`), so that no call is split by another thread's.
    let traces = server.directory().join("traces");
    fs::create_dir(&traces).unwrap();
    let strace = Strace::attach(&server, &["-ff", "-y", "-s", "0"], &traces.join("thread"));
    let strace = strace.expect("the guest has strace");
    content.assert_range(0..BYTES, &Client::tls(&server).get("/traced.mp4").body);
    strace.detach();
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
