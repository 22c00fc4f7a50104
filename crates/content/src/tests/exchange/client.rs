//! Requests of clients, and what is wrong with their responses.

use std::ops::Range;

use tokio::time::Instant;

use super::model::{Audience, Model, Representation};
use super::{Choices, FIELDLESS, HOSTS, ORIGINS, PATHS, UNCACHED, is_signed};
use crate::response::ContentLength;
use crate::tests::fixture::OriginAnswer;

/// The bytes of a part, and the length of all if it is known.
type Part = (Range<usize>, Option<usize>);

/// A request.
pub(super) struct Ask {
    pub(super) head: String,
    site: usize,
    path: u8,
    method: &'static str,
    language: &'static str,
    authorization: &'static str,
    has_words: bool,
    pub(super) is_early: bool,
    is_allowed: bool,
    range: Option<String>,
    known: Option<(&'static str, String)>,
    since: Instant,
    event: u64,
}

impl Ask {
    pub(super) fn new(choices: &Choices, model: &mut Model, token: impl Fn(usize, &str) -> String) -> Self {
        let of = |number| choices.of(number);
        let (site, path) = ([0, 0, 1, 1, UNCACHED, FIELDLESS, FIELDLESS][usize::from(of(7))], of(PATHS));
        let method = ["GET", "GET", "GET", "GET", "HEAD", "POST"][usize::from(of(6))];
        let language = ["", "de", "fr"][usize::from(of(3))];
        let authorization = ["", "", "one", "two"][usize::from(of(4))];
        let (has_words, is_early) = (of(8) == 1, of(8) == 1);
        let ranges = ["", "", "", "0-9", "5-", "-3", "65530-65545", "65536-", "9999999-"];
        let range = Some(ranges[usize::from(of(9))]).filter(|range| !range.is_empty()).map(str::to_owned);
        let tags: Vec<_> = model.of(site, path).flat_map(|known| known.tags.clone()).collect();
        let known = match (of(4), tags.len()) {
            (_, 0) => None,
            (1, known) => Some(("If-None-Match", tags[usize::from(of(255)) % known].clone())),
            (2, known) => Some(("If-Range", tags[usize::from(of(255)) % known].clone())),
            _ => None,
        };
        let (signature, is_right) = match of(6) {
            1 => (String::new(), false),
            2 => (format!("?token={}", token(site, "/other")), false),
            3 => (format!("?token={}", token(FIELDLESS + 1 - site, &format!("/p{path}"))), false),
            _ => (format!("?token={}", token(site, &format!("/p{path}"))), true),
        };
        let is_allowed = !is_signed(site) || is_right;
        let query = if is_signed(site) { signature.as_str() } else { "" };
        let host = HOSTS[site];
        let mut head = match of(4) {
            // The Host that came is not looked at (RFC 9112 §3.2.2).
            1 => format!(
                "{method} https://{host}/p{path}{query} HTTP/1.1\r\nHost: {}\r\n",
                HOSTS[usize::from(of(4))]
            ),
            _ => format!("{method} /p{path}{query} HTTP/1.1\r\nHost: {host}\r\n"),
        };
        let mut add = |name: &str, value: &str| head.push_str(&format!("{name}: {value}\r\n"));
        [
            ("Accept-Language", language),
            ("Authorization", authorization),
            ("CDN-Loop", if has_words { "own" } else { "" }),
        ]
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .for_each(|(name, value)| add(name, value));
        if let Some(range) = &range {
            add("Range", &format!("bytes={range}"));
        }
        if let Some((name, value)) = &known {
            add(name, value);
        }
        head.push_str("\r\n");
        let (since, event) = (Instant::now(), model.next_event());
        Self {
            head,
            site,
            path,
            method,
            language,
            authorization,
            has_words,
            is_early,
            is_allowed,
            range,
            known,
            since,
            event,
        }
    }

    pub(super) fn check(&self, answer: &OriginAnswer, model: &mut Model) {
        let about = format!(
            "{} {:?} {} bytes, {:?}, {} for {}",
            answer.status,
            answer.length,
            answer.body.len(),
            answer.fault,
            answer.field("cache-status"),
            self.head
        );
        if !self.is_allowed {
            assert_eq!(answer.status, 403, "a wrong token: {about}");
            let is_page = self.method == "HEAD" || answer.body.starts_with(b"403 ");
            assert!(is_page, "a wrong token, and bytes of an origin: {about}");
            return;
        }
        self.check_length(answer, &about);
        match answer.status {
            200 => self.check_part(answer, model, None, &about),
            206 => {
                let (range, length) = parts_of(&answer.field("content-range"), &about);
                assert!(self.range.is_some(), "206 without a range: {about}");
                self.check_part(answer, model, Some((range, length)), &about);
            }
            304 => {
                let Some(("If-None-Match", tag)) = &self.known else {
                    panic!("304 without a condition: {about}")
                };
                let strip = |tag: &str| tag.trim_start_matches("W/").to_owned();
                assert_eq!(strip(&answer.field("etag")), strip(tag), "another version: {about}");
            }
            416 => {
                let field = answer.field("content-range");
                let length = field.strip_prefix("bytes */").unwrap_or_else(|| panic!("{field}: {about}"));
                let length: usize = length.parse().unwrap();
                assert!(self.range.is_some(), "{about}");
                let mut known = model.of(self.site, self.path);
                assert!(known.any(|known| known.bytes().len() == length), "a length of nothing: {about}");
            }
            412 => panic!("a condition that the client did not make: {about}"),
            400.. if self.method == "HEAD" => {}
            400.. if answer.body.starts_with(format!("{} ", answer.status).as_bytes()) => {}
            301 | 302 | 307 | 404 | 403 | 425 | 500 | 503 | 410 | 508 => {
                self.check_part(answer, model, None, &about)
            }
            _ => panic!("an answer that has no reason: {about}"),
        }
    }

