//! Findings of `penstock check`: for programs, from standard input, and what they make of the exit code.

use std::fs;
use std::process::Output;

use penstock_testkit::{Tool, disk_directory, memory_directory};
use rustix::process::Signal;
use serde_json::Value;

use super::program::{Files, Running, free_port, program, run, stderr, stderr_of_any_user, stdout};

/// A configuration of one site on these listeners.
fn edge(listeners: &str, more: &str) -> String {
    format!("workers: 1\nlisteners: [{listeners}]\nsites: [{{origin: {{directory: video}}}}]\n{more}\n")
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// The findings of a severity as lines and keys and texts.
fn findings(document: &Value, severity: &str) -> Vec<(u64, String, String)> {
    let all = document["findings"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let same = all.filter(|one| one["severity"] == severity);
    same.map(|one| (one["line"].as_u64().unwrap_or(0), text(&one["key"]), text(&one["text"]))).collect()
}

/// The only warning about a configuration: its line, key and text.
#[track_caller]
fn only_warning(files: &Files, text: &str) -> (u64, String, String) {
    let file = files.write("edge.yaml", text);
    let output = run(&["check", "-c", &file, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let [warning] = findings(&json(&output), "warning").try_into().unwrap_or_else(|all| panic!("{all:?}"));
    assert_eq!(run(&["check", "-c", &file, "--strict"]).status.code(), Some(1));
    let plain = run(&["check", "-c", &file]);
    assert_eq!(plain.status.code(), Some(0));
    let lines = stderr_of_any_user(&plain);
    assert_eq!(lines.lines().filter(|line| line.ends_with(" (warning)")).count(), 1, "{lines}");
    warning
}

#[test]
fn warnings_are_1_with_strict_and_errors_2_and_json_has_both_on_stdout() {
    let files = Files::new();
    let file = files.write("edge.yaml", &edge("{address: 127.0.0.1:80}", "tls: {key_log: keys.txt}"));
    let document = json(&run(&["check", "-c", &file, "--json"]));
    assert_eq!(document["schema"], 1);
    assert_eq!(document["file"], file.as_str());
    assert_eq!(document["summary"], "1 listener, 1 site, 1 worker");
    assert_eq!(document["counts"]["warning"], 1);
    assert_eq!(document["counts"]["error"], 0);
    let [(line, key, text)] = findings(&document, "warning").try_into().unwrap();
    assert_eq!((line, key.as_str()), (4, "tls.key_log"));
    assert!(text.contains("can decrypt all traffic"), "{text}");
    let strict = run(&["check", "-c", &file, "--json", "--strict"]);
    assert_eq!(strict.status.code(), Some(1));
    assert_eq!(stderr(&strict), "penstock: 1 thing could be better\n");
    assert_eq!(findings(&json(&strict), "warning").len(), 1);

    let file = files.write("edge.yaml", "workers: 0\nsites: []\n");
    for strict in [&[][..], &["--strict"]] {
        let output = run(&[&["check", "-c", &file, "--json"], strict].concat());
        assert_eq!(output.status.code(), Some(2));
        let document = json(&output);
        let errors = findings(&document, "error");
        assert_eq!(errors.iter().map(|(line, ..)| *line).collect::<Vec<_>>(), [1, 2, 0]);
        assert_eq!(errors[0].1, "workers");
        assert_eq!(document["summary"], Value::Null);
        assert_eq!(document["findings"][0]["remedy"], "write auto or a number from 1 to 1024");
        assert_eq!(stderr(&output), "penstock: 3 errors in the configuration\n");
    }
}

#[test]
fn advice_alone_passes_a_strict_check() {
    let files = Files::new();
    let queue: u32 = fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap().trim().parse().unwrap();
    let listener = format!("{{address: 127.0.0.1:80, backlog: {}}}", queue + 1);
    let file = files.write("edge.yaml", &edge(&listener, ""));
    let output = run(&["check", "-c", &file, "--strict", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let advice = findings(&json(&output), "advice");
    assert!(advice.iter().any(|(line, _, text)| *line == 2 && text.starts_with("backlog: ")), "{advice:?}");
    assert!(stderr(&run(&["check", "-c", &file])).contains("(advice)"));
}

#[test]
fn a_configuration_from_standard_input_has_its_paths_at_the_base_directory() {
    let files = Files::new();
    let text = edge("{address: 127.0.0.1:80}", "tls: {key_log: keys.txt}\ninclude: [more.yaml]");
    files.write("more.yaml", "limits: {drain_deadline: 3s}\n");
    let base = files.at("").display().to_string();
    let check =
        |base: &[&str], more: &[&str]| Tool::penstock().args(["check", "-c", "-"]).args(base).args(more);
    let done = check(&["--base", &base], &["--json"]).run_with_input(text.as_bytes()).ok();
    let document: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(document["file"], "<stdin>");
    let of_key_log = &document["findings"][0];
    assert_eq!((&of_key_log["file"], &of_key_log["key"]), (&"<stdin>".into(), &"tls.key_log".into()));
    assert!(of_key_log["text"].as_str().unwrap().contains(files.at("keys.txt").to_str().unwrap()));

    let said = check(&[], &[]).directory(&files.at("")).run_with_input(text.as_bytes()).ok();
    assert!(said.stderr.starts_with("<stdin>:4: key_log: "), "{}", said.stderr);
    assert!(said.text().starts_with("<stdin>: fine: "));
    let positional = |more: &[&str]| Tool::penstock().args(["check"]).args(more);
    let said = positional(&["-", "--base", &base]).run_with_input(text.as_bytes()).ok();
    assert!(said.text().starts_with("<stdin>: fine: "), "a name without -c");
    let path = files.write("edge.yaml", &text);
    assert!(positional(&[&path]).run().ok().text().contains("edge.yaml: fine: "));
    positional(&[]).run().exits_with(2);
    positional(&[&path, "-c", &path]).run().exits_with(2);
    let elsewhere = check(&["--base", "/nowhere"], &[]).run_with_input(text.as_bytes()).exits_with(2);
    assert!(elsewhere.stderr.contains("<stdin>:5: include: "), "{}", elsewhere.stderr);
}

/// A file called `-` lies where they start: none of them may read it.
#[test]
fn the_doctor_reads_standard_input_too_and_other_commands_refuse_it() {
    let files = Files::new();
    let text = edge("{address: 127.0.0.1:80}", "nothing: 1");
    files.write("-", &edge("{address: 127.0.0.1:80}", ""));
    let penstock = |arguments: &[&str]| {
        Tool::penstock().args(arguments).directory(&files.at("")).run_with_input(text.as_bytes())
    };
    let doctor = penstock(&["doctor", "--quick", "--json", "-c", "-", "--base", "/nowhere"]).ok();
    let document: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let findings = document["findings"].as_array().unwrap();
    let about: Vec<_> = findings.iter().filter(|one| one["name"] == "configuration").collect();
    assert!(about.iter().any(|one| one["value"].as_str().unwrap().contains("nothing")), "{about:?}");
    for arguments in [
        &["serve", "-c", "-"][..],
        &["keyserver", "-c", "-"],
        &["keyserver", "--check", "-c", "-"],
        &["top", "--once", "-c", "-"],
        &["cluster", "status", "-c", "-"],
        &["config", "from-nginx", "-"],
    ] {
        let said = penstock(arguments);
        assert_ne!(said.code, 0, "{arguments:?}");
        assert!(said.stderr.contains("standard input is not read here"), "{arguments:?}: {}", said.stderr);
    }
}

#[test]
fn faults_of_an_included_file_have_its_name_and_keys() {
    let files = Files::new();
    let file = files.write("edge.yaml", &edge("{address: 127.0.0.1:80}", "include: [more.yaml]"));
    files.write("more.yaml", "# more\nlimits:\n  lame_duck: never\n");
    let output = run(&["check", "-c", &file, "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let document = json(&output);
    assert_eq!(document["findings"][0]["file"], files.at("more.yaml").to_str().unwrap());
    assert_eq!(document["findings"][0]["key"], "limits.lame_duck");
    assert_eq!(document["findings"][0]["line"], 3);
}

#[test]
fn ports_that_overlap_are_an_error_of_check_and_of_serve() {
    let files = Files::new();
    let port = free_port();
    let file = files.write(
        "edge.yaml",
        &edge(&format!("{{address: 0.0.0.0:{port}}}, {{address: 127.0.0.1:{port}}}"), ""),
    );
    let said = format!("{file}:2: address: 127.0.0.1:{port} overlaps with 0.0.0.0:{port} on line 2");
    for command in ["check", "serve"] {
        let output = run(&[command, "-c", &file]);
        assert_eq!(output.status.code(), Some(2), "{command}");
        assert!(stderr(&output).contains(&said), "{command}: {}", stderr(&output));
    }
}

#[test]
fn an_algorithm_that_the_kernel_does_not_have_is_a_warning_before_serve_fails() {
    let files = Files::new();
    let listener = format!("{{address: 127.0.0.1:{}, congestion_control: nonesuch}}", free_port());
    let (line, key, text) = only_warning(&files, &edge(&listener, ""));
    assert_eq!((line, key.as_str()), (2, "listeners[0].congestion_control"));
    assert!(text.starts_with("congestion_control: this kernel has no `nonesuch`"), "{text}");
    let served = run(&["serve", "-c", files.at("edge.yaml").to_str().unwrap()]);
    assert!(stderr(&served).contains("congestion_control"), "{}", stderr(&served));
    assert_ne!(served.status.code(), Some(0));
    let known = files.write("edge.yaml", &edge("{address: 127.0.0.1:80, congestion_control: reno}", ""));
    assert_eq!(run(&["check", "-c", &known, "--strict"]).status.code(), Some(0));
}

#[test]
fn an_address_that_no_interface_has_is_a_warning_before_serve_fails_unless_the_bind_is_free() {
    let files = Files::new();
    let listeners = "{address: 127.0.0.1:0}, {address: \"192.0.2.1:443\"}";
    let (line, key, text) = only_warning(&files, &edge(listeners, ""));
    assert_eq!((line, key.as_str()), (2, "listeners[1].address"));
    assert!(text.starts_with("cannot listen on 192.0.2.1:443: bind: "), "{text}");
    let path = files.at("edge.yaml").display().to_string();
    let remedy = "; no interface of this machine has this address: add it, or write freebind: true";
    for command in ["check", "serve"] {
        let said = stderr(&run(&[command, "-c", &path]));
        assert!(said.contains(&format!("{path}:2: {text}{remedy}")), "{command}: {said}");
    }
    let doctor = run(&["doctor", "--quick", "--json", "-c", &path]);
    assert!(stdout(&doctor).contains(&text), "{}", stdout(&doctor));
    files.write("edge.yaml", &edge("{address: \"192.0.2.1:443\", freebind: true}", ""));
    assert_eq!(run(&["check", "-c", &path, "--strict"]).status.code(), Some(0));

    // The admin listener has no such key.
    files.write("edge.yaml", &edge("{address: 127.0.0.1:80}", "admin: {address: \"192.0.2.1:9600\"}"));
    let said = stderr(&run(&["check", "-c", &path]));
    let remedy = "; no interface of this machine has this address: add it, or write another one (warning)";
    assert!(said.lines().any(|line| line.contains(":4: cannot listen") && line.ends_with(remedy)), "{said}");
}

#[test]
fn tiers_that_are_larger_than_their_file_system_or_the_memory_have_the_line_of_their_section() {
    let (files, memory, disk) = (Files::new(), memory_directory(), disk_directory());
    let cached = |tiers: &str| {
        format!(
            "workers: 1\nlisteners: [{{address: 127.0.0.1:80}}]\n\
             sites: [{{origin: {{http: [\"http://192.0.2.1\"]}}}}]\ncache:\n{tiers}"
        )
    };
    let small = format!("  memory: {{directory: {}, size: 16MiB}}\n", memory.path().display());
    let large = format!("{small}  disk:\n  - {{directory: {}, size: 1024TiB}}\n", disk.path().display());
    let (line, key, text) = only_warning(&files, &cached(&large));
    assert_eq!((line, key.as_str()), (7, "cache.disk[0]"));
    assert!(text.contains("its file system has space for"), "{text}");

    let huge = format!("  memory: {{directory: {}, size: 4096GiB}}\n", memory.path().display());
    let file = files.write("edge.yaml", &cached(&huge));
    let warnings = findings(&json(&run(&["check", "-c", &file, "--json"])), "warning");
    assert!(warnings.iter().all(|(line, key, _)| *line == 5 && key == "cache.memory"), "{warnings:?}");
    for part in ["its file system has no more space", "is larger than the memory of this machine"] {
        assert!(warnings.iter().any(|(.., text)| text.contains(part)), "{part}: {warnings:?}");
    }
}

#[test]
fn an_expired_certificate_is_a_warning() {
    let files = Files::new();
    let mut params = rcgen::CertificateParams::new(vec!["video.example.com".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let key = rcgen::KeyPair::from_pem(&fs::read_to_string(files.at("ec.key")).unwrap()).unwrap();
    files.write("ec.crt", &params.self_signed(&key).unwrap().pem());
    let tls = "tls: {certificates: [{chain: ec.crt, key: ec.key}]}";
    let (line, key, text) = only_warning(&files, &edge("{address: 127.0.0.1:443, tls: true}", tls));
    assert_eq!((line, key.as_str()), (4, "tls.certificates[0].chain"));
    assert!(text.contains("expired"), "{text}");
}

#[test]
fn a_host_without_a_certificate_is_a_warning() {
    let files = Files::new();
    let tls = "tls: {certificates: [{chain: ec.crt, key: ec.key}]}";
    let text = edge("{address: 127.0.0.1:443, tls: true}", tls)
        .replace("{origin", "{hosts: [video.example.com, a.example.com], origin");
    let (line, key, text) = only_warning(&files, &text);
    assert_eq!((line, key.as_str()), (3, "sites[0].hosts[1]"));
    assert!(text.starts_with("hosts: no certificate is for a.example.com"), "{text}");
}

#[test]
fn a_private_key_that_clients_can_download_is_a_warning_of_check_and_serve() {
    let files = Files::new();
    fs::copy(files.at("ec.key"), files.at("video/ec.key")).unwrap();
    let listener = format!("{{address: 127.0.0.1:{}, tls: true}}", free_port());
    let tls = "tls: {certificates: [{chain: ec.crt, key: video/ec.key}]}";
    let (line, key, text) = only_warning(&files, &edge(&listener, tls));
    assert_eq!((line, key.as_str()), (4, "tls.certificates[0].key"));
    assert!(text.contains("which a site serves: clients can download it"), "{text}");
    let server = Running::start(program().args(["serve", "-c", files.at("edge.yaml").to_str().unwrap()]));
    assert!(server.line_with(&text).contains(" WARN "), "serve says it too");
    server.line_with("ready");
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn an_admin_listener_on_a_public_address_is_a_warning() {
    let (line, key, text) =
        only_warning(&Files::new(), &edge("{address: 127.0.0.1:80}", "admin: {address: 0.0.0.0:9600}"));
    assert_eq!((line, key.as_str()), (4, "admin.address"));
    assert!(text.contains("can read metrics and purge the cache"), "{text}");
}

#[test]
fn a_plain_listener_beside_required_client_certificates_is_a_warning_of_check_and_doctor() {
    let files = Files::new();
    let listeners = "{address: 127.0.0.1:443, tls: true}, {address: 127.0.0.1:80}";
    let tls = "tls: {certificates: [{chain: ec.crt, key: ec.key}], client_certificates: {ca: ec.crt}}";
    let (line, key, text) = only_warning(&files, &edge(listeners, tls));
    assert_eq!((line, key.as_str()), (2, "listeners[1].address"));
    assert!(text.starts_with("client_certificates: they are required, and 127.0.0.1:80"), "{text}");
    let doctor = run(&["doctor", "--quick", "--json", "-c", files.at("edge.yaml").to_str().unwrap()]);
    assert!(stdout(&doctor).contains(&text), "{}", stdout(&doctor));
}
