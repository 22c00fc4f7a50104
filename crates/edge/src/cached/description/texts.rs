//! The texts of a description in one block of memory: there is one for each object that is known.

/// Which text.
#[derive(Clone, Copy, Debug)]
pub(super) enum Text {
    /// Fields to pass on, as lines ready to be written.
    Fields,
    /// Path and query.
    Target,
    /// Tags to be purged by, separated by spaces.
    Tags,
    ContentType,
    Etag,
    /// Last-Modified.
    Modified,
}

/// Texts, one behind the other.
#[derive(Debug, Default)]
pub(super) struct Texts {
    bytes: Box<[u8]>,
    /// Where each begins and ends.
    places: [(u32, u32); 6],
}

/// What is so short may stand in a longer text already; beyond that nobody searches.
const SHARED_BYTES_MAX: usize = 128;

impl Texts {
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

    pub(super) fn bytes(&self, which: Text) -> &[u8] {
        let (start, end) = self.places[which as usize];
        &self.bytes[start as usize..end as usize]
    }

    /// All but the fields have come as text.
    pub(super) fn text(&self, which: Text) -> &str {
        std::str::from_utf8(self.bytes(which)).unwrap_or_default()
    }
}

/// Where it stands already: the ETag is one of the fields too.
fn place(bytes: &[u8], text: &[u8]) -> Option<usize> {
    match text.len() {
        0 => Some(0),
        1..=SHARED_BYTES_MAX => bytes.windows(text.len()).position(|there| there == text),
        _ => None,
    }
}

/// A head and a target are shorter by far.
fn number(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_the_fields_is_kept_once() {
        let fields = b"content-type: video/mp4\r\netag: \"v1\"\r\n";
        let texts = Texts::new([
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
