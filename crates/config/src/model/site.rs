//! Sites: content by host name.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use penstock_http::query::QueryRules;

use super::access::{Access, Pace, SiteLimits};
use super::field_rules::FieldRules;
use super::origin::Origin;
use super::players::PlayerRules;
use super::route::{Canonical, ErrorPage, Rewrite, RouteMatcher};
use super::titles::TitlePatterns;
use super::tokens::TokenRules;
use crate::forwarding::{Forwarded, RequestIds, default_methods};
use crate::limits;

/// Whether a site answers what came as early data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyRequests {
    /// Like any other request.
    Allow,
    /// With 425 Too Early.
    Refuse,
}

/// Whether a site serves files whose path has a segment that begins with a dot. `.well-known` is always served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DotFiles {
    /// Like any other file.
    Allow,
    /// With 404: such files are seldom meant for clients (`.env`, `.git`).
    #[default]
    Deny,
}

/// The content of some host names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Host names it answers to; at least one, and no two sites of one listener share one.
    pub hosts: Vec<HostPattern>,
    /// Names of the listeners on which it answers; `None` for all.
    pub listeners: Option<Vec<String>>,
    /// Parts with other settings: the first that matches a request answers it.
    pub routes: Vec<Route>,
    /// What answers the requests that no route matches.
    pub settings: SiteSettings,
}

/// A part of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The requests that it is for.
    pub matcher: RouteMatcher,
    /// What answers them.
    pub settings: SiteSettings,
}

/// What answers the requests of a site, or of one of its routes. A route has all settings, so that nothing asks its site for
/// what it lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteSettings {
    /// Where the bytes come from.
    pub origin: Origin,
    /// Caching of an HTTP origin's responses.
    pub cache: CachePolicy,
    /// Methods that are forwarded to an HTTP origin, beside GET, HEAD and OPTIONS.
    pub methods: Vec<String>,
    /// How the origin learns the client's address.
    pub forwarded: Forwarded,
    /// Whether requests to the origin and responses have an id.
    pub request_id: RequestIds,
    /// Tokens that requests need; `None` needs none.
    pub tokens: Option<TokenRules>,
    /// Who may use it.
    pub access: Access,
    /// How much of it may be used.
    pub limits: SiteLimits,
    /// How fast its responses are sent; `None` is as fast as clients take them.
    pub pace: Option<Pace>,
    /// Whether it answers what came as early data.
    pub early_data: EarlyRequests,
    /// Whether it serves files that begin with a dot.
    pub dot_files: DotFiles,
    /// Whether manifests and other small texts are compressed.
    pub compress: bool,
    /// The file that answers for a directory, a plain name such as `index.html`.
    pub index: String,
    /// Response fields beyond those of the file itself.
    pub headers: Headers,
    /// The scheme and the host that requests should have.
    pub canonical: Canonical,
    /// The path that the origin is asked for instead.
    pub rewrite: Option<Rewrite>,
    /// Pages in place of those of this server.
    pub error_pages: Vec<ErrorPage>,
    /// The file whose existence answers requests with 503.
    pub maintenance: Option<PathBuf>,
    /// What it does for players.
    pub players: PlayerRules,
    /// Paths with a segment that names a title; `None` leaves that to the section `metrics`.
    pub title_patterns: Option<TitlePatterns>,
}

impl SiteSettings {
    /// An origin, and the default of everything else.
    pub fn new(origin: Origin) -> Self {
        Self {
            origin,
            cache: CachePolicy::default(),
            methods: default_methods(),
            forwarded: Forwarded::default(),
            request_id: RequestIds::default(),
            tokens: None,
            access: Access::default(),
            limits: SiteLimits::default(),
            pace: None,
            early_data: EarlyRequests::Allow,
            dot_files: DotFiles::default(),
            compress: true,
            index: limits::INDEX.to_owned(),
            headers: Headers::default(),
            canonical: Canonical::default(),
            rewrite: None,
            error_pages: Vec::new(),
            maintenance: None,
            players: PlayerRules::default(),
            title_patterns: None,
        }
    }
}

/// A host name of a site. More exact ones win: [`Exact`](Self::Exact), then [`Under`](Self::Under) with the
/// longest domain, then [`Any`](Self::Any).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// `video.example.com`, in lower case without a final dot; also an IP address, IPv6 without brackets.
    Exact(String),
    /// `*.example.com`: exactly one label before the domain, which stands here without `*.`, in lower case.
    Under(String),
    /// `*`: every host that no other site has.
    Any,
}

/// As the configuration writes it.
impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => f.write_str(name),
            Self::Under(domain) => write!(f, "*.{domain}"),
            Self::Any => f.write_str("*"),
        }
    }
}

