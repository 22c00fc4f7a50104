//! Lists in field values (RFC 9110 §5.6.1), in which quoted text belongs to its element.

/// The parts of a value between separators that stand outside of quoted strings; see [`split`].
#[derive(Clone, Debug)]
pub(crate) struct Split<'v> {
    rest: Option<&'v [u8]>,
    separator: u8,
    /// Whether a quote may still have an end. After one without an end, no later one has an end.
    quotes_end: bool,
}

/// Splits a value at each separator outside of quoted strings (RFC 9110 §5.6.4), where a backslash quotes the byte behind
/// it. A quote without an end is an ordinary character: it hides no element.
pub(crate) fn split(value: &[u8], separator: u8) -> Split<'_> {
    Split { rest: Some(value), separator, quotes_end: true }
}

/// The elements of a comma-separated list, without white space around them and without empty ones.
pub(crate) fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    split(value, b',').map(<[u8]>::trim_ascii).filter(|element| !element.is_empty())
}

/// Whether a text is one quoted string.
pub(crate) fn is_quoted(text: &[u8]) -> bool {
    text.strip_prefix(b"\"").and_then(end_of_quoted).is_some_and(|length| length + 1 == text.len())
}

impl<'v> Iterator for Split<'v> {
    type Item = &'v [u8];

    fn next(&mut self) -> Option<&'v [u8]> {
        let rest = self.rest?;
        let mut at = 0;
        while let Some(&byte) = rest.get(at) {
            if byte == self.separator {
                self.rest = Some(&rest[at + 1..]);
                return Some(&rest[..at]);
            }
            at += 1;
            if byte == b'"' && self.quotes_end {
                match end_of_quoted(&rest[at..]) {
                    Some(length) => at += length,
                    None => self.quotes_end = false,
                }
            }
        }
        self.rest = None;
        Some(rest)
    }
}

/// Bytes up to the end of a quoted string whose first quote stands in front, the last quote included.
fn end_of_quoted(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_separator_within_quotes_belongs_to_its_element() {
        for (value, wanted) in [
            ("a, b ,,c", vec!["a", "b", "c"]),
            ("a=\"b, c\", d", vec!["a=\"b, c\"", "d"]),
            (r#"ext="\"", no-store"#, vec![r#"ext="\"""#, "no-store"]),
            (r#"ext="a\\", no-store"#, vec![r#"ext="a\\""#, "no-store"]),
            (r#"ext="\",b", c"#, vec![r#"ext="\",b""#, "c"]),
            (r#"x=\", no-store, y=\""#, vec![r#"x=\""#, "no-store", r#"y=\""#]),
            ("", vec![]),
        ] {
            let found: Vec<_> = elements(value.as_bytes()).collect();
            assert_eq!(found, wanted.iter().map(|one| one.as_bytes()).collect::<Vec<_>>(), "{value}");
        }
    }

    #[test]
    fn a_quote_without_an_end_hides_nothing() {
        for value in ["ext=\", no-store", "ext=\"\\\", no-store", "a=\"b\", c=\", no-store", "\"\\, no-store"]
        {
            assert_eq!(elements(value.as_bytes()).last(), Some(&b"no-store"[..]), "{value}");
        }
    }
}
