//! `penstock tickets`: what it writes, removes and shows.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Output;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::program::{run, stderr, stdout};

fn tickets(command: &str, directory: &Path, more: &[&str]) -> Output {
    run(&[&["tickets", command, directory.to_str().unwrap()], more].concat())
}

fn key_files(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Makes a key as old as this.
fn age(directory: &Path, name: &str, seconds: u64) {
    let file = fs::File::options().write(true).open(directory.join(name)).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
}

/// Rotates so often, each key an hour older than the next; the names, oldest first.
fn with_history(directory: &Path, keys: u64) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for number in 0..keys {
        assert_eq!(tickets("rotate", directory, &["--keep", "64"]).status.code(), Some(0));
        let fresh = key_files(directory).into_iter().find(|name| !names.contains(name)).unwrap();
        age(directory, &fresh, 3600 * (keys - number));
        names.push(fresh);
    }
    names
}

#[test]
fn rotating_adds_a_key_that_only_its_owner_can_read() {
    let parent = TempDir::new().unwrap();
    let directory = parent.path().join("keys");
    let output = tickets("rotate", &directory, &[]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    let [name] = &key_files(&directory)[..] else { panic!("one file: {:?}", key_files(&directory)) };
    assert_eq!(stdout(&output), format!("{}: added\n", directory.join(name).display()));
    let metadata = directory.join(name).metadata().unwrap();
    assert_eq!((metadata.len(), metadata.mode() & 0o777), (80, 0o600));
    assert_eq!(directory.metadata().unwrap().mode() & 0o777, 0o700);
}

#[test]
fn rotating_removes_the_oldest_and_says_so() {
    let directory = TempDir::new().unwrap();
    let names = with_history(directory.path(), 3);
    let output = tickets("rotate", directory.path(), &[]);
    let path = |name: &str| directory.path().join(name).display().to_string();
    let left = key_files(directory.path());
    let added = left.iter().find(|name| !names.contains(name)).unwrap();
    assert_eq!(stdout(&output), format!("{}: added\n{}: removed\n", path(added), path(&names[0])));
    assert_eq!(left.len(), 3);
}

#[test]
fn a_directory_that_every_user_may_read_is_a_warning() {
    let directory = TempDir::new().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let output = tickets("rotate", directory.path(), &[]);
    assert_eq!(output.status.code(), Some(0));
    let said = "is open to every user of this machine; run chmod 700 on it, or 750 for a group of its own (warning)\n";
    assert!(stderr(&output).ends_with(said), "{}", stderr(&output));
}

#[test]
fn the_list_shows_what_each_key_is_good_for_and_never_a_key() {
    let directory = TempDir::new().unwrap();
    let names = with_history(directory.path(), 4);
    fs::write(directory.path().join("README"), "These are keys.").unwrap();
    let output = tickets("list", directory.path(), &["--keep", "2"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("README has no key of 48 or 80 bytes in Base64"), "{}", stderr(&output));
    let shown = stdout(&output);
    let lines: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NAME", "AGE", "KIND", "USE", "FILE"]);
    for (line, (name, use_of)) in
        lines[1..].iter().zip(names.iter().rev().zip(["seals", "opens", "dropped", "dropped"]))
    {
        let content = fs::read(directory.path().join(name)).unwrap();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!((line[0], line[3], line[4], line[5]), (&*hex(&content[..16]), "AES-256", use_of, &**name));
        assert!(!shown.contains(&hex(&content[16..24])) && !shown.contains(&hex(&content[48..56])));
    }
    assert_eq!(lines.len(), 5);
}

#[test]
fn an_impossible_task_is_1_and_wrong_use_is_2() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let output = tickets("rotate", &file, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot rotate the keys in"), "{}", stderr(&output));
    let output = tickets("list", &directory.path().join("nowhere"), &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot list"), "{}", stderr(&output));
    for keep in ["0", "65", "many"] {
        let output = tickets("rotate", directory.path(), &["--keep", keep]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("write a number from 1 to 64"), "{}", stderr(&output));
    }
    assert_eq!(key_files(directory.path()), ["file"]);
}
