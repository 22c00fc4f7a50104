//! The admin listener on a Unix socket.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use penstock_testkit::{Server, Setup, Tool, until};
use rustix::process::Signal;
use tempfile::TempDir;

/// A server whose admin listener is `admin.sock` beside its configuration.
fn server_with(keys: &str) -> (Server, TempDir) {
    let memory = penstock_testkit::memory_directory();
    let yaml = format!(
        "workers: 1\nlisteners: [{{address: \"127.0.0.1:0\"}}]\nsites: [{{origin: {{directory: root}}}}]\n\
         cache: {{memory: {{directory: {}, size: 16MiB}}}}\n\
         limits: {{connections: 2000, open_files: 1000, lame_duck: 0, drain_deadline: 3s}}\n\
         admin: {{address: \"unix:admin.sock\"{keys}}}\n",
        memory.path().display()
    );
    (Setup::new().whole(&yaml).start(), memory)
}

fn ask(path: &Path, target: &str) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    write!(stream, "GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn command(server: &Server, arguments: &[&str]) -> penstock_testkit::Finished {
    let file = server.directory().join("penstock.yaml");
    Tool::penstock().args(arguments).arg("-c").arg(file).run()
}

#[test]
fn commands_and_clients_reach_it_and_its_file_says_who_may() {
    let (server, _memory) = server_with("");
    let path = server.directory().join("admin.sock");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(ask(&path, "/metrics").unwrap().contains("penstock_requests_total"));
    let top = command(&server, &["top", "--once"]).ok().text();
    assert!(top.contains(&format!("at unix:{}", path.display())), "{top}");
    let address = format!("unix:{}", path.display());
    Tool::penstock().args(["top", "--once", "--admin", &address]).run().ok();
    let purged = command(&server, &["cache", "purge", "--everything"]).ok().text();
    assert!(purged.contains('0'), "{purged}");
    let curl =
        Tool::new("curl").args(["-s", "--unix-socket"]).arg(&path).arg("http://localhost/healthz").run();
    assert_eq!(curl.ok().text(), "ok\n");
}

#[test]
fn a_group_may_be_given_access_and_a_reload_follows() {
    let (server, _memory) = server_with(", mode: \"0660\"");
    let path = server.directory().join("admin.sock");
    let mode = || fs::metadata(&path).map(|found| found.permissions().mode() & 0o777);
    assert_eq!(mode().unwrap(), 0o660);
    let file = server.directory().join("penstock.yaml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("0660", "0600")).unwrap();
    server.signal(Signal::HUP);
    until("the other permissions", || {
        (mode().ok()? == 0o600 && ask(&path, "/healthz").is_ok()).then_some(())
    });
}

#[test]
fn it_is_made_anew_at_a_start_and_handed_over_to_a_successor() {
    let (mut server, _memory) = server_with("");
    let path = server.directory().join("admin.sock");
    let inode = || fs::metadata(&path).unwrap().ino();
    let first = inode();
    server.hand_over();
    assert!(server.wait_for_predecessor().success());
    assert_eq!(inode(), first, "the successor has the socket of the process before");
    assert!(ask(&path, "/healthz").unwrap().ends_with("ok\n"));
    // Killed, it leaves its file behind.
    server.start_again(Signal::KILL);
    assert!(ask(&path, "/healthz").unwrap().ends_with("ok\n"));
}

#[test]
fn a_file_in_its_place_is_kept_and_said() {
    let (server, _memory) = server_with("");
    let file = server.directory().join("kept");
    fs::write(&file, "kept").unwrap();
    let config = server.directory().join("other.yaml");
    let yaml = format!(
        "listeners: [{{address: \"127.0.0.1:0\"}}]\nsites: [{{origin: {{directory: root}}}}]\nadmin: {{address: \"unix:{}\"}}\n",
        file.display()
    );
    fs::write(&config, yaml).unwrap();
    let failed = Tool::penstock().arg("serve").arg("-c").arg(&config).run().exits_with(2);
    assert!(failed.stderr.contains("there is a file that is no socket"), "{}", failed.stderr);
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
}
