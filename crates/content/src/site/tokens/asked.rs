//! A request as formats of tokens see it, and what they say of a token.

use std::borrow::Cow;
use std::fmt::Debug;
use std::net::IpAddr;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use penstock_config::CountryCode;
use penstock_http::Request;
use penstock_origin::io_threads::IoThreads;

use crate::site::token_refusal::TokenRefusal;

/// A format of tokens, with the keys of a site.
pub(super) trait Format: Debug + Send + Sync {
    /// What a token is worth for a request. `parts` are its parts as they were written, percent-encoded, in the order of the
    /// names of the format; a token of several parts may be in the first one alone.
    ///
    /// # Errors
    /// Why it is worth nothing.
    fn verify(&self, parts: &[Option<&str>], asked: &Asked<'_>) -> Result<Grant, TokenRefusal>;
}

/// What is known of a client beside its request.
pub(crate) struct Visitor<'v> {
    pub(crate) address: IpAddr,
    pub(crate) is_secure: bool,
    /// Its country, if the site has a database that knows it.
    pub(crate) country: &'v dyn Fn() -> Option<CountryCode>,
    /// Whether the tokens with an id count no longer, whatever the list of the site says.
    pub(crate) is_revoked: &'v dyn Fn(&str) -> bool,
    /// Where files of keys are read again.
    pub(crate) io: &'v IoThreads,
    pub(crate) now: Instant,
    pub(crate) wall: SystemTime,
}

/// A request without its tokens.
pub(super) struct Asked<'a> {
    pub(super) request: &'a Request<'a>,
    /// The decoded path.
    pub(super) path: Cow<'a, [u8]>,
    /// The path in its normal form.
    pub(super) raw_path: &'a str,
    pub(super) query: Option<&'a str>,
    /// How far clocks may differ, in seconds.
    pub(super) leeway: u64,
    pub(super) visitor: &'a Visitor<'a>,
}

impl Asked<'_> {
    /// The time in seconds since 1970.
    pub(super) fn seconds(&self) -> u64 {
        self.visitor.wall.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
    }

    /// Whether a token is valid now: from `begin` on, and before `end`.
    pub(super) fn is_within(&self, begin: Option<u64>, end: u64) -> Result<(), TokenRefusal> {
        let now = self.seconds();
        if now >= end.saturating_add(self.leeway) {
            return Err(TokenRefusal::Expired);
        }
        match begin {
            Some(begin) if begin > now.saturating_add(self.leeway) => Err(TokenRefusal::NotYet),
            _ => Ok(()),
        }
    }

    /// Whether a path that a token names is the one that is asked for: everything below it if it ends with a slash,
    /// otherwise itself alone. Returns what the token covers.
    pub(super) fn is_covered_by(&self, allowed: &str) -> Option<Scope> {
        let (path, bytes) = (&*self.path, allowed.as_bytes());
        if allowed.ends_with('/') {
            return path.starts_with(bytes).then(|| Scope::Below(allowed.to_owned()));
        }
        (path == bytes).then_some(Scope::One)
    }

    /// The address of the client; of IPv4 also if it is mapped into IPv6.
    pub(super) fn address(&self) -> IpAddr {
        self.visitor.address.to_canonical()
    }

    /// Whether the client has this address.
    pub(super) fn is_from(&self, address: &str) -> Result<(), TokenRefusal> {
        let wanted: IpAddr = address.parse().map_err(|_| TokenRefusal::Malformed)?;
        (wanted.to_canonical() == self.address()).then_some(()).ok_or(TokenRefusal::OtherClient)
    }
}

/// What a good token says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Grant {
    /// When it ends, in seconds since 1970.
    pub(super) end: u64,
    /// Its name on a list of revoked tokens; empty for one that cannot be revoked.
    pub(super) id: String,
    pub(super) scope: Scope,
    /// Whom it was made for; `None` if its format or the token does not say it.
    pub(super) subject: Option<String>,
    /// A token with a later end.
    pub(super) renewed: Option<Renewed>,
}

impl Grant {
    pub(super) fn new(end: u64, id: String, scope: Scope) -> Self {
        Self { end, id, scope, subject: None, renewed: None }
    }
}

/// A token with a later end, and where the client gets it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Renewed {
    /// Where the other one was.
    AsItCame(String),
    /// In a cookie, which may have a name.
    Cookie(Option<String>, String),
    /// In a field of the response, which may have a name.
    Field(Option<String>, String),
}

/// The paths that a token opens.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// One path, or some that have no common beginning.
    One,
    /// Paths below this one, which is decoded and ends with a slash.
    Below(String),
}
