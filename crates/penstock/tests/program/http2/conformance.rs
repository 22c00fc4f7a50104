//! h2spec, which `scripts/install-needs test` builds, given Go.

use std::path::Path;
use std::time::Duration;

use penstock_testkit::{Setup, Tool};

const BUILT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/h2spec");

/// The cases of RFC 7540 that RFC 9113 no longer has, by their section and title.
const WITHDRAWN: [(&str, &str); 2] = [
    // Priorities of RFC 7540 are ignored (RFC 9113 §5.3.2).
    ("5.3.1", "Sends HEADERS frame that depend on itself"),
    ("5.3.1", "Sends PRIORITY frame that depend on itself"),
];

#[test]
fn h2spec_finds_no_fault() {
    if !Path::new(BUILT).exists() {
        penstock_testkit::not_tested("the cases of h2spec; scripts/install-needs test builds it, given Go");
        return;
    }
    // An origin whose responses are not cached, and a directory, which has its answers at once.
    let origin = crate::cached::passing::echo_with("Cache-Control: no-store\r\n");
    let listeners = || Setup::new().listeners(&["tls: true", "protocols: [h2]"]);
    let (_memory, forwarding) = super::before(&origin, listeners());
    let directory = listeners().start();
    directory.write("index.html", "hello");
    for server in [&forwarding, &directory] {
        let tls = server.https().port().to_string();
        let plain = server.http().port().to_string();
        for options in [&["--port", &tls, "--tls", "--insecure"][..], &["--port", &plain]] {
            // A response may leave before the fault of its request has arrived. What is a fault of the server fails each time.
            let mut fault = None;
            for _ in 0..3 {
                fault = run(options).err();
                if fault.is_none() {
                    break;
                }
            }
            assert!(fault.is_none(), "{options:?}: {}", fault.unwrap_or_default());
        }
    }
}

/// Runs all cases.
///
/// # Errors
/// What h2spec said, if a case failed that RFC 9113 has.
fn run(options: &[&str]) -> Result<(), String> {
    let tool = Tool::new(BUILT).args(["--strict", "--timeout", "5"]).args(options);
    let said = tool.time_limit(Duration::from_secs(300)).run().text();
    let summary = said.lines().last().unwrap_or_default();
    let numbers: Vec<usize> = summary.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [tests, _, skipped, failed] = numbers[..] else { panic!("no summary: {said}") };
    assert!(tests > 140 && skipped <= 1, "{summary}");
    let found = failures(&said);
    assert_eq!(found.len(), failed, "{said}");
    if found.iter().all(|failure| WITHDRAWN.contains(failure)) { Ok(()) } else { Err(said) }
}

/// The cases that failed, by section and title.
fn failures(said: &str) -> Vec<(&str, &str)> {
    let (_, list) = said.split_once("Failures:").unwrap_or_default();
    let mut section = "";
    let mut found = Vec::new();
    for line in list.lines().map(str::trim) {
        if let Some((number, _)) = line.split_once(". ").filter(|(number, _)| is_section(number)) {
            section = number;
        } else if let Some((_, title)) = line.strip_prefix("\u{d7} ").and_then(|case| case.split_once(": ")) {
            found.push((section, title));
        }
    }
    found
}

fn is_section(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}
