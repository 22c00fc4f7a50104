//! The texts of an object's metadata in one block of memory.

/// Which text.
#[derive(Clone, Copy, Debug)]
pub(super) enum Text {
    /// Fields for the client, as lines.
    Fields,
    /// Path and query.
    Target,
    /// Tags for purges, separated by spaces.
    Tags,
    ContentType,
    Etag,
    /// Last-Modified.
    Modified,
}

/// The texts one behind the other, behind a table of where they are.
///
/// The table has nine numbers: the ends of the first three texts, which follow each other, then start and end of each of the
/// others. The first byte says whether a number has two bytes or four. Without any text there is nothing at all.
#[derive(Debug, Default)]
pub(super) struct PackedText(Box<[u8]>);

/// Numbers in the table.
const NUMBERS: usize = 9;

/// Shorter texts are searched for in the texts before them: a value is often one of the fields.
const SHARED_BYTES_MAX: usize = 128;

impl PackedText {
    pub(super) fn new(texts: [(Text, &[u8]); 6]) -> Self {
        let mut bytes = Vec::with_capacity(texts.iter().map(|(_, text)| text.len()).sum());
        let mut table = [0; NUMBERS];
        for (which, text) in texts {
            let start = match which {
                Text::Fields | Text::Target | Text::Tags => None,
                Text::ContentType | Text::Etag | Text::Modified => place(&bytes, text),
            };
            let start = start.unwrap_or_else(|| {
                bytes.extend_from_slice(text);
                bytes.len() - text.len()
            });
            let (first, last) = numbers(which);
            if let Some(first) = first {
                table[first] = start;
            }
            table[last] = start + text.len();
        }
        let is_wide = bytes.len() > usize::from(u16::MAX);
        let width = if is_wide { 4 } else { 2 };
        let mut packed = Vec::with_capacity(1 + NUMBERS * width + bytes.len());
        packed.push(u8::from(is_wide));
        for number in table {
            // Heads and targets are bounded far below 4 GiB.
            let number = u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
            packed.extend_from_slice(&number[..width]);
        }
        packed.extend_from_slice(&bytes);
        Self(packed.into())
    }

    /// Bytes of memory.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn bytes(&self, which: Text) -> &[u8] {
        let Some((is_wide, rest)) = self.0.split_first() else { return &[] };
        let width = if *is_wide == 0 { 2 } else { 4 };
        let (table, bytes) = rest.split_at(NUMBERS * width);
        let number = |place: usize| {
            let digits = table[place * width..][..width].iter().rev();
            digits.fold(0, |number, digit| number << 8 | usize::from(*digit))
        };
        let (first, last) = numbers(which);
        &bytes[first.map_or(0, number)..number(last)]
    }

    /// A text other than the fields, which may hold any bytes.
    pub(super) fn text(&self, which: Text) -> &str {
        std::str::from_utf8(self.bytes(which)).unwrap_or_default()
    }
}

/// Which numbers of the table are the start and the end of a text; the fields start at 0.
fn numbers(which: Text) -> (Option<usize>, usize) {
    match which {
        Text::Fields => (None, 0),
        Text::Target => (Some(0), 1),
        Text::Tags => (Some(1), 2),
        Text::ContentType => (Some(3), 4),
        Text::Etag => (Some(5), 6),
        Text::Modified => (Some(7), 8),
    }
}

/// The place of `text` in `bytes`, if it is there.
fn place(bytes: &[u8], text: &[u8]) -> Option<usize> {
    match text.len() {
        0 => Some(0),
        1..=SHARED_BYTES_MAX => bytes.windows(text.len()).position(|there| there == text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_one_of_the_fields_is_kept_once() {
        let fields = b"content-type: video/mp4\r\netag: \"v1\"\r\n";
        let texts = PackedText::new([
            (Text::Fields, fields),
            (Text::Target, b"/a?b"),
            (Text::Tags, b""),
            (Text::ContentType, b"video/mp4"),
            (Text::Etag, b"\"v1\""),
            (Text::Modified, b"Sun, 06 Nov 1994 08:49:37 GMT"),
        ]);
        assert_eq!(texts.bytes(Text::Fields), fields);
        let all = [Text::Target, Text::Tags, Text::ContentType, Text::Etag, Text::Modified];
        let expected = ["/a?b", "", "video/mp4", "\"v1\"", "Sun, 06 Nov 1994 08:49:37 GMT"];
        assert_eq!(all.map(|which| texts.text(which)), expected);
        assert_eq!(texts.len(), 1 + 2 * NUMBERS + fields.len() + "/a?b".len() + expected[4].len());
    }

    #[test]
    fn long_texts_have_their_place_too() {
        let (fields, target) = (vec![b'f'; 70_000], vec![b't'; 300]);
        let texts = PackedText::new([
            (Text::Fields, &fields),
            (Text::Target, &target),
            (Text::Tags, b"a b"),
            (Text::ContentType, b"video/mp4"),
            (Text::Etag, b"\"v1\""),
            (Text::Modified, b""),
        ]);
        assert_eq!(texts.bytes(Text::Fields), fields);
        assert_eq!(texts.bytes(Text::Target), target);
        let others = [Text::Tags, Text::ContentType, Text::Etag, Text::Modified];
        assert_eq!(others.map(|which| texts.text(which)), ["a b", "video/mp4", "\"v1\"", ""]);
        assert_eq!(PackedText::default().text(Text::Target), "");
    }
}
