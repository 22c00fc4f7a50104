//! The program's system calls, as strace sees them.

use std::fs;

use penstock_testkit::origin::{Origin, answer};
use penstock_testkit::{Client, Content, Server, Strace};

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
    let text = traced(&server, || {
        content.assert_range(0..BYTES, &Client::tls(&server).get("/traced.mp4").body);
    });
    assert_kernel_sealed(&server, before, 1);
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

/// The calls of all threads of the server while `ask` runs.
pub(crate) fn traced(server: &Server, ask: impl FnOnce()) -> String {
    // One file per thread (`-ff`), so that no call is split by another thread's.
    let traces = server.directory().join("traces");
    fs::create_dir(&traces).unwrap();
    let strace = Strace::attach(server, &["-ff", "-y", "-s", "0"], &traces.join("thread"));
    let strace = strace.expect("the guest has strace");
    ask();
    strace.detach();
    fs::read_dir(&traces).unwrap().map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect()
}

/// The results of calls with these names on sockets together.
fn bytes_of(trace: &str, names: &[&str]) -> u64 {
    let named = trace.lines().filter(|line| {
        line.contains("<socket:") && line.split('(').next().is_some_and(|name| names.contains(&name))
    });
    named.filter_map(|line| line.rsplit_once("= ")?.1.split(' ').next()?.parse::<u64>().ok()).sum()
}

pub(crate) fn relayed_body() {
    const BYTES: u64 = 5_000_011;
    /// Heads, records of the handshake, and what of the body comes with its head.
    const OTHERS: u64 = 24 * 1024;
    with_everything();
    let content = Content::new(BYTES, BYTES);
    let bytes = content.all();
    let origin = Origin::start(move |_, _, stream| answer(stream, "200 OK", "", &bytes));
    let sites = format!("- origin: {{http: [\"{}\"], cache: off}}", origin.url());
    let (server, before) = start_on(&setup("on").sites(&sites));
    let text = traced(&server, || {
        content.assert_range(0..BYTES, &Client::tls(&server).get("/film.mp4").body);
    });
    assert_kernel_sealed(&server, before, 1);
    // Into the pipe and out of it.
    let spliced = bytes_of(&text, &["splice"]);
    assert!(spliced >= 2 * (BYTES - OTHERS), "{spliced} of {}:\n{text}", 2 * BYTES);
    let read = bytes_of(&text, &["read", "readv", "recvfrom", "recvmsg"]);
    let written = bytes_of(&text, &["write", "writev", "sendto", "sendmsg"]);
    assert!(read < OTHERS && written < OTHERS, "{read} bytes read, {written} written:\n{text}");
}
