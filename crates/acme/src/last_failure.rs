//! The last failed order of a name, kept in the storage: a server that starts again and again rests after it too.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, SystemTime};

use penstock_config::{Acme, limits};

use crate::last_order::{IN_A_ROW, is_of_future};

/// The beginning of the first line of the file.
const LINE: &str = "Penstock-Failure: ";

/// The words about an order whose end is not known.
pub(crate) const CUT_SHORT: &str = "the server ended during the order";

const LONGEST: Duration = Duration::from_secs(limits::ACME_KEPT_PAUSE_SECONDS_MAX);

/// An order that the authority or this machine has failed, or that was cut short by the end of its process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastFailure {
    /// How many failures in a row there were with this one.
    pub(crate) in_a_row: u32,
    /// When it failed, in seconds. An order that is under way: when it began.
    pub(crate) at: SystemTime,
    /// The pause after it, in seconds.
    pub(crate) pause: Duration,
    /// The settings that it failed with, by [`fingerprint`].
    pub(crate) settings: u64,
    /// Why it failed, in one line.
    pub(crate) words: String,
}

impl LastFailure {
    /// Whether a failure at `now` continues the row. A time that is still to come says nothing: one of the clocks is wrong.
    pub(crate) fn counts(&self, settings: u64, now: SystemTime) -> bool {
        let is_recent = self.at.checked_add(self.pause + IN_A_ROW).is_some_and(|end| now < end);
        self.settings == settings && is_recent && !is_of_future(self.at, now)
    }

    /// Until when no process orders; `None` if one may. A restart shortens long pauses to half an hour: the operator may have mended
    /// what is wrong.
    pub(crate) fn rests_until(&self, now: SystemTime) -> Option<SystemTime> {
        self.at.checked_add(self.pause.min(LONGEST)).filter(|end| *end > now)
    }

    /// The content of the file.
    pub(crate) fn text(&self) -> String {
        let Self { in_a_row, settings, words, .. } = self;
        let seconds = self.at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        format!("{LINE}{in_a_row} {seconds} {} {settings:016x}\n{words}\n", self.pause.as_secs())
    }

    /// Reads that content; `None` if it is not that.
    pub(crate) fn find(text: &[u8]) -> Option<Self> {
        let mut lines = str::from_utf8(text).ok()?.lines();
        let mut fields = lines.next()?.strip_prefix(LINE)?.split(' ');
        let mut next = || fields.next();
        let in_a_row = next()?.parse().ok()?;
        let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(next()?.parse().ok()?))?;
        let pause = Duration::from_secs(u64::from(next()?.parse::<u32>().ok()?));
        let settings = u64::from_str_radix(next()?, 16).ok()?;
        Some(Self { in_a_row, at, pause, settings, words: lines.next().unwrap_or_default().to_owned() })
    }
}

/// A number for the settings that may be at fault: with others an order may be made at once.
pub(crate) fn fingerprint(settings: &Acme) -> u64 {
    let account = settings.external_account.as_ref().map(|account| &account.id);
    let mut hasher = DefaultHasher::new();
    format!("{:?}", (&settings.challenge, &settings.profile, &settings.email, account)).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds)
    }

    fn failure(in_a_row: u32, pause: u64) -> LastFailure {
        let pause = Duration::from_secs(pause);
        LastFailure { in_a_row, at: at(0), pause, settings: 7, words: "the CA says: no".to_owned() }
    }

    #[test]
    fn a_restart_rests_after_one_failure_and_after_many_no_longer_than_half_an_hour() {
        let until = |pause, now| failure(1, pause).rests_until(at(now));
        assert_eq!((until(60, 0), until(60, 59), until(60, 60)), (Some(at(60)), Some(at(60)), None));
        assert_eq!((until(1799, 5), until(21_600, 5)), (Some(at(1799)), Some(at(1800))));
        assert_eq!(until(21_600, 1800), None);
    }

    #[test]
    fn failures_of_other_settings_of_the_future_and_of_two_days_ago_do_not_count() {
        let day = 24 * 3600;
        let counts = |settings, now| failure(5, 3600).counts(settings, now);
        assert_eq!((counts(7, at(0)), counts(8, at(0))), (true, false));
        assert_eq!((counts(7, at(day)), counts(7, at(2 * day))), (true, false));
        assert!(counts(7, at(0) - Duration::from_secs(200)), "clocks of two machines differ a little");
        assert!(!counts(7, at(0) - Duration::from_secs(400)));
        let absurd =
            LastFailure { at: SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 62), ..failure(1, 60) };
        assert!(!absurd.counts(7, at(0)));
    }

    #[test]
    fn the_file_has_all_and_garbage_is_none() {
        let known = failure(3, 540);
        assert_eq!(LastFailure::find(known.text().as_bytes()), Some(known));
        let endless = format!("{LINE}1 {} 60 7", u64::MAX);
        for wrong in ["", "Penstock-Failure: 1 2 3", "Penstock-Failure: 1 2 x 7", "x", &endless] {
            assert_eq!(LastFailure::find(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
