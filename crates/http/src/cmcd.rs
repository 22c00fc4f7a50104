//! What a player says of itself with a request: Common Media Client Data (CTA-5004), in header fields or in the query.
//!
//! A key that has no meaning here, or a value that does not fit its key, is passed over. A list that is too long or no list at
//! all is malformed, and none of its keys counts. The request is answered all the same.

use std::borrow::Cow;
use std::time::Duration;

use crate::query::decoded;
use crate::request::Request;

/// The header fields. A key may be in any of them.
pub const FIELDS: [&str; 4] = ["CMCD-Request", "CMCD-Object", "CMCD-Status", "CMCD-Session"];

/// The parameter of a query.
pub const PARAMETER: &str = "CMCD";

/// Bytes of one list of keys, in a field or decoded from the query. A longer one is not read.
pub const LIST_BYTES_MAX: usize = 2048;

/// Bytes of a name that a player gives, at most (CTA-5004 has 64 characters).
const NAME_BYTES: usize = 64;

/// What a player says of itself with a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cmcd {
    /// `sid`: the session of playback.
    pub session: Option<Box<str>>,
    /// `cid`: the content.
    pub content: Option<Box<str>>,
    /// `bl`: how much is in the buffer.
    pub buffer: Option<Duration>,
    /// `bs`: whether the buffer has run empty since the last request.
    pub starved: bool,
    /// `su`: whether the object is needed to start, to seek, or because the buffer has run empty.
    pub startup: bool,
    /// `br`: the encoded bitrate of the object in kbit/s; not zero.
    pub bitrate: Option<u64>,
    /// `mtp`: the throughput that the player has measured, in kbit/s.
    pub throughput: Option<u64>,
    /// What the player will ask for next, if the reader wants to know and the player says it.
    pub next: Option<Box<NextRequest>>,
    /// Whether any list of keys was malformed.
    pub malformed: bool,
}

impl Cmcd {
    /// Reads what comes with a request; `None` if nothing does. `wants_next` says whether that is to include `next`.
    pub fn of(request: &Request<'_>, wants_next: bool) -> Option<Self> {
        let mut found = Self::default();
        each_list(request, |list| match list {
            Some(list) => found.read(list, wants_next),
            None => found.malformed = true,
        })
        .then_some(found)
    }

    /// Reads a list of keys.
    fn read(&mut self, list: &str, wants_next: bool) {
        for (key, value) in Items(list) {
            let number = || value.and_then(|value| value.parse().ok());
            match key {
                "sid" => self.session = value.map(name),
                "cid" => self.content = value.map(name),
                "bl" => self.buffer = number().map(Duration::from_millis),
                "br" => self.bitrate = number().filter(|bitrate| *bitrate > 0),
                "mtp" => self.throughput = number(),
                "bs" => self.starved = value.is_none_or(|value| value == "true"),
                "su" => self.startup = value.is_none_or(|value| value == "true"),
                "nor" | "nrr" if wants_next => self.read_next(key, value.unwrap_or_default()),
                _ => {}
            }
        }
    }

    fn read_next(&mut self, key: &str, value: &str) {
        let mut next = self.next.take().map(|next| *next).unwrap_or_default();
        match key {
            "nor" => next.object = reference(value),
            _ => next.range = range(value),
        }
        self.next = (next != NextRequest::default()).then(|| Box::new(next));
    }
}

/// What a player will ask for next, as far as it says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NextRequest {
    /// `nor`: a reference to the object, relative to that of the request; `None` for the same object.
    pub object: Option<String>,
    /// `nrr`: the first byte of the range, and the last one unless it is that of the object.
    pub range: Option<(u64, Option<u64>)>,
}

/// Whether a field of a request has keys of a player. `name` in any case.
pub fn is_field(name: &str) -> bool {
    FIELDS.iter().any(|field| field.eq_ignore_ascii_case(name))
}

/// Gives each list of keys that comes with a request to `read`, and `None` for one that is malformed. Returns whether there is
/// any.
fn each_list(request: &Request<'_>, mut read: impl FnMut(Option<&str>)) -> bool {
    let parameter = request.query().and_then(parameter);
    if let Some(written) = parameter {
        read(decoded(written).as_deref().filter(|list| is_well_formed(list)));
    }
    if request.has_cmcd_field() {
        for (_, value) in request.fields().filter(|(name, _)| is_field(name)) {
            read(std::str::from_utf8(value).ok().filter(|list| is_well_formed(list)));
        }
    }
    parameter.is_some() || request.has_cmcd_field()
}

/// The value of the parameter, still percent-encoded.
fn parameter(query: &str) -> Option<&str> {
    query.split('&').find_map(|parameter| parameter.strip_prefix(PARAMETER)?.strip_prefix('='))
}

