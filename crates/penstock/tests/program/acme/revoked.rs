//! Certificates that the authority has revoked.

use std::fs::File;
use std::path::{Path, PathBuf};

use penstock_testkit::{Server, Tool, until};
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;

use super::pebble::Pebble;
use super::{Ports, files_below, have_issued, orders, shown, status, wait_for_certificate};

const REVOKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/acme/revoke.py");

/// The file of the certificate of `a.example`, with its key.
fn stored(storage: &Path) -> PathBuf {
    files_below(storage).into_iter().find(|file| file.ends_with("a.example.pem")).unwrap()
}

/// Has the authority revoke the certificate of `a.example`, as a client that has its key.
fn revoke(pebble: &Pebble, storage: &Path) {
    let tool = Tool::new("python3").arg(REVOKE).arg(pebble.directory_url());
    tool.arg(pebble.root().with_file_name("authority.crt")).arg(stored(storage)).run().ok();
}

#[test]
fn a_revoked_certificate_is_replaced_once_the_authority_says_so() {
    let ports = Ports::reserve();
    let Some(pebble) = ports.pebble() else { return };
    let pebble = pebble.start();
    let mut server = ports.setup(&pebble.section("storage: acme")).start();
    let first = wait_for_certificate(&server, "a.example", "");
    revoke(&pebble, &server.directory().join("acme"));
    // A start asks the authority; without one it is asked when it has said.
    server.start_again(Signal::TERM);
    server.wait_for_log(
        "acme: a.example: the CA wants the certificate to be replaced at once; it may have revoked it",
    );
    let second = wait_for_certificate(&server, "a.example", &first);
    until("the state", || (status(&server)["names"][0]["state"] == "valid").then_some(()));
    // The new one is not revoked.
    server.start_again(Signal::TERM);
    until("the state", || (status(&server)["names"][0]["state"] == "valid").then_some(()));
    assert_eq!(orders(&server, "issued"), 0.0);
    assert_eq!(shown(&server, "a.example"), second);
}

#[test]
fn a_revoked_certificate_that_cannot_be_replaced_is_reported_with_both_reasons() {
    let ports = Ports::reserve();
    let Some(pebble) = ports.pebble() else { return };
    let pebble = pebble.proving_each_time().start();
    let setup = ports.setup(&pebble.section("storage: acme"));
    let mut server = setup.start();
    let first = wait_for_certificate(&server, "a.example", "");
    revoke(&pebble, &server.directory().join("acme"));
    // A command that sets no record.
    let section = pebble.section("storage: acme, challenge: dns-01, command: /bin/true");
    server.configure(&ports.setup(&section));
    server.start_again(Signal::TERM);
    server.tolerate_warning("acme: no certificate for a.example: the CA says: ");
    until("a rejection", || (orders(&server, "rejected") >= 1.0).then_some(()));
    until("the state", || (status(&server)["names"][0]["state"] == "failing").then_some(()));
    let error = status(&server)["names"][0]["error"].to_string();
    assert!(error.contains("TXT") && error.contains("it may have revoked it"), "{error}");
    assert_eq!(shown(&server, "a.example"), first, "clients get it still");
    server.configure(&setup);
    server.start_again(Signal::TERM);
    wait_for_certificate(&server, "a.example", &first);
}

#[test]
fn three_servers_with_one_storage_replace_a_revoked_certificate_once() {
    let first = Ports::reserve();
    let Some(pebble) = first.pebble() else { return };
    let pebble = pebble.start();
    let storage = pebble.records().with_file_name("shared");
    let section = pebble.section(&format!("storage: {}", storage.display()));
    let mut servers: Vec<Server> =
        [&first, &Ports::reserve(), &Ports::reserve()].map(|ports| ports.setup(&section).start()).into();
    let old = wait_for_certificate(&servers[0], "a.example", "");
    let state = |server: &Server, state: &str| {
        until(state, || (status(server)["names"][0]["state"] == state).then_some(()));
    };
    servers.iter().for_each(|server| state(server, "valid"));
    // All of them see the old one, and wait for the right to order.
    let lock = File::open(storage.join("lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    revoke(&pebble, &storage);
    for server in &mut servers {
        server.start_again(Signal::TERM);
        state(server, "waiting");
    }
    drop(lock);
    for server in &servers {
        wait_for_certificate(server, "a.example", &old);
        state(server, "valid");
    }
    have_issued(&servers, 1.0);
}
