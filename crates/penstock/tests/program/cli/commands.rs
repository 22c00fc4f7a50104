//! Commands that end by themselves.

use std::fs;
use std::process::Stdio;

use super::program::{Files, program, run, stderr, stderr_of_any_user, stdout};

#[test]
fn wrong_usage_is_2_and_says_how_to_go_on() {
    for (arguments, part) in [
        (&[][..], "Usage: penstock [OPTIONS] <COMMAND>"),
        (&["fly"], "unrecognized subcommand 'fly'"),
        (&["serve"], "<--config <FILE>|--root <DIR>>"),
        (&["serve", "--root", ".", "-c", "x.yaml"], "cannot be used with"),
        (&["serve", "-c", "x.yaml", "--plain"], "cannot be used with"),
        (&["serve", "-c", "x.yaml", "--listen", "127.0.0.1:1"], "cannot be used with"),
        (&["serve", "--root", ".", "--listen", "8443"], "such as 127.0.0.1:8443 or [::]:8443"),
        (&["serve", "--root", ".", "--workers", "0"], "write a number from 1 to 1024"),
        (&["serve", "--root", ".", "--workers", "1025"], "write a number from 1 to 1024"),
        (&["serve", "--root", ".", "--log-level", "loud"], "invalid value 'loud' for '--log-level <LEVEL>'"),
        (
            &["serve", "--root", ".", "--log-level", "info,penstock=loud"],
            "write off, error, warn, info, debug or",
        ),
        (&["check"], "<FILE>"),
        (&["completions", "tcsh"], "invalid value 'tcsh'"),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(part), "{arguments:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{arguments:?}");
    }
}

