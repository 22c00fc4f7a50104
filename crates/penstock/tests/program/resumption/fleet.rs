//! Servers that share ticket keys as files: rotation, garbage, and what is left when the files are gone.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use penstock_testkit::{Certificates, Server, Setup, Tool, until};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::{BODY, start};

const VERSIONS: [&str; 2] = ["-tls1_2", "-tls1_3"];

/// A directory of ticket keys that servers share, and sessions that a client keeps.
struct Fleet {
    directory: TempDir,
}

impl Fleet {
    fn new() -> Self {
        let fleet = Self { directory: penstock_testkit::disk_directory() };
        fs::create_dir(fleet.keys()).unwrap();
        fs::set_permissions(fleet.keys(), fs::Permissions::from_mode(0o700)).unwrap();
        fleet
    }

    fn keys(&self) -> std::path::PathBuf {
        self.directory.path().join("keys")
    }

    /// A server of this fleet; `options` go into the section `tickets`.
    fn setup(&self, options: &str) -> Setup {
        let keys = self.keys();
        let tickets = format!("tickets: {{directory: {}{options}}}", keys.display());
        Setup::new().tls(&format!("{}\n{tickets}", Certificates::yaml(&["ec"])))
    }

    fn server(&self, options: &str) -> Server {
        start(self.setup(options))
    }

    /// Adds a key of 80 bytes that is as old as this; its name is this byte, 16 times.
    fn add(&self, file: &str, name: u8, age: Duration) {
        self.add_bytes(file, &raw_key(name, 80), age);
    }

    fn add_bytes(&self, file: &str, bytes: &[u8], age: Duration) {
        write_key(&self.keys(), file, bytes, age);
    }

    fn session(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }
}

const HOUR: Duration = Duration::from_secs(3600);

fn raw_key(name: u8, length: u8) -> Vec<u8> {
    [vec![name; 16], (16..length).map(|byte| byte ^ name).collect()].concat()
}

/// As `penstock tickets rotate` and rsync do it: under another name first.
fn write_key(directory: &Path, file: &str, bytes: &[u8], age: Duration) {
    let temporary = directory.join(format!(".{file}.tmp"));
    fs::write(&temporary, bytes).unwrap();
    fs::set_permissions(&temporary, fs::Permissions::from_mode(0o600)).unwrap();
    let file_of_key = File::options().write(true).open(&temporary).unwrap();
    file_of_key.set_modified(SystemTime::now() - age).unwrap();
    fs::rename(&temporary, directory.join(file)).unwrap();
}

/// The word of `openssl s_client` for the session of a fetch: `New` or `Reused`.
fn fetch(server: &Server, options: &[&str]) -> String {
    fetch_with_text(server, options).0
}

/// The same, with all it says: the tickets that it was given among that, in hexadecimal digits.
fn fetch_with_text(server: &Server, options: &[&str]) -> (String, String) {
    let request = b"GET /a.mp4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let text = Tool::s_client(server).arg("-ign_eof").args(options).run_with_input(request).ok().text();
    assert!(text.contains(BODY), "{text}");
    let state = text.lines().find_map(|line| line.split_once(", TLSv1.")).unwrap_or_else(|| panic!("{text}"));
    (state.0.to_owned(), text.clone())
}

/// Whether a ticket of the key with this name lies in the file that `openssl s_client` wrote.
fn is_sealed_with(session: &str, name: u8) -> bool {
    let pem = fs::read_to_string(session).unwrap();
    let text: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let der = boring::base64::decode_block(&text).unwrap();
    der.windows(16).any(|window| window == [name; 16])
}

fn offered(server: &Server, outcome: &str) -> f64 {
    server.metrics().sum("penstock_tls_tickets_offered_total", &[&format!("outcome=\"{outcome}\"")])
}

/// Waits until tickets are sealed with the key of this name.
fn until_sealing(server: &Server, session: &str, name: u8) {
    until("the new key to seal", || {
        assert_eq!(fetch(server, &["-tls1_3", "-sess_out", session]), "New");
        is_sealed_with(session, name).then_some(())
    });
}

#[test]
fn a_ticket_of_one_machine_is_opened_by_another_in_both_versions() {
    let fleet = Fleet::new();
    fleet.add("a.key", b'a', HOUR);
    let (one, other) = (fleet.server(""), fleet.server(""));
    let session = &fleet.session("session.pem");
    for version in VERSIONS {
        assert_eq!(fetch(&one, &[version, "-sess_out", session]), "New");
        assert!(is_sealed_with(session, b'a'));
        assert_eq!(fetch(&other, &[version, "-sess_in", session]), "Reused");
    }
    assert_eq!((offered(&other, "accepted_current_key"), offered(&one, "accepted_current_key")), (2.0, 0.0));
    // One ticket for TLS 1.2, two for TLS 1.3; a resumed session of TLS 1.2 needs no other, one of TLS 1.3 gets one for the
    // one that it used up.
    let issued = |server: &Server| server.metrics().sum("penstock_tls_tickets_issued_total", &[]);
    assert_eq!((issued(&one), issued(&other)), (3.0, 1.0));
}

