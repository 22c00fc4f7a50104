//! Configurations in several files, variables of the environment, and the name of the machine.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::fixture::{Fixture, around};

const LISTENER: &str = "listeners: [{address: 127.0.0.1:8080}]\n";

fn site(host: &str) -> String {
    format!("sites:\n  - hosts: [{host}]\n    origin: {{directory: ../video}}\n")
}

/// A fixture with files in `conf.d`.
fn with_files(files: &[(&str, &str)]) -> Fixture {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path().join("conf.d")).unwrap();
    for (name, text) in files {
        fs::write(fixture.path().join("conf.d").join(name), text).unwrap();
    }
    fixture
}

fn hosts(fixture: &Fixture, text: &str) -> Vec<String> {
    let config = fixture.read(text).unwrap_or_else(|faults| panic!("{:?}", fixture.shown(&faults)));
    config.sites.iter().map(|site| format!("{:?}", site.hosts[0])).collect()
}

#[test]
fn sites_of_included_files_follow_in_the_order_of_their_names() {
    let fixture = with_files(&[
        ("20-b.yaml", &site("b.example.com")),
        ("10-a.yaml", &site("a.example.com")),
        ("30-c.yml", &site("c.example.com")),
        (".40-d.yaml", &site("d.example.com")),
        ("empty.yaml", "# no site yet\n"),
    ]);
    let text = format!(
        "{LISTENER}include: [conf.d/*.yaml, conf.d/30-c.yml, none/../conf.d/no*match]\n\
         sites: [{{hosts: [own.example.com], origin: {{directory: video}}}}]\n"
    )
    .replace("none/../", "");
    let exact = |name: &str| format!("Exact(\"{name}.example.com\")");
    assert_eq!(hosts(&fixture, &text), ["own", "a", "b", "c"].map(exact));
}

#[test]
fn lists_and_sections_of_several_files_are_joined() {
    let tls = "tls: {certificates: [{chain: ../other.crt, key: ../other.key}]}\nlimits: {head_fields: 50}\n";
    let fixture = with_files(&[("a.yaml", &format!("{}{tls}", site("a.example.com")))]);
    let text = "listeners: [{address: 127.0.0.1:8443, tls: true}]\ninclude: [conf.d/a.yaml]\n\
                tls: {versions: [\"1.3\"], certificates: [{chain: ec.crt, key: ec.key}]}\n\
                limits: {target_bytes: 4KiB}\n";
    let config = fixture.read(text).unwrap_or_else(|faults| panic!("{:?}", fixture.shown(&faults)));
    assert_eq!(config.tls.certificates.len(), 2);
    assert_eq!((config.limits.head_fields, config.limits.target_bytes), (50, 4096));
    let read: Vec<_> = config.read_again().collect();
    assert!(read.contains(&fixture.path().join("conf.d/a.yaml").as_path()), "{read:?}");
}

#[test]
fn faults_of_included_files_name_the_file_and_its_line() {
    let cases: [(&str, &str); 7] = [
        (
            "sites:\n  - origin: {directory: nowhere}\n",
            "conf.d/a.yaml:2: directory: DIR/conf.d/nowhere does not exist",
        ),
        ("nonsense: 1\n", "conf.d/a.yaml:1: unknown key `nonsense`"),
        ("sites: [\n", "conf.d/a.yaml:"),
        (
            "sites:\n - {hosts: [own.example.com], origin: {directory: ../video}}\n",
            "conf.d/a.yaml:2: hosts: `own.example.com` is already defined on line 3 of DIR/edge.yaml",
        ),
        ("\nlimits: {head_fields: 60}\n", "conf.d/a.yaml:2: head_fields is already defined on line 4 of"),
        ("\ninclude: [b.yaml]\n", "conf.d/a.yaml:2: include: an included file includes no other"),
        ("workers: ${NO_SUCH}\n", "conf.d/a.yaml:1: the variable NO_SUCH of the environment is not set"),
    ];
    for (text, expected) in cases {
        let fixture = with_files(&[("a.yaml", text)]);
        let main = format!(
            "{LISTENER}include: [conf.d/*.yaml]\nsites: [{{hosts: [own.example.com], origin: {{directory: video}}}}]\n\
             limits: {{head_fields: 50}}\n"
        );
        let faults = fixture.faults(&main);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].starts_with(expected), "{faults:?} for {text}");
    }
}

