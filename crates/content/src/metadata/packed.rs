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

/// PackedText, one behind the other.
#[derive(Debug, Default)]
pub(super) struct PackedText {
    bytes: Box<[u8]>,
    /// Where each begins and ends.
    places: [(u32, u32); 6],
}

/// Shorter texts are searched for in the texts before them: a value is often one of the fields.
const SHARED_BYTES_MAX: usize = 128;

impl PackedText {
    pub(super) fn new(texts: [(Text, &[u8]); 6]) -> Self {
        let mut bytes = Vec::with_capacity(texts.iter().map(|(_, text)| text.len()).sum());
        let mut places = [(0, 0); 6];
        for (which, text) in texts {
            let start = place(&bytes, text).unwrap_or_else(|| {
                bytes.extend_from_slice(text);
                bytes.len() - text.len()
            });
            places[which as usize] = (number(start), number(start + text.len()));
        }
        Self { bytes: bytes.into(), places }
    }

    /// Bytes of all texts.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn bytes(&self, which: Text) -> &[u8] {
        let (start, end) = self.places[which as usize];
        &self.bytes[start as usize..end as usize]
    }

    /// A text other than the fields, which may hold any bytes.
    pub(super) fn text(&self, which: Text) -> &str {
        std::str::from_utf8(self.bytes(which)).unwrap_or_default()
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

/// Heads and targets are bounded far below 4 GiB.
fn number(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
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
        assert_eq!(texts.bytes.len(), fields.len() + "/a?b".len() + expected[4].len());
    }
}
