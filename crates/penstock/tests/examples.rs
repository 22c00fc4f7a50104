//! The configurations in `examples/` and the sample in `docs/` are accepted by `penstock check`.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Directories that the examples name: each becomes a directory of the test.
const ROOTS: [&str; 7] = [
    "/etc/penstock",
    "/srv/video",
    "/var/log/penstock",
    "/var/log/nginx",
    "/var/cache/nginx",
    "/run/penstock",
    "/mnt/",
];

/// The directory of memory tiers, which becomes one on tmpfs.
const MEMORY: &str = "/dev/shm/penstock";

/// Sizes of tiers that the file system of the test may not have.
const SIZES: [&str; 4] = ["900GiB", "100GiB", "16GiB", "8GiB"];

fn examples() -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new(REPOSITORY).join("examples")).expect("examples/ exists");
    let paths = entries.map(|entry| entry.expect("a readable entry").path());
    let mut found: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|suffix| suffix == "yaml")).collect();
    found.push(Path::new(REPOSITORY).join("docs/penstock.yaml"));
    found
}

/// Names of the certificates, for all hosts of the examples.
const NAMES: &str = "subjectAltName=DNS:example.com,DNS:edge1.example.com,DNS:*.example.com,DNS:*.vod.example.com,DNS:*.video.example.com";

/// A self-signed certificate and its key, as two files.
fn make_certificate(chain: &Path, key: &Path) {
    let done = Command::new("openssl")
        .args(["req", "-x509", "-nodes", "-days", "90"])
        .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
        .args(["-subj", "/CN=video.example.com", "-addext", NAMES, "-out"])
        .arg(chain)
        .arg("-keyout")
        .arg(key)
        .output()
        .expect("openssl is installed");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// A directory with everything that the examples name.
fn make_surroundings(directory: &Path) {
    for root in ROOTS {
        fs::create_dir_all(directory.join(&root[1..])).unwrap();
    }
    let etc = directory.join("etc/penstock");
    for below in ["tls", "certificates"] {
        fs::create_dir_all(etc.join(below)).unwrap();
    }
    let tickets = directory.join("run/penstock/tickets");
    let rotated = penstock().args(["tickets", "rotate"]).arg(tickets).output().unwrap();
    assert!(rotated.status.success(), "{}", String::from_utf8_lossy(&rotated.stderr));
    for (chain, key) in [
        ("tls/fullchain.pem", "tls/privkey.pem"),
        ("tls/default.crt", "tls/default.key"),
        ("tls/video.crt", "tls/video.key"),
        ("certificates/a.crt", "certificates/a.key"),
        ("origin-ca.pem", "origin-ca.key"),
        ("cluster.pem", "cluster.key"),
        ("edge1.example.com.pem", "edge1.example.com.key"),
    ] {
        make_certificate(&etc.join(chain), &etc.join(key));
    }
    fs::write(etc.join("revoked.txt"), "").unwrap();
    for key in ["url-2026a.key", "origin.key", "link.key"].map(|name| etc.join(name)) {
        fs::write(&key, "0123456789abcdef0123456789abcdef\n").unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    }
}

fn penstock() -> Command {
    Command::new(penstock_testkit::program())
}

fn check(example: &Path, directory: &Path) -> Output {
    let memory = penstock_testkit::memory_directory();
    let mut text = fs::read_to_string(example).unwrap().replace(MEMORY, memory.path().to_str().unwrap());
    for root in ROOTS {
        text = text.replace(root, &format!("{}{root}", directory.display()));
    }
    for size in SIZES {
        text = text.replace(size, "64MiB");
    }
    let copy = directory.join(example.file_name().unwrap());
    fs::write(&copy, text).unwrap();
    penstock().arg("check").arg("-c").arg(copy).output().unwrap()
}

#[test]
fn every_example_passes_the_check_without_a_warning() {
    let directory = tempfile::tempdir().unwrap();
    make_surroundings(directory.path());
    let examples = examples();
    assert!(examples.len() >= 4, "{examples:?}");
    for example in examples {
        let Output { status, stdout, stderr } = check(&example, directory.path());
        let said = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        assert!(status.success(), "{}:\n{said}", example.display());
        // The tests may run as root, and neither the user of the service nor addresses for documentation (RFC 5737) are here.
        let is_of_this_machine =
            |line: &str| line.contains("started as root") || line.contains("cannot listen on 192.0.2.1:");
        let mut warnings = said.lines().filter(|line| line.contains("warning"));
        assert!(warnings.all(is_of_this_machine), "{}:\n{said}", example.display());
    }
}
