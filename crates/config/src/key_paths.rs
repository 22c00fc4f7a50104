//! The key at a position of a file, such as `listeners[0].address`.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use crate::section::{Position, Text, position};
use crate::syntax;

/// The keys of one file by their positions.
#[derive(Clone, Debug, Default)]
pub struct KeyPaths {
    /// In the order of lines and columns.
    keys: Vec<KeyPath>,
}

/// A path and the place of its name or value.
#[derive(Clone, Debug)]
struct KeyPath {
    line: usize,
    column: usize,
    is_name: bool,
    path: String,
}

impl KeyPaths {
    /// The keys of a text; none if it is not YAML.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut keys = Vec::new();
        if let Ok(root) = syntax::read::<Spanned<Node>>(text) {
            collect(&root.value, String::new(), &mut keys);
        }
        keys.sort_by_key(|entry| (entry.line, entry.column));
        Self { keys }
    }

    /// The key whose name or value begins at this place of the file, both counted from 1; otherwise the last one before it
    /// on its line. Of a section and its first key it is the section, of a list and its first item the item.
    #[must_use]
    pub fn at(&self, line: usize, column: usize) -> Option<&str> {
        let before = |line| self.keys.partition_point(|entry| entry.line < line);
        let of_line = || self.keys[before(line)..before(line.saturating_add(1))].iter();
        let exact = |is_name| of_line().rfind(|entry| entry.column == column && entry.is_name == is_name);
        let found = exact(false).or_else(|| exact(true));
        found.or_else(|| of_line().rfind(|entry| entry.column < column)).map(|entry| entry.path.as_str())
    }
}

fn collect(node: &Node, path: String, keys: &mut Vec<KeyPath>) {
    match node {
        Node::Scalar => {}
        Node::List(items) => {
            for (number, item) in items.iter().enumerate() {
                let path = format!("{path}[{number}]");
                keys.push(entry(position(item), false, &path));
                collect(&item.value, path, keys);
            }
        }
        Node::Section(entries) => {
            for (key, value) in entries {
                let path = if path.is_empty() { key.value.clone() } else { format!("{path}.{}", key.value) };
                keys.push(entry(position(key), true, &path));
                keys.push(entry(position(value), false, &path));
                collect(&value.value, path, keys);
            }
        }
    }
}

fn entry(here: Position, is_name: bool, path: &str) -> KeyPath {
    KeyPath { line: here.line, column: here.column, is_name, path: path.to_owned() }
}

/// A value of any form.
#[derive(Debug)]
enum Node {
    Scalar,
    List(Vec<Spanned<Self>>),
    Section(Vec<(Text, Spanned<Self>)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Section(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::KeyPaths;

    #[test]
    fn a_text_that_is_nested_too_deeply_has_no_keys() {
        let has_keys = |depth: usize| {
            let text = format!("sites: {}1{}\n", "[".repeat(depth), "]".repeat(depth));
            KeyPaths::of(&text).at(1, 1).is_some()
        };
        assert_eq!([10, 19, 20, 60, 3000].map(has_keys), [true, true, false, false, false]);
    }

    #[test]
    fn keys_are_found_by_the_places_of_their_names_and_values() {
        let text = "workers: 2\nlisteners:\n- address: 127.0.0.1:80\n  backlog: 7\n- {address: \"[::1]:80\", tls: true}\n\
                    sites: [{hosts: [a, \"b\"], origin: {directory: /srv}}]\n\
                    cache:\n  memory:\n    size: 1GiB\n  disk:\n    - {size: 2GiB}\n";
        let paths = KeyPaths::of(text);
        for (line, column, path) in [
            (1, 1, Some("workers")),
            (1, 10, Some("workers")),
            (2, 1, Some("listeners")),
            (3, 3, Some("listeners[0]")),
            (3, 12, Some("listeners[0].address")),
            (4, 3, Some("listeners[0].backlog")),
            (4, 12, Some("listeners[0].backlog")),
            (5, 3, Some("listeners[1]")),
            (5, 13, Some("listeners[1].address")),
            (5, 30, Some("listeners[1].tls")),
            (6, 18, Some("sites[0].hosts[0]")),
            (6, 21, Some("sites[0].hosts[1]")),
            (9, 11, Some("cache.memory.size")),
            (11, 7, Some("cache.disk[0]")),
            (12, 1, None),
        ] {
            assert_eq!(paths.at(line, column), path, "{line}:{column}");
        }
        assert_eq!(KeyPaths::of("a: [").at(1, 1), None);
    }
}
