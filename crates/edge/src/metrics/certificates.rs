//! What is shown of the certificates themselves: when they end, which cannot be used, what has changed.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use penstock_config::limits;

use super::labels::ReloadOutcome;
use super::{Observatory, lock};

/// When a certificate ends, for `penstock_certificate_expiry_timestamp_seconds`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateExpiry {
    /// The name it is known by: its first host name.
    pub subject: String,
    /// The kind of its key, such as `ecdsa` or `rsa`.
    pub kind: &'static str,
    /// The last moment it is valid, in seconds since 1970 (0 for one that ended before).
    pub not_after_seconds: u64,
}

/// All certificates that clients can be shown, and those that they cannot.
#[derive(Debug, Default)]
pub(super) struct Certificates {
    expiries: Mutex<Vec<CertificateExpiry>>,
    faults: Mutex<Vec<(&'static str, u64)>>,
    changes: [AtomicU64; ReloadOutcome::ALL.len()],
}

/// When a certificate ends. Two weeks before is the moment to find out why it has not been renewed.
pub(super) const ENDS: [&str; 4] = ["expired", "within_14d", "within_30d", "later"];

fn ends(not_after_seconds: u64, now_seconds: u64) -> &'static str {
    const DAY: u64 = 24 * 3600;
    let [expired, two_weeks, month, later] = ENDS;
    match not_after_seconds.checked_sub(now_seconds) {
        None => expired,
        Some(left) if left < 14 * DAY => two_weeks,
        Some(left) if left < 30 * DAY => month,
        Some(_) => later,
    }
}

impl Observatory {
    /// Replaces the list of certificates in use.
    pub fn set_certificates(&self, mut certificates: Vec<CertificateExpiry>) {
        certificates.sort_by_key(|certificate| certificate.not_after_seconds);
        *lock(&self.certificates.expiries) = certificates;
    }

    /// How many certificates cannot be used, for which reason.
    pub fn set_certificate_faults(&self, mut faults: Vec<(&'static str, u64)>) {
        faults.sort_unstable();
        *lock(&self.certificates.faults) = faults;
    }

    /// The files of certificates have changed, and that was used or was not.
    pub fn certificates_changed(&self, outcome: ReloadOutcome) {
        self.certificates.changes[outcome as usize].fetch_add(1, Relaxed);
    }

    /// Those that end first, one for each name and kind of key: a series for each of thousands helps nobody.
    pub(super) fn first_to_end(&self) -> Vec<CertificateExpiry> {
        let certificates = lock(&self.certificates.expiries);
        let mut shown: Vec<CertificateExpiry> = Vec::new();
        for certificate in certificates.iter() {
            if shown.len() == limits::CERTIFICATES_SHOWN {
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

    /// How many end when, and with which kind of key.
    pub(super) fn certificates_by_end(
        &self,
        now_seconds: u64,
    ) -> BTreeMap<(&'static str, &'static str), u64> {
        let mut counts = BTreeMap::new();
        for certificate in lock(&self.certificates.expiries).iter() {
            let ends = ends(certificate.not_after_seconds, now_seconds);
            *counts.entry((certificate.kind, ends)).or_insert(0) += 1;
        }
        counts
    }

    pub(super) fn certificate_faults(&self) -> Vec<(&'static str, u64)> {
        lock(&self.certificates.faults).clone()
    }

    pub(super) fn certificate_changes(&self, outcome: ReloadOutcome) -> u64 {
        self.certificates.changes[outcome as usize].load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(subject: &str, not_after_seconds: u64) -> CertificateExpiry {
        CertificateExpiry { subject: subject.to_owned(), kind: "ecdsa", not_after_seconds }
    }

    #[test]
    fn of_thousands_those_that_end_first_are_shown_once_each() {
        let seen = Observatory::new(1);
        let many = (0..5000_u64).rev().map(|number| named(&format!("{}.test", number / 2), number));
        seen.set_certificates(many.collect());
        let shown = seen.first_to_end();
        assert_eq!(shown.len(), limits::CERTIFICATES_SHOWN);
        assert_eq!(shown[0], named("0.test", 0));
        assert_eq!(shown[1], named("1.test", 2));
    }

    #[test]
    fn all_are_counted_by_when_they_end() {
        const DAY: u64 = 24 * 3600;
        let seen = Observatory::new(1);
        let now = 1000 * DAY;
        let days = [999, 1001, 1013, 1014, 1029, 1030, 5000];
        seen.set_certificates(days.map(|day| named("a.test", day * DAY)).to_vec());
        let counts: Vec<_> =
            seen.certificates_by_end(now).into_iter().map(|((_, end), count)| (end, count)).collect();
        assert_eq!(counts, [("expired", 1), ("later", 2), ("within_14d", 2), ("within_30d", 2)]);
    }
}
