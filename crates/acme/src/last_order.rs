//! The last order of a certificate, kept in its file: a restart and the other servers that share the storage rest after it too.

use std::time::{Duration, SystemTime};

use penstock_config::limits;

/// The beginning of the line in the file. It stands outside of the blocks of PEM, where readers pass over text.
const LINE: &str = "Penstock-Order: ";

const TOLERANCE: Duration = Duration::from_secs(limits::ACME_CLOCK_SECONDS);
/// How long a row lasts after the rest that an order or a failure is followed by.
pub(crate) const IN_A_ROW: Duration = Duration::from_secs(limits::ACME_IN_A_ROW_SECONDS);

/// An order that ended with a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastOrder {
    /// How many orders in a row there were with this one: the certificates before it were due again at once.
    pub(crate) in_a_row: u32,
    /// When it began, in seconds.
    pub(crate) at: SystemTime,
}

impl LastOrder {
    /// The order that begins now. `last` is the one before, whose certificate was due at `due` and has this `life`.
    pub(crate) fn next(last: Option<Self>, due: SystemTime, life: Duration, now: SystemTime) -> Self {
        let is_in_a_row = |last: &Self| {
            // A time that is still to come says nothing: the clock was wrong then, or is now.
            is_of_future(last.at, now) || {
                let end = last.at + rest(last.in_a_row, life);
                due <= end && now < end + IN_A_ROW
            }
        };
        let before = last.filter(is_in_a_row).map_or(0, |last| last.in_a_row);
        Self { in_a_row: before.saturating_add(1), at: now }
    }

    /// Until when no other order follows, also not one of another process; `None` if one may.
    ///
    /// One order in a row leaves that to the process that made it: a restart replaces a certificate that was revoked at once. Nor is a
    /// time believed that is still to come: such an order would hold up all others until then.
    pub(crate) fn rests_until(self, life: Duration, now: SystemTime) -> Option<SystemTime> {
        let counts = self.in_a_row > 1 && !is_of_future(self.at, now);
        counts.then(|| self.at + rest(self.in_a_row, life)).filter(|end| *end > now)
    }

    /// The line in the file of the certificate.
    pub(crate) fn line(self) -> String {
        let seconds = self.at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        format!("{LINE}{} {seconds}\n", self.in_a_row)
    }

    /// Finds that line in the file; `None` if there is none, or none that can be read.
    pub(crate) fn find(pem: &[u8]) -> Option<Self> {
        let lines = pem.split(|byte| *byte == b'\n').filter_map(|line| str::from_utf8(line).ok());
        let (in_a_row, seconds) = lines.filter_map(|line| line.strip_prefix(LINE)).next()?.split_once(' ')?;
        let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds.parse().ok()?))?;
        Some(Self { in_a_row: in_a_row.parse().ok()?, at })
    }
}

/// Whether a time is still to come, by more than clocks of two machines differ.
pub(crate) fn is_of_future(at: SystemTime, now: SystemTime) -> bool {
    at.duration_since(now).is_ok_and(|ahead| ahead > TOLERANCE)
}

