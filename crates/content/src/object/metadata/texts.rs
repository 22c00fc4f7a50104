//! The texts of an object's metadata in one block of memory.

use std::borrow::Cow;

use penstock_http::Fields;

use super::packed_lines::{PackedLines, pack, put_bytes, take_bytes};
use super::unix_time::since_1970;

/// The texts of an object.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TextParts<'t> {
    /// Fields for the client.
    pub(super) fields: &'t Fields,
    /// Path and query.
    pub(super) target: &'t str,
    /// Tags for purges, separated by spaces.
    pub(super) tags: &'t str,
    pub(super) content_type: &'t str,
    pub(super) etag: &'t str,
    /// Last-Modified, if it is a date.
    pub(super) modified: &'t str,
    /// When the response came, in seconds since 1970.
    pub(super) received: u32,
}

/// Texts that are usually the value of a line, in the order of their bits in [`Texts`].
#[derive(Clone, Copy, Debug)]
enum LineText {
    ContentType,
    Etag,
    Modified,
}

impl LineText {
    const ALL: [Self; 3] = [Self::ContentType, Self::Etag, Self::Modified];

    fn bit(self) -> u8 {
        1 << self as u8
    }

    fn name(self) -> &'static str {
        match self {
            Self::ContentType => "content-type",
            Self::Etag => "etag",
            Self::Modified => "last-modified",
        }
    }
}

/// The texts one behind the other.
///
/// One byte has a bit for each [`LineText`] text that is not the value of its line. Then come four bytes of `received`,
/// target and tags and those texts, each behind its length, and the packed lines.
#[derive(Debug)]
pub(super) struct Texts(Box<[u8]>);

/// Bytes in front of the first text.
const FIXED_BYTES: usize = 5;

impl Texts {
    pub(super) fn new(parts: &TextParts<'_>) -> Self {
        let lines = pack(parts.fields);
        let values = [parts.content_type, parts.etag, parts.modified];
        let differing = LineText::ALL.into_iter().zip(values).filter(|(which, text)| {
            PackedLines(&lines).value(which.name()).unwrap_or_default() != text.as_bytes()
        });
        let mut bytes = Vec::with_capacity(FIXED_BYTES + 8 + parts.target.len() + lines.len());
        bytes.push(differing.clone().map(|(which, _)| which.bit()).sum());
        bytes.extend_from_slice(&parts.received.to_le_bytes());
        let texts = [parts.target, parts.tags].into_iter().chain(differing.map(|(_, text)| text));
        texts.for_each(|text| put_bytes(&mut bytes, text.as_bytes()));
        bytes.extend_from_slice(&lines);
        Self(bytes.into())
    }

    /// Bytes of memory.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// When the response came, in seconds since 1970.
    pub(super) fn received(&self) -> u32 {
        self.0.get(1..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    pub(super) fn target(&self) -> &str {
        self.after_fixed(take_text)
    }

    pub(super) fn tags(&self) -> &str {
        self.after_fixed(|rest| {
            take_text(rest);
            take_text(rest)
        })
    }

    pub(super) fn content_type(&self) -> &str {
        self.borrowed(LineText::ContentType)
    }

    pub(super) fn etag(&self) -> &str {
        self.borrowed(LineText::Etag)
    }

    /// Last-Modified; empty if there is none that is a date.
    pub(super) fn modified(&self) -> Cow<'_, str> {
        match self.shared(LineText::Modified) {
            Cow::Borrowed(bytes) => Cow::Borrowed(str::from_utf8(bytes).unwrap_or_default()),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).unwrap_or_default()),
        }
    }

    /// The time in Last-Modified, in seconds since 1970.
    pub(super) fn modified_seconds(&self) -> Option<u32> {
        let is_in_lines = self.0.first().is_some_and(|bits| bits & LineText::Modified.bit() == 0);
        let packed = self.lines().seconds(LineText::Modified.name()).filter(|_| is_in_lines);
        packed.or_else(|| httpdate::parse_http_date(&self.modified()).ok().map(since_1970))
    }

    /// Fields for the client.
    pub(super) fn lines(&self) -> PackedLines<'_> {
        PackedLines(self.after_fixed(|rest| {
            let differing = self.0.first().map_or(0, |bits| bits.count_ones());
            for _ in 0..2 + differing {
                take_text(rest);
            }
            *rest
        }))
    }

    /// A text whose line is never packed as a date.
    fn borrowed(&self, which: LineText) -> &str {
        match self.shared(which) {
            Cow::Borrowed(bytes) => str::from_utf8(bytes).unwrap_or_default(),
            Cow::Owned(_) => "",
        }
    }

    fn shared(&self, which: LineText) -> Cow<'_, [u8]> {
        let bits = self.0.first().copied().unwrap_or_default();
        if bits & which.bit() == 0 {
            return self.lines().value(which.name()).unwrap_or_default();
        }
        let before = (bits & (which.bit() - 1)).count_ones();
        Cow::Borrowed(
            self.after_fixed(|rest| {
                for _ in 0..2 + before {
                    take_text(rest);
                }
                take_text(rest)
            })
            .as_bytes(),
        )
    }

    fn after_fixed<'t, T>(&'t self, take: impl FnOnce(&mut &'t [u8]) -> T) -> T {
        take(&mut self.0.get(FIXED_BYTES..).unwrap_or_default())
    }
}

