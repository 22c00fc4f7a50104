//! Field lines in the memory of the cache: usual names and values take one byte, dates four.
//!
//! The packed form never leaves the process, so the tables may change. Unpacked lines are the same bytes as before.

use std::borrow::Cow;
use std::time::{Duration, UNIX_EPOCH};

use httpdate::{fmt_http_date, parse_http_date};
use penstock_http::Fields;

use super::unix_time::since_1970;

/// Fields whose values differ from object to object.
const NAMES: [&str; 20] = [
    "cache-control",
    "cdn-cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-security-policy",
    "content-type",
    "etag",
    "expires",
    "last-modified",
    "link",
    "set-cookie",
    "vary",
    "x-amz-id-2",
    "x-amz-request-id",
    "x-amz-version-id",
    "x-cache",
    "x-goog-generation",
    "x-request-id",
    "x-served-by",
];

/// Fields whose value is a date as [`fmt_http_date`] writes it.
const DATES: [&str; 3] = ["date", "expires", "last-modified"];

/// Fields and the beginnings of their values. Of two that fit, the first counts.
const BEGINNINGS: [(&str, &str); 6] = [
    ("cache-control", "max-age="),
    ("cache-control", "public, max-age="),
    ("cache-control", "public,max-age="),
    ("cache-control", "public, s-maxage="),
    ("cache-control", "s-maxage="),
    ("x-cache", "MISS from "),
];

/// Whole lines.
const LINES: [(&str, &str); 36] = [
    ("access-control-allow-headers", "*"),
    ("access-control-allow-methods", "GET, HEAD"),
    ("access-control-allow-methods", "GET, HEAD, OPTIONS"),
    ("access-control-expose-headers", "*"),
    ("cache-control", "no-cache"),
    ("cache-control", "public"),
    ("content-encoding", "gzip"),
    ("content-type", "application/dash+xml"),
    ("content-type", "application/json"),
    ("content-type", "application/mp4"),
    ("content-type", "application/octet-stream"),
    ("content-type", "application/vnd.apple.mpegurl"),
    ("content-type", "application/x-mpegURL"),
    ("content-type", "audio/aac"),
    ("content-type", "audio/mp4"),
    ("content-type", "audio/mpeg"),
    ("content-type", "binary/octet-stream"),
    ("content-type", "image/avif"),
    ("content-type", "image/gif"),
    ("content-type", "image/jpeg"),
    ("content-type", "image/png"),
    ("content-type", "image/webp"),
    ("content-type", "text/css"),
    ("content-type", "text/html"),
    ("content-type", "text/plain"),
    ("content-type", "text/vtt"),
    ("content-type", "video/iso.segment"),
    ("content-type", "video/mp2t"),
    ("content-type", "video/mp4"),
    ("content-type", "video/webm"),
    ("cross-origin-resource-policy", "cross-origin"),
    ("timing-allow-origin", "*"),
    ("vary", "Accept-Encoding"),
    ("vary", "Origin"),
    ("x-amz-server-side-encryption", "AES256"),
    ("x-content-type-options", "nosniff"),
];

const FIRST_DATE: usize = NAMES.len();
const FIRST_BEGINNING: usize = FIRST_DATE + DATES.len();
const FIRST_LINE: usize = FIRST_BEGINNING + BEGINNINGS.len();
/// A line with another name.
const OTHER: u8 = 255;

const _: () = assert!(FIRST_LINE + LINES.len() < OTHER as usize);

/// Bytes of a date as [`fmt_http_date`] writes it.
const DATE_BYTES: usize = 29;

/// Packs fields.
pub(super) fn pack(fields: &Fields) -> Vec<u8> {
    let mut packed = Vec::with_capacity(fields.as_bytes().len() / 2);
    fields.iter().for_each(|(name, value)| pack_line(&mut packed, name, value));
    packed
}

