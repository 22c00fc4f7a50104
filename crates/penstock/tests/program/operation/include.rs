//! A configuration in several files, with variables, that a reload reads again.

use std::fs;

use penstock_testkit::{Client, Setup, Tool};

fn site(host: &str) -> String {
    format!("sites:\n  - hosts: [{host}]\n    origin: {{directory: ../root}}\n")
}

#[test]
fn a_reload_reads_included_files_again() {
    let setup = Setup::new().sites("- {hosts: [own.example], origin: {directory: root}}");
    let server = setup.start();
    server.write("a.txt", "a\n");
    fs::create_dir(server.directory().join("conf.d")).unwrap();
    let setup = setup.section("include: [conf.d/*.yaml]");
    server.reload(&setup);
    let mut client = Client::plain(&server);
    let mut status =
        |host: &str| client.request(format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\n\r\n")).status;
    assert_eq!((status("own.example"), status("new.example")), (200, 421));
    let file = server.directory().join("conf.d/new.yaml");
    fs::write(&file, site("new.example")).unwrap();
    server.reload(&setup);
    assert_eq!((status("own.example"), status("new.example")), (200, 200));
    fs::remove_file(&file).unwrap();
    server.reload(&setup);
    assert_eq!((status("own.example"), status("new.example")), (200, 421));
}

#[test]
fn check_expands_variables_and_repeats_no_secret() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("edge.yaml");
    fs::create_dir(directory.path().join("root")).unwrap();
    let text = "listeners: [{address: \"127.0.0.1:${PORT:-8080}\"}]\n\
                sites: [{hosts: [\"${HOST}\"], origin: {directory: root}}]\n";
    fs::write(&path, text).unwrap();
    let check = || Tool::penstock().args(["check", "-c"]).arg(&path);
    check().env("HOST", "a.example").run().ok();
    let unset = check().run().exits_with(2).stderr;
    assert!(unset.contains("edge.yaml:2: the variable HOST of the environment is not set"), "{unset}");
    let wrong = check().env("HOST", "a.example").env("PORT", "hunter2hunter2").run().exits_with(2).stderr;
    assert!(wrong.contains("edge.yaml:1: address: `127.0.0.1:${PORT:-8080}` is not"), "{wrong}");
    assert!(!wrong.contains("hunter2"), "{wrong}");
}
