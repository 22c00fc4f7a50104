//! Fields that nodes of a cluster add to requests and responses. They are read on connections between nodes only.

use std::time::{Duration, Instant};

use penstock_cluster::Load;
use penstock_http::caching::Lifetime;

use crate::lifetime::{StoredLifetime, milliseconds};

/// Which site's object is asked for: a digest of what its keys are made of.
pub(crate) const SITE: &str = "penstock-site";
/// The [`Hop`](crate::requester::Hop) of a request.
pub(crate) const HOP: &str = "penstock-hop";
/// Kind and mode of a purge.
pub(crate) const PURGE: &str = "penstock-purge";
/// The site of a purge, [escaped](escape); all of them without it.
pub(crate) const PURGE_SITE: &str = "penstock-purge-site";
/// Name, prefix or tag of a purge, [escaped](escape).
pub(crate) const PURGE_VALUE: &str = "penstock-purge-value";
/// The nodes that have missed a purge, and the node that repeats it.
pub(crate) const PURGE_MISSING: &str = "penstock-purge-missing";
/// The node, [escaped](escape), whose missed purges are asked for.
pub(crate) const PURGES_OF: &str = "penstock-purges-of";
/// How long the object of a response is fresh, or [`NOT_STORED`].
pub(crate) const FRESHNESS: &str = "penstock-freshness";
/// The node has an object for this request only.
pub(crate) const NOT_STORED: &str = "none";
/// Why the node has no object.
pub(crate) const FAULT: &str = "penstock-fault";
/// What the node has to do.
pub(crate) const LOAD: &str = "penstock-load";

/// What all of these fields begin with.
const PREFIX: &str = "penstock-";

/// Whether a field, in lowercase letters, is one between nodes. None of an origin is believed, and none reaches a client.
pub(crate) fn is_internal(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Remaining freshness at `now`, in milliseconds.
pub(crate) fn freshness(lifetime: &StoredLifetime, now: Instant) -> String {
    let resident = lifetime.resident(now);
    let late = resident.saturating_sub(lifetime.fresh);
    format!(
        "fresh={}, age={}, swr={}, sie={}",
        lifetime.fresh.saturating_sub(resident),
        lifetime.age.saturating_add(resident),
        lifetime.stale_while_revalidate.saturating_sub(late),
        lifetime.stale_if_error.saturating_sub(late),
    )
}

/// Reads what [`freshness`] wrote.
pub(crate) fn lifetime(text: &str) -> Option<Lifetime> {
    let value = |name: &str| {
        // Bounded, so that no sum of times overflows.
        Some(Duration::from_millis(member(text, name)?.min(milliseconds(LONGEST))))
    };
    Some(Lifetime {
        fresh: value("fresh")?,
        age: value("age")?,
        stale_while_revalidate: value("swr")?,
        stale_if_error: value("sie")?,
    })
}

/// The load of a node, and whether it will stop soon.
pub(crate) fn load_text(load: Load, is_leaving: bool) -> String {
    let Load { requests, connections, busy } = load;
    format!("requests={requests}, connections={connections}, busy={busy}, leaving={}", u8::from(is_leaving))
}

/// Whether a node will stop soon, by what [`load_text`] wrote. Older versions do not say it.
pub(crate) fn is_leaving(text: &str) -> bool {
    member(text, "leaving") == Some(1)
}

/// Reads what [`load_text`] wrote.
pub(crate) fn load(text: &str) -> Option<Load> {
    Some(Load {
        requests: member(text, "requests")?,
        connections: member(text, "connections")?,
        busy: member(text, "busy")?,
    })
}

/// The number of a list of `name=number` that has this name.
fn member(text: &str, name: &str) -> Option<u64> {
    text.split(", ").find_map(|member| member.strip_prefix(name)?.strip_prefix('='))?.parse().ok()
}

/// Ten years.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Bytes as hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Any bytes as visible ASCII characters: all others are `%` and two digits, and so is `%`.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'%' | ..=b' ' | 0x7f.. => text.push_str(&format!("%{byte:02x}")),
            _ => text.push(char::from(*byte)),
        }
    }
    text
}

/// Reads what [`escape`] wrote; `None` if it is not that, or not UTF-8 behind it.
pub(crate) fn unescape(text: &[u8]) -> Option<String> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter().copied();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => digit(rest.next()?)? << 4 | digit(rest.next()?)?,
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freshness_is_what_is_left_of_it() {
        let since = Instant::now();
        let stored = StoredLifetime {
            since,
            fresh: 4000,
            age: 500,
            stale_while_revalidate: 1000,
            stale_if_error: 60_000,
        };
        for (seconds, expected) in
            [(0, [4000, 500, 1000, 60_000]), (3, [1000, 3500, 1000, 60_000]), (6, [0, 6500, 0, 58_000])]
        {
            let text = freshness(&stored, since + Duration::from_secs(seconds));
            let read = lifetime(&text).unwrap();
            let read = [read.fresh, read.age, read.stale_while_revalidate, read.stale_if_error];
            assert_eq!(read.map(milliseconds), expected, "after {seconds} s");
        }
        for wrong in ["", "none", "fresh=1", "fresh=-1, age=0, swr=0, sie=0", "fresh=x, age=0, swr=0, sie=0"]
        {
            assert_eq!(lifetime(wrong), None, "{wrong}");
        }
        let longest = lifetime(&format!("fresh={0}, age={0}, swr={0}, sie={0}", u64::MAX)).unwrap();
        assert_eq!(longest.fresh, LONGEST);
    }

    #[test]
    fn a_load_is_read_as_it_was_written() {
        let told = Load { requests: 1, connections: u64::MAX, busy: 0 };
        for leaving in [false, true] {
            let text = load_text(told, leaving);
            assert_eq!((load(&text), is_leaving(&text)), (Some(told), leaving));
        }
        for wrong in ["", "7", "requests=1, connections=2", "requests=-1, connections=2, busy=3"] {
            assert_eq!(load(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn escaped_text_is_read_back_and_can_stand_in_a_field() {
        for text in ["", "/vod/film.mp4?a=b", "100% ü \r\n\u{7f}", "%25", "a b,c"] {
            let escaped = escape(text.as_bytes());
            assert!(escaped.bytes().all(|byte| byte.is_ascii_graphic()), "{escaped}");
            assert_eq!(unescape(escaped.as_bytes()).as_deref(), Some(text));
        }
        for wrong in ["%", "%4", "%zz", "%ff"] {
            assert_eq!(unescape(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