fn pack_line(packed: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let same = |known: &str| known.as_bytes() == name;
    let mut put = |number: usize| packed.push(u8::try_from(number).unwrap_or(OTHER));
    if let Some(seconds) = seconds_of(value)
        && let Some(place) = DATES.iter().position(|known| same(known))
    {
        put(FIRST_DATE + place);
        packed.extend_from_slice(&seconds.to_le_bytes());
    } else if let Some(place) = LINES.iter().position(|(known, text)| same(known) && text.as_bytes() == value)
    {
        put(FIRST_LINE + place);
    } else if let Some((place, end)) =
        BEGINNINGS.iter().enumerate().find_map(|(place, (known, beginning))| {
            let end = value.strip_prefix(beginning.as_bytes()).filter(|_| same(known))?;
            Some((place, end))
        })
    {
        put(FIRST_BEGINNING + place);
        put_bytes(packed, end);
    } else if let Some(place) = NAMES.iter().position(|known| same(known)) {
        put(place);
        put_bytes(packed, value);
    } else {
        packed.push(OTHER);
        put_bytes(packed, name);
        put_bytes(packed, value);
    }
}

/// The seconds since 1970 of a date that is written again as it was.
fn seconds_of(value: &[u8]) -> Option<u32> {
    let text = str::from_utf8(value).ok().filter(|text| text.len() == DATE_BYTES)?;
    let time = parse_http_date(text).ok()?;
    let seconds = since_1970(time);
    (seconds < u32::MAX && fmt_http_date(time) == text).then_some(seconds)
}

/// Writes bytes behind their length.
pub(super) fn put_bytes(packed: &mut Vec<u8>, bytes: &[u8]) {
    let mut length = bytes.len();
    while length > 0x7f {
        packed.push(u8::try_from(length & 0x7f).unwrap_or(0) | 0x80);
        length >>= 7;
    }
    packed.push(u8::try_from(length).unwrap_or(0));
    packed.extend_from_slice(bytes);
}

/// Takes off what [`put_bytes`] wrote.
pub(super) fn take_bytes<'p>(packed: &mut &'p [u8]) -> Option<&'p [u8]> {
    let (mut length, mut shift) = (0_usize, 0);
    loop {
        let (digit, rest) = packed.split_first()?;
        *packed = rest;
        length |= usize::from(digit & 0x7f) << shift;
        if digit & 0x80 == 0 {
            break;
        }
        shift += 7;
    }
    let (bytes, rest) = packed.split_at_checked(length)?;
    *packed = rest;
    Some(bytes)
}

/// The value of a line.
#[derive(Clone, Copy, Debug)]
enum Value<'p> {
    /// In two pieces; one of them is empty in fields that are looked up.
    Bytes(&'static str, &'p [u8]),
    /// Seconds since 1970.
    Date(u32),
}

/// The lines of a packed form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedLines<'p>(pub(super) &'p [u8]);

impl<'p> PackedLines<'p> {
    /// Takes off the next line, name and value.
    fn next(&mut self) -> Option<(&'p [u8], Value<'p>)> {
        let (code, rest) = self.0.split_first()?;
        self.0 = rest;
        let place = usize::from(*code);
        Some(match place {
            _ if *code == OTHER => {
                let name = take_bytes(&mut self.0)?;
                (name, Value::Bytes("", take_bytes(&mut self.0)?))
            }
            FIRST_LINE.. => {
                let (name, value) = LINES.get(place - FIRST_LINE)?;
                (name.as_bytes(), Value::Bytes(value, b""))
            }
            FIRST_BEGINNING.. => {
                let (name, beginning) = BEGINNINGS[place - FIRST_BEGINNING];
                (name.as_bytes(), Value::Bytes(beginning, take_bytes(&mut self.0)?))
            }
            FIRST_DATE.. => {
                let (seconds, rest) = self.0.split_first_chunk()?;
                self.0 = rest;
                (DATES[place - FIRST_DATE].as_bytes(), Value::Date(u32::from_le_bytes(*seconds)))
            }
            _ => (NAMES[place].as_bytes(), Value::Bytes("", take_bytes(&mut self.0)?)),
        })
    }

