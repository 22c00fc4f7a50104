//! How an edge reaches the store and is let in: passwords, sockets, TLS.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use penstock_testkit::{Certificates, ReservedAddress, Server, Setup, Tool};

use super::sessions::{resume, stored};
use super::{Fleet, serving};

const SHARED: &str = "session_cache: {valkey: true}";

/// A session of one edge is resumed by the other.
fn share(fleet: &Fleet, one: &Server, other: &Server) {
    let session = fleet.session("session");
    stored(one, &session);
    assert_eq!(resume(other, &session), "Reused");
}

/// The edge says why it cannot use the store, and goes on without.
fn is_refused(setup: &Setup, why: &str) {
    let server = setup.start();
    server.expect_warning("fleet: the store cannot be used");
    // A busy machine may see a store first that does not answer in time.
    let said = server.wait_for_log(why);
    assert!(said.contains("fleet: the store cannot be used"), "{said}");
    assert_eq!(server.metrics().sum("penstock_fleet_up", &[]), 0.0);
}

fn password_file(fleet: &Fleet, name: &str, password: &str) -> String {
    let path = fleet.path().join(name);
    fs::write(&path, format!("{password}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path.display().to_string()
}

#[test]
fn a_password_lets_in_over_tcp_and_a_socket_and_a_wrong_one_is_said() {
    let Some(outer) = Fleet::start() else { return };
    let socket = outer.path().join("socket");
    let fleet = Fleet::with(&["--requirepass", "p@ss", "--unixsocket", socket.to_str().unwrap()]);
    let fleet = fleet.unwrap();
    let (address, socket) = (fleet.store.address(), socket.display());
    let file = password_file(&fleet, "word", "p@ss");
    let in_url = serving(&fleet.setup_at(&format!("redis://:p%40ss@{address}/1"), "a", SHARED));
    let keys = format!("valkey: \"redis://default@{address}/1\", password_file: {file}, deadline: 1s");
    let in_file = serving(&fleet.setup_with(&keys, "b", SHARED));
    share(&fleet, &in_url, &in_file);
    let keys = format!("valkey: \"unix://{socket}\", password_file: {file}, deadline: 1s");
    let sockets = ["c", "d"].map(|name| serving(&fleet.setup_with(&keys, name, SHARED)));
    share(&fleet, &sockets[0], &sockets[1]);
    is_refused(&fleet.setup_at(&format!("redis://:wrong@{address}/1"), "e", SHARED), "Password");
    is_refused(&fleet.setup_at(&format!("unix://{socket}"), "f", SHARED), "NOAUTH");
}

#[test]
fn a_user_with_the_rights_that_the_documentation_names_is_sufficient() {
    let Some(fleet) = Fleet::start() else { return };
    let text = include_str!("../../../../../docs/fleet.md");
    let commands =
        text.split_once("these commands only: `").and_then(|(_, rest)| rest.split_once('`')).unwrap().0;
    let rights: Vec<String> =
        commands.split(' ').map(|command| format!("+{}", command.to_lowercase())).collect();
    let user = ["ACL", "SETUSER", "edge", "on", ">word", "~penstock:*"];
    let user: Vec<&str> = user.into_iter().chain(rights.iter().map(String::as_str)).collect();
    assert_eq!(fleet.store.command(&user), "OK\n");
    let shared = format!("{SHARED}\ntickets: {{valkey: true}}\nearly_data: {{register: valkey}}");
    let url = format!("redis://edge:word@{}", fleet.store.address());
    let edges = ["a", "b"].map(|name| serving(&fleet.setup_at(&url, name, &shared)));
    share(&fleet, &edges[0], &edges[1]);
    let file = |edge: &Server| edge.directory().join("penstock.yaml");
    let purge =
        Tool::penstock().args(["cache", "purge", "--tag", "film", "--fleet", "-c"]).arg(file(&edges[0]));
    assert_eq!(purge.run().ok().text(), "purged 0 objects\napplied by 2 of 2 edges\n");
    let revoke = Tool::penstock().args(["revoke", "viewer", "--expires", "1h", "--fleet", "-c"]);
    assert_eq!(revoke.arg(file(&edges[0])).run().ok().text(), "revoked 1 id\napplied by 2 of 2 edges\n");
    let doctor = Tool::penstock().args(["doctor", "--quick", "-c"]).arg(file(&edges[1])).run().ok().text();
    assert!(doctor.contains("0 s ahead of this machine's"), "{doctor}");
    for edge in &edges {
        let refused = edge.metrics().sum("penstock_fleet_operations_total", &["outcome=\"refused\""]);
        assert_eq!(refused, 0.0);
    }
}

/// A fleet whose store also listens with TLS, at the address, with the certificate `NAME.crt` of `directory`.
fn with_tls(directory: &Path, name: &str) -> Option<(Fleet, ReservedAddress)> {
    let address = ReservedAddress::reserve();
    let file = |end: &str| directory.join(format!("{name}.{end}")).to_str().unwrap().to_owned();
    let authority = directory.join("authority.crt");
    let options = [
        "--tls-port",
        &address.address().port().to_string(),
        "--tls-cert-file",
        &file("crt"),
        "--tls-key-file",
        &file("key"),
        "--tls-ca-cert-file",
        authority.to_str().unwrap(),
        "--tls-auth-clients",
        "no",
    ];
    Some((Fleet::with(&options)?, address))
}

#[test]
fn a_store_with_tls_is_used_if_its_certificate_is_for_its_name_and_of_the_authority() {
    let (directory, strangers) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let certificates = Certificates::make(directory.path());
    let stranger = Certificates::make(strangers.path());
    let Some((fleet, address)) = with_tls(directory.path(), "ec") else { return };
    let setup = |fleet: &Fleet, address: &ReservedAddress, certificates: &Certificates, name: &str| {
        let authority = certificates.authority().display().to_string();
        let keys = format!("valkey: \"rediss://{address}\", ca: {authority}, deadline: 1s");
        fleet.setup_with(&keys, name, SHARED)
    };
    let edges = ["a", "b"].map(|name| serving(&setup(&fleet, &address, &certificates, name)));
    share(&fleet, &edges[0], &edges[1]);
    is_refused(&setup(&fleet, &address, &stranger, "c"), "certificate");
    let (fleet, address) = with_tls(directory.path(), "other").unwrap();
    is_refused(&setup(&fleet, &address, &certificates, "d"), "certificate");
}
