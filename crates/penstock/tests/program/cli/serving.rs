//! `penstock serve`: with and without a configuration.

use std::fs;
use std::net::{TcpListener, TcpStream};

use boring::ssl::{SslConnector, SslMethod, SslVerifyMode};
use rustix::process::Signal;

use super::program::{Files, Running, exchange, free_port, get, program, run, stderr};

#[test]
fn a_directory_is_served_over_https_with_a_certificate_made_for_it() {
    let files = Files::new();
    let mut command = program();
    command.args(["serve", "--listen", "127.0.0.1:0", "--workers", "1", "--root"]).arg(files.at("video"));
    let server = Running::start(&mut command);
    let line = server.line_with("Serving ");
    let url = line.split_whitespace().last().unwrap();
    let port = url.strip_prefix("https://localhost:").and_then(|rest| rest.strip_suffix('/')).unwrap();

    let mut connector = SslConnector::builder(SslMethod::tls()).unwrap();
    connector.set_verify(SslVerifyMode::NONE);
    let socket = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    let mut stream = connector.build().connect("localhost", socket).unwrap();
    let certificate = stream.ssl().peer_certificate().unwrap();
    let alternatives = certificate.subject_alt_names().unwrap();
    let names: Vec<_> = alternatives.iter().filter_map(|name| name.dnsname()).collect();
    let addresses: Vec<_> =
        alternatives.iter().filter_map(|name| name.ipaddress()).map(<[u8]>::len).collect();
    assert_eq!((names, addresses), (vec!["localhost"], vec![4, 16]));
    let answer = exchange(&mut stream, "/");
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("moving pictures\n"), "{answer}");

    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn a_directory_is_served_over_plain_http_on_request() {
    let files = Files::new();
    let mut command = program();
    command.args(["serve", "--plain", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--root"]);
    let server = Running::start(command.arg(files.at("video")));
    let line = server.line_with("Serving ");
    let authority = line.split("http://").nth(1).unwrap().trim_end_matches('/');
    assert!(get(authority).ends_with("moving pictures\n"));
    let line = server.line_with("Metrics at ");
    let admin = line.split("http://").nth(1).unwrap().trim_end_matches("/metrics").to_owned();
    let mut stream = TcpStream::connect(&admin).unwrap();
    assert!(exchange(&mut stream, "/healthz").starts_with("HTTP/1.1 200 "));
    let mut stream = TcpStream::connect(&admin).unwrap();
    assert!(exchange(&mut stream, "/metrics").contains("penstock_requests_total"));
    server.signal(Signal::INT);
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn a_configuration_is_served_and_its_warnings_are_logged() {
    let files = Files::new();
    let port = free_port();
    let file = files.write(
        "edge.yaml",
        &format!(
            "workers: 1\nlisteners: [{{address: 127.0.0.1:{port}}}]\nsites: [{{origin: {{directory: video}}}}]\n\
             tls: {{key_log: keys.txt}}\n"
        ),
    );
    let server = Running::start(program().args(["serve", "-c", &file]));
    server.line_with("edge.yaml:4: key_log: a reader of");
    server.line_with(&format!("listening on 127.0.0.1:{port}, HTTP"));
    server.line_with("ready");
    assert!(get(&format!("127.0.0.1:{port}")).ends_with("moving pictures\n"));
    server.signal(Signal::TERM);
    server.line_with("stopped");
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn the_log_can_be_turned_off() {
    let files = Files::new();
    let mut command = program();
    command.args(["serve", "--plain", "--listen", "127.0.0.1:0", "--root"]).arg(files.at("video"));
    let server = Running::start(command.env("PENSTOCK_LOG", "off"));
    server.line_with("Ctrl-C stops.");
    server.signal(Signal::TERM);
    assert_eq!(server.rest(), Vec::<String>::new());
}

#[test]
fn a_wrong_configuration_is_2_and_nothing_is_served() {
    let files = Files::new();
    let file = files.write("edge.yaml", "listeners: []\n");
    let output = run(&["serve", "-c", &file]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).starts_with(&format!("{file}:1: there is no listener; ")), "{}", stderr(&output));
}

#[test]
fn a_directory_that_is_not_there_is_2() {
    let output = run(&["serve", "--root", "/nowhere/at/all"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        stderr(&output),
        "--root: /nowhere/at/all does not exist; make that directory or write the path of another\n"
    );
}

#[test]
fn a_wrong_option_of_a_directory_with_a_domain_is_named() {
    let files = Files::new();
    let (video, storage) = (files.at("video").display().to_string(), files.at("acme").display().to_string());
    fs::write(files.at("taken"), "").unwrap();
    let (taken, port) = (files.at("taken").display().to_string(), free_port());
    let listen = [format!("127.0.0.1:{port}"), format!("127.0.0.1:{}", free_port())];
    let good = ["serve", "--listen", &listen[0], "--http", &listen[1]];
    let named = ["--domain", "a.example"];
    for (options, said) in [
        (
            &["--root", &video, "--domain", "https://a.example/"][..],
            "--domain: hosts: `https://a.example/` is a URL",
        ),
        (&["--root", &video, "--domain", "*.example"], "--domain: `*.example` is a pattern, for which"),
        (&["--root", &video, "--domain", "192.0.2.1"], "--domain: `192.0.2.1` is an address, for which"),
        (&["--root", "/not/there", named[0], named[1]], "--root: directory: /not/there does not exist"),
        (&["--root", &video, named[0], named[1], "--email", "me"], "--email: email: `me` is not an address"),
        (&["--root", &video, named[0], named[1], "--storage", &taken], "--storage: storage: "),
        (
            &["--root", &video, named[0], named[1], "--acme-directory", "acme"],
            "--acme-directory: directory: `acme` is not",
        ),
    ] {
        let storage = if options.contains(&"--storage") { vec![] } else { vec!["--storage", &storage] };
        let output = run(&[&good[..], options, &storage].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(stderr(&output).starts_with(said), "{options:?}: {}", stderr(&output));
    }
    let below = format!("{taken}/acme");
    let output = run(&[&good[..], &["--root", &video, named[0], named[1], "--storage", &below]].concat());
    assert!(stderr(&output).contains("or name another directory: "), "{}", stderr(&output));
}

#[test]
fn a_port_that_is_taken_is_2_with_its_line() {
    let files = Files::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let text = format!(
        "workers: 1\nsites: [{{origin: {{directory: video}}}}]\nlisteners:\n- address: 127.0.0.1:0\n- address: {address}\n"
    );
    let file = files.write("edge.yaml", &text);
    let output = run(&["serve", "--log-level", "error", "-c", &file]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.starts_with(&format!("{file}:5: cannot listen on {address}: ")), "{said}");
    assert!(said.contains("stop it or choose another address"), "{said}");
}

#[test]
fn a_taken_admin_port_is_2_with_its_line() {
    let files = Files::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let text = format!(
        "workers: 1\nsites: [{{origin: {{directory: video}}}}]\nlisteners: [{{address: 127.0.0.1:0}}]\nadmin:\n  \
         address: {address}\n"
    );
    let file = files.write("edge.yaml", &text);
    let output = run(&["serve", "--log-level", "error", "-c", &file]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(
        said.starts_with(&format!("{file}:5: cannot listen on {address} for the admin listener: ")),
        "{said}"
    );
}
