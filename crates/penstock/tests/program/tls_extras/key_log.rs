//! The key log file, compared with what the client wrote down.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use penstock_testkit::{Certificates, Setup, Tool, until};

#[test]
fn the_key_log_has_every_secret_that_the_client_has_and_is_for_its_owner_only() {
    let tls = format!("{}\nkey_log: server-keys.txt", Certificates::yaml(&["ec", "rsa"]));
    let server = Setup::new().tls(&tls).start();
    server.expect_warning("key_log: a reader of");
    let (ours, theirs) =
        (server.directory().join("server-keys.txt"), server.directory().join("client-keys.txt"));
    assert_eq!(fs::metadata(&ours).unwrap().permissions().mode() & 0o777, 0o600);
    for version in ["-tls1_2", "-tls1_3"] {
        Tool::s_client(&server).arg(version).arg("-keylogfile").arg(&theirs).run().ok();
    }
    let theirs = fs::read_to_string(theirs).unwrap();
    let wanted: Vec<&str> = theirs.lines().filter(|line| !line.starts_with('#')).collect();
    for label in [
        "CLIENT_RANDOM",
        "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
        "SERVER_HANDSHAKE_TRAFFIC_SECRET",
        "CLIENT_TRAFFIC_SECRET_0",
        "SERVER_TRAFFIC_SECRET_0",
        "EXPORTER_SECRET",
    ] {
        let has = wanted.iter().any(|line| line.split(' ').next() == Some(label));
        assert!(has, "the client has no {label}:\n{theirs}");
    }
    // The client may leave before the server has written its last line.
    until("every secret of the client in the key log of the server", || {
        let ours = fs::read_to_string(&ours).unwrap();
        wanted.iter().all(|line| ours.lines().any(|other| other.eq_ignore_ascii_case(line))).then_some(())
    });
}