#[test]
fn help_and_version_are_0_and_on_stdout() {
    let help = run(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    for command in ["serve", "init", "check", "doctor", "tickets", "load", "completions", "man", "Exit codes"]
    {
        assert!(stdout(&help).contains(command), "{command}");
    }
    let version = run(&["--version"]);
    assert_eq!(version.status.code(), Some(0));
    let wanted = format!("penstock {}", env!("CARGO_PKG_VERSION"));
    assert!(stdout(&version).starts_with(&wanted), "{}", stdout(&version));
}

#[test]
fn every_command_has_help_with_examples() {
    for command in ["serve", "init", "check", "doctor", "tickets", "load", "completions", "man"] {
        let output = run(&[command, "--help"]);
        assert_eq!(output.status.code(), Some(0), "{command}");
        assert!(stdout(&output).contains("Example"), "{command}");
        assert!(stdout(&output).contains(&format!("penstock {command}")), "{command}");
    }
}

#[test]
fn check_of_a_good_file_is_0_and_one_line() {
    let files = Files::new();
    let file = files.write(
        "edge.yaml",
        "workers: 2\nlisteners: [{address: 127.0.0.1:443, tls: true}]\nsites: [{origin: {directory: video}}]\n\
         tls: {certificates: [{chain: ec.crt, key: ec.key}]}\n",
    );
    let output = run(&["check", "-c", &file]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stdout(&output), format!("{file}: fine: 1 listener, 1 site, 1 certificate, 2 workers\n"));
    assert_eq!(stderr_of_any_user(&output), "");
}

#[test]
fn check_shows_warnings_and_is_still_0() {
    let files = Files::new();
    let file = files.write(
        "edge.yaml",
        "workers: 1\nlisteners: [{address: 127.0.0.1:80}]\nsites: [{origin: {directory: video}}]\n\
         tls: {key_log: keys.txt}\n",
    );
    let output = run(&["check", "-c", &file]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stdout(&output), format!("{file}: fine: 1 listener, 1 site, 1 worker\n"));
    let keys = files.at("keys.txt");
    let warning = format!(
        "{file}:4: key_log: a reader of {} can decrypt all traffic; remove it after debugging (warning)\n",
        keys.display()
    );
    assert_eq!(stderr_of_any_user(&output), warning);
}

#[test]
fn check_warns_of_a_memory_tier_that_is_larger_than_its_file_system() {
    let files = Files::new();
    let file = files.write(
        "edge.yaml",
        "workers: 1\nlisteners: [{address: 127.0.0.1:80}]\nsites: [{origin: {http: [\"http://192.0.2.1\"]}}]\n\
         cache: {memory: {directory: /dev/shm/not/there, size: 4096GiB}}\n",
    );
    let output = run(&["check", "-c", &file]);
    assert_eq!(output.status.code(), Some(0));
    let said = stderr_of_any_user(&output);
    assert!(said.contains(&format!("{file}:4: the memory tier in /dev/shm/not/there uses ")), "{said}");
    assert!(said.contains(" of 4194304 MiB: its file system has no more space"), "{said}");
}

#[test]
fn check_of_a_bad_file_is_2_with_a_line_for_each_fault() {
    let files = Files::new();
    let file = files.write("edge.yaml", "workers: 0\nlistners: []\nsites: []\n");
    let output = run(&["check", "--config", &file]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stdout(&output), "");
    let wanted = [
        format!("{file}:1: workers: `0` is not a number of workers; write auto or a number from 1 to 1024"),
        format!("{file}:2: unknown key `listners`; write `listeners`"),
        format!(
            "{file}:3: there is no site; write sites: [{{hosts: [\"*\"], origin: {{directory: /srv/video}}}}]"
        ),
        format!("{file}: there is no listener; write listeners: [{{address: 0.0.0.0:443, tls: true}}]"),
    ];
    assert_eq!(stderr(&output).lines().collect::<Vec<_>>(), wanted);
}

#[test]
fn check_of_a_missing_file_is_2() {
    let output = run(&["check", "-c", "/nowhere/edge.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        stderr(&output),
        "/nowhere/edge.yaml: this file does not exist; write the path of a configuration file after -c\n"
    );
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{shell}");
        for word in ["penstock", "serve", "check", "root"] {
            assert!(stdout(&output).contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn bash_accepts_its_completions() {
    let files = Files::new();
    let file = files.write("completions", &stdout(&run(&["completions", "bash"])));
    let bash = std::process::Command::new("bash").args(["-n", &file]).output().unwrap();
    assert!(bash.status.success(), "{}", stderr(&bash));
}

#[test]
fn manual_pages_are_printed_or_written() {
    let page = run(&["man"]);
    assert_eq!(page.status.code(), Some(0));
    assert!(stdout(&page).contains(".TH penstock 1"), "{}", stdout(&page));
    let files = Files::new();
    let directory = files.at("man/man1").display().to_string();
    assert_eq!(run(&["man", &directory]).status.code(), Some(0));
    for name in ["penstock.1", "penstock-serve.1", "penstock-check.1"] {
        let page = fs::read_to_string(files.at("man/man1").join(name)).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{name}: {page}");
    }
}

#[test]
fn manual_pages_that_cannot_be_written_are_1() {
    let output = run(&["man", "/proc/nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).starts_with("penstock: cannot write manual pages to /proc/nowhere: "));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = program().args(["completions", "bash"]).stdout(Stdio::from(writer)).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stderr(&output), "");
}

#[test]
fn the_systemd_unit_calls_the_program_rightly() {
    let unit = include_str!("../../../../../packaging/penstock.service");
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let arguments: Vec<&str> = line.split(' ').skip(1).collect();
    let [before @ .., "/etc/penstock/penstock.yaml"] = &arguments[..] else { panic!("{arguments:?}") };
    // Only the file is wrong then, not the usage.
    let output = run(&[before, &["/nowhere/edge.yaml"]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).starts_with("/nowhere/edge.yaml: this file does not exist"),
        "{}",
        stderr(&output)
    );
    assert!(unit.contains("\nRestartPreventExitStatus=2\n"));
}
