//! `penstock doctor` on the machine that runs the tests, whatever that is.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use serde_json::Value;

use super::program::{program, run, stderr, stdout};

const UNPRIVILEGED: u32 = 65534;

fn document(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    serde_json::from_str(&stdout(output)).unwrap()
}

#[test]
fn the_table_has_every_section_and_no_colour_in_a_pipe() {
    let output = run(&["doctor"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let table = stdout(&output);
    for part in ["Kernel TLS", "Ciphers", "Sockets", "Limits", "Files", "AES-128-GCM", "tls.kernel: auto"] {
        assert!(table.contains(part), "{part} is missing:\n{table}");
    }
    assert!(!table.contains('\x1b'), "{table}");
    assert_eq!(stderr(&output), "");
}

#[test]
fn json_parses_and_every_cipher_was_measured() {
    let document = document(&run(&["doctor", "--json"]));
    assert_eq!(document["schema"], 1);
    let ciphers = document["ciphers"].as_array().unwrap();
    assert_eq!(ciphers.len(), 3);
    for cipher in ciphers {
        assert!(
            cipher["user_space_seal_bytes_per_second"].as_f64().is_some_and(|speed| speed > 0.0),
            "{cipher}"
        );
        assert!(cipher["auto"]["reason"].is_string(), "{cipher}");
    }
}

#[test]
fn quick_measures_nothing() {
    let document = document(&run(&["doctor", "--json", "--quick"]));
    for cipher in document["ciphers"].as_array().unwrap() {
        assert!(cipher["user_space_seal_bytes_per_second"].is_null(), "{cipher}");
    }
    assert!(document["findings"].as_array().unwrap().len() > 15);
}

#[test]
fn strict_is_1_exactly_when_something_could_be_better() {
    let output = run(&["doctor", "--json", "--quick", "--strict"]);
    let document: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let faults =
        document["counts"]["better"].as_u64().unwrap() + document["counts"]["problem"].as_u64().unwrap();
    assert_eq!(output.status.code(), Some(i32::from(faults > 0)));
    assert_eq!(stderr(&output).contains("could be better"), faults > 0);
}

#[test]
fn an_unprivileged_user_can_run_the_doctor() {
    // The build directory may be closed to others, so the program goes where they may read it.
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = directory.path().join("penstock");
    // Copied by another process: written by this one, it could not be run while another thread's child still holds
    // the descriptor (ETXTBSY).
    assert!(Command::new("cp").arg(program().get_program()).arg(&copy).status().unwrap().success());
    let mut command = Command::new(&copy);
    command.args(["doctor", "--json"]).current_dir("/");
    if rustix::process::geteuid().is_root() {
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
    }
    let document = document(&command.output().unwrap());
    assert!(document["ciphers"][0]["user_space_send_bytes_per_second"].is_f64(), "{document}");
}

#[test]
fn a_locale_without_unicode_gets_ascii() {
    let output = program().env("LC_ALL", "C").args(["doctor", "--quick"]).output().unwrap();
    assert!(stdout(&output).is_ascii(), "{}", stdout(&output));
}

#[cfg(target_arch = "x86_64")]
mod broken_detection {
    use std::net::TcpStream;

    use rustix::process::Signal;

    use super::document;
    use crate::cli::program::{Files, Running, exchange, program};

    /// Hides AES and the multiplication for GCM from the crypto library, as a broken detection would.
    const HIDDEN_AES: (&str, &str) = ("OPENSSL_ia32cap", "~0x200000200000000");

    #[test]
    fn broken_detection_of_aes_is_a_problem() {
        let output = program().env(HIDDEN_AES.0, HIDDEN_AES.1).args(["doctor", "--json"]).output().unwrap();
        let document = document(&output);
        let findings = document["findings"].as_array().unwrap();
        let verdict = |name| &findings.iter().find(|one| one["name"] == name).unwrap()["verdict"];
        // On a machine without AES that is the problem instead.
        let problems = [verdict("aes_against_chacha20"), verdict("cpu_features")];
        assert_eq!(problems.iter().filter(|verdict| **verdict == "problem").count(), 1, "{document}");
    }

    #[test]
    fn a_server_that_seals_slowly_says_so_and_shows_it() {
        let files = Files::new();
        let mut command = program();
        command.env(HIDDEN_AES.0, HIDDEN_AES.1);
        command.args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
            "--workers",
            "1",
            "--root",
        ]);
        let server = Running::start(command.arg(files.at("video")));
        let admin = server.line_with("Metrics at ");
        let line = server.line_with("see `penstock doctor`");
        assert!(line.contains("WARN") && line.contains("AES"), "{line}");

        let admin = admin.split("http://").nth(1).unwrap().trim_end_matches("/metrics").to_owned();
        let metrics = exchange(&mut TcpStream::connect(&admin).unwrap(), "/metrics");
        let speed = |cipher: &str| -> f64 {
            let name = format!("penstock_cipher_seal_bytes_per_second{{cipher=\"{cipher}\"}} ");
            metrics.lines().find_map(|line| line.strip_prefix(name.as_str())).unwrap().parse().unwrap()
        };
        assert!(speed("aes_128_gcm") < speed("chacha20_poly1305"), "{metrics}");
        server.signal(Signal::TERM);
        assert_eq!(server.exit_code(), Some(0));
    }
}

#[test]
fn a_configuration_is_examined_with_the_machine_and_its_certificates_are_named() {
    let files = super::program::Files::new();
    let text = "workers: 1\nlisteners: [{address: 127.0.0.1:443, tls: true}]\n\
                sites: [{hosts: [other.example.com], origin: {directory: video}}]\n\
                tls: {certificates: [{chain: ec.crt, key: ec.key}]}\n";
    let file = files.write("edge.yaml", text);
    let report = document(&run(&["doctor", "--quick", "--json", "-c", &file]));
    let findings = report["findings"].as_array().unwrap();
    let of = |name: &str| findings.iter().filter(|one| one["name"] == name).collect::<Vec<_>>();
    let [certificate] = of("certificate").try_into().unwrap();
    assert!(
        certificate["value"].as_str().unwrap().starts_with("video.example.com: ecdsa, ends in "),
        "{certificate}"
    );
    assert_eq!((&certificate["verdict"], &certificate["section"]), (&"ok".into(), &"configuration".into()));
    let about = of("configuration");
    assert!(
        about.iter().any(
            |one| one["what"] == "line 3" && one["value"].as_str().unwrap().contains("other.example.com")
        ),
        "{about:?}"
    );
    assert!(!of("net.core.somaxconn").is_empty(), "the machine is there too");
}