    fn check_length(&self, answer: &OriginAnswer, about: &str) {
        let got = answer.body.len() as u64;
        if self.method == "HEAD" || answer.status == 304 {
            assert_eq!((got, answer.fault), (0, None), "a body that must not be: {about}");
            return;
        }
        match answer.length {
            ContentLength::Known(length) if answer.fault.is_none() => {
                assert_eq!(got, length, "the body ends at another place: {about}");
            }
            ContentLength::Known(length) => assert!(got < length, "a whole body that failed: {about}"),
            ContentLength::None => assert_eq!(got, 0, "{about}"),
            // A carrier sends the end of a body behind its bytes.
            ContentLength::Unknown => {
                assert!(got > 0 || answer.fault.is_some(), "a body without an end: {about}")
            }
        }
    }

    /// The body is that part of one representation, which this client may get.
    fn check_part(&self, answer: &OriginAnswer, model: &mut Model, part: Option<Part>, about: &str) {
        let purge = model.purge_for(self.site, self.path, self.event);
        let start = part.as_ref().map_or(0, |(range, _)| range.start);
        let Some(&first) = answer.body.first() else {
            let is_whole = answer.fault.is_none() && self.method != "HEAD";
            let mut known = model.of(self.site, self.path);
            assert!(
                !is_whole || known.any(|known| known.bytes().is_empty()),
                "an empty body of nothing: {about}"
            );
            return;
        };
        let Some(found) = model.with_byte(first, start) else { panic!("bytes of nothing: {about}") };
        let length = found.bytes().len();
        let wanted = self
            .range
            .as_deref()
            .filter(|_| part.is_some())
            .map_or(0..length, |range| expected(range, length));
        let (range, said) = part.unwrap_or((0..length, None));
        assert_eq!(said.unwrap_or(length), length, "the length of another version: {about}");
        assert_eq!(range, wanted, "another range: {about}");
        let expected = &found.bytes()[range];
        assert!(expected.starts_with(&answer.body), "bytes of two versions: {about}");
        assert!(answer.fault.is_some() || expected.len() == answer.body.len(), "a body cut short: {about}");
        assert!(found.asked >= purge, "it was purged or changed: {about}");
        self.check_choice(answer, found, about);
        if self.method == "POST" && found.status < 400 && self.site != UNCACHED {
            let asked = found.asked;
            model.changed(self.site, self.path, asked);
        }
    }

    fn check_choice(&self, answer: &OriginAnswer, found: &mut Representation, about: &str) {
        let (status, etag) = (answer.status, answer.field("etag"));
        assert_eq!((found.origin, found.path), (ORIGINS[self.site], self.path), "another object: {about}");
        assert!(etag.is_empty() || found.tags.contains(&etag), "the tag of another version: {about}");
        assert_eq!(if status == 206 { 200 } else { status }, found.status, "another status: {about}");
        if let Some(language) = &found.language {
            let is_fieldless = self.site == FIELDLESS && self.method != "POST";
            let said = if is_fieldless { "" } else { self.language };
            assert_eq!(language, said, "another variant: {about}");
        }
        if let Some(authorization) = &found.authorization {
            assert_eq!(authorization, self.authorization, "of another user: {about}");
        }
        match found.audience {
            Audience::Shared | Audience::Public => {}
            Audience::OneClient => found.audience = Audience::Given,
            Audience::Given => panic!("bytes of another client: {about}"),
            Audience::OfWords(words) => {
                // A client that waited asks again with fewer words than it has.
                let is_its_own = words.0 <= self.has_words && words.1 <= self.is_early;
                assert!(is_its_own, "because of another client: {about}");
            }
        }
        assert!(self.since <= found.until, "stale since {:?}: {about}", self.since - found.until);
        if let (Some(("If-Range", tag)), 206) = (&self.known, status) {
            assert!(!tag.starts_with('W') && etag == *tag, "If-Range: {about}");
        }
    }
}

/// What a Content-Range says.
fn parts_of(field: &str, about: &str) -> Part {
    let parse = || {
        let (range, length) = field.strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let last: usize = last.parse().ok()?;
        let length = if length == "*" { None } else { Some(length.parse().ok()?) };
        Some((first.parse().ok()?..last + 1, length))
    };
    parse().unwrap_or_else(|| panic!("Content-Range: {field}: {about}"))
}

/// The bytes that a range asks for.
fn expected(range: &str, length: usize) -> Range<usize> {
    let number = |text: &str| text.parse::<usize>().ok();
    let (first, last) = range.split_once('-').unwrap();
    match (number(first), number(last)) {
        (None, last) => length.saturating_sub(last.unwrap())..length,
        (Some(first), last) => first..last.map_or(length, |last| (last + 1).min(length)),
    }
}
