//! Frames of HTTP/2 in records that the kernel seals.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use penstock_testkit::frames::{DATA, END_STREAM, Peer, RST_STREAM, get, window};
use penstock_testkit::{Server, Tool, until};

use crate::bodies::{TLS12, TLS13};
use crate::kernel::{ROOT, setup, statistics, with_everything};
use crate::modules::{assert_kernel_sealed, file, start_on};
use crate::traced::traced;

fn start() -> (Server, u64) {
    with_everything();
    start_on(&setup("on").listeners(&["tls: true"]))
}

fn curl(server: &Server) -> Tool {
    Tool::curl(server).args(["--http2", "--fail"])
}

pub(crate) fn every_version_and_cipher() {
    let (server, before) = start();
    // Around small content, which is copied, and the sizes of frames and batches.
    let files = [0, 1, 4096, 4097, 16_375, 16_376, 65_536, 700_001]
        .map(|len| (server.url(&format!("/{len}.mp4")), file(&format!("{len}.mp4"), len)));
    let tls12 = TLS12.map(|cipher| ["--tls-max", "1.2", "--ciphers", cipher]);
    let tls13 = TLS13.map(|(_, cipher)| ["--tlsv1.3", "--http2", "--tls13-ciphers", cipher]);
    for options in tls12.into_iter().chain(tls13) {
        // On one connection.
        let urls = files.iter().map(|(url, _)| url.as_str());
        let body = curl(&server).args(options).args(urls).run().ok().stdout;
        let mut rest = &body[..];
        for (_, content) in &files {
            let (own, behind) = rest.split_at(usize::try_from(content.len).unwrap());
            content.assert_range(0..content.len, own);
            rest = behind;
        }
        assert!(rest.is_empty());
    }
    assert_kernel_sealed(&server, before, 6);
}

pub(crate) fn many_streams() {
    let (server, before) = start();
    let files: Vec<_> = [300_000, 100, 2_000_003, 5_000, 700_001, 16_384]
        .iter()
        .map(|len| (format!("many{len}.mp4"), file(&format!("many{len}.mp4"), *len)))
        .collect();
    let mut all = curl(&server).args(["--parallel", "--write-out", "%{num_connects} "]);
    for (name, _) in &files {
        let path = server.directory().join(name);
        all = all.arg(server.url(&format!("/{name}"))).arg("--output").arg(path);
    }
    let told = all.run().ok().stdout;
    for (name, content) in &files {
        content.assert_range(0..content.len, &fs::read(server.directory().join(name)).unwrap());
    }
    let connections = String::from_utf8(told).unwrap();
    let connections = connections.split_whitespace().map(|count| count.parse::<u64>().unwrap()).sum();
    assert_kernel_sealed(&server, before, connections);
}

pub(crate) fn traced_frames() {
    const BYTES: u64 = 5_000_011;
    let (server, before) = start();
    let content = file("traced2.mp4", BYTES);
    let url = server.url("/traced2.mp4");
    let text = traced(&server, || {
        content.assert_range(0..BYTES, &curl(&server).arg(&url).run().ok().stdout);
    });
    assert_kernel_sealed(&server, before, 1);
    let results = |name: &str| -> Vec<u64> {
        let calls = text.lines().filter(|line| line.starts_with(name) && line.contains("<socket:"));
        calls.filter_map(|line| line.rsplit_once("= ")?.1.split(' ').next()?.parse().ok()).collect()
    };
    // What a full socket does not take of a batch is copied, and leaves by `sendto`.
    let batches = results("sendmsg(");
    let sent: u64 = batches.iter().sum();
    assert!(sent > BYTES / 2, "sendmsg sent {sent} bytes of {BYTES}");
    assert!(sent / batches.len() as u64 > 20_000, "less than two frames in a call: {batches:?}");
    let read = text.lines().find(|line| {
        line.starts_with("pread") && line.contains("traced2.mp4") && !line.contains("RWF_NOWAIT")
    });
    assert_eq!(read, None, "the body's bytes came into the program");
}

