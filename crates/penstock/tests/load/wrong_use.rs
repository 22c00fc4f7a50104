//! Wrong options are reported before the run, with a remedy.

use std::fs;

use crate::command::{count, load, report};
use crate::scripted::{Scripted, answer_all};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

#[test]
fn impossible_options_are_refused_with_a_remedy() {
    for (arguments, part) in [
        (&["handshakes", "localhost"][..], "begins with https://"),
        (&["handshakes", "http://localhost/"], "write an https:// URL"),
        (&["handshakes", "https://127.0.0.1:1/", "--cipher", "RC5"], "--cipher: `RC5` is unknown"),
        (&["handshakes", "https://127.0.0.1:1/", "--tls", "1.3", "--resume", "id"], "no session IDs"),
        (&["handshakes", "https://127.0.0.1:1/", "--duration", "3x"], "such as 250ms"),
        (&["requests", "https://127.0.0.1:1/", "--duration", "0"], "more than 0"),
        (&["requests", "https://127.0.0.1:1/", "--timeout", "0s"], "more than 0"),
        (&["requests", "https://127.0.0.1:1/", "--requests", "0"], "a number from 1"),
        (&["requests", "https://127.0.0.1:1/", "--rate", "1000000000"], "from 0.001 to 10000000"),
        (
            &["requests", "https://127.0.0.1:1/", "--objects", "18446744073709551615"],
            "from 1 to 1099511627776",
        ),
        (&["requests", "https://127.0.0.1:1/", "--range", "bytes=0-1"], "such as 0-1023"),
        (&["requests", "https://127.0.0.1:1/", "--address", "localhost"], "an IP address, such as 192.0.2.1"),
        (&["requests", "https://127.0.0.1:1/", "--urls", "/dev/null/urls"], "--urls /dev/null/urls"),
        (&["requests", "https://127.0.0.1:1/", "--sessions", "/dev/null/s"], "--sessions /dev/null/s"),
        (&["requests", "https://penstock.invalid/"], "--address"),
        (&["requests", "https://127.0.0.1:1/", "--streams", "2"], "write --protocol h2"),
        (&["requests", "https://127.0.0.1:1/", "--protocol", "h2", "--streams", "0"], "from 1 to 10000"),
        (
            &["requests", "https://127.0.0.1:1/", "--protocol", "h2", "--streams", "2", "--no-keepalive"],
            "cannot be used with",
        ),
        (
            &["requests", "https://127.0.0.1:1/", "--protocol", "h2", "--header", "Connection: close"],
            "--header Connection: HTTP/2 has no such field",
        ),
    ] {
        let finished = load(arguments).exits_with(2);
        assert!(finished.stderr.contains(part), "{arguments:?}: {}", finished.stderr);
        assert_eq!(finished.text(), "", "{arguments:?}");
    }
}

#[test]
fn an_output_that_cannot_be_written_is_said_before_the_run_or_at_least_after_its_figures() {
    let server = Scripted::start(|mut stream, _| answer_all(&mut stream, OK));
    let url = server.url("http");
    for option in ["--hdr", "--plot"] {
        let early = load(&["requests", "--requests", "1", &url, option, "/dev/null/out"]).exits_with(1);
        assert!(early.stderr.contains("cannot write /dev/null/out"), "{}", early.stderr);
        assert_eq!(early.text(), "");
        let late = load(&["requests", "--requests", "1", &url, option, "/dev/full"]).exits_with(1);
        assert!(late.stderr.contains("No space left"), "{}", late.stderr);
        assert!(late.text().contains("requests"), "{}", late.text());
    }
}

#[test]
fn an_address_without_a_port_takes_that_of_the_url() {
    let server = Scripted::start(|mut stream, _| answer_all(&mut stream, OK));
    let url = format!("http://penstock.invalid:{}/", server.address.port());
    for (address, wanted) in [("127.0.0.1", 2), ("[::1]", 0)] {
        let report = report(&["requests", "--requests", "2", "--address", address, &url]);
        assert_eq!(count(&report, "requests"), wanted, "{report:#}");
    }
}

#[test]
fn sessions_of_other_servers_stay_in_their_file() {
    let server = Scripted::start_tls(|mut stream, _| answer_all(&mut stream, OK));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("sessions");
    let url = server.url("https");
    for name in ["one.example", "two.example", "one.example"] {
        let options = ["handshakes", "--insecure", "--requests", "1", "--sni", name];
        load(&[&options[..], &["--sessions", file.to_str().unwrap(), &url]].concat()).ok();
    }
    let text = fs::read_to_string(&file).unwrap();
    for name in ["one.example ", "two.example "] {
        assert!(text.lines().any(|line| line.starts_with(name)), "{name} is gone: {text}");
    }
}

#[test]
fn a_run_of_a_moment_leaves_all_of_itself_in_log_and_plot() {
    let server = Scripted::start(|mut stream, _| answer_all(&mut stream, OK));
    let directory = tempfile::tempdir().unwrap();
    let [hdr, plot] = ["run.hlog", "run.svg"].map(|name| directory.path().join(name));
    let (hdr_name, plot_name) = (hdr.to_str().unwrap(), plot.to_str().unwrap());
    let options = ["requests", "--requests", "3", "--hdr", hdr_name, "--plot", plot_name];
    load(&[&options[..], &[&server.url("http")]].concat()).ok();
    let log = fs::read_to_string(hdr).unwrap();
    assert_eq!(log.lines().filter(|line| line.starts_with("Tag=total,")).count(), 1, "{log}");
    assert!(fs::read_to_string(plot).unwrap().ends_with("</svg>\n"));
}

#[test]
fn addresses_in_help_are_reserved_for_documentation() {
    for command in ["", "handshakes", "requests", "download", "playback"] {
        let arguments = [command, "--help"];
        let arguments = if command.is_empty() { &arguments[1..] } else { &arguments[..] };
        let help = load(arguments).ok().text();
        let words = help.split(|one: char| !one.is_ascii_digit() && one != '.');
        let addresses = words.filter_map(|word| word.trim_matches('.').parse::<std::net::Ipv4Addr>().ok());
        for address in addresses {
            let is_reserved = address.is_loopback() || address.is_documentation();
            assert!(is_reserved, "{command}: {address} may be a real machine");
        }
    }
}