/// How long an order is not followed by another one for the same name, after a number of orders in a row whose certificates were due
/// at once.
///
/// An authority that always wants a renewal, or that is wrong about the time, would else be asked for certificates without end. Nor does
/// the life that it gives to certificates decide that: of however short a one, the rests grow.
pub(crate) fn rest(orders: u32, life: Duration) -> Duration {
    let growth = 4_u64.saturating_pow(orders.saturating_sub(1));
    let least = Duration::from_secs(1 << orders.min(limits::ACME_REST_DOUBLINGS));
    Duration::from_secs(limits::ACME_REST_SECONDS.saturating_mul(growth)).min((life / 3).max(least))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const DAY: Duration = Duration::from_secs(24 * 3600);
    const LIFE: Duration = Duration::from_secs(90 * 24 * 3600);

    fn at(hours: f64) -> SystemTime {
        SystemTime::UNIX_EPOCH + 20_000 * DAY + HOUR.mul_f64(hours + 9.0)
    }

    fn last(in_a_row: u32, hours: f64) -> LastOrder {
        LastOrder { in_a_row, at: at(hours) }
    }

    #[test]
    fn an_authority_that_always_wants_a_renewal_gets_five_a_week_at_first() {
        let mut start = Duration::ZERO;
        let starts: Vec<Duration> = (1..=9)
            .map(|orders| {
                start += rest(orders, 90 * DAY);
                start
            })
            .collect();
        assert_eq!(starts.iter().filter(|start| **start < 7 * DAY).count(), 4, "after the first one");
        assert_eq!(rest(u32::MAX, 90 * DAY), 30 * DAY);
        assert_eq!(rest(1, Duration::from_secs(15)), Duration::from_secs(5), "short lives");
        for life in [Duration::ZERO, Duration::from_secs(3)] {
            let day: u64 = (1..=16).map(|orders| rest(orders, life).as_secs()).sum();
            assert!(day > 24 * 3600, "{life:?}: more than 16 orders in {day} s");
        }
    }

    #[test]
    fn an_authority_that_always_wants_a_renewal_gets_two_orders_by_restarts_and_the_next_after_four_hours() {
        let first = LastOrder::next(None, at(0.0), LIFE, at(0.0));
        assert_eq!((first, first.rests_until(LIFE, at(0.1))), (last(1, 0.0), None));
        let second = LastOrder::next(Some(first), at(-9.0), LIFE, at(0.1));
        assert_eq!((second, second.rests_until(LIFE, at(0.2))), (last(2, 0.1), Some(at(4.1))));
        assert_eq!(second.rests_until(LIFE, at(4.1)), None);
        let third = LastOrder::next(Some(second), at(-9.0), LIFE, at(4.1));
        assert_eq!(third.rests_until(LIFE, at(4.2)), Some(at(20.1)));
    }

    #[test]
    fn orders_are_not_in_a_row_if_the_certificate_was_due_after_its_rest_or_the_order_is_a_day_later() {
        let next = |life, due, now| LastOrder::next(Some(last(3, 0.0)), at(due), life, at(now)).in_a_row;
        // A third of three hours.
        assert_eq!(next(3 * HOUR, 2.0, 2.0), 1);
        assert_eq!(next(3 * HOUR, 1.0, 2.0), 4);
        assert_eq!((next(LIFE, -1.0, 39.9), next(LIFE, -1.0, 40.1)), (4, 1));
    }

    #[test]
    fn renewals_of_certificates_with_any_life_stay_at_two_thirds_of_it() {
        for minutes in [1.0, 5.0, 60.0, 240.0, 6.0 * 1440.0, 90.0 * 1440.0] {
            let (life, mut order, mut now) = (HOUR.mul_f64(minutes / 60.0), None, at(0.0));
            for _ in 0..20 {
                let next = LastOrder::next(order, now, life, now);
                assert_eq!(next.in_a_row, 1, "{life:?}");
                (order, now) = (Some(next), now + life * 2 / 3);
            }
        }
    }

    #[test]
    fn a_time_that_is_still_to_come_holds_up_no_order_and_the_next_one_sets_it_right() {
        let absurd = LastOrder { in_a_row: 5, at: SystemTime::UNIX_EPOCH + 1_000_000 * DAY };
        for future in [last(5, 1.0), absurd] {
            assert_eq!(future.rests_until(LIFE, at(0.0)), None);
            let next = LastOrder::next(Some(future), at(-1.0), LIFE, at(0.0));
            assert_eq!(next, last(6, 0.0));
            assert!(next.rests_until(LIFE, at(0.1)).is_some());
        }
        assert!(last(5, 0.05).rests_until(LIFE, at(0.0)).is_some(), "clocks of two machines differ a little");
        // Nor does one of 1970.
        let past = LastOrder { in_a_row: 5, at: SystemTime::UNIX_EPOCH };
        assert_eq!(past.rests_until(LIFE, at(0.0)), None);
    }

    #[test]
    fn the_line_is_found_between_blocks_and_garbage_is_none() {
        let order = last(7, 0.0);
        let file = format!("-----BEGIN X-----\nAAAA\n-----END X-----\n{}", order.line());
        assert_eq!(LastOrder::find(file.as_bytes()), Some(order));
        let before_1970 = LastOrder { in_a_row: 1, at: SystemTime::UNIX_EPOCH - DAY };
        assert_eq!(
            LastOrder::find(before_1970.line().as_bytes()).map(|found| found.at),
            Some(SystemTime::UNIX_EPOCH)
        );
        for wrong in
            ["", "Penstock-Order: ", "Penstock-Order: 1", "Penstock-Order: x 1", "Penstock-Order: -1 1"]
        {
            assert_eq!(LastOrder::find(wrong.as_bytes()), None, "{wrong}");
        }
        let endless = format!("{LINE}1 {}", u64::MAX);
        assert_eq!(LastOrder::find(endless.as_bytes()), None);
    }
}