#[test]
fn key_files_of_each_format_seal() {
    let base64 = |name, length| boring::base64::encode_block(&raw_key(name, length)) + "\n";
    for (file, bytes, name) in [
        ("nginx-48", raw_key(b'n', 48), b'n'),
        ("nginx-80", raw_key(b'N', 80), b'N'),
        ("haproxy-48", base64(b'h', 48).into_bytes(), b'h'),
        // Of three lines HAProxy seals with the last but one.
        ("haproxy-80", [base64(b'1', 80), base64(b'2', 80), base64(b'3', 80)].concat().into_bytes(), b'2'),
    ] {
        let fleet = Fleet::new();
        fleet.add_bytes(file, &bytes, HOUR);
        let server = fleet.server("");
        let session = &fleet.session("session.pem");
        for version in VERSIONS {
            assert_eq!(fetch(&server, &[version, "-sess_out", session]), "New");
            assert!(is_sealed_with(session, name), "{file} {version}");
            assert_eq!(fetch(&server, &[version, "-sess_in", session]), "Reused", "{file} {version}");
        }
    }
}

#[test]
fn adding_a_file_rotates_and_a_ticket_of_an_old_key_is_renewed() {
    let fleet = Fleet::new();
    fleet.add("a.key", b'a', HOUR);
    let server = fleet.server(", introduction: 1s");
    let (old, new) = (&fleet.session("old.pem"), &fleet.session("new.pem"));
    let sessions = VERSIONS.map(|version| (version, format!("{old}{version}")));
    for (version, session) in &sessions {
        assert_eq!(fetch(&server, &[version, "-sess_out", session]), "New");
    }
    fleet.add("b.key", b'b', Duration::ZERO);
    until_sealing(&server, new, b'b');
    for (version, session) in &sessions {
        let (state, text) = fetch_with_text(&server, &[version, "-sess_in", session]);
        assert_eq!(state, "Reused", "{version}");
        let ticket_of_b = format!("0000 - {0}-{0}", ["62"; 8].join(" "));
        assert!(text.contains(&ticket_of_b), "{version}: {text}");
    }
    assert_eq!((offered(&server, "accepted_old_key"), offered(&server, "accepted_current_key")), (2.0, 0.0));
    assert_eq!(fetch(&server, &["-tls1_3", "-sess_in", new]), "Reused");
    assert_eq!((offered(&server, "accepted_old_key"), offered(&server, "accepted_current_key")), (2.0, 1.0));

    // Deleting a key ends it.
    fs::remove_file(fleet.keys().join("a.key")).unwrap();
    let (version, session) = &sessions[0];
    until("the key to be gone", || (fetch(&server, &[version, "-sess_in", session]) == "New").then_some(()));
    assert!(offered(&server, "unknown_key") > 0.0);
}

#[test]
fn a_fleet_resumes_while_its_keys_are_rotated() {
    let fleet = Fleet::new();
    let rotate = || {
        let penstock = Tool::penstock();
        penstock.args(["tickets", "rotate"]).arg(fleet.keys()).run().ok();
    };
    rotate();
    // Long enough for a machine that is too busy to look at its directory every second.
    let servers = [fleet.server(", introduction: 8s"), fleet.server(", introduction: 8s")];
    let load = |version: &str| {
        let penstock = Tool::penstock().args(["load", "handshakes", "--json"]);
        let penstock = penstock.args(["--insecure", "--resume", "ticket", "--tls", version]);
        let penstock = penstock.args(["--rate", "60", "--requests", "1200"]);
        let addresses =
            servers.iter().flat_map(|server| ["--address".to_owned(), server.https().to_string()]);
        penstock.args(addresses).arg("https://localhost/a.mp4").start()
    };
    let running = [load("1.2"), load("1.3")];
    let handshakes = || {
        let all = servers.iter().map(|server| server.metrics().sum("penstock_handshakes_total", &[]));
        all.sum::<f64>()
    };
    until("the load", || (handshakes() > 50.0).then_some(()));
    rotate();
    for client in running {
        // It ends with 1 if this machine was too busy to keep the pace, which is no matter here.
        let report: Value = serde_json::from_slice(&client.finish().stdout).unwrap();
        let count = |name: &str| report[name].as_f64().unwrap_or_else(|| panic!("{name} in {report:#}"));
        let (all, resumed) = (count("handshakes"), count("resumed"));
        assert_eq!(all, 1200.0, "{report:#}");
        // The first one of each version has nothing to offer.
        assert!(resumed >= 0.999 * (all - 1.0), "{resumed} of {all}: {report:#}");
    }
    // The servers saw the same, and the rotation took place meanwhile.
    let sum = |outcome: &str| servers.iter().map(|server| offered(server, outcome)).sum::<f64>();
    let accepted = sum("accepted_current_key") + sum("accepted_old_key");
    assert!(accepted >= 0.999 * 2398.0, "{accepted}");
    assert!(sum("accepted_old_key") >= 1.0);
    assert!(sum("unknown_key") <= 2.0, "{}", sum("unknown_key"));
}

