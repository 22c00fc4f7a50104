//! The tokens of an HLS playlist (RFC 8216 §4): lines, tags, attribute lists.
//!
//! ```
//! use penstock_http::m3u8::{self, Line};
//!
//! let line = m3u8::lines(b"#EXTM3U\n#EXT-X-MAP:URI=\"a,b.mp4\",BYTERANGE=\"9@0\"\n").unwrap().next();
//! let Some(Line::Tag { name: b"EXT-X-MAP", value }) = line else { panic!("another line") };
//! assert_eq!(m3u8::attribute(value, b"URI"), Some(b"a,b.mp4".as_slice()));
//! ```

/// The first line of every playlist.
pub const FIRST_LINE: &[u8] = b"#EXTM3U";

/// The byte order mark of UTF-8, which some editors put in front.
pub(crate) const BOM: &[u8] = b"\xef\xbb\xbf";

/// A line that means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'p> {
    /// `#NAME` or `#NAME:VALUE`, where the name begins with `EXT`.
    Tag {
        /// The name, without `#`.
        name: &'p [u8],
        /// The text behind the colon; empty without one.
        value: &'p [u8],
    },
    /// A URI.
    Uri(&'p [u8]),
}

/// The lines of a playlist after the first, without empty lines and comments; `None` if this is no playlist.
pub fn lines(playlist: &[u8]) -> Option<impl Iterator<Item = Line<'_>>> {
    let playlist = playlist.strip_prefix(BOM).unwrap_or(playlist);
    let mut lines = playlist.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    // `#EXTM3U8` is another word.
    (lines.next()? == FIRST_LINE).then(|| lines.filter_map(line))
}

fn line(line: &[u8]) -> Option<Line<'_>> {
    let tag = match line.strip_prefix(b"#") {
        Some(tag) => tag,
        None if line.is_empty() => return None,
        None => return Some(Line::Uri(line)),
    };
    if !tag.starts_with(b"EXT") {
        return None;
    }
    let colon = memchr::memchr(b':', tag).unwrap_or(tag.len());
    Some(Line::Tag { name: &tag[..colon], value: tag.get(colon + 1..).unwrap_or_default().trim_ascii() })
}

/// The attributes of a tag (RFC 8216 §4.2), as names and values without quotes.
///
/// The list ends at the first attribute that is not well-formed. A comma within quotes belongs to the value.
#[derive(Clone, Copy, Debug)]
pub struct AttributeList<'p>(&'p [u8]);

impl<'p> AttributeList<'p> {
    /// The list in the value of a tag.
    pub fn new(value: &'p [u8]) -> Self {
        Self(value)
    }
}

impl<'p> Iterator for AttributeList<'p> {
    type Item = (&'p [u8], &'p [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let list = std::mem::take(&mut self.0);
        let equals = memchr::memchr(b'=', list)?;
        let (name, value) = (list[..equals].trim_ascii(), list[equals + 1..].trim_ascii_start());
        let (value, rest) = match value.strip_prefix(b"\"") {
            Some(quoted) => {
                let end = memchr::memchr(b'"', quoted)?;
                (&quoted[..end], &quoted[end + 1..])
            }
            None => value.split_at(memchr::memchr(b',', value).unwrap_or(value.len())),
        };
        if let Some(comma) = memchr::memchr(b',', rest) {
            self.0 = &rest[comma + 1..];
        }
        Some((name, value.trim_ascii_end()))
    }
}

/// The value of one attribute, without quotes.
pub fn attribute<'p>(value: &'p [u8], name: &[u8]) -> Option<&'p [u8]> {
    AttributeList::new(value).find(|(found, _)| *found == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).expect("the tests are UTF-8")
    }

    fn list(value: &str) -> Vec<(&str, &str)> {
        AttributeList::new(value.as_bytes()).map(|(name, value)| (text(name), text(value))).collect()
    }

    #[test]
    fn tags_and_uris_are_told_from_comments_and_empty_lines() {
        let playlist = b"\xef\xbb\xbf#EXTM3U\r\n\n# a comment\n#EXTINF:4,a title\n a.ts\r\n#EXT-X-ENDLIST";
        let found: Vec<_> = lines(playlist).expect("a playlist").collect();
        let wanted = [
            Line::Tag { name: b"EXTINF", value: b"4,a title" },
            Line::Uri(b"a.ts"),
            Line::Tag { name: b"EXT-X-ENDLIST", value: b"" },
        ];
        assert_eq!(found, wanted);
        for other in [&b""[..], b"<MPD/>", b"#EXTM3U8\n", b"\n#EXTM3U\n"] {
            assert!(lines(other).is_none(), "{}", text(other));
        }
    }

    #[test]
    fn commas_and_equals_signs_within_quotes_belong_to_the_value() {
        let found = list("A=1,B=\"x,Y=2\", C = 3 ,D=\"\"");
        assert_eq!(found, [("A", "1"), ("B", "x,Y=2"), ("C", "3"), ("D", "")]);
        assert_eq!(attribute(b"B=\"x,Y=2\"", b"Y"), None);
    }

    #[test]
    fn a_list_ends_where_it_is_broken() {
        assert_eq!(list(""), []);
        assert_eq!(list("A"), []);
        assert_eq!(list("A=1,B"), [("A", "1")]);
        assert_eq!(list("A=1,B=\"x"), [("A", "1")]);
        assert_eq!(list("A=\"1\"x,B=2"), [("A", "1"), ("B", "2")]);
    }
}
