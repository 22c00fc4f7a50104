//! A line as an object of JSON (RFC 8259).

use std::fmt::Display;
use std::io::Write as _;

use super::fields::FieldSink;

/// Appends fields to an object.
pub(super) struct JsonObject<'l> {
    line: &'l mut Vec<u8>,
    /// The names of the fields to write, with their part in front; `None` for all.
    names: Option<&'l [&'static str]>,
    part: &'static str,
    /// Whether a field of the part was written.
    is_open: bool,
}

impl<'l> JsonObject<'l> {
    pub(super) fn begin(line: &'l mut Vec<u8>, names: Option<&'l [&'static str]>) -> Self {
        line.push(b'{');
        Self { line, names, part: "", is_open: false }
    }

    pub(super) fn end(self) {
        self.line.push(b'}');
    }

    /// Writes what stands in front of a value. Returns whether the value is to be written.
    fn name(&mut self, name: &'static str) -> bool {
        if let Some(names) = self.names
            && !names.iter().any(|chosen| is_named(chosen, self.part, name))
        {
            return false;
        }
        if !self.part.is_empty() && !self.is_open {
            self.is_open = true;
            self.quoted_name(self.part);
            self.line.push(b'{');
        }
        self.quoted_name(name);
        true
    }

    /// Names are of this program: none needs an escape.
    fn quoted_name(&mut self, name: &str) {
        if self.line.last() != Some(&b'{') {
            self.line.push(b',');
        }
        self.line.push(b'"');
        self.line.extend_from_slice(name.as_bytes());
        self.line.extend_from_slice(b"\":");
    }
}

/// Whether a configured name is that of a field: `part.name`, or `name` for fields of no part.
pub(super) fn is_named(configured: &str, part: &str, name: &str) -> bool {
    match configured.split_once('.') {
        Some(split) => split == (part, name),
        None => part.is_empty() && configured == name,
    }
}

impl FieldSink for JsonObject<'_> {
    fn part(&mut self, name: &'static str) {
        if std::mem::take(&mut self.is_open) {
            self.line.push(b'}');
        }
        self.part = name;
    }

    fn text(&mut self, name: &'static str, value: &str) {
        if self.name(name) {
            self.line.push(b'"');
            escaped(value.as_bytes(), self.line);
            self.line.push(b'"');
        }
    }

    fn shown(&mut self, name: &'static str, value: &dyn Display) {
        if self.name(name) {
            let _infallible = write!(self.line, "\"{value}\"");
        }
    }

    fn number(&mut self, name: &'static str, value: u64) {
        if self.name(name) {
            digits(value, 1, self.line);
        }
    }

    fn decimal(&mut self, name: &'static str, value: u64, places: u32) {
        if self.name(name) {
            decimal(value, places, self.line);
        }
    }

    fn flag(&mut self, name: &'static str, value: bool) {
        if self.name(name) {
            self.line.extend_from_slice(if value { b"true" } else { b"false" });
        }
    }
}

/// Appends a number with at least `least` digits.
pub(super) fn digits(mut value: u64, least: usize, line: &mut Vec<u8>) {
    let mut text = [b'0'; 20];
    let mut begin = text.len();
    while value > 0 {
        begin -= 1;
        text[begin] = b'0' + (value % 10).to_le_bytes()[0];
        value /= 10;
    }
    line.extend_from_slice(&text[begin.min(text.len() - least)..]);
}

/// Appends `value / 10^places` with at least one decimal, and no zero behind others.
pub(super) fn decimal(value: u64, places: u32, line: &mut Vec<u8>) {
    let unit = 10_u64.pow(places);
    digits(value / unit, 1, line);
    line.push(b'.');
    let begin = line.len();
    digits(value % unit, places as usize, line);
    while line.len() > begin + 1 && line.last() == Some(&b'0') {
        line.pop();
    }
}

/// Appends text in which nothing can end a string or a line (RFC 8259 §7).
fn escaped(text: &[u8], line: &mut Vec<u8>) {
    let needs_escape = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    // No early end: compilers compare many bytes at once then.
    if !text.iter().fold(false, |any, byte| any | needs_escape(byte)) {
        line.extend_from_slice(text);
        return;
    }
    for byte in text {
        match byte {
            b'"' | b'\\' => line.extend_from_slice(&[b'\\', *byte]),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\t' => line.extend_from_slice(b"\\t"),
            0..0x20 => {
                let _infallible = write!(line, "\\u{byte:04x}");
            }
            _ => line.push(*byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn made(append: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut line = Vec::new();
        append(&mut line);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn numbers_are_those_of_another_writer() {
        for value in [0, 1, 9, 10, 99, 1_000, 65_535, u64::MAX / 10, u64::MAX] {
            assert_eq!(made(|line| digits(value, 1, line)), value.to_string());
        }
        for (value, places, expected) in [
            (0, 3, "0.0"),
            (1, 3, "0.001"),
            (250, 3, "0.25"),
            (12_500, 3, "12.5"),
            (20_000, 3, "20.0"),
            (5_000, 6, "0.005"),
            (1_000_000, 6, "1.0"),
            (u64::MAX, 3, "18446744073709551.615"),
        ] {
            assert_eq!(made(|line| decimal(value, places, line)), expected);
        }
    }

    #[test]
    fn every_character_is_read_back() {
        let all: String = (0..=0x17f).filter_map(char::from_u32).chain(['\u{2028}', '\u{1f600}']).collect();
        for text in [all.as_str(), "", "plain", "\"", "a\\", "\n", "é", "\u{7f}"] {
            let quoted = made(|line| {
                let mut object = JsonObject::begin(line, None);
                object.text("a", text);
                object.end();
            });
            assert!(
                !quoted.contains(char::is_control) || quoted.contains(['\u{7f}', '\u{80}']),
                "{quoted:?}"
            );
            assert_eq!(serde_json::from_str::<Value>(&quoted).unwrap()["a"], text);
        }
    }

    #[test]
    fn a_part_without_chosen_fields_is_not_there() {
        let made = |names: Option<&[&'static str]>| {
            made(|line| {
                let mut object = JsonObject::begin(line, names);
                object.number("a", 1);
                object.part("p");
                object.flag("a", true);
                object.number("b", 2);
                object.part("");
                object.shown("c", &"x");
                object.end();
            })
        };
        assert_eq!(made(None), r#"{"a":1,"p":{"a":true,"b":2},"c":"x"}"#);
        assert_eq!(made(Some(&["c", "a"])), r#"{"a":1,"c":"x"}"#);
        assert_eq!(made(Some(&["p.b"])), r#"{"p":{"b":2}}"#);
        assert_eq!(made(Some(&[])), "{}");
    }
}