/// Whether a text is a dictionary in its outlines (RFC 8941 §3.2): items with keys, whose quotes are closed, or nothing.
fn is_well_formed(list: &str) -> bool {
    let key_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.*".contains(&byte);
    let is_key = |key: &str| !key.is_empty() && key.bytes().all(key_byte);
    let closed = || {
        let mut quotes = Quotes::default();
        list.bytes().for_each(|byte| quotes.pass(byte));
        !quotes.is_open
    };
    list.len() <= LIST_BYTES_MAX
        && !list.ends_with(',')
        && Items(list).all(|(key, _)| is_key(key))
        && closed()
}

/// The first reference of a value: a quoted one, or a list of them in parentheses (CTA-5004-B).
fn reference(value: &str) -> Option<String> {
    let quoted = value.strip_prefix('(').unwrap_or(value).strip_prefix('"')?;
    let text = decoded(&quoted[..quoted.find('"')?])?;
    (!text.is_empty()).then(|| text.into_owned())
}

/// A quoted range: `"0-499"` or `"500-"`.
fn range(value: &str) -> Option<(u64, Option<u64>)> {
    let (first, last) = value.strip_prefix('"')?.strip_suffix('"')?.split_once('-')?;
    let first = first.parse().ok()?;
    let last = if last.is_empty() { None } else { Some(last.parse().ok()?) };
    last.is_none_or(|last| first <= last).then_some((first, last))
}

/// A name, without its quotes, cut to its bound.
fn name(value: &str) -> Box<str> {
    let text = match value.strip_prefix('"') {
        None => Cow::Borrowed(value),
        Some(quoted) => {
            let quoted = quoted.strip_suffix('"').unwrap_or(quoted);
            match quoted.contains('\\') {
                false => Cow::Borrowed(quoted),
                true => Cow::Owned(unescaped(quoted)),
            }
        }
    };
    let end = (0..=NAME_BYTES.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or(0)].into()
}

/// The text with each escaped character in place of its escape.
fn unescaped(quoted: &str) -> String {
    let mut text = String::with_capacity(quoted.len());
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        text.extend(if character == '\\' { characters.next() } else { Some(character) });
    }
    text
}

/// Keys of a list with their values, as they are written; `None` for a key that stands alone.
struct Items<'l>(&'l str);

impl<'l> Iterator for Items<'l> {
    type Item = (&'l str, Option<&'l str>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let (item, rest) = self.0.split_at(end_of_item(self.0));
        self.0 = rest.get(1..).unwrap_or_default();
        let item = item.trim_matches([' ', '\t']);
        Some(match item.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (item, None),
        })
    }
}

/// Where the first item of a list ends: at a comma that is not quoted.
fn end_of_item(list: &str) -> usize {
    let mut quotes = Quotes::default();
    let end = list.bytes().position(|byte| {
        quotes.pass(byte);
        byte == b',' && !quotes.is_open
    });
    end.unwrap_or(list.len())
}

/// Whether the next byte of a list is quoted.
#[derive(Default)]
struct Quotes {
    is_open: bool,
    is_escaped: bool,
}

