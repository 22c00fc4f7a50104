//! A line as an object of JSON (RFC 8259).

use std::io::Write as _;

use super::fields::{FieldSink, Name};

/// Appends fields to an object.
pub(super) struct JsonObject<'l> {
    line: &'l mut Vec<u8>,
    /// The names of the fields to write, with their part in front; `None` for all.
    names: Option<&'l [&'static str]>,
    part: Option<Name>,
    /// Whether a field of the part was written.
    is_open: bool,
}

impl<'l> JsonObject<'l> {
    pub(super) fn begin(line: &'l mut Vec<u8>, names: Option<&'l [&'static str]>) -> Self {
        line.push(b'{');
        Self { line, names, part: None, is_open: false }
    }

    pub(super) fn end(self) {
        self.line.push(b'}');
    }

    /// Writes what stands in front of a value. Returns whether the value is to be written.
    #[inline]
    fn name(&mut self, name: Name) -> bool {
        if self.names.is_some() && !self.is_chosen(name) {
            return false;
        }
        if let Some(part) = self.part
            && !self.is_open
        {
            self.is_open = true;
            self.quoted_name(part);
            self.line.push(b'{');
        }
        self.quoted_name(name);
        true
    }

    fn is_chosen(&self, name: Name) -> bool {
        let part = self.part.map_or("", |part| part.plain);
        self.names.is_none_or(|names| names.iter().any(|chosen| is_named(chosen, part, name.plain)))
    }

    /// Names are of this program: none needs an escape.
    #[inline]
    fn quoted_name(&mut self, name: Name) {
        let is_first = self.line.last() == Some(&b'{');
        self.line.extend_from_slice(&name.json.as_bytes()[usize::from(is_first)..]);
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
    fn part(&mut self, name: Name) {
        self.part = Some(name);
    }

    fn end_part(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.line.push(b'}');
        }
        self.part = None;
    }

    fn text(&mut self, name: Name, value: &str) {
        if self.name(name) {
            self.line.push(b'"');
            escaped(value.as_bytes(), self.line);
            self.line.push(b'"');
        }
    }

    fn plain(&mut self, name: Name, value: &[u8]) {
        if self.name(name) {
            self.line.push(b'"');
            self.line.extend_from_slice(value);
            self.line.push(b'"');
        }
    }

    fn number(&mut self, name: Name, value: u64) {
        if self.name(name) {
            digits(value, 1, self.line);
        }
    }

    fn decimal(&mut self, name: Name, value: u64, places: u32) {
        if self.name(name) {
            decimal(value, places, self.line);
        }
    }

    fn flag(&mut self, name: Name, value: bool) {
        if self.name(name) {
            self.line.extend_from_slice(if value { b"true" } else { b"false" });
        }
    }
}

/// Appends a number with at least `least` digits.
pub(super) fn digits(mut value: u64, least: usize, line: &mut Vec<u8>) {
    if value < 10 && least == 1 {
        line.push(b'0' + value.to_le_bytes()[0]);
        return;
    }
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

/// Whether a text has a control character, a quote or a backslash. It looks at eight bytes at once: most texts are too short for
/// the registers of vectors.
fn needs_escape(text: &[u8]) -> bool {
    let (words, rest) = text.as_chunks::<8>();
    let mut last = [b' '; 8];
    for (place, byte) in last.iter_mut().zip(rest) {
        *place = *byte;
    }
    words.iter().chain([&last]).fold(0, |found, word| found | escapes_in(u64::from_ne_bytes(*word))) != 0
}

/// Has the highest bit of a byte set, and of some above the first such one, if eight bytes have one that needs an escape; 0 if
/// none does.
fn escapes_in(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    let below = |word: u64, least: u64| word.wrapping_sub(ONES * least) & !word;
    let (quotes, backslashes) = (word ^ (ONES * u64::from(b'"')), word ^ (ONES * u64::from(b'\\')));
    (below(word, 0x20) | below(quotes, 1) | below(backslashes, 1)) & HIGH
}

/// Appends text in which nothing can end a string or a line (RFC 8259 §7).
fn escaped(text: &[u8], line: &mut Vec<u8>) {
    if !needs_escape(text) {
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
    use crate::access_log::fields::name;

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
    fn a_character_that_needs_an_escape_is_found_at_every_place() {
        for byte in 0..=u8::MAX {
            let wanted = byte < 0x20 || byte == b'"' || byte == b'\\';
            for (place, length) in
                (0..20).flat_map(|place| (place + 1..=20).map(move |length| (place, length)))
            {
                for other in [b'a', 0x7f, 0x80, 0xff, b' ', b'!', b'#', b'[', b']'] {
                    let mut text = vec![other; length];
                    text[place] = byte;
                    assert_eq!(needs_escape(&text), wanted, "{byte} among {other} at {place} of {length}");
                }
            }
        }
    }

    #[test]
    fn every_character_is_read_back() {
        let all: String = (0..=0x17f).filter_map(char::from_u32).chain(['\u{2028}', '\u{1f600}']).collect();
        for text in [all.as_str(), "", "plain", "\"", "a\\", "\n", "é", "\u{7f}"] {
            let quoted = made(|line| {
                let mut object = JsonObject::begin(line, None);
                object.text(name!("a"), text);
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
                object.number(name!("a"), 1);
                object.part(name!("p"));
                object.flag(name!("a"), true);
                object.number(name!("b"), 2);
                object.end_part();
                object.plain(name!("c"), b"x");
                object.end();
            })
        };
        assert_eq!(made(None), r#"{"a":1,"p":{"a":true,"b":2},"c":"x"}"#);
        assert_eq!(made(Some(&["c", "a"])), r#"{"a":1,"c":"x"}"#);
        assert_eq!(made(Some(&["p.b"])), r#"{"p":{"b":2}}"#);
        assert_eq!(made(Some(&[])), "{}");
    }
}
