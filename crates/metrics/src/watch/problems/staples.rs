//! OCSP responses that end without a newer one.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::condition::{Condition, critical, in_words, warning};
use crate::readings::StapleReading;

/// A response should have been replaced that ends sooner, or whose validity is over but for an eighth.
const ENDS: Duration = Duration::from_secs(12 * 3600);

/// How long it is said that one has ended.
const SHOWN: Duration = Duration::from_secs(24 * 3600);

/// The ends of the responses, by subject and kind of key: one that has ended is in no reading. Bounded by the certificates.
#[derive(Debug, Default)]
pub(super) struct Staples(BTreeMap<(String, &'static str), SystemTime>);

impl Staples {
    pub(super) fn look(&mut self, readings: &[StapleReading], now: SystemTime) -> Vec<Condition> {
        const HELP: &str = "the log tells why there is no newer one; tls.ocsp says where it comes from, penstock check -c FILE reads the files";
        self.0.retain(|_, end| now.duration_since(*end).is_ok_and(|since| since < SHOWN));
        for one in readings {
            self.0.insert((one.subject.clone(), one.kind), one.next_update);
        }
        let mut found = Vec::new();
        for ((name, kind), end) in &self.0 {
            let identity = format!("OCSP response {name} {kind}");
            let Ok(left) = end.duration_since(now) else {
                let what =
                    format!("the OCSP response for the {kind} certificate of {name} has ended: none is sent");
                found.push(critical("certificates", identity, what, HELP));
                continue;
            };
            let validity =
                |one: &StapleReading| one.next_update.duration_since(one.this_update).unwrap_or_default();
            let of_this = readings.iter().find(|one| one.subject == *name && one.kind == *kind);
            if of_this.is_some_and(|one| left < ENDS.min(validity(one) / 8)) {
                let what = format!(
                    "the OCSP response for the {kind} certificate of {name} ends in {}",
                    in_words(left)
                );
                found.push(warning("certificates", identity, what, HELP));
            }
        }
        found
    }
}
