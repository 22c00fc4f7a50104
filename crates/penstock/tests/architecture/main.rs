//! Checks ARCHITECTURE.md and the rules of CONTRIBUTING.md against the tree: layers of crates, circles of imports, sizes of
//! files, `unsafe`, reasons for dependencies.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

mod circles;
mod imports;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use circles::circles_in;
use imports::{Source, imports_of};

/// A file of this many lines is too long.
const TOO_MANY_LINES: usize = 600;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The lines of the fenced block of ARCHITECTURE.md that begins with this line, without that line.
fn drawing(first: &str) -> Vec<String> {
    let text = read("ARCHITECTURE.md");
    let mut blocks = text.split("```").skip(1).step_by(2).map(|block| block.trim().lines());
    let found = blocks.find_map(|mut lines| (lines.next() == Some(first)).then_some(lines));
    found.unwrap_or_else(|| panic!("ARCHITECTURE.md draws no `{first}`")).map(str::to_owned).collect()
}

/// Folder name of each crate, and the folder names of the crates it imports.
fn real_arrows() -> BTreeMap<String, BTreeSet<String>> {
    let mut arrows = BTreeMap::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        let imports = manifest.split("[dev-dependencies]").next().unwrap();
        let imports = imports.lines().filter_map(|line| line.strip_prefix("penstock-"));
        let imports = imports.filter_map(|line| line.split(['.', ' ']).next()).map(str::to_owned).collect();
        arrows.insert(name, imports);
    }
    arrows
}

/// The layer of each name in a drawing. Each layer is `layer N  names:   description`.
fn drawn_layers(first: &str) -> BTreeMap<String, u32> {
    let mut layers = BTreeMap::new();
    for layer in drawing(first).join(" ").split("layer ").skip(1) {
        let (names, _) = layer.split_once(':').expect("a layer names its parts before a colon");
        let mut words = names.split([' ', ',']).filter(|word| !word.is_empty());
        let number = words.next().and_then(|word| word.parse().ok()).expect("a layer has a number");
        for name in words {
            let known = layers.insert(name.to_owned(), number);
            assert_eq!(known, None, "{first} draws {name} twice");
        }
    }
    layers
}

/// The Rust files below a folder, by their paths below it.
fn rust_files(folder: &str) -> Source {
    fn add(base: &Path, folder: &Path, files: &mut Source) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                add(base, &path, files);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(base).unwrap().to_str().unwrap().to_owned();
                files.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut files = Source::new();
    let folder = root().join(folder);
    add(&folder, &folder, &mut files);
    files
}

#[test]
fn the_crates_drawn_are_the_crates_there_are() {
    let drawn: BTreeSet<_> = drawn_layers("crates").into_keys().collect();
    let real: BTreeSet<_> = real_arrows().into_keys().collect();
    assert_eq!(drawn, real);
    let table = read("ARCHITECTURE.md");
    for name in real {
        assert!(table.contains(&format!("| `crates/{name}` |")), "crates/{name} has no row in the table");
    }
}

#[test]
fn a_crate_imports_only_from_lower_layers() {
    let layers = drawn_layers("crates");
    for (name, imports) in real_arrows() {
        for import in imports {
            assert!(layers[&import] < layers[&name], "{name} imports {import}, which is not below it");
        }
    }
}

#[test]
fn the_files_of_a_crate_do_not_import_each_other_in_a_circle() {
    let mut found = String::new();
    for name in real_arrows().into_keys() {
        let folder = format!("crates/{name}/src");
        for circle in circles_in(&imports_of(&rust_files(&folder))) {
            found.push_str(&format!("{folder}: {circle}\n"));
        }
    }
    assert!(found.is_empty(), "Move what both files need to a file below them.\n\n{found}");
}

#[test]
fn files_of_content_and_edge_import_from_their_own_layer_and_lower_ones() {
    /// The name of a file in the drawing: that of its module below the root of the crate.
    fn drawn_name(file: &str) -> &str {
        file.split('/').next().unwrap().trim_end_matches(".rs")
    }
    for folder in ["crates/content/src", "crates/edge/src"] {
        let layers = drawn_layers(folder);
        let source = rust_files(folder);
        let names =
            source.keys().map(|file| drawn_name(file)).filter(|name| !["lib", "tests"].contains(name));
        let drawn: BTreeSet<_> = layers.keys().map(String::as_str).collect();
        assert_eq!(drawn, names.collect(), "{folder}");
        for ((from, to), places) in imports_of(&source) {
            let (Some(own), Some(other)) = (layers.get(drawn_name(&from)), layers.get(drawn_name(&to)))
            else {
                continue;
            };
            assert!(other <= own, "{folder}: {from} imports {to}, which is above it: {places:#?}");
        }
    }
}

