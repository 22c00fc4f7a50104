//! What a player says of itself with a request: Common Media Client Data (CTA-5004), in header fields or in the query.
//!
//! A key that has no meaning here, or a value that does not fit its key, is passed over: the request is answered all the same.

use std::borrow::Cow;
use std::time::Duration;

use crate::query::decoded;
use crate::request::Request;

/// The header fields. A key may be in any of them.
const FIELDS: [&str; 4] = ["CMCD-Request", "CMCD-Object", "CMCD-Status", "CMCD-Session"];

/// The parameter of a query.
const PARAMETER: &str = "CMCD=";

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
}

impl Cmcd {
    /// Reads what comes with a request; `None` if nothing does.
    pub fn of(request: &Request<'_>) -> Option<Self> {
        let parameter = request.query().and_then(parameter);
        if parameter.is_none() && !request.has_cmcd_field() {
            return None;
        }
        let mut found = Self::default();
        if let Some(list) = parameter.and_then(decoded) {
            found.read(&list);
        }
        if request.has_cmcd_field() {
            for (name, value) in request.fields() {
                if FIELDS.iter().any(|field| field.eq_ignore_ascii_case(name)) {
                    found.read(std::str::from_utf8(value).unwrap_or_default());
                }
            }
        }
        Some(found)
    }

    /// Reads a list of keys.
    fn read(&mut self, list: &str) {
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
                _ => {}
            }
        }
    }
}

/// The value of the parameter, still percent-encoded.
fn parameter(query: &str) -> Option<&str> {
    query.split('&').find_map(|parameter| parameter.strip_prefix(PARAMETER))
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
    let (mut is_quoted, mut is_escaped) = (false, false);
    let end = list.bytes().position(|byte| {
        if std::mem::take(&mut is_escaped) {
            return false;
        }
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'\\' => is_escaped = is_quoted,
            b',' => return !is_quoted,
            _ => {}
        }
        false
    });
    end.unwrap_or(list.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HeadLimits;

    fn read(head: &str) -> Option<Cmcd> {
        let limits = HeadLimits { head_bytes: 8192, fields: 64, target_bytes: 4096 };
        let head = head.as_bytes();
        Cmcd::of(&Request::parse(head, &limits).unwrap())
    }

    fn of_query(query: &str) -> Option<Cmcd> {
        read(&format!("GET /seg.m4s?{query} HTTP/1.1\r\nHost: a\r\n\r\n"))
    }

    fn of_list(list: &str) -> Cmcd {
        let mut found = Cmcd::default();
        found.read(list);
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
        };
        assert_eq!(of_query(query), Some(expected));
    }

    #[test]
    fn a_request_without_it_has_none() {
        assert_eq!(of_query("a=CMCD=bs&xCMCD=bs"), None);
        assert_eq!(of_query("CMCD=bs").map(|found| found.starved), Some(true));
        assert_eq!(of_query("CMCD="), Some(Cmcd::default()));
        assert_eq!(of_query("CMCD=%zz"), Some(Cmcd::default()), "broken percent-encoding");
    }

    #[test]
    fn what_does_not_fit_is_passed_over() {
        let found = of_list("bl=-1,br=0,mtp=x,sid,unknown=7,bs=false,su=true,br=(1 2)");
        assert_eq!(found, Cmcd { startup: true, ..Cmcd::default() });
        assert_eq!(of_list("bl=18446744073709551616").buffer, None);
        assert_eq!(of_list(",,=,=x,\"\\").session, None);
    }

    #[test]
    fn quoted_names_hold_commas_and_escapes_and_are_bounded() {
        let found = of_list("nor=\"a,bs,b\", cid=\"a \\\"b\\\\, su\",sid=\"open, bs");
        assert_eq!(
            (found.content.as_deref(), found.starved, found.startup),
            (Some("a \"b\\, su"), false, false)
        );
        assert_eq!(found.session.as_deref(), Some("open, bs"));
        let long = of_list(&format!("cid=\"{}\"", "é".repeat(100)));
        assert_eq!(long.content.as_deref().map(str::len), Some(64));
    }
}
