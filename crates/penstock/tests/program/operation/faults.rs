//! A configuration that is wrong from the start: exit 2, and for each fault its line and what to write instead.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use penstock_testkit::Certificates;

/// Ends with what the program said: its exit code and its lines on stderr, without the directory in front.
fn serve(directory: &Path, text: &str) -> (Option<i32>, Vec<String>) {
    let file = directory.join("edge.yaml");
    fs::write(&file, text).unwrap();
    let mut command = Command::new(penstock_testkit::program());
    command.args(["serve", "--log-level", "error", "-c"]).arg(&file).env_clear().stdin(Stdio::null());
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "");
    let prefix = format!("{}/", directory.display());
    let said = String::from_utf8(output.stderr).unwrap().replace(&prefix, "");
    (output.status.code(), said.lines().map(str::to_owned).collect())
}

const GOOD: &str = "\
workers: 1
listeners:
- {address: 127.0.0.1:0, tls: true}
tls:
  certificates:
  - {chain: ec.crt, key: ec.key}
sites:
- origin: {directory: root}
";

#[test]
fn each_fault_has_its_line_and_says_what_to_write_instead() {
    let directory = penstock_testkit::disk_directory();
    Certificates::make(directory.path());
    fs::create_dir(directory.path().join("root")).unwrap();
    fs::write(directory.path().join("empty.crt"), "").unwrap();
    fs::write(directory.path().join("root/file"), "").unwrap();
    for (from, to, fault) in [
        ("workers: 1", "workrs: 1", "edge.yaml:1: unknown key `workrs`; write `workers`"),
        (
            "tls: true}",
            "tls: true, send_buffer: 4M}",
            "edge.yaml:3: send_buffer: `M` is not a unit of size; write 4MiB",
        ),
        ("chain: ec.crt", "chain: gone.crt", "edge.yaml:6: "),
        ("key: ec.key", "key: other.key", "edge.yaml:6: "),
        ("chain: ec.crt", "chain: empty.crt", "edge.yaml:6: "),
        ("directory: root", "directory: nowhere", "edge.yaml:8: "),
        ("directory: root", "directory: root/file", "edge.yaml:8: "),
        (
            "127.0.0.1:0",
            "localhost:443",
            "edge.yaml:3: address: `localhost:443` is not an IP address with a port; write ",
        ),
        (
            "workers: 1",
            "workers: 1\nlimits: {idle_timeout: 75}",
            "edge.yaml:2: idle_timeout: `75` is a time without a unit; write ",
        ),
    ] {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD, "{from}");
        let (code, said) = serve(directory.path(), &text);
        assert_eq!(code, Some(2), "{to}: {said:#?}");
        assert!(said.iter().any(|line| line.starts_with(fault)), "{to}: {said:#?}");
        assert!(said.iter().all(|line| line.contains("; ")), "what to do about it is missing: {said:#?}");
    }
}

#[test]
fn an_address_written_twice_is_told_where_it_stands_already() {
    let directory = penstock_testkit::disk_directory();
    fs::create_dir(directory.path().join("root")).unwrap();
    let text = "listeners:\n- address: 127.0.0.1:4433\n- address: 127.0.0.1:4433\nsites: [{origin: {directory: root}}]\n";
    let wanted = "edge.yaml:3: address: 127.0.0.1:4433 is already used on line 2; write another port or remove one of them";
    assert_eq!(serve(directory.path(), text), (Some(2), vec![wanted.to_owned()]));
}

#[test]
fn a_port_that_cannot_be_had_is_said_with_its_line_and_nothing_is_left_running() {
    let directory = penstock_testkit::disk_directory();
    fs::create_dir(directory.path().join("root")).unwrap();
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = stranger.local_addr().unwrap();
    for (address, wanted, part) in [
        (taken.to_string(), 2, "another program has this port"),
        // It may come with the network.
        (
            "192.0.2.1:443".to_owned(),
            1,
            "no interface of this machine has this address: add it, or write freebind: true",
        ),
    ] {
        let text = format!(
            "listeners:\n- address: 127.0.0.1:0\n- address: {address}\nsites: [{{origin: {{directory: root}}}}]\n"
        );
        let (code, said) = serve(directory.path(), &text);
        assert_eq!(code, Some(wanted), "{said:#?}");
        assert!(said[0].starts_with(&format!("edge.yaml:3: cannot listen on {address}: ")), "{said:#?}");
        assert!(said[0].contains(part), "{said:#?}");
    }
}

#[test]
fn a_port_of_another_penstock_is_taken_too() {
    // Both would share it silently, since each worker opens its listeners with SO_REUSEPORT.
    let first = penstock_testkit::Setup::new().start();
    let directory = penstock_testkit::disk_directory();
    fs::create_dir(directory.path().join("root")).unwrap();
    let address = first.http();
    let text = format!("listeners: [{{address: {address}}}]\nsites: [{{origin: {{directory: root}}}}]\n");
    let (code, said) = serve(directory.path(), &text);
    assert_eq!(code, Some(2), "{said:#?}");
    assert!(said[0].starts_with(&format!("edge.yaml:1: cannot listen on {address}: ")), "{said:#?}");
}
