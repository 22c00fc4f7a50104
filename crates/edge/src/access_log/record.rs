//! What one response leaves in the log, and how it looks as a line.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use penstock_tls::Ja4;
use serde::{Serialize, Serializer};

use crate::metrics::{HandshakeFacts, OutletKind, ShortReason};

/// One response, as it goes to the log.
#[derive(Clone, Debug)]
pub struct Record {
    /// When the head of the request was complete.
    pub time: SystemTime,
    /// The client's address and port, behind a PROXY header the one it names.
    pub client: SocketAddr,
    /// The host asked for.
    pub host: Text,
    /// The method as it was sent.
    pub method: Text,
    /// The request target as it was sent. The log keeps signatures of signed URLs to itself.
    pub target: Text,
    /// The status code of the response.
    pub status: u16,
    /// Bytes of the body handed to the socket.
    pub body_bytes: u64,
    /// From the complete head of the request to the last byte handed to the socket.
    pub duration: Duration,
    /// From the complete head of the request to the first byte handed to the socket.
    pub first_byte: Option<Duration>,
    /// `Referer`
    pub referer: Option<Text>,
    /// `User-Agent`
    pub user_agent: Option<Text>,
    /// `Range`
    pub range: Option<Text>,
    /// The protocol of the request, such as `HTTP/1.1`.
    pub protocol: &'static str,
    /// What was agreed in the handshake; `None` on plain HTTP.
    pub tls: Option<HandshakeFacts>,
    /// Whether the request could be a replay: it came before the end of the handshake, or its sender said so.
    pub early_data: bool,
    /// The JA4 fingerprint of the client's TLS; `None` if it is not asked for.
    pub ja4: Option<Ja4>,
    /// The name in the certificate that the client has shown, cut to a bound; `None` if it has shown none.
    pub client_certificate: Option<Text>,
    /// Who moved the bytes.
    pub outlet: OutletKind,
    /// Which request of its connection this is, from 1.
    pub request_number: u64,
    /// How the answer was come by, where a cache was asked.
    pub cache: Option<&'static str>,
    /// Why the response is short; `None` when it is complete.
    pub short: Option<ShortReason>,
}

/// Bytes a client sent, cut to a bound; they become text on the log thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(Box<[u8]>);

impl Text {
    /// Keeps at most `limit` bytes.
    #[must_use]
    pub fn cut(bytes: &[u8], limit: usize) -> Self {
        Self(bytes.get(..limit).unwrap_or(bytes).into())
    }

    /// The text; bytes that are not UTF-8 become U+FFFD.
    fn as_str(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.as_str())
    }
}

/// Text whose signatures of signed URLs are not shown: with the log alone nobody gets at what was signed for somebody
/// else. What a token allows, and until when, stays to be read.
struct Unsigned<'a>(&'a Text);

impl Unsigned<'_> {
    /// As they stand in front of a signature, plain and percent-encoded.
    const MARKS: [&'static str; 3] = ["hmac=", "hmac%3D", "hmac%3d"];

    fn shown(&self) -> Cow<'_, str> {
        let text = self.0.as_str();
        if !Self::MARKS.iter().any(|mark| text.contains(mark)) {
            return text;
        }
        let mut shown = String::with_capacity(text.len());
        let mut rest = text.as_ref();
        while let Some(end) = Self::MARKS.iter().filter_map(|mark| Some(rest.find(mark)? + mark.len())).min()
        {
            let (before, after) = rest.split_at(end);
            shown.push_str(before);
            rest = after.trim_start_matches(|digit: char| digit.is_ascii_hexdigit());
            if rest.len() < after.len() {
                shown.push_str("hidden");
            }
        }
        shown.push_str(rest);
        Cow::Owned(shown)
    }
}

impl Serialize for Unsigned<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.shown())
    }
}

impl Record {
    /// Bytes of client text in this record.
    pub(super) fn text_bytes(&self) -> usize {
        let optional =
            [&self.referer, &self.user_agent, &self.range, &self.client_certificate].into_iter().flatten();
        [&self.host, &self.method, &self.target].into_iter().chain(optional).map(|text| text.0.len()).sum()
    }

    /// Appends the record as one line of JSON.
    pub(super) fn write_line(&self, lines: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        serde_json::to_writer(&mut *lines, &Line::of(self))?;
        lines.push(b'\n');
        Ok(())
    }
}

/// The fields of a line, in their order. What does not apply is left out.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    client_ip: String,
    client_port: u16,
    host: &'a Text,
    method: &'a Text,
    target: Unsigned<'a>,
    status: u16,
    body_bytes: u64,
    duration_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttfb_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    referer: Option<Unsigned<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_agent: Option<&'a Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<&'a Text>,
    protocol: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: Option<Tls<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    early_data: bool,
    outlet: &'static str,
    request_number: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache: Option<&'static str>,
    outcome: &'static str,
}

#[derive(Serialize)]
struct Tls<'a> {
    version: &'static str,
    cipher: &'static str,
    group: &'static str,
    resumed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ja4: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_certificate: Option<&'a Text>,
}