#[test]
fn garbage_is_named_once_and_counted() {
    let fleet = Fleet::new();
    fleet.add("a.key", b'a', HOUR);
    let server = start(fleet.setup(", introduction: 1s").unprivileged());
    let ignored = |reason: &str| {
        server.metrics().sum("penstock_tls_ticket_files_ignored", &[&format!("reason=\"{reason}\"")])
    };
    server.expect_warning("notes.txt has no key of 48 or 80 bytes in Base64 in line 1; it is ignored");
    server.expect_warning("locked.key may not be read by this user; it is ignored");
    fs::write(fleet.keys().join("notes.txt"), "Ask Alice for the keys.").unwrap();
    let hidden = fleet.keys().join(".locked.key");
    fs::write(&hidden, raw_key(b'x', 80)).unwrap();
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o000)).unwrap();
    fs::rename(hidden, fleet.keys().join("locked.key")).unwrap();
    until("both to be counted", || {
        (ignored("not_a_key") == 1.0 && ignored("unreadable") == 1.0).then_some(())
    });
    // A key that comes later is used, and by then the directory was looked at again.
    fleet.add("b.key", b'b', Duration::ZERO);
    until_sealing(&server, &fleet.session("session.pem"), b'b');
    server.logs("notes.txt", 1);
    server.logs("locked.key", 1);
    fs::remove_file(fleet.keys().join("notes.txt")).unwrap();
    until("it to be forgotten", || (ignored("not_a_key") == 0.0).then_some(()));
}

#[test]
fn an_empty_directory_means_random_keys_until_there_is_one() {
    let fleet = Fleet::new();
    let server = fleet.server("");
    server.expect_warning("there is no ticket key in");
    let session = &fleet.session("random.pem");
    assert_eq!(fetch(&server, &["-tls1_3", "-sess_out", session]), "New");
    fleet.add("a.key", b'a', HOUR);
    until_sealing(&server, &fleet.session("session.pem"), b'a');
    assert_eq!(fetch(&server, &["-tls1_3", "-sess_in", session]), "Reused", "the random key still opens");
    assert_eq!(offered(&server, "accepted_old_key"), 1.0);
}

#[test]
fn when_the_directory_goes_away_the_last_keys_stay() {
    let fleet = Fleet::new();
    fleet.add("a.key", b'a', HOUR);
    let server = fleet.server("");
    server.expect_warning("cannot be listed");
    let session = &fleet.session("session.pem");
    fs::rename(fleet.keys(), fleet.directory.path().join("away")).unwrap();
    server.wait_for_log("the keys in use stay in use");
    for version in VERSIONS {
        assert_eq!(fetch(&server, &[version, "-sess_out", session]), "New");
        assert!(is_sealed_with(session, b'a'));
        assert_eq!(fetch(&server, &[version, "-sess_in", session]), "Reused");
    }
    fs::rename(fleet.directory.path().join("away"), fleet.keys()).unwrap();
    fleet.add("b.key", b'b', Duration::ZERO);
    until_sealing(&server, session, b'b');
    server.logs("cannot be listed", 1);
}

#[test]
fn a_reload_takes_up_another_directory() {
    let (first, second) = (Fleet::new(), Fleet::new());
    first.add("a.key", b'a', HOUR);
    second.add("b.key", b'b', HOUR);
    let server = first.server("");
    server.configure(&second.setup(""));
    server.signal(Signal::HUP);
    until_sealing(&server, &first.session("session.pem"), b'b');
}

#[test]
fn a_ticket_lives_as_long_as_its_key_is_kept_for_sure() {
    for (options, hint) in [("", 86_400), (", rotate: 1h, keep: 2", 3600), (", rotate: 1d, keep: 7", 518_400)]
    {
        let fleet = Fleet::new();
        fleet.add("a.key", b'a', Duration::ZERO);
        let server = fleet.server(options);
        let request = b"GET /a.mp4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        for version in VERSIONS {
            let client = Tool::s_client(&server).args(["-ign_eof", version]);
            let text = client.run_with_input(request).ok().text();
            let line = text.lines().find_map(|line| line.split_once("ticket lifetime hint: "));
            let given = line.and_then(|(_, rest)| rest.split(' ').next()?.parse::<u64>().ok());
            // Counted from the beginning of the handshake, which may lie a moment back.
            let given = given.unwrap_or_else(|| panic!("{version} {options}: {text}"));
            assert!(given <= hint && given + 100 > hint, "{version} {options}: {given} for {hint}");
        }
    }
}