#[test]
fn patterns_that_cannot_be_read_are_faults_of_the_including_file() {
    let fixture = with_files(&[("a.yaml", &site("a.example.com"))]);
    symlink("a.yaml", fixture.path().join("conf.d/b.yaml")).unwrap();
    fs::write(fixture.file(), "# itself\n").unwrap();
    for (pattern, expected) in [
        ("none.yaml", "include: DIR/none.yaml: this file does not exist; write the path of a file"),
        ("none/*.yaml", "include: DIR/none cannot be read"),
        ("conf.*/a.yaml", "include: `conf.*/a.yaml` has a `*` in the name of a directory"),
        ("conf.d", "include: DIR/conf.d: this is a directory"),
        ("conf.d/", "include: `conf.d/` is a directory"),
        ("conf.d/*.yaml", "include: DIR/conf.d/b.yaml is included twice"),
        ("edge.yaml", "include: DIR/edge.yaml is this file itself"),
        ("/dev/zero", "include: /dev/zero: this is not a regular file"),
    ] {
        let faults = fixture.faults(&format!("{LISTENER}include: [\"{pattern}\"]\n"));
        assert!(faults[0].starts_with(&format!("edge.yaml:2: {expected}")), "{faults:?}");
    }
}

#[test]
fn included_files_are_bounded_in_number() {
    let fixture = with_files(&[]);
    for number in 0..1001 {
        fs::write(fixture.path().join(format!("conf.d/{number}.yaml")), "").unwrap();
    }
    let faults = fixture.faults(&format!("{LISTENER}include: [conf.d/*.yaml]\n"));
    assert!(faults[0].contains("matches more than 1000 files"), "{faults:?}");
}

#[test]
fn variables_are_expanded_in_values_and_not_in_keys() {
    let fixture = Fixture::new();
    let text = "listeners: [{address: \"${ADDRESS}:${PORT:-8080}\"}]\nworkers: ${WORKERS}\n\
                sites:\n  - hosts: [\"${HOST}\", \"$${x\"]\n    origin:\n      http: [\"http://${ORIGIN}\"]\n";
    let variables =
        [("ADDRESS", "127.0.0.1"), ("WORKERS", "3"), ("HOST", "a.example.com"), ("ORIGIN", "192.0.2.5")];
    let faults = fixture.read_with(text, "here", &variables).unwrap_err();
    assert_eq!(
        fixture.shown(&faults),
        ["edge.yaml:4: hosts: `${x` is not a host name; write a name such as video.example.com"]
    );
    let config = fixture.read_with(&text.replace(", \"$${x\"", ""), "here", &variables).unwrap();
    assert_eq!(config.listeners[0].address.to_string(), "127.0.0.1:8080");
    assert_eq!(config.workers.get(), 3);
    let faults = fixture.faults(&around("${KEY}: 1"));
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].starts_with("edge.yaml:3: unknown key `${KEY}`"), "{faults:?}");
}

#[test]
fn values_of_variables_are_not_in_messages() {
    let fixture = Fixture::new();
    for (line, secret) in [
        ("workers: ${SECRET}", "hunter2hunter2"),
        ("workers: ${SECRET}", "abc"),
        ("admin: {address: \"x${SECRET}\"}", "s\"quo\u{1b}ted"),
        ("fleet: {valkey: \"${SECRET}\", secret: \"/nowhere/${SECRET}\"}", "redis://u:topsecret@h:x"),
        ("log: {access: \"/nowhere/${SECRET}/a\"}", "long-enough"),
    ] {
        let faults = fixture.read_with(&around(line), "here", &[("SECRET", secret)]).unwrap_err();
        let shown = fixture.shown(&faults).join("\n");
        assert!(!shown.contains(secret) && !shown.contains(&secret.escape_debug().to_string()), "{shown}");
        assert!(shown.contains("${SECRET}") || line.contains("valkey"), "{shown}");
    }
}

