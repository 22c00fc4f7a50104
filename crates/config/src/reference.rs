//! `docs/configuration.md`, made from the table of keys.

use crate::raw;
use crate::section::{Inside, Key, Section};

const COMMAND: &str = "UPDATE_DOCS=1 cargo test -p penstock-config docs_";

const INTRODUCTION: &str = "\
A configuration is one YAML file, given with `-c`. `penstock check -c FILE` says what is wrong with it: the line, and
what to write instead. SIGHUP makes a running server read it again; if it is wrong then, the server keeps what it has.

- A key that is not in these tables is an error, never ignored.
- **Sizes** are whole numbers with `KiB`, `MiB`, `GiB`, `TiB` (powers of 1024) or `KB`, `MB`, `GB`, `TB` (powers of
  1000), or plain bytes. **Times** are whole numbers with `ms`, `s`, `m`, `h` or `d`.
- Relative paths start at the directory of the file that has them. A configuration may have several files, and variables in
  values; see [one configuration for many edges](operations.md#one-configuration-for-many-edges).
- Write `\"*\"` and `\"*.example.com\"` in quotes: a bare `*` means something else in YAML.

`docs/penstock.yaml` is a sample with comments. The smallest useful configuration:

```yaml
listeners: [{address: 0.0.0.0:443, tls: true}]
tls: {certificates: [{chain: video.crt, key: video.key}]}
sites: [{origin: {directory: /srv/video}}]
```
";

/// The reference of all keys, in Markdown.
#[must_use]
pub fn reference() -> String {
    let mut text = format!(
        "# Configuration\n\n<!-- Generated from crates/config/src/raw.rs by: {COMMAND} -->\n\n{INTRODUCTION}"
    );
    describe("", false, raw::Root::KEYS, &mut text, &mut Vec::new());
    text
}

/// Whether a configuration can have a key, by its path: `sites.cache.default_ttl`.
#[must_use]
pub fn has_key(path: &str) -> bool {
    let mut keys = raw::Root::KEYS;
    let mut names = path.split('.').peekable();
    while let Some(name) = names.next() {
        let Some(key) = keys.iter().find(|key| key.name == name) else { return false };
        match key.inside {
            _ if names.peek().is_none() => return true,
            Inside::Section(inside) | Inside::List(inside) => keys = inside,
            Inside::Value => return false,
        }
    }
    false
}

const KEYSERVER_INTRODUCTION: &str = "\
The file of `penstock keyserver -c FILE` (see [keyserver.md](keyserver.md)) is one YAML file with the same rules as
[that of the server](configuration.md). SIGHUP makes a running keyserver read it again.

```yaml
address: 0.0.0.0:2407
chain: keyserver.pem
key: keyserver.key
ca: edges.pem
keys: [{directory: /etc/penstock/keys}]
clients: [{name: edge1.example.com, keys: [video.example.com]}]
```
";

/// The reference of all keys in the file of a keyserver, in Markdown.
#[must_use]
pub fn keyserver_reference() -> String {
    let mut text = format!(
        "# Configuration of the keyserver\n\n<!-- Generated from crates/config/src/raw/keys.rs by: {COMMAND} -->\n\n{KEYSERVER_INTRODUCTION}"
    );
    describe("", false, raw::Keyserver::KEYS, &mut text, &mut Vec::new());
    text
}

/// Describes a section and those in it, each once: a route has the sections of its site.
fn describe(
    path: &str,
    list: bool,
    keys: &'static [Key],
    text: &mut String,
    described: &mut Vec<*const Key>,
) {
    if described.contains(&keys.as_ptr()) {
        return;
    }
    described.push(keys.as_ptr());
    let title = match path {
        "" => "The file".to_owned(),
        _ if list => format!("`{path}`, each item"),
        _ => format!("`{path}`"),
    };
    *text += &format!("\n## {title}\n\n| key | takes | default | meaning |\n|---|---|---|---|\n");
    for key in keys {
        let (name, takes, meaning) = (key.name, key.takes, key.meaning.trim());
        let default = if key.default.is_empty() { String::new() } else { quoted(key.default) };
        *text += &format!("| `{name}` | {takes} | {default} | {meaning} |\n");
    }
    for key in keys {
        let inner = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
        match key.inside {
            Inside::Section(keys) => describe(&inner, false, keys, text, described),
            Inside::List(keys) => describe(&inner, true, keys, text, described),
            Inside::Value => {}
        }
    }
}

/// Words stay words; what can be written into a file is set as such.
fn quoted(default: &str) -> String {
    if default.contains(' ') && !default.starts_with('[') || matches!(default, "required" | "off" | "empty") {
        default.to_owned()
    } else {
        format!("`{default}`")
    }
}

#[cfg(test)]
mod tests {
    use std::{env, fs};

    use super::*;

    const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

    #[track_caller]
    fn compare(name: &str, wanted: &str) {
        let path = format!("{DOCS}/{name}");
        if env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, wanted).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == wanted, "docs/{name} does not show the table of keys; run: {COMMAND}");
    }

    #[test]
    fn keys_are_known_by_their_paths() {
        for (path, known) in [
            ("workers", true),
            ("sites.origin.http.weight", true),
            ("sites.cache", true),
            ("sites.nonsense", false),
            ("workers.more", false),
            ("", false),
        ] {
            assert_eq!(has_key(path), known, "{path}");
        }
    }

    #[test]
    fn docs_configuration_md_shows_every_key() {
        compare("configuration.md", &reference());
    }

    #[test]
    fn docs_keyserver_configuration_md_shows_every_key() {
        compare("keyserver-configuration.md", &keyserver_reference());
    }
}