pub(crate) fn slow_client() {
    let (server, before) = start();
    let files = ["slow1.mp4", "slow2.mp4"].map(|name| (name, file(name, 3_000_017)));
    let mut all = curl(&server).args(["--parallel", "--limit-rate", "1M"]);
    for (name, _) in &files {
        all = all.arg(server.url(&format!("/{name}"))).arg("--output").arg(server.directory().join(name));
    }
    let slow = all.start();
    // Others are served meanwhile.
    let quick = file("quick.mp4", 700_001);
    let url = server.url("/quick.mp4");
    quick.assert_range(0..quick.len, &curl(&server).arg(&url).run().ok().stdout);
    slow.finish().ok();
    for (name, content) in &files {
        content.assert_range(0..content.len, &fs::read(server.directory().join(name)).unwrap());
    }
    let slow_and_quick = statistics().opened_software - before;
    assert_kernel_sealed(&server, before, slow_and_quick);
    assert!((2..=3).contains(&slow_and_quick), "curl may open one for each of its URLs: {slow_and_quick}");
}

pub(crate) fn client_that_stops() {
    with_everything();
    let limits = "minimum_rate: 16MiB, minimum_rate_grace: 1s";
    let (server, before) = start_on(&setup("on").listeners(&["tls: true"]).limits(limits));
    file("stops.mp4", 30_000_000);
    let (small, url) = (file("small.mp4", 11), server.url("/small.mp4"));
    let is_over = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_over);
    let stalled = curl(&server).arg(server.url("/stops.mp4"));
    let stalled = stalled.start_reading_slowly_until(move || seen.load(Ordering::Relaxed));
    until("the response to be given up", || {
        let short = server.metrics().sum("penstock_short_responses_total", &["reason=\"too_slow\""]);
        (short == 1.0).then_some(())
    });
    is_over.store(true, Ordering::Relaxed);
    assert_ne!(stalled.finish().code, 0, "its response was not whole");
    small.assert_range(0..small.len, &curl(&server).arg(&url).run().ok().stdout);
    assert_kernel_sealed(&server, before, 2);
    until("its state in the kernel to be free", || (statistics().open_software == 0).then_some(()));
}

pub(crate) fn truncated() {
    const INTERNAL_ERROR: u32 = 2;
    /// SETTINGS_INITIAL_WINDOW_SIZE of 2 GiB.
    const NO_LIMIT: [u8; 6] = [0, 4, 0x7f, 0xff, 0xff, 0xff];
    let (server, before) = start();
    let (doomed, other) = (file("doomed.mp4", 30_000_000), file("other.mp4", 700_001));
    let mut peer = Peer::tls(&server).open(&NO_LIMIT);
    peer.send(&[window(0, 1 << 30), get(1, "/doomed.mp4"), get(3, "/other.mp4")].concat());
    let mut bodies = [peer.expect(DATA).payload, Vec::new()];
    // More than the sockets hold is left to send.
    let shrinking = OpenOptions::new().write(true).open(Path::new(ROOT).join("doomed.mp4")).unwrap();
    shrinking.set_len(1_000_000).unwrap();
    let mut reset = None;
    loop {
        let frame = peer.receive().expect("the rest of the other stream");
        match (frame.kind, frame.stream) {
            (RST_STREAM, 1) => reset = Some(frame.code()),
            (DATA, stream) => {
                bodies[usize::try_from(stream / 2).unwrap()].extend_from_slice(&frame.payload);
                if stream == 3 && frame.flags & END_STREAM != 0 {
                    break;
                }
            }
            _ => {}
        }
    }
    assert_eq!(reset, Some(INTERNAL_ERROR));
    assert!((bodies[0].len() as u64) < doomed.len);
    doomed.assert_range(0..bodies[0].len() as u64, &bodies[0]);
    other.assert_range(0..other.len, &bodies[1]);
    peer.send(&get(5, "/other.mp4"));
    other.assert_range(0..other.len, &peer.body(5));
    assert_kernel_sealed(&server, before, 1);
    let cut = || server.metrics().sum("penstock_short_responses_total", &["reason=\"truncated\""]);
    until("the response to be counted", || (cut() == 1.0).then_some(()));
}
