//! Root, users, pipes, and settings of the system.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::{Signal, geteuid};

use super::program::{Files, Running, exchange, free_port, get, program, run, stderr};

/// A user that is in every `/etc/passwd`, by its numbers.
const UNPRIVILEGED: u32 = 65534;

fn make_pipe(path: &Path) {
    mkfifoat(CWD, path, Mode::from_raw_mode(0o666)).unwrap();
}

/// A configuration with one plain listener on `port`.
fn plain(port: u16, rest: &str) -> String {
    format!(
        "workers: 1\nlisteners: [{{address: 127.0.0.1:{port}}}]\nsites: [{{origin: {{directory: video}}}}]\n{rest}\n"
    )
}

/// Skips what only root can test, and says so.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn is_root() -> bool {
    let root = geteuid().is_root();
    if !root {
        eprintln!("SKIPPED: this test needs root");
    }
    root
}

/// The ids of every thread: real, effective, saved and of the file system.
fn ids_of_threads(pid: i32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let status = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("status")).ok());
    status
        .flat_map(|text| {
            let wanted = |line: &&str| line.starts_with("Uid:") || line.starts_with("Gid:");
            text.lines().filter(wanted).map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn a_server_started_as_root_becomes_the_user_and_still_opens_low_ports() {
    if !is_root() {
        return;
    }
    let files = Files::new();
    fs::set_permissions(files.at(""), PermissionsExt::from_mode(0o777)).unwrap();
    let port = free_port();
    let low = (600..1000).find(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap();
    let rest = format!("user: \"{UNPRIVILEGED}:{UNPRIVILEGED}\"\nlog: {{access: access.jsonl}}");
    let file = files.write("edge.yaml", &plain(port, &rest));
    let server = Running::start(program().args(["serve", "-c", &file]));
    server.line_with("running as 65534:65534");
    server.line_with("ready");
    assert!(get(&format!("127.0.0.1:{port}")).ends_with("moving pictures\n"));
    let ids = ids_of_threads(server.pid());
    let wanted = format!("{UNPRIVILEGED}\t{UNPRIVILEGED}\t{UNPRIVILEGED}\t{UNPRIVILEGED}");
    assert!(ids.len() > 2 && ids.iter().all(|line| line.ends_with(&wanted)), "{ids:?}");
    let log = fs::metadata(files.at("access.jsonl")).unwrap();
    assert_eq!((log.uid(), log.gid()), (UNPRIVILEGED, UNPRIVILEGED));

    // A reload opens a port below 1024, and a log that was renamed.
    files.write("edge.yaml", &plain(low, &rest));
    fs::rename(files.at("access.jsonl"), files.at("access.jsonl.1")).unwrap();
    server.signal(Signal::HUP);
    server.line_with("reloaded ");
    assert!(get(&format!("127.0.0.1:{low}")).ends_with("moving pictures\n"));
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
    assert_eq!(fs::metadata(files.at("access.jsonl")).unwrap().uid(), UNPRIVILEGED);
}

#[test]
fn a_link_that_the_user_has_put_on_the_way_to_its_cache_gives_no_file_of_root_away() {
    if !is_root() {
        return;
    }
    let files = Files::new();
    let at = |name: &str| files.at(name);
    fs::set_permissions(at(""), PermissionsExt::from_mode(0o755)).unwrap();
    fs::create_dir_all(at("priv/cache")).unwrap();
    chown(at("priv/cache"), Some(UNPRIVILEGED), Some(UNPRIVILEGED)).unwrap();
    fs::create_dir_all(at("keys/p")).unwrap();
    fs::write(at("keys/p/key"), "a key").unwrap();
    fs::set_permissions(at("keys/p/key"), PermissionsExt::from_mode(0o600)).unwrap();
    symlink(at("keys"), at("priv/cache/tiers")).unwrap();
    let text = format!(
        "workers: 1\nlisteners: [{{address: 127.0.0.1:{}}}]\nuser: \"{UNPRIVILEGED}:{UNPRIVILEGED}\"\n\
         cache: {{memory: {{directory: priv/cache/tiers/p, size: 64MiB}}}}\n\
         sites: [{{origin: {{http: [\"http://127.0.0.1:1\"]}}}}]\n",
        free_port()
    );
    let output = run(&["serve", "-c", &files.write("edge.yaml", &text)]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = stderr(&output);
    assert!(said.contains("priv/cache/tiers/p is not given to 65534:65534"), "{said}");
    for name in ["keys", "keys/p", "keys/p/key"] {
        assert_eq!(fs::metadata(at(name)).unwrap().uid(), 0, "{name}");
    }
    assert_eq!(fs::read_dir(at("keys/p")).unwrap().count(), 1);
}

#[test]
fn root_without_a_user_is_warned_of_by_serve_and_check() {
    if !is_root() {
        return;
    }
    let files = Files::new();
    let file = files.write("edge.yaml", &plain(free_port(), ""));
    let said = "a server started as root keeps all privileges; add user: NAME, or start it as another user";
    assert!(stderr(&run(&["check", "-c", &file])).contains(said));
    let server = Running::start(program().args(["serve", "-c", &file]));
    server.line_with(said);
    server.line_with("ready");
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn a_key_that_the_user_may_not_read_is_named_by_check() {
    let files = Files::new();
    fs::set_permissions(files.at("ec.crt"), PermissionsExt::from_mode(0o644)).unwrap();
    let text = format!(
        "user: \"{UNPRIVILEGED}:{UNPRIVILEGED}\"\nlisteners: [{{address: 127.0.0.1:443, tls: true}}]\n\
         sites: [{{origin: {{directory: video}}}}]\ntls: {{certificates: [{{chain: ec.crt, key: ec.key}}]}}\n"
    );
    let file = files.write("edge.yaml", &text);
    let output = run(&["check", "-c", &file]);
    assert_eq!(output.status.code(), Some(0));
    let said = stderr(&output);
    assert!(said.contains(&format!("may not read {}", files.at("ec.key").display())), "{said}");
    assert!(!said.contains("ec.crt"), "{said}");
}

#[test]
fn an_access_log_on_a_pipe_without_a_reader_is_refused() {
    let files = Files::new();
    make_pipe(&files.at("pipe"));
    let file = files.write("edge.yaml", &plain(free_port(), "log: {access: pipe}"));
    assert!(stderr(&run(&["check", "-c", &file])).contains("is a pipe: without a reader"));
    let output = run(&["serve", "-c", &file]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(stderr(&output).contains("no process reads the pipe"), "{output:?}");
}

#[test]
fn an_access_log_on_a_pipe_with_a_reader_works() {
    let files = Files::new();
    make_pipe(&files.at("pipe"));
    let pipe = files.at("pipe");
    let reader = std::thread::spawn(move || {
        let mut line = String::new();
        BufReader::new(File::open(pipe).unwrap()).read_line(&mut line).unwrap();
        line
    });
    let port = free_port();
    let file = files.write("edge.yaml", &plain(port, "log: {access: pipe}"));
    // The reader may not have opened its end yet.
    let server = loop {
        let server = Running::start(program().args(["serve", "-c", &file]));
        if server.line_with_one_of(&["ready", "no process reads the pipe"]).contains("ready") {
            break server;
        }
    };
    get(&format!("127.0.0.1:{port}"));
    assert!(reader.join().unwrap().starts_with('{'));
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn sigusr1_reopens_the_access_log() {
    let files = Files::new();
    let port = free_port();
    let file = files.write("edge.yaml", &plain(port, "log: {access: access.jsonl}"));
    let server = Running::start(program().args(["serve", "-c", &file]));
    server.line_with("ready");
    fs::rename(files.at("access.jsonl"), files.at("access.jsonl.1")).unwrap();
    server.signal(Signal::USR1);
    server.line_with("reopening the access log");
    assert!(get(&format!("127.0.0.1:{port}")).ends_with("moving pictures\n"));
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
    assert_eq!(fs::read_to_string(files.at("access.jsonl")).unwrap().lines().count(), 1);
    assert_eq!(fs::read_to_string(files.at("access.jsonl.1")).unwrap(), "");
}

#[test]
fn half_open_connections_to_the_admin_listener_do_not_hold_up_a_health_check() {
    let files = Files::new();
    let (port, admin) = (free_port(), free_port());
    let file = files.write("edge.yaml", &plain(port, &format!("admin: {{address: 127.0.0.1:{admin}}}")));
    let server = Running::start(program().args(["serve", "-c", &file]));
    server.line_with("ready");
    let open: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(("127.0.0.1", admin)).unwrap()).collect();
    let mut stream = TcpStream::connect(("127.0.0.1", admin)).unwrap();
    assert!(exchange(&mut stream, "/healthz").ends_with("ok\n"));
    drop(open);
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn a_module_that_does_not_exist_is_not_advised() {
    let protocols = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_ulp").unwrap_or_default();
    if protocols.contains("tls") {
        return;
    }
    let files = Files::new();
    let text = format!(
        "workers: 1\nlisteners: [{{address: 127.0.0.1:{}, tls: true}}]\nsites: [{{origin: {{directory: video}}}}]\n\
         tls: {{kernel: on, certificates: [{{chain: ec.crt, key: ec.key}}]}}\n",
        free_port()
    );
    let file = files.write("edge.yaml", &text);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let modules = fs::read_to_string(format!("/lib/modules/{}/modules.dep", release.trim()));
    let is_unknown = modules.is_err() && !Path::new("/proc/config.gz").exists();
    // As root the program loads a module that exists, and then serves.
    if is_unknown || modules.is_ok_and(|modules| modules.contains("/tls.ko")) {
        return;
    }
    let output = run(&["serve", "-c", &file]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = stderr(&output);
    assert!(said.contains("tls.kernel is `on`") && !said.contains("modprobe"), "{said}");
}

#[test]
fn a_purge_without_a_server_says_that_nothing_is_listening() {
    let files = Files::new();
    let admin = format!("admin: {{address: 127.0.0.1:{}}}", free_port());
    let file = files.write("edge.yaml", &plain(free_port(), &admin));
    let output = run(&["cache", "purge", "-c", &file, "--everything"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("nothing is listening there"), "{output:?}");
}

#[test]
fn a_reload_changes_the_names_of_the_admin_listener() {
    let files = Files::new();
    let (port, admin) = (free_port(), free_port());
    let with = |hosts: &str| plain(port, &format!("admin: {{address: 127.0.0.1:{admin}, hosts: [{hosts}]}}"));
    let file = files.write("edge.yaml", &with(""));
    let server = Running::start(program().args(["serve", "-c", &file]));
    server.line_with("ready");
    let status = || {
        use std::io::{Read, Write};
        let mut stream = TcpStream::connect(("127.0.0.1", admin)).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: edge1.example.com:{admin}\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(status(), "421");
    files.write("edge.yaml", &with("edge1.example.com"));
    server.signal(Signal::HUP);
    server.line_with("reloaded ");
    assert_eq!(status(), "200");
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn without_an_address_a_directory_is_served_on_both_loopback_addresses() {
    let files = Files::new();
    let mut command = program();
    let server = Running::start(command.args(["serve", "--plain", "--root"]).arg(files.at("video")));
    // Another program may use the port; the addresses are named in any case.
    let first = server.line_with("8443");
    assert!(first.contains("http://localhost:8443/") || first.contains("127.0.0.1:8443"), "{first}");
    if first.contains("Serving") && std::net::TcpListener::bind(("::1", 0)).is_ok() {
        server.line_with("http://[::1]:8443/");
        assert!(get("[::1]:8443").ends_with("moving pictures\n"));
    }
}

#[test]
fn settings_that_the_system_cuts_are_named_by_check_serve_and_doctor() {
    let files = Files::new();
    let queue: u32 = fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap().trim().parse().unwrap();
    let text = format!(
        "listeners: [{{address: 127.0.0.1:{}, backlog: {}}}]\nsites: [{{origin: {{directory: video}}}}]\n",
        free_port(),
        queue + 1
    );
    let file = files.write("edge.yaml", &text);
    let said = format!("backlog: the system cuts {} to {queue}, its net.core.somaxconn", queue + 1);
    assert!(stderr(&run(&["check", "-c", &file])).contains(&format!("{file}:1: {said}")));
    let doctor = run(&["doctor", "--quick", "--json", "-c", &file]);
    assert!(String::from_utf8(doctor.stdout).unwrap().contains(&said));
    let server = Running::start(program().args(["serve", "-c", &file]));
    server.line_with(&said);
    server.line_with("ready");
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
}
