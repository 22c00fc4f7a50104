//! How much of a site may be used.

use std::num::NonZeroU64;
use std::time::Duration;

use serde_saphyr::Spanned;

use super::reader::Reader;
use crate::limits;
use crate::model::{Bounds, ClientKind, Pace, PaceRate, RequestRate, SiteLimits, SiteSettings, TokenFormat};
use crate::raw;
use crate::section::{Text, WordOr, position};

pub(super) fn site_limits(raw: Option<&Spanned<raw::SiteLimits>>, reader: &mut Reader<'_>) -> SiteLimits {
    let Some(section) = raw else { return SiteLimits::default() };
    let raw = &section.value;
    let client = match raw.client.as_ref().map(|text| (text, text.value.as_str())) {
        None | Some((_, "address")) => ClientKind::Address,
        Some((_, "network")) => ClientKind::Network,
        Some((_, "subject")) => ClientKind::Subject,
        Some((text, other)) => {
            let what = format!("client: `{}` is unknown", other.escape_debug());
            reader.fault(position(text), what, "write address, network or subject");
            ClientKind::Address
        }
    };
    let each = (raw.requests.as_ref(), raw.connections.as_ref(), raw.bandwidth.as_ref());
    let each = bounds(each, reader);
    let all = raw.all.as_ref().map(|all| &all.value);
    let all = all.map_or_else(Bounds::default, |all| {
        bounds((all.requests.as_ref(), all.connections.as_ref(), all.bandwidth.as_ref()), reader)
    });
    SiteLimits { client, each, all }
}

/// How fast each response is sent.
pub(super) fn pace(section: &Spanned<raw::Pace>, reader: &mut Reader<'_>) -> Option<Pace> {
    let raw = &section.value;
    if raw.rate.is_none() {
        reader.fault(
            position(section),
            "pace: it has no rate",
            "add rate: 2MiB, in bytes per second, or 1.5x",
        );
    }
    let rate = match raw.rate.as_ref()? {
        text if text.value.ends_with('x') => PaceRate::Bitrate(bitrates(text, reader)?),
        text => {
            let range = limits::PACE_RATE_MIN..=limits::PACE_RATE_MAX;
            PaceRate::Bytes(NonZeroU64::new(reader.size("rate", Some(text), &range, 0))?)
        }
    };
    let after = reader.size("after", raw.after.as_ref(), &(0..=u64::MAX), 0);
    Some(Pace { after, rate })
}

/// A multiple of the bitrate, in thousandths.
fn bitrates(text: &Text, reader: &mut Reader<'_>) -> Option<NonZeroU64> {
    let number = text.value.trim_end_matches('x');
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let is_decimal = |digits: &str| digits.len() <= 3 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let thousandths = Some(format!("{whole}{part:0<3}"))
        .filter(|_| !whole.is_empty() && is_decimal(whole) && is_decimal(part))
        .and_then(|digits| digits.parse().ok())
        .filter(|number| limits::PACE_BITRATES.contains(number));
    if thousandths.is_none() {
        let what = format!("rate: {} is no multiple of the bitrate", text.value);
        reader.fault(position(text), what, "write one from 1.0x to 100x, such as 1.5x");
    }
    NonZeroU64::new(thousandths?)
}

type RawBounds<'r> = (Option<&'r Spanned<WordOr<raw::RequestRate>>>, Option<&'r Text>, Option<&'r Text>);

fn bounds((requests, connections, bandwidth): RawBounds<'_>, reader: &mut Reader<'_>) -> Bounds {
    let range = 1..=limits::SITE_CONNECTIONS_MAX;
    let connections = connections.map(|text| reader.number("connections", Some(text), &range, 1));
    let range = limits::PACE_RATE_MIN..=limits::PACE_RATE_MAX;
    let bandwidth =
        bandwidth.and_then(|text| NonZeroU64::new(reader.size("bandwidth", Some(text), &range, 0)));
    Bounds { requests: requests.and_then(|requests| rate(requests, reader)), connections, bandwidth }
}

/// A limit by subject needs tokens.
pub(super) fn check_subjects(
    section: Option<&Spanned<raw::SiteLimits>>,
    settings: &SiteSettings,
    reader: &mut Reader<'_>,
) {
    let Some(section) = section else { return };
    let format = settings.tokens.as_ref().map(|rules| &rules.format);
    let has_subject = settings.access.jwt.is_some() || format.is_some_and(TokenFormat::has_subject);
    if settings.limits.client == ClientKind::Subject && !has_subject {
        let here = section.value.client.as_ref().map_or_else(|| position(section), position);
        let (what, instead) = match format {
            Some(_) => (
                "client: tokens of this format have no subject",
                "write tokens: {format: jwt, key: FILE} or cat, add access: {jwt: {keys: FILE}}, or write address",
            ),
            None => {
                ("client: no token has a subject here", "add access: {jwt: {keys: FILE}}, or write address")
            }
        };
        reader.fault(here, what, instead);
    }
}

fn rate(raw: &Spanned<WordOr<raw::RequestRate>>, reader: &mut Reader<'_>) -> Option<RequestRate> {
    let (text, burst) = match &raw.value {
        WordOr::Word(word) => (Text::new(word.clone(), raw.referenced, raw.defined), None),
        WordOr::Section(section) => match &section.rate {
            Some(text) => (text.clone(), section.burst.as_ref()),
            None => {
                reader.fault(position(raw), "requests: it has no rate", "add rate: 50/s");
                return None;
            }
        },
    };
    let Some((interval, per_second)) = interval(&text.value) else {
        let what = format!("requests: `{}` is not a rate", text.value.escape_debug());
        let most = limits::RATE_PER_SECOND_MAX;
        reader.fault(
            position(&text),
            what,
            format!("write one such as 50/s, 100/m or 1000/h, up to {most}/s"),
        );
        return None;
    };
    let range = 1..=limits::RATE_BURST_MAX;
    Some(RequestRate { interval, burst: reader.number("burst", burst, &range, per_second.max(1)) })
}

/// The time for one request, and the requests of one second.
fn interval(text: &str) -> Option<(Duration, u32)> {
    let (count, unit) = text.split_once('/')?;
    let seconds = match unit.trim() {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return None,
    };
    let count = count.trim().parse::<u64>().ok().filter(|count| *count > 0)?;
    let fits = count <= limits::RATE_PER_SECOND_MAX * seconds;
    let per_second = u32::try_from(count / seconds).ok()?;
    fits.then(|| (Duration::from_nanos(1_000_000_000 * seconds / count), per_second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_requests_in_a_second_a_minute_or_an_hour() {
        let nanoseconds = |text| interval(text).map(|(time, per_second)| (time.as_nanos(), per_second));
        assert_eq!(nanoseconds("50/s"), Some((20_000_000, 50)));
        assert_eq!(nanoseconds("90/m"), Some((666_666_666, 1)));
        assert_eq!(nanoseconds("1 / h"), Some((3_600_000_000_000, 0)));
        assert_eq!(nanoseconds("1000000/s"), Some((1000, 1_000_000)));
        for wrong in ["", "50", "0/s", "-1/s", "1.5/s", "50/d", "1000001/s", "99999999999999999999/s"] {
            assert_eq!(nanoseconds(wrong), None, "{wrong}");
        }
    }
}
