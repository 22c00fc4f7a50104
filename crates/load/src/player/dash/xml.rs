//! A minimal XML tree.

use quick_xml::events::{BytesStart, Event};

/// The most elements of a document.
const ELEMENTS_MAX: usize = 500_000;
const DEPTH_MAX: usize = 32;

/// An element. Names have no prefixes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) name: String,
    attributes: Vec<(String, String)>,
    pub(super) children: Vec<Self>,
    pub(super) text: String,
}

impl Element {
    /// Reads a document; `None` if it is not well-formed, or too large.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut reader = quick_xml::Reader::from_str(text);
        let mut open: Vec<Self> = Vec::new();
        for _ in 0..2 * ELEMENTS_MAX {
            let closed = match reader.read_event().ok()? {
                Event::Start(start) if open.len() < DEPTH_MAX => {
                    open.push(Self::new(&start)?);
                    continue;
                }
                Event::Empty(start) => Self::new(&start)?,
                Event::End(_) => open.pop()?,
                Event::Text(text) => {
                    if let Some(parent) = open.last_mut() {
                        parent.text.push_str(text.trim());
                    }
                    continue;
                }
                Event::GeneralRef(reference) => {
                    if let (Some(parent), Some(meant)) = (open.last_mut(), meaning(&reference)) {
                        parent.text.push(meant);
                    }
                    continue;
                }
                Event::Start(_) | Event::Eof | Event::DocType(_) => return None,
                _ => continue,
            };
            match open.last_mut() {
                Some(parent) => parent.children.push(closed),
                None => return Some(closed),
            }
        }
        None
    }

    fn new(start: &BytesStart<'_>) -> Option<Self> {
        let mut attributes = Vec::new();
        for attribute in start.attributes() {
            let attribute = attribute.ok()?;
            let value = quick_xml::escape::unescape(&attribute.value).ok()?.into_owned();
            attributes.push((attribute.key.local_name().as_ref().to_owned(), value));
        }
        let name = start.local_name().as_ref().to_owned();
        Some(Self { name, attributes, ..Self::default() })
    }

    /// The value of an attribute.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The value of a numeric attribute.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.trim().parse().ok()
    }

    /// The children with this name.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The first child with this name.
    pub(super) fn child<'a>(&'a self, name: &'a str) -> Option<&'a Self> {
        self.all(name).next()
    }
}

fn meaning(reference: &str) -> Option<char> {
    match reference {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_attributes_children_and_text() {
        let text = "<?xml version=\"1.0\"?><!-- x --><m:A b=\"1 &amp; 2\"><B>x?a=1&amp;b=2</B><B/></m:A>";
        let tree = Element::parse(text).unwrap();
        assert_eq!((tree.name.as_str(), tree.get("b")), ("A", Some("1 & 2")));
        assert_eq!(tree.all("B").count(), 2);
        assert_eq!(tree.child("B").unwrap().text, "x?a=1&b=2");
    }

    #[test]
    fn malformed_xml_is_refused() {
        for text in ["", "<A>", "<A></B>", "</A>", "x", "<!DOCTYPE x><A/>", &"<A>".repeat(100)] {
            assert_eq!(Element::parse(text), None, "{text}");
        }
    }
}
