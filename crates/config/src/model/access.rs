//! Who may use a site, and how much.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use crate::accounts::Accounts;
use crate::countries::{Countries, CountryCode};
use crate::model::tokens::ClaimRules;
use crate::networks::NetworkSet;

/// Who may use a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The addresses that alone may; `None` is all.
    pub allow: Option<AddressList>,
    /// The addresses that may not.
    pub deny: AddressList,
    /// The countries whose addresses may; `None` is all.
    pub countries: Option<CountryRules>,
    /// The pages that may; `None` is all.
    pub referers: Option<Referers>,
    /// The names of clients' certificates that may; `None` is all.
    pub certificates: Option<Vec<CertificateName>>,
    /// The users that may; `None` is all.
    pub basic: Option<BasicAccess>,
    /// The tokens that may; `None` is all.
    pub jwt: Option<JwtAccess>,
}

/// Networks of the configuration, and of files that are followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressList {
    /// Those of the configuration.
    pub networks: NetworkSet,
    /// Files, with what they had when the configuration was read.
    pub files: Vec<(PathBuf, NetworkSet)>,
}

/// Countries whose addresses may use a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountryRules {
    /// The file of the database.
    pub file: PathBuf,
    /// What it had when the configuration was read.
    pub database: Countries,
    /// The countries that alone may; `None` is all.
    pub allow: Option<Vec<CountryCode>>,
    /// The countries that may not.
    pub deny: Vec<CountryCode>,
}

/// A name, or the end of names, of clients' certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateName {
    /// This name.
    Exact(String),
    /// All names that end so, such as `.edge.example`.
    Ending(String),
}

impl CertificateName {
    /// Whether it is the name.
    pub fn is_for(&self, name: &str) -> bool {
        match self {
            Self::Exact(exact) => exact == name,
            Self::Ending(end) => name.len() > end.len() && name.ends_with(end.as_str()),
        }
    }
}

/// Hosts whose pages may use a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Referers {
    /// Whether a request without the field may.
    pub none: bool,
    /// Hosts, in lower case.
    pub hosts: Vec<String>,
    /// Domains below which all hosts may, in lower case, with a dot in front.
    pub under: Vec<String>,
}

/// JSON Web Tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtAccess {
    /// Keys, and what claims have to be.
    pub claims: ClaimRules,
    /// A cookie that may have the token.
    pub cookie: Option<String>,
}

/// Names and passwords.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BasicAccess {
    /// The file.
    pub file: PathBuf,
    /// What it had when the configuration was read.
    pub accounts: Accounts,
    /// The realm, without quotes and control characters.
    pub realm: String,
}

/// How fast a response is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Bytes that are sent as fast as the client takes them.
    pub after: u64,
    /// How fast the rest is sent.
    pub rate: PaceRate,
}

/// A rate of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaceRate {
    /// Bytes in a second.
    Bytes(NonZeroU64),
    /// So many thousandths of the bitrate of a film; what says no bitrate has no bound.
    Bitrate(NonZeroU64),
}

/// How much of a site may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteLimits {
    /// What one client is.
    pub client: ClientKind,
    /// What one client may use.
    pub each: Bounds,
    /// What all clients together may use.
    pub all: Bounds,
}

/// What counts as one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientKind {
    /// An address of IPv4, a /64 of IPv6.
    #[default]
    Address,
    /// A /24 of IPv4, a /56 of IPv6.
    Network,
    /// The subject of a token; an address, if the request shows none.
    Subject,
}

/// How much may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Requests; `None` is no limit.
    pub requests: Option<RequestRate>,
    /// Responses under way; `None` is no limit.
    pub connections: Option<u64>,
    /// Bytes of bodies in a second; `None` is no limit.
    pub bandwidth: Option<NonZeroU64>,
}

/// A rate of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRate {
    /// The time for one request, not zero.
    pub interval: Duration,
    /// Requests that may come at once, at least 1.
    pub burst: u32,
}
