//! How the cache handled a request, as metrics, the access log and Cache-Status (RFC 9211) say it.

use penstock_metrics::CacheOutcome;

/// How the cache handled a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheStatus {
    /// Stored and fresh.
    Hit,
    /// Stored and stale; a newer version is being fetched.
    Stale,
    /// Stored and stale; the origin confirmed it.
    Revalidated,
    /// Stored and stale; the origin sent another version.
    Replaced,
    /// Stored and stale; the origin failed.
    StaleIfError,
    /// Fetched for this request.
    Miss,
    /// Fetched for another request at the same time.
    Collapsed,
    /// Fetched for this request only: the response may not be shared.
    Uncacheable,
    /// Forwarded to the origin: the method does not use the cache.
    Bypass,
}

/// The member that a response adds to its Cache-Status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredState {
    /// Status code as the origin sent it.
    pub(crate) origin_status: u16,
    /// Whether the response was kept for later requests.
    pub(crate) stored: bool,
    /// Whether it was not kept because its body ends with its connection.
    pub(crate) unproven: bool,
    /// Remaining freshness in seconds; negative once stale (RFC 9211 §2.3).
    pub(crate) ttl: i64,
}

impl CacheStatus {
    /// The word in metrics and in the access log.
    pub fn label(self) -> &'static str {
        self.outcome().label()
    }

    /// Whether the response is an object that was stored before the request.
    pub(crate) fn is_stored(self) -> bool {
        matches!(self, Self::Hit | Self::Stale | Self::Revalidated | Self::StaleIfError)
    }

    /// What metrics count it as.
    pub fn outcome(self) -> CacheOutcome {
        match self {
            Self::Hit => CacheOutcome::Hit,
            Self::Stale => CacheOutcome::Stale,
            Self::Revalidated | Self::Replaced => CacheOutcome::Revalidated,
            Self::StaleIfError => CacheOutcome::StaleIfError,
            Self::Miss => CacheOutcome::Miss,
            Self::Collapsed => CacheOutcome::Collapsed,
            Self::Uncacheable => CacheOutcome::Uncacheable,
            Self::Bypass => CacheOutcome::Bypass,
        }
    }

    /// The member of Cache-Status without parameters of an object, for responses that have none.
    pub(crate) fn forwarded(self) -> &'static str {
        match self {
            Self::Hit | Self::Stale => "penstock; hit",
            Self::Collapsed => "penstock; fwd=uri-miss; collapsed",
            Self::Revalidated | Self::Replaced | Self::StaleIfError => "penstock; fwd=stale",
            Self::Miss | Self::Uncacheable => "penstock; fwd=uri-miss",
            Self::Bypass => "penstock; fwd=method",
        }
    }

    /// Appends the member of Cache-Status for an object.
    pub(crate) fn write_member(self, state: StoredState, out: &mut Vec<u8>) {
        let mut write = |text: &str| out.extend_from_slice(text.as_bytes());
        write(self.forwarded());
        match self {
            Self::Revalidated => write("; fwd-status=304"),
            Self::Replaced | Self::Miss | Self::Uncacheable | Self::Bypass => {
                write("; fwd-status=");
                write(itoa::Buffer::new().format(state.origin_status));
            }
            Self::Hit | Self::Stale | Self::StaleIfError | Self::Collapsed => {}
        }
        if matches!(self, Self::Miss | Self::Replaced) && state.stored {
            write("; stored");
        }
        if state.stored {
            write("; ttl=");
            write(itoa::Buffer::new().format(state.ttl));
        }
        match self {
            Self::Stale => write("; detail=stale-while-revalidate"),
            Self::StaleIfError => write("; detail=stale-if-error"),
            Self::Uncacheable => write("; detail=not-shared"),
            Self::Miss | Self::Replaced | Self::Collapsed if state.unproven => {
                write("; detail=close-delimited")
            }
            Self::Hit | Self::Revalidated | Self::Replaced | Self::Miss | Self::Collapsed | Self::Bypass => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_member() {
        let state = StoredState { origin_status: 206, stored: true, unproven: false, ttl: -3 };
        let cases = [
            (CacheStatus::Hit, "penstock; hit; ttl=-3"),
            (CacheStatus::Stale, "penstock; hit; ttl=-3; detail=stale-while-revalidate"),
            (CacheStatus::Miss, "penstock; fwd=uri-miss; fwd-status=206; stored; ttl=-3"),
            (CacheStatus::Revalidated, "penstock; fwd=stale; fwd-status=304; ttl=-3"),
            (CacheStatus::Collapsed, "penstock; fwd=uri-miss; collapsed; ttl=-3"),
        ];
        let member = |status: CacheStatus, state| {
            let mut written = Vec::new();
            status.write_member(state, &mut written);
            String::from_utf8(written).unwrap()
        };
        for (status, expected) in cases {
            assert_eq!(member(status, state), expected);
        }
        let unstored = StoredState { stored: false, ..state };
        assert_eq!(member(CacheStatus::Bypass, unstored), "penstock; fwd=method; fwd-status=206");
        let unproven = StoredState { unproven: true, ..unstored };
        let expected = "penstock; fwd=uri-miss; fwd-status=206; detail=close-delimited";
        assert_eq!(member(CacheStatus::Miss, unproven), expected);
    }
}
