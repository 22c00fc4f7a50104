//! `penstock init`: a first configuration that passes the strict check and is served from.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use penstock_testkit::Tool;
use rustix::process::Signal;

use super::program::{Files, Running, free_port, program, run, stderr, stdout};

/// Checks a written configuration strictly.
#[track_caller]
fn passes(file: &str) {
    let output = run(&["check", "--strict", "-c", file]);
    assert_eq!(output.status.code(), Some(0), "{}{}", fs::read_to_string(file).unwrap(), stderr(&output));
}

/// Serves a written configuration on a port of loopback and asks for its page.
fn page(file: &str, port: u16, certificate: &Path) -> String {
    let server = Running::start(program().args(["serve", "-c", file]));
    server.line_with("ready");
    let fetched = Tool::new("curl")
        .args(["--disable", "--silent", "--show-error", "--max-time", "50", "--cacert"])
        .arg(certificate)
        .args(["--resolve", &format!("video.example.com:{port}:127.0.0.1")])
        .arg(format!("https://video.example.com:{port}/"))
        .run()
        .ok()
        .text();
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
    fetched
}

#[test]
fn an_e_mail_address_orders_the_certificate() {
    let files = Files::new();
    let (file, directory) =
        (files.at("penstock.yaml").display().to_string(), files.at("video").display().to_string());
    let arguments =
        ["init", "--yes", "--domain", "video.example.com", "--directory", &directory, "-o", &file];
    let output = run(&[&arguments[..], &["--certificate", "ops@example.com"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    passes(&file);
    let written = fs::read_to_string(&file).unwrap();
    assert!(written.contains("acme: {email: \"ops@example.com\", agree_to_terms: true}"), "{written}");
    assert!(!files.at("video.example.com.key").exists());
}

#[test]
fn with_yes_it_asks_nothing_and_what_it_writes_is_served() {
    let files = Files::new();
    let (file, port) = (files.at("penstock.yaml").display().to_string(), free_port());
    let (listen, directory) = (format!("127.0.0.1:{port}"), files.at("video").display().to_string());
    let arguments = ["init", "--yes", "--domain", "video.example.com", "--directory", &directory];
    let places = ["--listen", &listen, "--admin", "none", "-o", &file];
    let output = run(&[&arguments[..], &places].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "", "nothing is asked");
    assert!(stdout(&output).contains(&format!("next: penstock check -c {file}")), "{}", stdout(&output));
    passes(&file);
    let (chain, key) = (files.at("video.example.com.crt"), files.at("video.example.com.key"));
    assert_eq!(fs::metadata(key).unwrap().mode() & 0o777, 0o600);
    assert_eq!(page(&file, port, &chain), "moving pictures\n");

    let before = fs::read(&file).unwrap();
    let again = run(&[&arguments[..], &places].concat());
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("exists; write another file after --output, or add --force"));
    assert_eq!(fs::read(&file).unwrap(), before);
    let certificate = fs::read(&chain).unwrap();
    let forced = run(&[&arguments[..], &places[..2], &places[4..], &["--force"]].concat());
    assert_eq!(forced.status.code(), Some(0), "{}", stderr(&forced));
    assert_ne!(fs::read(&file).unwrap(), before, "it has an admin listener now");
    assert_eq!(fs::read(&chain).unwrap(), certificate, "an existing certificate is used");
    passes(&file);
}

#[test]
fn five_answers_make_a_configuration_and_a_wrong_one_is_asked_for_again() {
    let files = Files::new();
    let (file, port) = (files.at("made.yaml").display().to_string(), free_port());
    let directory = files.at("video").display().to_string();
    let pair = format!("{} {}", files.at("ec.crt").display(), files.at("ec.key").display());
    let answers = [
        "*.example.com",
        "video.example.com",
        "/not/there",
        &directory,
        "one two three",
        &pair,
        "localhost",
        "127.0.0.1:0",
    ];
    let init = Tool::penstock().args(["init", "-o", &file, "--listen", &format!("127.0.0.1:{port}")]);
    let done = init.run_with_input(format!("{}\n", answers.join("\n")).as_bytes()).ok();
    for part in [
        "1. Domain: ",
        "write one name, such as video.example.com",
        "2. Content: ",
        "/not/there does not exist",
        "4. Certificate: ",
        "5. Admin: ",
        "is not an IP address with a port",
    ] {
        assert!(done.stderr.contains(part), "{part}: {}", done.stderr);
    }
    assert!(!done.stderr.contains("3. Cache"), "files need none: {}", done.stderr);
    passes(&file);
    assert_eq!(page(&file, port, &files.at("ec.crt")), "moving pictures\n");
}

#[test]
fn questions_are_asked_on_a_terminal_too() {
    let files = Files::new();
    let file = files.at("made.yaml").display().to_string();
    let directory = files.at("video").display().to_string();
    let command = format!("{} init -o {file} --listen 127.0.0.1:8443", penstock_testkit::program());
    let said = Tool::new("script")
        .args(["--quiet", "--return", "--command", &command, "/dev/null"])
        .run_with_input(format!("video.example.com\n{directory}\n\n\n").as_bytes())
        .ok()
        .text();
    assert!(said.contains("4. Certificate: ") && said.contains("wrote"), "{said}");
    passes(&file);
}

#[test]
fn an_origin_gets_a_cache_of_a_size_that_this_machine_has() {
    let files = Files::new();
    let file = files.at("made.yaml").display().to_string();
    let disk = format!("{} 64MiB", files.at("cache").display());
    let arguments =
        ["init", "--yes", "--domain", "video.example.com", "--origin", "http://192.0.2.5:8080", "-o", &file];
    let output = run(&[&arguments[..], &["--disk", &disk]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = fs::read_to_string(&file).unwrap();
    for part in
        ["http: [\"http://192.0.2.5:8080\"]", "size: \"64MiB\"", "memory: {directory: /dev/shm/penstock"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    passes(&file);
}

#[test]
fn what_cannot_be_used_is_refused_before_anything_is_written() {
    let files = Files::new();
    let file = files.at("made.yaml").display().to_string();
    let directory = files.at("video").display().to_string();
    for (arguments, part) in [
        (&["--domain", "https://a/"][..], "--domain: hosts: `https://a/` is a URL"),
        (&["--origin", "ftp://a/"], "--directory or --origin: http: "),
        (&["--directory", "/not/there"], "/not/there does not exist"),
        (&["--directory", &directory, "--admin", "9600"], "--admin: address: `9600`"),
        (&["--directory", &directory, "--certificate", "/not/a /not/b"], "--certificate: chain: /not/a"),
        (&["--origin", "http://a", "--memory", "1"], "--memory: size: 1 is out of range"),
    ] {
        let output = run(&[&["init", "--yes", "-o", &file], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(part), "{arguments:?}: {}", stderr(&output));
    }
    let ended = Tool::penstock().args(["init", "-o", &file]).run_with_input(b"a.example\n").exits_with(2);
    assert!(ended.stderr.contains("the answers end; --yes asks nothing"), "{}", ended.stderr);
    let found: Vec<_> = fs::read_dir(files.at("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(found.len(), 3, "{found:?}");
}

#[test]
fn a_private_key_that_clients_could_download_is_refused() {
    let files = Files::new();
    let directory = files.at("video").display().to_string();
    let content = ["init", "--domain", "video.example.com", "--directory", &directory];
    let inside = files.at("video/penstock.yaml").display().to_string();
    let output = run(&[&content[..], &["--yes", "-o", &inside]].concat());
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(
        said.contains("video/video.example.com.key would lie in ") && said.contains("--output"),
        "{said}"
    );
    assert_eq!(fs::read_dir(files.at("video")).unwrap().count(), 1, "nothing is written");

    fs::copy(files.at("ec.key"), files.at("video/ec.key")).unwrap();
    let pair = |key: &str| format!("{} {}", files.at("ec.crt").display(), files.at(key).display());
    let outside = files.at("penstock.yaml").display().to_string();
    let refused =
        run(&[&content[..], &["--yes", "-o", &outside, "--certificate", &pair("video/ec.key")]].concat());
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("video/ec.key would lie in "), "{}", stderr(&refused));
    // On a terminal the question comes again.
    let answers = format!("{}\n{}\n\n", pair("video/ec.key"), pair("ec.key"));
    let asked = Tool::penstock().args(content).args(["-o", &outside]).run_with_input(answers.as_bytes()).ok();
    assert_eq!(asked.stderr.matches("4. Certificate: ").count(), 2, "{}", asked.stderr);
    passes(&outside);
}

#[test]
fn the_settings_to_try_are_right_too() {
    let files = Files::new();
    let directory = files.at("video").display().to_string();
    for (content, more) in [("--directory", directory.as_str()), ("--origin", "http://192.0.2.5:8080")] {
        let file = files.at(&format!("{}.yaml", &content[2..])).display().to_string();
        let domain = "video.example.com";
        let output =
            run(&["init", "--yes", "--domain", domain, content, more, "--admin", "none", "-o", &file]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let text = fs::read_to_string(&file).unwrap();
        // The user and the directory of logs are those of an installed server.
        let is_setting = |line: &str| {
            let setting = line.trim_start().strip_prefix('#').filter(|rest| !rest.starts_with(' '));
            setting.is_some_and(|setting| !setting.starts_with("user") && !setting.starts_with("log"))
        };
        let tried: String = text
            .lines()
            .map(|line| if is_setting(line) { line.replacen('#', "", 1) } else { line.to_owned() } + "\n")
            .collect();
        for part in ["\nadmin: ", "\n    headers: ", "\n    routes: ", "\nlimits:"] {
            assert!(tried.contains(part), "{part:?}: {tried}");
        }
        fs::write(&file, &tried).unwrap();
        let checked = run(&["check", "-c", &file]);
        assert_eq!(checked.status.code(), Some(0), "{}\n{tried}", stderr(&checked));
    }
}

#[test]
fn a_missing_directory_is_named_before_anything_is_asked_or_written() {
    let files = Files::new();
    let (directory, file) = (files.at("missing"), files.at("missing/penstock.yaml").display().to_string());
    for certificate in ["self-signed", "ops@example.com"] {
        let output = run(&["init", "--certificate", certificate, "-o", &file]);
        assert_eq!(output.status.code(), Some(1));
        let missing = directory.display();
        let said = format!(
            "penstock: cannot write {file}: the directory {missing} does not exist; make it: mkdir -p {missing}\n"
        );
        assert_eq!(stderr(&output), said, "no question is asked");
    }
    assert!(!directory.exists());
}

#[test]
fn it_writes_no_file_called_as_standard_output() {
    let files = Files::new();
    let said =
        Tool::penstock().args(["init", "--yes", "-o", "-"]).directory(&files.at("")).run().exits_with(2);
    assert!(said.stderr.contains("write a file after --output"), "{}", said.stderr);
    assert!(!files.at("-").exists());
}
