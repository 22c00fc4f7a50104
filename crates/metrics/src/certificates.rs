//! The certificates: when they expire, which cannot be used, and how often their files changed.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::limits;

use crate::labels::ReloadOutcome;
use crate::lock::lock;

/// When a certificate expires, for `penstock_certificate_expiry_timestamp_seconds`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateExpiry {
    /// Its first host name.
    pub subject: String,
    /// The kind of its key, such as `ecdsa` or `rsa`.
    pub kind: &'static str,
    /// The end of its validity, in seconds since 1970 (0 for an earlier one).
    pub not_after_seconds: u64,
    /// From when on it should have been renewed, likewise.
    pub late_seconds: u64,
}

/// All usable and unusable certificates.
#[derive(Debug, Default)]
pub(crate) struct Certificates {
    expiries: Mutex<Vec<CertificateExpiry>>,
    faults: Mutex<Vec<(&'static str, u64)>>,
    changes: [AtomicU64; ReloadOutcome::ALL.len()],
}

/// Time left until a certificate expires, as label values.
pub(crate) const ENDS: [&str; 4] = ["expired", "within_14d", "within_30d", "later"];

fn time_left(not_after_seconds: u64, now_seconds: u64) -> &'static str {
    const DAY: u64 = 24 * 3600;
    let [expired, two_weeks, month, later] = ENDS;
    match not_after_seconds.checked_sub(now_seconds) {
        None => expired,
        Some(left) if left < 14 * DAY => two_weeks,
        Some(left) if left < 30 * DAY => month,
        Some(_) => later,
    }
}

impl Certificates {
    /// Replaces the list of usable certificates.
    pub(crate) fn set(&self, mut certificates: Vec<CertificateExpiry>) {
        certificates.sort_by_key(|certificate| certificate.not_after_seconds);
        *lock(&self.expiries) = certificates;
    }

    /// Replaces the numbers of unusable certificates by reason.
    pub(crate) fn set_faults(&self, mut faults: Vec<(&'static str, u64)>) {
        faults.sort_unstable();
        *lock(&self.faults) = faults;
    }

    /// Counts a change of certificate files.
    pub(crate) fn changed(&self, outcome: ReloadOutcome) {
        self.changes[outcome as usize].fetch_add(1, Relaxed);
    }

    /// The ones that expire first, one for each name and kind of key, so that thousands do not become thousands of
    /// series.
    pub(crate) fn first_to_expire(&self) -> Vec<CertificateExpiry> {
        let certificates = lock(&self.expiries);
        let mut shown: Vec<CertificateExpiry> = Vec::new();
        for certificate in certificates.iter() {
            if shown.len() == limits::CERTIFICATES {
                break;
            }
            let same = |other: &CertificateExpiry| {
                (&other.subject, other.kind) == (&certificate.subject, certificate.kind)
            };
            if !shown.iter().any(same) {
                shown.push(certificate.clone());
            }
        }
        shown
    }

    /// The number of certificates by kind of key and time left.
    pub(crate) fn by_expiry(&self, now_seconds: u64) -> BTreeMap<(&'static str, &'static str), u64> {
        let mut counts = BTreeMap::new();
        for certificate in lock(&self.expiries).iter() {
            let left = time_left(certificate.not_after_seconds, now_seconds);
            *counts.entry((certificate.kind, left)).or_insert(0) += 1;
        }
        counts
    }

    pub(crate) fn faults(&self) -> Vec<(&'static str, u64)> {
        lock(&self.faults).clone()
    }

    pub(crate) fn changes(&self, outcome: ReloadOutcome) -> u64 {
        self.changes[outcome as usize].load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(subject: &str, not_after_seconds: u64) -> CertificateExpiry {
        CertificateExpiry { subject: subject.to_owned(), kind: "ecdsa", not_after_seconds, late_seconds: 0 }
    }

    #[test]
    fn of_thousands_the_first_to_expire_are_shown_once_each() {
        let certificates = Certificates::default();
        let many = (0..5000_u64).rev().map(|number| named(&format!("{}.test", number / 2), number));
        certificates.set(many.collect());
        let shown = certificates.first_to_expire();
        assert_eq!(shown.len(), limits::CERTIFICATES);
        assert_eq!(shown[0], named("0.test", 0));
        assert_eq!(shown[1], named("1.test", 2));
    }

    #[test]
    fn all_certificates_are_counted_by_the_time_left() {
        const DAY: u64 = 24 * 3600;
        let certificates = Certificates::default();
        let now = 1000 * DAY;
        let days = [999, 1001, 1013, 1014, 1029, 1030, 5000];
        certificates.set(days.map(|day| named("a.test", day * DAY)).to_vec());
        let counts: Vec<_> =
            certificates.by_expiry(now).into_iter().map(|((_, end), count)| (end, count)).collect();
        assert_eq!(counts, [("expired", 1), ("later", 2), ("within_14d", 2), ("within_30d", 2)]);
    }
}