impl<'a> Line<'a> {
    fn of(record: &'a Record) -> Self {
        Self {
            time: rfc3339(record.time),
            client_ip: record.client.ip().to_canonical().to_string(),
            client_port: record.client.port(),
            host: &record.host,
            method: &record.method,
            target: Unsigned(&record.target),
            status: record.status,
            body_bytes: record.body_bytes,
            duration_ms: milliseconds(record.duration),
            ttfb_ms: record.first_byte.map(milliseconds),
            referer: record.referer.as_ref().map(Unsigned),
            user_agent: record.user_agent.as_ref(),
            range: record.range.as_ref(),
            protocol: record.protocol,
            tls: record.tls.as_ref().map(|facts| Tls::of(facts, record)),
            early_data: record.early_data,
            outlet: record.outlet.label(),
            request_number: record.request_number,
            cache: record.cache,
            outcome: record.short.map_or("complete", ShortReason::label),
        }
    }
}

impl<'a> Tls<'a> {
    fn of(facts: &HandshakeFacts, record: &'a Record) -> Self {
        Self {
            version: facts.version,
            cipher: facts.cipher,
            group: facts.group,
            resumed: facts.resumed,
            ja4: record.ja4.as_ref().map(Ja4::as_str),
            client_certificate: record.client_certificate.as_ref(),
        }
    }
}

/// Milliseconds with three decimals.
fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// The time in UTC with milliseconds (RFC 3339); a clock set before 1970 shows 1970.
fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, milliseconds) = (since.as_secs(), since.subsec_millis());
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

/// The date of a day counted from 1970-01-01, in the Gregorian calendar.
///
/// Years are counted from March, so that the leap day is the last of its year, in eras of 400 years of 146,097 days.
fn date(days_since_1970: u64) -> (u64, u64, u64) {
    let days = days_since_1970 + 719_468; // from 0000-03-01
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(seconds: u64, milliseconds: u64) -> String {
        rfc3339(UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_millis(milliseconds))
    }

    #[test]
    fn times_are_shown_in_utc_with_milliseconds() {
        assert_eq!(shown(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(shown(951_782_399, 999), "2000-02-28T23:59:59.999Z");
        assert_eq!(shown(951_782_400, 7), "2000-02-29T00:00:00.007Z");
        assert_eq!(shown(1_709_251_199, 0), "2024-02-29T23:59:59.000Z");
        assert_eq!(shown(1_735_689_599, 0), "2024-12-31T23:59:59.000Z");
        assert_eq!(shown(1_735_689_600, 0), "2025-01-01T00:00:00.000Z");
        assert_eq!(shown(4_107_542_400, 0), "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn every_day_of_five_centuries_follows_the_day_before() {
        let days_in = |year: u64, month: u64| match month {
            2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let mut expected = (1970, 1, 1);
        for day in 0..500 * 365 {
            assert_eq!(date(day), expected);
            expected.2 += 1;
            if expected.2 > days_in(expected.0, expected.1) {
                expected = (expected.0, expected.1 + 1, 1);
            }
            if expected.1 > 12 {
                expected = (expected.0 + 1, 1, 1);
            }
        }
    }

    #[test]
    fn a_clock_before_1970_shows_1970() {
        assert_eq!(rfc3339(UNIX_EPOCH - Duration::from_secs(1)), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn durations_keep_microseconds() {
        assert_eq!(milliseconds(Duration::from_nanos(12_345_678)), 12.346);
        assert_eq!(milliseconds(Duration::from_secs(3)), 3000.0);
    }

    #[test]
    fn signatures_are_hidden_however_they_are_encoded_and_cut() {
        let shown = |text: &str| Unsigned(&Text::cut(text.as_bytes(), 1024)).shown().into_owned();
        let signature = "0123456789abcdefABCDEF";
        for (written, expected) in [
            ("/a?token=exp=1~key=k~path=/a~hmac=SIGNATURE", "/a?token=exp=1~key=k~path=/a~hmac=hidden"),
            ("/a?token=exp%3D1~hmac%3DSIGNATURE&b=1", "/a?token=exp%3D1~hmac%3Dhidden&b=1"),
            ("/a?token=exp%3d1%7ehmac%3dSIGNATURE", "/a?token=exp%3d1%7ehmac%3dhidden"),
            ("/t=~hmac=SIGNATURE/a?t=~hmac%3DSIGNATURE", "/t=~hmac=hidden/a?t=~hmac%3Dhidden"),
            ("/token=exp=1~hmac=0/b", "/token=exp=1~hmac=hidden/b"),
            ("/hmac=/hmac=", "/hmac=/hmac="),
            ("/hmac/abc?hmac", "/hmac/abc?hmac"),
        ] {
            assert_eq!(shown(&written.replace("SIGNATURE", signature)), expected);
        }
    }

    #[test]
    fn text_is_cut_at_its_limit() {
        assert_eq!(Text::cut(b"abcdef", 3).as_str(), "abc");
        assert_eq!(Text::cut(b"ab", 3).as_str(), "ab");
    }
}
