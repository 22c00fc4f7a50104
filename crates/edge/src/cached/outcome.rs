//! How an object was come by, as metrics and Cache-Status (RFC 9211) say it.

use std::fmt::Write as _;
use std::time::Instant;

use super::Description;

/// How an object was come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Known and fresh.
    Hit,
    /// Known and a little stale; somebody fetches a newer one.
    Stale,
    /// Known and stale; its origin confirmed it.
    Revalidated,
    /// Known and stale; its origin sent another.
    Replaced,
    /// Known and stale, and its origin failed.
    StaleIfError,
    /// Fetched for this request.
    Miss,
    /// Fetched for another request at the same time.
    Collapsed,
    /// Fetched for this request and for no other.
    Passed,
    /// Passed on to the origin: it is not about what is cached.
    Through,
}

impl Outcome {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Stale => "stale",
            Self::Revalidated | Self::Replaced => "revalidated",
            Self::StaleIfError => "stale_if_error",
            Self::Miss => "miss",
            Self::Collapsed => "collapsed",
            Self::Passed => "passed",
            Self::Through => "through",
        }
    }

    /// The member of Cache-Status without what became of it, for answers that are not kept.
    pub(crate) fn forwarded(self) -> &'static str {
        match self {
            Self::Hit | Self::Stale => "penstock; hit",
            Self::Collapsed => "penstock; fwd=uri-miss; collapsed",
            Self::Revalidated | Self::Replaced | Self::StaleIfError => "penstock; fwd=stale",
            Self::Miss | Self::Passed => "penstock; fwd=uri-miss",
            Self::Through => "penstock; fwd=method",
        }
    }

    /// The member of Cache-Status for an object.
    pub(super) fn cache_status(self, description: &Description, now: Instant) -> String {
        let mut member = self.forwarded().to_owned();
        let status = match self {
            Self::Revalidated => Some(304),
            Self::Replaced | Self::Miss | Self::Passed | Self::Through => {
                Some(description.status_of_origin())
            }
            Self::Hit | Self::Stale | Self::StaleIfError | Self::Collapsed => None,
        };
        if let Some(status) = status {
            // Writing into a String cannot fail.
            write!(member, "; fwd-status={status}").unwrap_or_default();
        }
        if matches!(self, Self::Miss | Self::Replaced) && description.stored {
            member.push_str("; stored");
        }
        if description.stored {
            write!(member, "; ttl={}", description.ttl(now)).unwrap_or_default();
        }
        member.push_str(match self {
            Self::Stale => "; detail=stale-while-revalidate",
            Self::StaleIfError => "; detail=stale-if-error",
            Self::Passed => "; detail=not-shared",
            Self::Hit | Self::Revalidated | Self::Replaced | Self::Miss | Self::Collapsed | Self::Through => {
                ""
            }
        });
        member
    }
}
