//! A tree of keys and values, written as YAML.

/// A value of the translation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Text(String),
    List(Vec<Self>),
    Map(Vec<(String, Self)>),
}

impl Node {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::List(texts.into_iter().map(Self::text).collect())
    }

    pub(crate) fn map<const N: usize>(pairs: [(&str, Self); N]) -> Self {
        Self::Map(pairs.map(|(key, node)| (key.to_owned(), node)).into())
    }

    /// The value of a key of a map, made if it is missing.
    fn entry(&mut self, key: &str) -> Option<&mut Self> {
        let Self::Map(pairs) = self else { return None };
        let place = match pairs.iter().position(|(known, _)| known == key) {
            Some(place) => place,
            None => {
                pairs.push((key.to_owned(), Self::Map(Vec::new())));
                pairs.len() - 1
            }
        };
        Some(&mut pairs[place].1)
    }

    /// Sets a value by the path of its key. Maps on the way are made. A value that is not a map is replaced.
    pub(crate) fn set(&mut self, path: &str, value: Self) {
        let (key, rest) = path.split_once('.').unwrap_or((path, ""));
        let Some(inner) = self.entry(key) else { return };
        if rest.is_empty() {
            *inner = value;
        } else {
            inner.set(rest, value);
        }
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Self> {
        let Self::Map(pairs) = self else { return None };
        let (key, rest) = path.split_once('.').unwrap_or((path, ""));
        let (_, found) = pairs.iter().find(|(known, _)| known == key)?;
        if rest.is_empty() { Some(found) } else { found.get(rest) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Text(_) => false,
            Self::List(items) => items.is_empty(),
            Self::Map(pairs) => pairs.is_empty(),
        }
    }

    /// Removes keys that `knows` does not know by their paths; returns those paths.
    pub(crate) fn prune(&mut self, knows: &dyn Fn(&str) -> bool) -> Vec<String> {
        let mut removed = Vec::new();
        self.prune_within("", knows, &mut removed);
        removed.sort();
        removed.dedup();
        removed
    }

    fn prune_within(&mut self, path: &str, knows: &dyn Fn(&str) -> bool, removed: &mut Vec<String>) {
        match self {
            Self::Text(_) => {}
            Self::List(items) => items.iter_mut().for_each(|item| item.prune_within(path, knows, removed)),
            Self::Map(pairs) => pairs.retain_mut(|(key, value)| {
                // The names of fields and statuses are no keys.
                if path.ends_with(".set") || path.ends_with(".cache.ttl") {
                    return true;
                }
                let inner = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                if !knows(&inner) {
                    removed.push(inner);
                    return false;
                }
                let was_empty = value.is_empty();
                value.prune_within(&inner, knows, removed);
                was_empty || !value.is_empty()
            }),
        }
    }

    /// The text of a map as a document.
    pub(crate) fn document(&self) -> String {
        let mut text = String::new();
        if let Self::Map(pairs) = self {
            write_pairs(pairs, 0, &mut text);
        }
        text
    }
}

fn write_pairs(pairs: &[(String, Node)], indent: usize, text: &mut String) {
    for (place, (key, value)) in pairs.iter().enumerate() {
        if indent == 0 && place > 0 {
            text.push('\n');
        }
        text.push_str(&format!("{}{}:", " ".repeat(indent), scalar(key)));
        write_value(value, indent, text);
    }
}

fn write_value(value: &Node, indent: usize, text: &mut String) {
    match value {
        Node::Text(word) => text.push_str(&format!(" {}\n", scalar(word))),
        Node::List(items) if items.iter().all(|item| matches!(item, Node::Text(_))) => {
            let words: Vec<String> = items.iter().map(flow).collect();
            text.push_str(&format!(" [{}]\n", words.join(", ")));
        }
        Node::List(items) => {
            text.push('\n');
            for item in items {
                let mut inner = String::new();
                match item {
                    Node::Map(pairs) => write_pairs(pairs, indent + 4, &mut inner),
                    other => inner = format!("{}{}\n", " ".repeat(indent + 4), flow(other)),
                }
                // The item begins where its first key would.
                text.push_str(&format!("{}- {}", " ".repeat(indent + 2), inner.trim_start()));
            }
        }
        Node::Map(pairs) if pairs.iter().all(|(_, value)| matches!(value, Node::Text(_))) => {
            text.push_str(&format!(" {}\n", flow(value)));
        }
        Node::Map(pairs) => {
            text.push('\n');
            write_pairs(pairs, indent + 2, text);
        }
    }
}

/// A value in one line.
fn flow(node: &Node) -> String {
    match node {
        Node::Text(word) => scalar(word),
        Node::List(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Node::Map(pairs) => {
            let pair = |(key, value): &(String, Node)| format!("{}: {}", scalar(key), flow(value));
            format!("{{{}}}", pairs.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
    }
}

/// A word, in quotes unless it is plain everywhere in YAML. `${` stands for itself.
fn scalar(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./-".contains(&byte);
    let begins_plain =
        word.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric() || first == b'/');
    if begins_plain && word.bytes().all(plain) {
        return word.to_owned();
    }
    let mut quoted = String::from("\"");
    for character in word.replace("${", "$${").chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\t' => quoted.push_str("\\t"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            control if control.is_control() => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(control) & 0xffff))
            }
            other => quoted.push(other),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_written_as_yaml() {
        let mut root = Node::Map(Vec::new());
        root.set("workers", Node::text("auto"));
        root.set(
            "listeners",
            Node::List(vec![Node::map([("address", Node::text("[::]:443")), ("tls", Node::text("true"))])]),
        );
        let mut site = Node::map([("hosts", Node::texts(["*.a", "b"]))]);
        site.set("origin.http", Node::texts(["http://a:1"]));
        site.set("headers.response.set.X-A", Node::text("a\"b ${c}"));
        root.set("sites", Node::List(vec![site]));
        let expected = "workers: auto\n\nlisteners:\n  - address: \"[::]:443\"\n    tls: true\n\nsites:\n  \
                        - hosts: [\"*.a\", b]\n    origin:\n      http: [\"http://a:1\"]\n    headers:\n      response:\n        \
                        set: {X-A: \"a\\\"b $${c}\"}\n";
        assert_eq!(root.document(), expected);
        let mut pruned = root.clone();
        let removed = pruned.prune(&|path| !path.starts_with("sites.headers.response"));
        assert_eq!(removed, ["sites.headers.response"]);
        assert_eq!(pruned.get("sites").map(Node::is_empty), Some(false));
        assert!(!pruned.document().contains("headers"), "{}", pruned.document());
    }
}