/// Caching of an HTTP origin's responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachePolicy {
    /// Freshness of successful responses without explicit freshness.
    pub default_ttl: Duration,
    /// Freshness of 404, 405, 410, 414 and 501 without explicit freshness.
    pub missing_ttl: Duration,
    /// Freshness by status of responses without explicit freshness.
    pub ttl: StatusTimes,
    /// Whether what the origin says about caching does not count.
    pub ignore_origin: bool,
    /// How long behind its freshness a response is used while a newer one is fetched, if its origin does not say it.
    pub stale_while_revalidate: Duration,
    /// How long behind its freshness a response is used if its origin fails, if the origin does not say it.
    pub stale_if_error: Duration,
    /// How long behind its freshness a response is used if its origin is down, whatever the origin said.
    pub grace: Duration,
    /// Requests that go past the cache.
    pub bypass: Bypass,
    /// Cookies that go to the origin; all of them if `vary` has Cookie and this is empty.
    pub cookies: Vec<String>,
    /// Fields of requests that go to the origin, in lower case.
    pub vary: Vec<String>,
    /// The parts of the query that belong to the cache key.
    pub query: QueryRules,
    /// Segments of a playlist that are fetched ahead of a viewer; 0 is off.
    pub prefetch: usize,
    /// Whether names with numbers say what comes next, where no playlist does.
    pub prefetch_numbers: bool,
    /// Whether requests wait for a response that another one has asked the origin for.
    pub coalescing: bool,
}

/// Times by status. A status counts before its class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusTimes(pub Vec<(RangeInclusive<u16>, Duration)>);

impl StatusTimes {
    /// The time of a status; `None` if there is none.
    pub fn of(&self, status: u16) -> Option<Duration> {
        let known = self.0.iter().filter(|(statuses, _)| statuses.contains(&status));
        known.min_by_key(|(statuses, _)| statuses.len()).map(|(_, time)| *time)
    }
}

/// Requests that go past the cache: those with any of these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bypass {
    /// Names of fields, in lower case.
    pub fields: Vec<String>,
    /// Names of cookies.
    pub cookies: Vec<String>,
    /// Names of parameters of the query, as they are written there.
    pub query: Vec<String>,
}

impl Bypass {
    /// Whether no request goes past the cache.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.cookies.is_empty() && self.query.is_empty()
    }
}

/// Response fields of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// Strict-Transport-Security, on HTTPS only; `None` sends no such field.
    pub hsts: Option<Hsts>,
    /// What pages of other origins may do; `None` leaves that to an HTTP origin, and allows nothing for files.
    pub cors: Option<Cors>,
    /// Changes to the fields of responses.
    pub response: FieldRules,
    /// Changes to the fields of requests to an HTTP origin.
    pub request: FieldRules,
}

/// Cross-origin resource sharing (Fetch §3.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    /// The origins whose pages may read responses.
    pub origins: CorsOrigins,
    /// Whether requests may carry cookies and other credentials.
    pub credentials: bool,
    /// Request fields that are allowed beside those of every site.
    pub allow: Vec<String>,
    /// Response fields that are exposed beside those of every site.
    pub expose: Vec<String>,
    /// How long browsers may keep the answer to a preflight.
    pub max_age: Duration,
}

/// Origins whose pages may read responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CorsOrigins {
    /// The same field for every request: `*` or one origin.
    Same(String),
    /// The origin of the request, if it is one of these.
    Listed(Vec<String>),
}

impl Cors {
    /// The same value for every request, `*` or one origin, and the defaults of the rest.
    pub fn same(origin: &str) -> Self {
        Self {
            origins: CorsOrigins::Same(origin.to_owned()),
            credentials: false,
            allow: Vec::new(),
            expose: Vec::new(),
            max_age: Duration::from_secs(limits::CORS_MAX_AGE_SECONDS),
        }
    }
}

/// Strict-Transport-Security (RFC 6797 §6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hsts {
    /// How long browsers insist on HTTPS; zero tells them to forget it.
    pub max_age: Duration,
    /// Whether that holds for every name below this one too.
    pub include_subdomains: bool,
    /// Whether browsers may have it built in; only with a year and all subdomains.
    pub preload: bool,
}

impl Default for CachePolicy {
    fn default() -> Self {
        Self {
            default_ttl: Duration::from_secs(limits::DEFAULT_TTL_SECONDS),
            missing_ttl: Duration::from_secs(limits::MISSING_TTL_SECONDS),
            ttl: StatusTimes::default(),
            ignore_origin: false,
            stale_while_revalidate: Duration::ZERO,
            stale_if_error: Duration::ZERO,
            grace: Duration::ZERO,
            bypass: Bypass::default(),
            cookies: Vec::new(),
            vary: Vec::new(),
            query: QueryRules::default(),
            prefetch: limits::PREFETCH_SEGMENTS,
            prefetch_numbers: false,
            coalescing: true,
        }
    }
}
