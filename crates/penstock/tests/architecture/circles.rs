//! Circles of imports between the files of a crate.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::imports::Imports;

/// Finds for each import the shortest circle that it is part of, and describes each circle with the lines that tie it.
///
/// A circle is a chain of imports between different files that ends where it began. One kind is excepted: two files of
/// which one is the module and the other its own child (`a.rs` and `a/b.rs`, or the root of the crate and `a.rs`), which
/// import each other. A module, its child and a further file in one circle are a fault: if `a/b.rs` needs a type that
/// `a.rs` defines, and `a.rs` needs `a/c.rs`, which needs `a/b.rs`, then the type belongs in a file below all three.
pub(crate) fn circles_in(imports: &Imports) -> Vec<String> {
    let mut graph: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in imports.keys() {
        graph.entry(from).or_default().insert(to);
    }
    let mut found: BTreeMap<BTreeSet<&str>, Vec<&str>> = BTreeMap::new();
    for (from, to) in imports.keys() {
        if let Some(mut way) = way_back(&graph, to, from) {
            let first = (0..way.len()).min_by_key(|&at| way[at]).unwrap_or(0);
            way.rotate_left(first);
            found.entry(way.iter().copied().collect()).or_insert(way);
        }
    }
    let mut circles: Vec<_> = found.into_values().collect();
    circles.sort_by_key(Vec::len);
    circles.iter().map(|files| describe(imports, files)).collect()
}

/// The shortest chain of imports from one file to another; a single import between a module and its child is none.
fn way_back<'g>(
    graph: &BTreeMap<&'g str, BTreeSet<&'g str>>,
    from: &'g str,
    to: &'g str,
) -> Option<Vec<&'g str>> {
    let mut before = BTreeMap::from([(from, None)]);
    let mut queue = VecDeque::from([from]);
    while let Some(file) = queue.pop_front() {
        for next in graph.get(file).into_iter().flatten().copied() {
            let excepted = file == from && next == to && (is_child(from, to) || is_child(to, from));
            if excepted || before.contains_key(next) {
                continue;
            }
            before.insert(next, Some(file));
            if next == to {
                let mut way = vec![to];
                while let Some(Some(file)) = way.last().map(|file| before[file]) {
                    way.push(file);
                }
                way.reverse();
                return Some(way);
            }
            queue.push_back(next);
        }
    }
    None
}

/// Whether the module in the first file is declared in the second.
fn is_child(child: &str, parent: &str) -> bool {
    match child.rsplit_once('/') {
        Some((folder, _)) => parent.strip_suffix(".rs") == Some(folder),
        None => parent == "lib.rs" || parent == "main.rs",
    }
}

fn describe(imports: &Imports, files: &[&str]) -> String {
    let mut text = format!("circle: {} -> {}\n", files.join(" -> "), files[0]);
    for (at, from) in files.iter().enumerate() {
        let to = files[(at + 1) % files.len()];
        let places = &imports[&((*from).to_owned(), to.to_owned())];
        text.extend(places.iter().map(|place| format!("    {place}\n")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::imports::{Source, imports_of};
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let source: Source = files.iter().map(|(path, text)| ((*path).into(), (*text).into())).collect();
        circles_in(&imports_of(&source))
    }

    #[test]
    fn a_circle_of_two_files_is_found_with_its_lines() {
        let found = circles(&[
            ("lib.rs", "mod a;\nmod b;\npub use a::A;"),
            ("a.rs", "use std::fmt;\n\nuse crate::b::B;\npub struct A(B);"),
            ("b.rs", "pub struct B;\nfn f() -> crate::a::A { todo!() }"),
        ]);
        let expected = "circle: a.rs -> b.rs -> a.rs\n    a.rs:3: crate::b::B\n    b.rs:2: crate::a::A\n";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn a_circle_of_three_files_is_found() {
        let found = circles(&[
            ("main.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b; fn f() { b::f() }"),
            ("b.rs", "use super::c::{self as third}; pub fn f() { third::f() }"),
            ("c.rs", "pub fn f() { vec![crate::a::f()]; }"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("circle: a.rs -> b.rs -> c.rs -> a.rs\n"), "{found:?}");
    }

    #[test]
    fn a_module_and_its_own_children_may_import_each_other() {
        let found = circles(&[
            ("lib.rs", "mod a; pub const MAX: u8 = 1; pub use a::A;"),
            ("a.rs", "mod b; mod c; use b::B; use c::C; pub struct A(B, C, [u8; crate::MAX]);"),
            ("a/b.rs", "use super::A; pub struct B(Box<A>);"),
            ("a/c.rs", "pub struct C(Box<super::A>);"),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn a_module_and_two_of_its_children_may_not_form_a_circle() {
        let found = circles(&[
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; mod c; use c::C; pub struct A; pub struct D(C);"),
            ("a/b.rs", "pub struct B(super::A);"),
            ("a/c.rs", "use super::b::B; pub struct C(B);"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("circle: a.rs -> a/c.rs -> a/b.rs -> a.rs\n"), "{found:?}");
    }

    #[test]
    fn a_name_passed_on_by_a_parent_ties_a_file_to_the_one_that_defines_it() {
        let found = circles(&[
            ("lib.rs", "mod a; mod b; pub use a::{A, C}; use b::B; fn f(_: B) {}"),
            ("a.rs", "mod c; pub use c::C; pub struct A(crate::B);"),
            ("a/c.rs", "pub struct C;"),
            ("b.rs", "use crate::C; pub struct B(C);"),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn imports_of_tests_comments_and_strings_are_left_out() {
        let found = circles(&[
            ("lib.rs", "mod a; mod b; #[cfg(test)] mod tests;"),
            (
                "a.rs",
                "pub struct A; /// [`crate::b::B`]\n#[cfg(test)] #[expect(x)] mod tests { use crate::b::B; }",
            ),
            ("b.rs", "use crate::a::A; // crate::b\nconst TEXT: &str = \"crate::b::B\"; pub struct B(A);"),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn macros_and_modules_within_a_file_belong_to_that_file() {
        let found = circles(&[
            ("lib.rs", "mod a; mod b;"),
            (
                "a.rs",
                "macro_rules! m { () => { $crate::b::f() } } pub(crate) use m; use libc; fn g() { libc::f() }",
            ),
            ("b.rs", "pub fn f() {} mod inner { fn g() { super::super::a::m!(); } }"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("b.rs:1: super::super::a::m\n"), "{found:?}");
        assert!(found[0].contains("a.rs:1: crate::b::f\n"), "{found:?}");
    }

    #[test]
    fn imports_that_go_one_way_are_no_circle() {
        let found = circles(&[
            ("lib.rs", "mod a; mod b; mod c; pub use penstock_other as other; pub use a::A;"),
            ("a.rs", "use crate::{b::B, c::*, other::Other}; pub struct A(B);"),
            ("b.rs", "use crate::c::C; use crate::other::Other; pub struct B(C);"),
            ("c.rs", "pub struct C; impl C { fn f() -> impl Sized + use<> { std::iter::empty::<Self>() } }"),
        ]);
        assert_eq!(found, [""; 0]);
    }
}