#[test]
fn a_variable_in_a_list_or_section_without_quotes_is_explained() {
    let fixture = Fixture::new();
    for line in ["admin: {address: ${ADMIN}}", "include: [${DIR}/a.yaml]"] {
        assert_eq!(
            fixture.faults(&around(line)),
            ["edge.yaml:3: a variable inside [ ] or { } has to be quoted; write \"${NAME}\""],
            "{line}"
        );
    }
}

#[test]
fn the_name_of_the_machine_chooses_the_own_node() {
    let fixture = Fixture::new();
    let nodes = "nodes: [{name: edge1, address: 127.0.0.1:8443}, {name: edge2, address: 127.0.0.1:8444}]";
    let text = around(&format!("cluster: {{{nodes}}}"));
    for (host_name, own) in [("edge1", 0), ("Edge2", 1)] {
        let config = fixture.read_with(&text, host_name, &[]).unwrap();
        assert_eq!(config.cluster.unwrap().own, own);
    }
    let text = around(
        "fleet: {valkey: \"redis://127.0.0.1\", secret: secret.key}\n\
         cluster: {valkey: true, address: 192.0.2.1:8443}",
    );
    let secret = fixture.path().join("secret.key");
    fs::copy(fixture.path().join("ec.key"), &secret).unwrap();
    let config = fixture.read_with(&text, "edge7", &[]).unwrap();
    assert_eq!(config.cluster.unwrap().nodes[0].name, "edge7");
    assert_eq!(config.fleet.unwrap().name, "edge7:8080");
}

#[test]
fn only_a_regular_file_of_bounded_length_is_read_for_keys_lists_and_pages() {
    let fixture = Fixture::new();
    let at = |name: &str| fixture.path().join(name);
    assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
    let sites = [
        "access: {deny: [FILE]}",
        "access: {countries: {file: FILE, deny: [XX]}}",
        "access: {basic: {file: FILE}}",
        "access: {jwt: {keys: FILE}}",
        "tokens: {format: penstock, key: FILE}",
        "tokens: {format: cloudfront, keys: [{id: K1, file: FILE}]}",
        "tokens: {format: jwt, key: FILE}",
        "tokens: {format: penstock, key: ec.key, revoked: FILE}",
        "signed_urls: {keys: [{id: a, file: FILE}]}",
        "headers: {request: {set: {X-Key: \"{file.FILE}\"}}}",
        "error_pages: [{status: [500], file: FILE}]",
    ];
    let site = |line: &str| {
        format!("sites:\n  - hosts: [a.example]\n    origin: {{http: [\"http://a\"]}}\n    {line}\n")
    };
    let whole = [
        "admin: {address: \"127.0.0.1:9000\", token: FILE}",
        "fleet: {valkey: \"redis://127.0.0.1\", secret: FILE}",
        "tls: {certificates: [{chain: FILE, key: ec.key}]}",
        "tls: {certificates: [{chain: ec.crt, key: FILE}]}",
    ];
    let texts = sites.iter().map(|line| format!("{LISTENER}{}", site(line)));
    for text in texts.chain(whole.iter().map(|line| around(line))) {
        for (name, why) in [
            ("pipe", "is not a regular file"),
            ("video", "is a directory"),
            // Each bound is below the size of this file.
            ("huge.pem", "is larger than "),
        ] {
            let shown = fixture.faults(&text.replace("FILE", name)).join("\n");
            assert!(shown.contains(&format!("DIR/{name}")) && shown.contains(why), "{text} {shown}");
        }
    }
}