impl Quotes {
    fn pass(&mut self, byte: u8) {
        match byte {
            _ if std::mem::take(&mut self.is_escaped) => {}
            b'"' => self.is_open = !self.is_open,
            b'\\' => self.is_escaped = self.is_open,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HeadLimits;

    fn read(head: &str) -> Option<Cmcd> {
        let limits = HeadLimits { head_bytes: 8192, fields: 64, target_bytes: 4096 };
        let head = head.as_bytes();
        Cmcd::of(&Request::parse(head, &limits).unwrap(), false)
    }

    fn of_query(query: &str) -> Option<Cmcd> {
        read(&format!("GET /seg.m4s?{query} HTTP/1.1\r\nHost: a\r\n\r\n"))
    }

    fn of_list(list: &str) -> Cmcd {
        let mut found = Cmcd::default();
        found.read(list, false);
        found
    }

    #[test]
    fn the_examples_of_cta_5004_are_read_from_fields_and_from_a_query() {
        // CTA-5004, the examples of header fields and of the query argument.
        let fields = "GET /a HTTP/1.1\r\nHost: a\r\nCMCD-Request: mtp=25400\r\nCMCD-Object: br=3200,d=4004,ot=v,tb=6000\r\n\
                      CMCD-Status: bs,rtp=15000\r\ncmcd-session: sid=\"6e2fb550-c457-11e9-bb97-0800200c9a66\"\r\n\r\n";
        let session = Some("6e2fb550-c457-11e9-bb97-0800200c9a66".into());
        let expected = Cmcd {
            session: session.clone(),
            starved: true,
            bitrate: Some(3200),
            throughput: Some(25_400),
            ..Cmcd::default()
        };
        assert_eq!(read(fields), Some(expected));
        let query = "a=1&CMCD=bl%3D21300%2Cbr%3D3200%2Cbs%2Ccid%3D%22faec5fc2-ac30-11ea-bb37-0242ac130002%22%2Cd%3D4004%2Cdl%3D18500%2C\
                     mtp%3D48100%2Cnor%3D%22..%252F300kbps%252Ftrack.m4v%22%2Cot%3Dv%2Cpr%3D1.08%2Crtp%3D12000%2Csf%3Dd%2Csid%3D%22\
                     6e2fb550-c457-11e9-bb97-0800200c9a66%22%2Cst%3Dv%2Csu%2Ctb%3D6000&b=2";
        let expected = Cmcd {
            session,
            content: Some("faec5fc2-ac30-11ea-bb37-0242ac130002".into()),
            buffer: Some(Duration::from_millis(21_300)),
            starved: true,
            startup: true,
            bitrate: Some(3200),
            throughput: Some(48_100),
            ..Cmcd::default()
        };
        assert_eq!(of_query(query), Some(expected));
    }

    #[test]
    fn a_request_without_it_has_none() {
        assert_eq!(of_query("a=CMCD=bs&xCMCD=bs"), None);
        assert_eq!(of_query("CMCD=bs").map(|found| found.starved), Some(true));
        assert_eq!(of_query("CMCD="), Some(Cmcd::default()));
        let malformed = Some(Cmcd { malformed: true, ..Cmcd::default() });
        assert_eq!(of_query("CMCD=%zz"), malformed, "broken percent-encoding");
    }

    #[test]
    fn what_does_not_fit_is_passed_over() {
        let found = of_list("bl=-1,br=0,mtp=x,sid,unknown=7,bs=false,su=true,br=(1 2)");
        assert_eq!(found, Cmcd { startup: true, ..Cmcd::default() });
        assert_eq!(of_list("bl=18446744073709551616").buffer, None);
    }

    #[test]
    fn a_list_that_is_none_or_too_long_is_malformed_and_none_of_its_keys_counts() {
        let malformed = |list: &str| {
            let found = read(&format!(
                "GET /a HTTP/1.1\r\nHost: a\r\nCMCD-Status: {list}\r\nCMCD-Request: su\r\n\r\n"
            ));
            let found = found.unwrap();
            assert!(found.startup && (found.malformed || found.starved), "{list}");
            found.malformed
        };
        let long = |more| format!("bs,cid=\"{}\"", "x".repeat(LIST_BYTES_MAX - "bs,cid=\"\"".len() + more));
        for wrong in ["bs,sid=\"open", "bs,,", ",bs", "bs,=x", "bs,a b", "bs,", "bs,sid=\"a\\\"", &long(1)] {
            assert!(malformed(wrong), "{wrong}");
        }
        for right in ["bs", "bs, sid=\"a,b\"", "bs,com.example-x=1", &long(0)] {
            assert!(!malformed(right), "{right}");
        }
    }

    #[test]
    fn the_next_object_and_its_range_are_read() {
        let next = |list: &str| {
            let list = list.replace('%', "%25").replace('"', "%22").replace(' ', "%20");
            let head = format!("GET /a?CMCD={list} HTTP/1.1\r\nHost: a\r\nCMCD-Request: bl=1500\r\n\r\n");
            let limits = HeadLimits { head_bytes: 8192, fields: 64, target_bytes: 4096 };
            let request = Request::parse(head.as_bytes(), &limits).unwrap();
            assert_eq!(Cmcd::of(&request, false).unwrap().next, None, "not wanted");
            Cmcd::of(&request, true).unwrap().next.map(|next| *next)
        };
        let of = |object: Option<&str>, range| Some(NextRequest { object: object.map(str::to_owned), range });
        assert_eq!(next("nor=\"..%2F300kbps%2Ftrack.m4v\""), of(Some("../300kbps/track.m4v"), None));
        assert_eq!(next("nor=(\"b.m4s\" \"c.m4s\")"), of(Some("b.m4s"), None));
        assert_eq!(next("nor=\"b.m4s\",nrr=\"0-99\""), of(Some("b.m4s"), Some((0, Some(99)))));
        assert_eq!(next("nrr=\"500-\""), of(None, Some((500, None))));
        for nothing in
            ["bs", "nor", "nor=b", "nor=\"\"", "nrr=\"-500\"", "nrr=\"9-1\"", "nor=\"%zz\"", "nrr=1-2"]
        {
            assert_eq!(next(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn quoted_names_hold_commas_and_escapes_and_are_bounded() {
        let found = of_list("nor=\"a,bs,b\", cid=\"a \\\"b\\\\, su\",sid=\"one, bs\"");
        assert_eq!(
            (found.content.as_deref(), found.starved, found.startup),
            (Some("a \"b\\, su"), false, false)
        );
        assert_eq!(found.session.as_deref(), Some("one, bs"));
        let long = of_list(&format!("cid=\"{}\"", "é".repeat(100)));
        assert_eq!(long.content.as_deref().map(str::len), Some(64));
    }
}
