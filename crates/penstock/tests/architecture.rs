//! ARCHITECTURE.md is checked against the tree: a map that has rotted is worse than none.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The lines of the fenced block that contains `marker`.
fn block<'t>(text: &'t str, marker: &str) -> Vec<&'t str> {
    let block = text.split("```").find(|block| block.contains(marker)).expect("the block is there");
    block.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
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

fn drawn_floors() -> BTreeMap<String, u32> {
    let architecture = read("ARCHITECTURE.md");
    let mut floors = BTreeMap::new();
    for line in block(&architecture, "floor 0") {
        let (left, _) = line.split_once(':').expect("a floor names its crates before a colon");
        let mut words = left.split([' ', ',']).filter(|word| !word.is_empty()).skip(1);
        let floor = words.next().unwrap().parse().unwrap();
        floors.extend(words.map(|name| (name.to_owned(), floor)));
    }
    floors
}

#[test]
fn the_crates_drawn_are_the_crates_there_are() {
    let drawn: BTreeSet<_> = drawn_floors().into_keys().collect();
    let real: BTreeSet<_> = real_arrows().into_keys().collect();
    assert_eq!(drawn, real);
    let table = read("ARCHITECTURE.md");
    for name in real {
        assert!(table.contains(&format!("| `crates/{name}` |")), "crates/{name} has no row in the table");
    }
}

#[test]
fn a_crate_imports_only_from_lower_floors() {
    let floors = drawn_floors();
    for (name, imports) in real_arrows() {
        for import in imports {
            assert!(floors[&import] < floors[&name], "{name} imports {import}, which is not below it");
        }
    }
}

#[test]
fn the_arrows_drawn_are_the_arrows_there_are() {
    let architecture = read("ARCHITECTURE.md");
    let mut drawn: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in block(&architecture, "edge     ->") {
        let (from, to) = line.split_once("->").unwrap();
        drawn.insert(from.trim().to_owned(), to.split_whitespace().map(str::to_owned).collect());
    }
    let real: BTreeMap<_, _> = real_arrows().into_iter().filter(|(_, imports)| !imports.is_empty()).collect();
    assert_eq!(drawn, real);
}

#[test]
fn every_path_named_in_the_documents_exists() {
    let documents = ["ARCHITECTURE.md", "README.md", "docs/decisions/README.md"];
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