fn take_text<'t>(rest: &mut &'t [u8]) -> &'t str {
    take_bytes(rest).and_then(|bytes| str::from_utf8(bytes).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    fn assert_read(parts: &TextParts<'_>) {
        let texts = Texts::new(parts);
        let mut fields = Fields::new();
        texts.lines().write(&mut fields, &[]);
        assert_eq!(fields, *parts.fields);
        assert_eq!(
            [texts.target(), texts.tags(), texts.content_type(), texts.etag(), &texts.modified()],
            [parts.target, parts.tags, parts.content_type, parts.etag, parts.modified]
        );
        assert_eq!(texts.received(), parts.received);
        let modified = httpdate::parse_http_date(parts.modified).ok().map(since_1970);
        assert_eq!(texts.modified_seconds(), modified);
    }

    #[test]
    fn texts_are_read_whether_they_are_in_the_lines_or_not() {
        let lines = format!("content-type: video/mp4\r\netag: \"v1\"\r\nlast-modified: {MODIFIED}\r\n");
        let fields = |lines: &str| Fields::from_lines(lines.as_bytes()).unwrap();
        let usual = fields(&lines);
        let in_lines = TextParts {
            fields: &usual,
            target: "/a?b",
            tags: "film news",
            content_type: "video/mp4",
            etag: "\"v1\"",
            modified: MODIFIED,
            received: 7,
        };
        assert_read(&in_lines);
        assert_read(&TextParts { fields: &fields("x-custom: kept\r\n"), ..in_lines });
        assert_read(&TextParts { etag: "", ..in_lines });
        assert_read(&TextParts { content_type: "", modified: "", ..in_lines });
        let no_date = fields("last-modified: yesterday\r\n");
        assert_read(&TextParts { fields: &no_date, modified: "", ..in_lines });
        assert_read(&TextParts { modified: "Sunday, 06-Nov-94 08:49:37 GMT", ..in_lines });
        let long = fields(&format!("{0}: {0}\r\n", "f".repeat(60_000)));
        assert_read(&TextParts { target: &"t".repeat(300), fields: &long, ..in_lines });
        assert_read(&TextParts::default());
    }

    #[test]
    fn a_text_that_is_the_value_of_a_line_takes_no_space() {
        let fields = &Fields::from_lines(b"etag: \"v1\"\r\n").unwrap();
        let texts = Texts::new(&TextParts { fields, etag: "\"v1\"", target: "/a", ..TextParts::default() });
        // Target and tags have a byte of length each, the line a number and a length.
        assert_eq!(texts.len(), FIXED_BYTES + 1 + "/a".len() + 1 + 2 + "\"v1\"".len());
    }
}