    fn find(mut self, wanted: &str) -> Option<Value<'p>> {
        while let Some((name, value)) = self.next() {
            if name == wanted.as_bytes() {
                return Some(value);
            }
        }
        None
    }

    /// Whether there is a field of this name, in lowercase letters.
    pub(super) fn has(self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// The value of the first field of this name.
    pub(super) fn value(self, name: &str) -> Option<Cow<'p, [u8]>> {
        Some(match self.find(name)? {
            Value::Bytes("", value) => Cow::Borrowed(value),
            Value::Bytes(value, b"") => Cow::Borrowed(value.as_bytes()),
            Value::Bytes(beginning, end) => Cow::Owned([beginning.as_bytes(), end].concat()),
            Value::Date(seconds) => Cow::Owned(fmt_http_date(date(seconds)).into_bytes()),
        })
    }

    /// The date in the first field of this name, in seconds since 1970; `None` if it is no date as [`fmt_http_date`] writes
    /// it.
    pub(super) fn seconds(self, name: &str) -> Option<u32> {
        match self.find(name)? {
            Value::Date(seconds) => Some(seconds),
            Value::Bytes(..) => None,
        }
    }

    /// Appends the fields without those of the names `left_out`.
    pub(super) fn write(mut self, fields: &mut Fields, left_out: &[&str]) {
        while let Some((name, value)) = self.next() {
            match value {
                _ if left_out.iter().any(|left_out| left_out.as_bytes() == name) => {}
                Value::Bytes(beginning, end) => {
                    fields.parsed_field(name, [beginning.as_bytes(), end]);
                }
                Value::Date(seconds) => {
                    fields.parsed_date(name, date(seconds));
                }
            }
        }
    }
}

fn date(seconds: u32) -> std::time::SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(lines: &[u8]) -> Vec<u8> {
        pack(&Fields::from_lines(lines).unwrap())
    }

    fn unpacked(packed: &[u8], left_out: &[&str]) -> Vec<u8> {
        let mut fields = Fields::new();
        PackedLines(packed).write(&mut fields, left_out);
        fields.to_lines()
    }

    #[test]
    fn all_lines_are_unpacked_as_they_were() {
        let long = format!("x-long: {}\r\n", "v".repeat(65_000));
        let known: String = LINES.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let cases = [
            "",
            "content-type: video/mp4\r\ndate: Sat, 21 Nov 2026 20:04:16 GMT\r\netag: \"v1\"\r\n",
            "cache-control: max-age=3600\r\ncache-control: public, max-age=5, immutable\r\n",
            "date: Saturday, 21-Nov-26 20:04:16 GMT\r\nexpires: 0\r\nlast-modified: Sun, 21 Nov 2026 20:04:16 GMT\r\n",
            "date: Sun, 06 Nov 1994 08:49:37 GMT\r\ndate: Fri, 31 Dec 9999 23:59:59 GMT\r\n",
            "x-custom: \r\nX-Custom: a: b\r\n",
            "x-latin-1: caf\u{e9}\r\ndate: x\r\n",
            &long,
            &known,
        ];
        for lines in cases {
            assert_eq!(
                unpacked(&packed(lines.as_bytes()), &[]).escape_ascii().to_string(),
                lines.as_bytes().escape_ascii().to_string()
            );
        }
        let binary = b"x-a: \xff\t\xfe\r\n";
        assert_eq!(unpacked(&packed(binary), &[]), binary);
    }

    #[test]
    fn a_usual_head_takes_less_than_a_quarter() {
        let lines = b"content-type: video/mp4\r\nlast-modified: Sat, 21 Nov 2026 20:04:16 GMT\r\n\
            date: Sat, 21 Nov 2026 20:05:00 GMT\r\netag: \"6740f1c0-400\"\r\ncache-control: max-age=3600\r\n";
        let packed = packed(lines);
        assert!(4 * packed.len() < lines.len(), "{} of {} bytes", packed.len(), lines.len());
    }

    #[test]
    fn fields_are_found_by_name_and_left_out_by_name() {
        let packed = packed(
            b"content-type: video/mp4\r\netag: \"1\"\r\netag: \"2\"\r\ncache-control: max-age=5\r\n\
              date: Sun, 06 Nov 1994 08:49:37 GMT\r\nx-a: b\r\n",
        );
        let lines = PackedLines(&packed);
        let value = |name| lines.value(name).map(|value| String::from_utf8(value.into_owned()).unwrap());
        assert_eq!(value("content-type").as_deref(), Some("video/mp4"));
        assert_eq!(value("etag").as_deref(), Some("\"1\""));
        assert_eq!(value("cache-control").as_deref(), Some("max-age=5"));
        assert_eq!(value("date").as_deref(), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
        assert_eq!(value("x-a").as_deref(), Some("b"));
        assert_eq!(value("x-b"), None);
        assert_eq!((lines.seconds("date"), lines.seconds("etag")), (Some(784_111_777), None));
        assert!(lines.has("x-a") && !lines.has("expires"));
        assert_eq!(
            unpacked(&packed, &["etag"]),
            b"content-type: video/mp4\r\ncache-control: max-age=5\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\nx-a: b\r\n"
        );
    }
}
