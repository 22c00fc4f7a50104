//! Tokens in formats of other systems, with the generators and verifiers of these systems.

mod generators;
mod inherited;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use penstock_testkit::{Setup, Tool};
use tempfile::TempDir;

/// 16 bytes in hexadecimal digits, which are 32 bytes as they are.
const SECRET: &str = "00112233445566778899aabbccddeeff";

/// Files of keys, and a tier of the cache.
struct Keys {
    directory: TempDir,
    memory: TempDir,
}

impl Keys {
    fn new() -> Self {
        let keys =
            Self { directory: tempfile::tempdir().unwrap(), memory: penstock_testkit::memory_directory() };
        keys.write("secret.key", SECRET);
        let k = "MDAxMTIyMzM0NDU1NjY3Nzg4OTlhYWJiY2NkZGVlZmY";
        keys.write(
            "keys.json",
            &format!("{{\"keys\": [{{\"kty\": \"oct\", \"kid\": \"k1\", \"k\": \"{k}\"}}]}}"),
        );
        keys
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) {
        let file = self.directory.path().join(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    }

    /// A server with one site whose requests need these tokens; `SECRET`, `JWKS` and `DIR` stand for files.
    fn setup(&self, origin: &str, tokens: &str) -> Setup {
        let tokens = tokens
            .replace("SECRET", &self.path("secret.key"))
            .replace("JWKS", &self.path("keys.json"))
            .replace("DIR", &self.directory.path().display().to_string());
        let memory = self.memory.path().display();
        Setup::new()
            .sites(&format!("- {origin}\n  tokens: {tokens}"))
            .section(&format!("cache: {{slice: 64KiB, memory: {{directory: {memory}, size: 4MiB}}}}"))
    }

    /// The output of `penstock sign` for an hour.
    fn sign(&self, format: &str, key: &str, arguments: &[&str]) -> String {
        let common = ["sign", "--format", format, "--expires", "1h", "--key-file"];
        let tool = Tool::penstock().args(common).arg(self.path(key)).args(arguments);
        tool.run().ok().text().trim().to_owned()
    }
}

fn in_an_hour() -> u64 {
    (SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(3600)).as_secs()
}

/// Where `scripts/install-needs test` puts generators.
const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/tokens");
const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/tokens");

/// Whether a generator is installed; says so if it is not.
fn has(part: &str) -> bool {
    let has = Path::new(TOOLS).join(part).exists();
    if !has {
        penstock_testkit::not_tested("needs generators of tokens; scripts/install-needs test installs them");
    }
    has
}

/// The output of the generators in Python.
fn python(arguments: &[&str]) -> String {
    let script = format!("{HERE}/generators.py");
    Tool::new(&format!("{TOOLS}/bin/python3")).arg(script).args(arguments).run().ok().text().trim().to_owned()
}

/// The output of the generator and verifier of Common Access Tokens in Node.
fn node(arguments: &[&str]) -> String {
    let tool = Tool::new("node").env("MODULES", format!("{TOOLS}/node_modules"));
    tool.arg(format!("{HERE}/cat.js")).args(arguments).run().ok().text().trim().to_owned()
}
