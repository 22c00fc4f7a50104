//! The authority's clock, by the `Date` of its answers, beside the clock of this machine.
//!
//! A renewal follows the authority's: its certificates begin and end by that one, and its limits count by it. A machine whose clock
//! is wrong by months would else renew each certificate at once, or too late.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use httpdate::{fmt_http_date, parse_http_date};
use penstock_config::limits;
use penstock_sys::lock::Unpoisoned;

const TOLERANCE: Duration = Duration::from_secs(limits::ACME_CLOCK_SECONDS);

/// What is wrong with the clock of this machine, to judge by the authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockFault {
    /// It is ahead of the authority's by this.
    Ahead(Duration),
    /// It is behind the authority's by this.
    Behind(Duration),
    /// By this time of it, the certificate of the authority's server has ended or has not begun.
    Unverified(SystemTime),
}

impl ClockFault {
    /// Whether it is wrong in the same way.
    pub(crate) fn is_like(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

impl fmt::Display for ClockFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let differs = |f: &mut fmt::Formatter<'_>, by: Duration, how: &str| {
            let hours = (by.as_secs() + 1800) / 3600;
            let by = match hours {
                0 => format!("{} minutes", by.as_secs() / 60),
                1..=71 => format!("{hours} hours"),
                _ => format!("{} days", (hours + 12) / 24),
            };
            write!(
                f,
                "the clock of this machine is {by} {how} the CA's; renewals follow the CA's; set the clock"
            )
        };
        match *self {
            Self::Ahead(by) => differs(f, by, "ahead of"),
            Self::Behind(by) => differs(f, by, "behind"),
            Self::Unverified(own) => write!(
                f,
                "the clock of this machine says {}, when the certificate of the CA's server has ended or has not begun; \
                 nothing can be ordered; set the clock",
                shown(own)
            ),
        }
    }
}

/// A time in HTTP's format, which has years from 1970 to 9999.
fn shown(time: SystemTime) -> String {
    const END: Duration = Duration::from_secs(253_402_300_799);
    fmt_http_date(time.clamp(SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH + END))
}

/// The two clocks. Clones share what is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct CaClock(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// What the authority's clock said, and when.
    heard: Option<(SystemTime, Instant)>,
    /// When the authority's server did not verify because of the time.
    unverified: Option<OwnTime>,
}

impl CaClock {
    /// Takes the fields `Date` and `Age` of an answer (RFC 9110 section 6.6.1, RFC 9111 section 5.1).
    pub(crate) fn hear(&self, date: Option<&str>, age: Option<&str>) {
        let age = age.and_then(|age| age.trim().parse::<u32>().ok()).unwrap_or(0);
        let date = date.and_then(|date| parse_http_date(date.trim()).ok());
        let mut known = self.0.lock().unpoisoned();
        known.unverified = None;
        if let Some(date) = date {
            known.heard = Some((date + Duration::from_secs(age.into()), Instant::now()));
        }
    }

    /// Notes that the authority's server has not verified because of the time.
    pub(crate) fn fail_to_verify(&self) {
        self.0.lock().unpoisoned().unverified = Some(OwnTime::now());
    }

    /// Forgets what the authority's clock said.
    pub(crate) fn forget(&self) {
        self.0.lock().unpoisoned().heard = None;
    }

    /// The time that renewals follow.
    pub(crate) fn now(&self) -> SystemTime {
        let own = SystemTime::now();
        self.authority().filter(|authority| differs(own, *authority).is_some()).unwrap_or(own)
    }

    /// What is wrong with the clock of this machine.
    pub(crate) fn fault(&self) -> Option<ClockFault> {
        let unverified = self.0.lock().unpoisoned().unverified;
        let unverified =
            unverified.filter(|then| !then.was_set_since()).map(|then| ClockFault::Unverified(then.own));
        unverified.or_else(|| differs(SystemTime::now(), self.authority()?))
    }

    fn authority(&self) -> Option<SystemTime> {
        self.0.lock().unpoisoned().heard.map(|(time, at)| time + at.elapsed())
    }
}

/// How the clock of this machine differs from the authority's, if it does.
fn differs(own: SystemTime, authority: SystemTime) -> Option<ClockFault> {
    match own.duration_since(authority) {
        Ok(ahead) => (ahead > TOLERANCE).then_some(ClockFault::Ahead(ahead)),
        Err(behind) => (behind.duration() > TOLERANCE).then_some(ClockFault::Behind(behind.duration())),
    }
}

/// The time by the clock of this machine, which may be set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnTime {
    own: SystemTime,
    at: Instant,
}

impl OwnTime {
    pub(crate) fn now() -> Self {
        Self { own: SystemTime::now(), at: Instant::now() }
    }

    /// Whether the clock was set since then, or the machine stood still.
    pub(crate) fn was_set_since(&self) -> bool {
        differs(SystemTime::now(), self.own + self.at.elapsed()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    #[test]
    fn a_clock_that_differs_by_more_than_minutes_is_not_followed() {
        let clock = CaClock::default();
        let is_near = |time: SystemTime| differs(clock.now(), time).is_none();
        let own = SystemTime::now();
        assert!(is_near(own) && clock.fault().is_none(), "nothing was heard");
        clock.hear(Some(&fmt_http_date(own - TOLERANCE / 2)), None);
        assert!(clock.now() >= own && clock.fault().is_none(), "the own clock counts");
        clock.hear(Some(&fmt_http_date(own - 70 * DAY)), None);
        assert!(is_near(own - 70 * DAY));
        assert!(clock.fault().unwrap().to_string().contains("70 days ahead of the CA's"));
        clock.hear(Some(&fmt_http_date(own + DAY)), Some("86400"));
        assert!(is_near(own + 2 * DAY), "a cache has kept the answer for a day");
        assert!(clock.fault().unwrap().to_string().contains("48 hours behind the CA's"));
        for wrong in [None, Some(""), Some("yesterday")] {
            clock.hear(wrong, Some("-1"));
            assert!(is_near(own + 2 * DAY), "what was heard stays");
        }
        clock.fail_to_verify();
        assert!(clock.fault().unwrap().to_string().contains("has ended or has not begun"));
        clock.hear(None, None);
        assert!(matches!(clock.fault(), Some(ClockFault::Behind(_))));
        clock.forget();
        assert!(is_near(own) && clock.fault().is_none());
    }

    #[test]
    fn a_clock_that_is_set_is_noticed() {
        let now = OwnTime::now();
        assert!(!now.was_set_since());
        assert!(OwnTime { own: now.own - DAY, ..now }.was_set_since());
        assert!(OwnTime { own: now.own + DAY, ..now }.was_set_since());
    }

    #[test]
    fn any_time_has_words() {
        let far = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
        for time in [SystemTime::UNIX_EPOCH - DAY, far] {
            assert!(!ClockFault::Unverified(time).to_string().is_empty());
        }
    }
}
