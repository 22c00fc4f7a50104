//! How the cache handled a request, as metrics, the access log and Cache-Status (RFC 9211) say it.

use std::fmt;

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
    /// Remaining freshness in seconds; negative once stale (RFC 9211 §2.3).
    pub(crate) ttl: i64,
}

impl CacheStatus {
    /// The word in metrics and in the access log.
    pub fn label(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Stale => "stale",
            Self::Revalidated | Self::Replaced => "revalidated",
            Self::StaleIfError => "stale_if_error",
            Self::Miss => "miss",
            Self::Collapsed => "collapsed",
            Self::Uncacheable => "uncacheable",
            Self::Bypass => "bypass",
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

    /// The member of Cache-Status for an object.
    pub(crate) fn member(self, state: StoredState) -> Member {
        Member { status: self, state }
    }
}

/// The member of Cache-Status for an object, written without a buffer of its own.
pub(crate) struct Member {
    status: CacheStatus,
    state: StoredState,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use CacheStatus::{
            Bypass, Collapsed, Hit, Miss, Replaced, Revalidated, Stale, StaleIfError, Uncacheable,
        };
        f.write_str(self.status.forwarded())?;
        match self.status {
            Revalidated => f.write_str("; fwd-status=304")?,
            Replaced | Miss | Uncacheable | Bypass => {
                write!(f, "; fwd-status={}", self.state.origin_status)?;
            }
            Hit | Stale | StaleIfError | Collapsed => {}
        }
        if matches!(self.status, Miss | Replaced) && self.state.stored {
            f.write_str("; stored")?;
        }
        if self.state.stored {
            write!(f, "; ttl={}", self.state.ttl)?;
        }
        f.write_str(match self.status {
            Stale => "; detail=stale-while-revalidate",
            StaleIfError => "; detail=stale-if-error",
            Uncacheable => "; detail=not-shared",
            Hit | Revalidated | Replaced | Miss | Collapsed | Bypass => "",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_member() {
        let state = StoredState { origin_status: 206, stored: true, ttl: -3 };
        let cases = [
            (CacheStatus::Hit, "penstock; hit; ttl=-3"),
            (CacheStatus::Stale, "penstock; hit; ttl=-3; detail=stale-while-revalidate"),
            (CacheStatus::Miss, "penstock; fwd=uri-miss; fwd-status=206; stored; ttl=-3"),
            (CacheStatus::Revalidated, "penstock; fwd=stale; fwd-status=304; ttl=-3"),
            (CacheStatus::Collapsed, "penstock; fwd=uri-miss; collapsed; ttl=-3"),
        ];
        for (status, expected) in cases {
            assert_eq!(status.member(state).to_string(), expected);
        }
        let unstored = StoredState { stored: false, ..state };
        assert_eq!(CacheStatus::Bypass.member(unstored).to_string(), "penstock; fwd=method; fwd-status=206");
    }
}
