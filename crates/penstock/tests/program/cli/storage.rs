//! What `penstock check` says about directories and keys that a start would fail on.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Output;

use penstock_testkit::{Tool, disk_directory, memory_directory};
use rustix::process::geteuid;

use super::program::{Files, program, run, stderr, stderr_of_any_user};

/// A user that is in every `/etc/passwd`, by its numbers.
const UNPRIVILEGED: u32 = 65534;

/// A configuration with a cache in these directories.
fn cached(memory: &str, disk: &str) -> String {
    format!(
        "workers: 1\nlisteners: [{{address: 127.0.0.1:80}}]\nsites: [{{origin: {{http: [\"http://192.0.2.1\"]}}}}]\n\
         cache:\n  memory: {{directory: {memory}, size: 16MiB}}\n  disk: [{disk}]\n"
    )
}

/// Runs `check` as a user without privileges.
fn check_unprivileged(file: &str) -> Output {
    let mut command = program();
    command.args(["check", "-c", file]);
    if geteuid().is_root() {
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
    }
    command.output().unwrap()
}

fn warnings(file: &str) -> Vec<String> {
    let output = run(&["check", "-c", file]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stderr_of_any_user(&output).lines().map(str::to_owned).collect()
}

#[test]
fn directories_of_the_cache_that_are_fine_are_not_mentioned() {
    let (files, memory, disk) = (Files::new(), memory_directory(), disk_directory());
    let disk = format!("{{directory: {}/not/there/yet, size: 64MiB}}", disk.path().display());
    let file = files.write("edge.yaml", &cached(&memory.path().join("new").display().to_string(), &disk));
    assert_eq!(warnings(&file), [""; 0]);
}

#[test]
fn a_directory_of_the_cache_below_a_file_cannot_be_made() {
    let (files, memory) = (Files::new(), memory_directory());
    let below = files.at("ec.crt").join("cache");
    let disk = format!("{{directory: {}, size: 64MiB}}", below.display());
    let file = files.write("edge.yaml", &cached(&memory.path().display().to_string(), &disk));
    let said = warnings(&file);
    let wanted = format!(
        "{} cannot be made, since {} is not a directory; remove",
        below.display(),
        files.at("ec.crt").display()
    );
    assert!(said.len() == 1 && said[0].contains(&wanted), "{said:?}");
}

#[test]
fn a_directory_of_the_cache_that_the_user_may_not_write_is_named_with_the_command_that_makes_it() {
    let (files, memory) = (Files::new(), memory_directory());
    for (path, mode) in [(files.at(""), 0o755), (memory.path().to_owned(), 0o555)] {
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }
    let tier = memory.path().join("tier");
    let file = files.write("edge.yaml", &cached(&tier.display().to_string(), ""));
    let output = check_unprivileged(&file);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let wanted = format!(
        "{0} cannot be made: {1} may not be written by this user; run install -d -o USER -m 0700 {0}",
        tier.display(),
        memory.path().display()
    );
    assert!(said.contains(&wanted), "{said}");
}

#[test]
fn a_memory_tier_on_a_disk_and_a_disk_tier_that_its_disk_has_no_space_for_are_mentioned() {
    let (files, disk) = (Files::new(), disk_directory());
    let memory = disk.path().join("memory").display().to_string();
    let disks = ["one", "two"]
        .map(|name| format!("{{directory: {}, size: 1024TiB}}", disk.path().join(name).display()))
        .join(", ");
    let file = files.write("edge.yaml", &cached(&memory, &disks));
    let said = warnings(&file);
    assert_eq!(said.len(), 2, "{said:?}");
    let on_disk =
        format!("the memory tier in {memory} is not on tmpfs: each of its bytes is written to a disk too");
    assert!(said[0].contains(&on_disk) && said[0].contains("/dev/shm/penstock"), "{said:?}");
    let large = format!("the disk tier in {}/one may have 2147483648 MiB, and", disk.path().display());
    assert!(said[1].contains(&large) && said[1].contains("write a smaller size"), "{said:?}");
}

/// A configuration whose certificate has its key in this file.
fn with_key(key: &str) -> String {
    format!(
        "workers: 1\nlisteners: [{{address: 127.0.0.1:443, tls: true}}]\nsites: [{{origin: {{directory: video}}}}]\n\
         tls: {{certificates: [{{chain: ec.crt, key: {key}}}]}}\n"
    )
}

#[test]
fn a_key_that_the_user_may_not_read_is_named_with_the_commands_that_let_it() {
    let files = Files::new();
    fs::set_permissions(files.at(""), PermissionsExt::from_mode(0o755)).unwrap();
    fs::create_dir(files.at("private")).unwrap();
    fs::copy(files.at("ec.key"), files.at("private/ec.key")).unwrap();
    for (key, refused, mode) in [("ec.key", "ec.key", "g+r"), ("private/ec.key", "private", "g+x")] {
        let closed = if geteuid().is_root() { 0o600 } else { 0 };
        fs::set_permissions(files.at(refused), PermissionsExt::from_mode(closed)).unwrap();
        let file = files.write("edge.yaml", &with_key(key));
        let said = stderr(&check_unprivileged(&file));
        fs::set_permissions(files.at(refused), PermissionsExt::from_mode(0o700)).unwrap();
        let path = files.at(refused).display().to_string();
        let command = format!(" {path} && chmod {mode} {path}: this program runs as ");
        assert!(said.contains("ec.key may not be read by this user; run chgrp "), "{said}");
        assert!(said.contains(&command), "{said}");
    }
}

#[test]
fn an_encrypted_key_is_named_with_the_command_that_removes_its_password() {
    let files = Files::new();
    let openssl = |arguments: &[&str]| {
        Tool::new("openssl").args(arguments).directory(&files.at("")).run().ok();
    };
    openssl(&["pkey", "-in", "ec.key", "-aes256", "-passout", "pass:secret", "-out", "new.key"]);
    openssl(&["ec", "-in", "ec.key", "-aes256", "-passout", "pass:secret", "-out", "old.key"]);
    for name in ["new.key", "old.key"] {
        let file = files.write("edge.yaml", &with_key(name));
        let output = run(&["check", "-c", &file]);
        assert_eq!(output.status.code(), Some(2));
        let (said, path) = (stderr(&output), files.at(name).display().to_string());
        let wanted = format!(
            "key: {path} is encrypted, and this program asks for no password; run umask 077 && openssl pkey -in {path} \
             -out {path}.plain, and write key: {path}.plain"
        );
        assert!(said.contains(&wanted), "{said}");
        openssl(&["pkey", "-in", name, "-passin", "pass:secret", "-out", &format!("{name}.plain")]);
        let file = files.write("edge.yaml", &with_key(&format!("{name}.plain")));
        assert_eq!(run(&["check", "-c", &file]).status.code(), Some(0));
    }
}
