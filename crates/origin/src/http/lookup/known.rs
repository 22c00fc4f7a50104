//! What is known of a name, and for how long.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Found;
use crate::dns::AddressRecords;

/// The shortest time that an answer holds: one that says 0 does not make each connection ask.
const FRESH_MIN: Duration = Duration::from_secs(1);
/// The longest: a mistake in a zone ends within it.
const FRESH_MAX: Duration = Duration::from_secs(3600);
/// How long behind that an answer is used while no server answers (RFC 8767 section 5).
const STALE_MAX: Duration = Duration::from_secs(24 * 3600);
/// How long no lookup begins after one without addresses.
const FAILED: Duration = Duration::from_secs(2);

/// What is known of a name.
#[derive(Debug, Default)]
pub(super) struct Known {
    addresses: Option<Addresses>,
    /// The last failure, and until when it counts.
    failure: Option<(Arc<io::Error>, Instant)>,
}

#[derive(Debug)]
struct Addresses {
    list: Arc<[IpAddr]>,
    fresh_until: Instant,
}

/// What of it can be used at one time.
#[derive(Debug)]
pub(super) enum Usable {
    /// Addresses that hold.
    Fresh(Arc<[IpAddr]>),
    /// Addresses that no longer hold: to be used if a lookup fails.
    Stale(Arc<[IpAddr]>),
    /// Nothing, and no lookup is to begin.
    Failed(Arc<io::Error>),
    Unknown,
}

impl Known {
    pub(super) fn usable(&self, now: Instant) -> Usable {
        let failure = self.failure.as_ref().filter(|(_, until)| now < *until);
        match (&self.addresses, failure) {
            (Some(Addresses { list, fresh_until }), _) if now < *fresh_until => {
                Usable::Fresh(Arc::clone(list))
            }
            (Some(Addresses { list, fresh_until }), failure) if now < *fresh_until + STALE_MAX => {
                let list = Arc::clone(list);
                if failure.is_some() { Usable::Fresh(list) } else { Usable::Stale(list) }
            }
            (_, Some((error, _))) => Usable::Failed(Arc::clone(error)),
            (_, None) => Usable::Unknown,
        }
    }

    /// Takes in the result of a lookup. An answer that there are no addresses replaces those that were known; no answer does not.
    pub(super) fn take_in(&mut self, found: Result<AddressRecords, Arc<io::Error>>, now: Instant) -> Found {
        match found {
            Ok(AddressRecords { addresses, ttl }) => {
                let list: Arc<[IpAddr]> = addresses.into();
                let fresh_until = now + ttl.clamp(FRESH_MIN, FRESH_MAX);
                *self = Self {
                    addresses: Some(Addresses { list: Arc::clone(&list), fresh_until }),
                    failure: None,
                };
                Ok(list)
            }
            Err(error) => {
                if error.kind() == io::ErrorKind::NotFound {
                    self.addresses = None;
                }
                self.failure = Some((Arc::clone(&error), now + FAILED));
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(last: u8, seconds: u64) -> Result<AddressRecords, Arc<io::Error>> {
        Ok(AddressRecords { addresses: vec![[192, 0, 2, last].into()], ttl: Duration::from_secs(seconds) })
    }

    fn failure(kind: io::ErrorKind) -> Result<AddressRecords, Arc<io::Error>> {
        Err(Arc::new(kind.into()))
    }

    /// The kind of what is usable, and the last byte of the address.
    fn usable(known: &Known, now: Instant) -> String {
        let last = |list: Arc<[IpAddr]>| list[0].to_string().rsplit('.').next().map(str::to_owned).unwrap();
        match known.usable(now) {
            Usable::Fresh(list) => format!("fresh {}", last(list)),
            Usable::Stale(list) => format!("stale {}", last(list)),
            Usable::Failed(error) => format!("failed {:?}", error.kind()),
            Usable::Unknown => "unknown".to_owned(),
        }
    }

    #[test]
    fn an_answer_holds_for_its_time_within_bounds_and_is_used_later_while_no_server_answers() {
        let start = Instant::now();
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        let mut known = Known::default();
        assert_eq!(usable(&known, start), "unknown");
        for (ttl, fresh) in [(0, 1.0), (30, 30.0), (86_400, 3600.0), (u64::MAX, 3600.0)] {
            known.take_in(records(1, ttl), start).unwrap();
            assert_eq!(usable(&known, at(fresh - 0.1)), "fresh 1", "{ttl}");
            assert_eq!(usable(&known, at(fresh)), "stale 1", "{ttl}");
        }
        known.take_in(failure(io::ErrorKind::TimedOut), at(3601.0)).unwrap_err();
        assert_eq!(usable(&known, at(3602.0)), "fresh 1", "no further lookup for a moment");
        assert_eq!(usable(&known, at(3603.0)), "stale 1");
        assert_eq!(usable(&known, at(3600.0 + 86_400.0)), "unknown");
        known.take_in(records(2, 5), at(3604.0)).unwrap();
        assert_eq!(usable(&known, at(3604.0)), "fresh 2");
    }

    #[test]
    fn a_name_that_is_gone_has_no_address_and_a_failure_counts_briefly() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut known = Known::default();
        known.take_in(records(1, 5), start).unwrap();
        known.take_in(failure(io::ErrorKind::NotFound), at(6)).unwrap_err();
        assert_eq!(usable(&known, at(7)), "failed NotFound");
        assert_eq!(usable(&known, at(8)), "unknown");
        known.take_in(failure(io::ErrorKind::TimedOut), at(8)).unwrap_err();
        assert_eq!(usable(&known, at(9)), "failed TimedOut");
        known.take_in(records(2, 5), at(9)).unwrap();
        assert_eq!(usable(&known, at(9)), "fresh 2");
    }
}
