//! Logs of the connections of chosen clients.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use penstock_testkit::{Server, Setup, until};
use serde_json::Value;

use super::{content, fetch, has_client, setup};

fn logged(keys: &str) -> Setup {
    setup().log(&format!("qlog: {{directory: logs, {keys}}}"))
}

/// A server whose log directory exists.
fn start(keys: &str) -> Server {
    let server = logged("clients: [192.0.2.0/24]").start();
    fs::create_dir(server.directory().join("logs")).unwrap();
    server.reload(&logged(keys));
    server
}

fn files(server: &Server) -> Vec<PathBuf> {
    let entries = fs::read_dir(server.directory().join("logs")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// The records of the only log, once it has one with this in its name.
fn records(server: &Server, name: &str) -> Vec<Value> {
    until("the log", || {
        let text = fs::read_to_string(files(server).first()?).unwrap();
        let records = text.split_terminator('\n').map(|line| line.strip_prefix('\u{1e}').unwrap());
        // The last record may be under way.
        let records: Vec<Value> = records.filter_map(|record| serde_json::from_str(record).ok()).collect();
        let is_whole =
            records.iter().any(|record| record["name"].as_str().is_some_and(|of| of.contains(name)));
        is_whole.then_some(records)
    })
}

#[test]
fn chosen_clients_have_a_log_of_their_transport_and_none_of_their_requests() {
    if !has_client() {
        return;
    }
    let server = start("clients: [127.0.0.0/8, \"2001:db8::/32\"]");
    let file = server.file("film.mp4", 200_000);
    let got = content(&server, "/film.mp4?token=private");
    assert_eq!(got, file.all());
    let names = |records: &[Value], name: &str| records.iter().filter(|one| one["name"] == name).count();
    // The log is written in pieces.
    let records = until("the log of all packets", || {
        let records = records(&server, "packet_sent");
        (names(&records, "quic:packet_sent") > 20).then_some(records)
    });
    assert!(names(&records, "quic:packet_received") > 0, "{records:?}");
    let only = files(&server).remove(0);
    assert_eq!(only.extension().unwrap(), "sqlog");
    assert_eq!(only.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(only).unwrap();
    assert!(!text.contains("private") && !text.contains("film") && !text.contains("http3:"));
}

#[test]
fn other_clients_have_no_log_and_logs_are_bounded_in_number_and_size() {
    if !has_client() {
        return;
    }
    let server = start("clients: [127.0.0.1], files: 2, file_size: 4KiB");
    server.file("film.mp4", 400_000);
    server.reload(&logged("clients: [192.0.2.1]"));
    fetch(&server, "", &["GET /film.mp4"]);
    server.reload(&logged("clients: [127.0.0.1], files: 2, file_size: 4KiB"));
    for _ in 0..4 {
        fetch(&server, "", &["GET /film.mp4"]);
    }
    until("the logs", || (files(&server).len() == 2).then_some(()));
    let lengths = || files(&server).iter().map(|file| file.metadata().unwrap().len()).collect::<Vec<_>>();
    until("their end", || lengths().iter().all(|length| *length > 2048).then_some(()));
    assert!(lengths().iter().all(|length| *length <= 4096), "{:?}", lengths());
    server.wait_for_log("log.qlog.files are made");
}

#[test]
fn a_directory_that_is_not_there_is_said_once_and_costs_no_response() {
    if !has_client() {
        return;
    }
    let server = logged("clients: [127.0.0.1]").start();
    let file = server.file("film.mp4", 100_000);
    server.expect_warning("ends early, as further ones may");
    for _ in 0..3 {
        assert_eq!(content(&server, "/film.mp4"), file.all());
    }
}