#[test]
fn every_file_has_fewer_than_600_lines() {
    for folder in ["crates", "fuzz"] {
        for (path, text) in rust_files(folder) {
            let lines = text.lines().count();
            assert!(lines < TOO_MANY_LINES, "{folder}/{path} has {lines} lines");
        }
    }
}

#[test]
fn the_arrows_drawn_are_the_arrows_there_are() {
    let mut drawn: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in drawing("imports") {
        let (from, to) = line.split_once("->").unwrap();
        drawn.insert(from.trim().to_owned(), to.split_whitespace().map(str::to_owned).collect());
    }
    let real: BTreeMap<_, _> = real_arrows().into_iter().filter(|(_, imports)| !imports.is_empty()).collect();
    assert_eq!(drawn, real);
}

#[test]
fn every_path_named_in_the_documents_exists() {
    let documents = ["ARCHITECTURE.md", "README.md", "CONTRIBUTING.md", "docs/decisions/README.md"];
    for document in documents {
        let text = read(document);
        let named = text.split('`').skip(1).step_by(2);
        let folders = ["crates/", "docs/", "bench", "tests/", "scripts/", "fuzz", "demo", "packaging/"];
        for path in named.filter(|word| !word.contains(' ') && folders.iter().any(|f| word.starts_with(f))) {
            assert!(root().join(path).exists(), "{document} names {path}, which does not exist");
        }
    }
}

#[test]
fn every_test_named_beside_a_bug_of_another_server_exists() {
    let tests: String = rust_files("crates").into_values().collect();
    let text = read("docs/field-bugs.md");
    let rows: Vec<_> = text.lines().filter(|line| line.starts_with("| [")).collect();
    assert!(!rows.is_empty());
    for row in rows {
        let named: Vec<_> = row.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "no test in {row}");
        for name in named {
            let declared = format!("#[test]\nfn {name}() {{");
            let is_there = tests.contains(&declared) || tests.contains(&declared.replace('\n', "\n    "));
            assert!(is_there, "docs/field-bugs.md names {name}, which is no test");
        }
    }
}

#[test]
fn the_bodies_of_fuzz_targets_are_in_no_plain_build() {
    let is_of_fuzzing =
        |path: &str| path.contains("/fuzz") || path.contains("/tests") || path.contains("/src/tests.rs");
    for (path, text) in rust_files("crates").into_iter().filter(|(path, _)| !is_of_fuzzing(path)) {
        let lines: Vec<_> = text.lines().collect();
        let names_body = |line: &str| {
            let is_item = line.starts_with("mod ") || line.starts_with("pub");
            is_item && (line.contains("mod fuzz;") || line.contains("use fuzz::") || line.contains("fuzz_"))
        };
        for (number, line) in lines.iter().enumerate().filter(|(_, line)| names_body(line)) {
            let above = lines[..number].iter().rev().take_while(|line| line.starts_with("#["));
            let is_gated = above.into_iter().any(|line| line.contains("feature = \"fuzz\""));
            assert!(is_gated, "{path}:{}: needs cfg(any(test, feature = \"fuzz\")): {line}", number + 1);
        }
    }
    for name in real_arrows().into_keys() {
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        let plain = manifest.split("[dev-dependencies]").next().unwrap();
        assert!(!plain.contains("features = [\"fuzz\"]"), "{name} turns fuzzing on in every build");
    }
}

#[test]
fn unsafe_code_stands_in_sys_alone() {
    for name in real_arrows().into_keys().filter(|name| name != "sys") {
        let entry =
            ["lib.rs", "main.rs"].map(|file| root().join("crates").join(&name).join("src").join(file));
        let entry = entry.iter().find(|path| path.exists()).expect("a crate has an entry");
        let text = fs::read_to_string(entry).unwrap();
        assert!(text.contains("#![forbid(unsafe_code)]"), "{} does not forbid unsafe code", entry.display());
    }
}

#[test]
fn every_dependency_has_its_reason() {
    let manifest = read("Cargo.toml");
    let reasons = read("docs/decisions/dependencies.md");
    let section = manifest.split("[workspace.dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    for line in section.lines() {
        let Some((name, _)) = line.split_once(" = ") else { continue };
        if !name.starts_with("penstock-") {
            assert!(reasons.contains(&format!("`{name}`")), "{name} has no line in dependencies.md");
        }
    }
}
