//! A site, or one route of it, ready to serve.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use penstock_config::{
    CachePolicy, Canonical, CmcdRules, DotFiles, EarlyRequests, ErrorPage, FieldRules, FixedResponse,
    Forwarded, Hsts, Origin, Pace, Redirect, RequestIds, Rewrite, SiteLimits, SiteSettings, TitlePatterns,
};
use penstock_origin::directory::Directory;
use penstock_origin::http::HttpOrigin;
use penstock_sys::root::RootError;

use crate::peers::Peers;
use crate::site::{
    Access, Cors, HttpSite, Limits, Maintenance, Rates, Steering, TokenVerifier, VerifiedPasswords,
};
use crate::store::Store;

/// A site, or one route of it, ready to serve. It has all settings: no stage asks which of them a route has of its own.
#[derive(Debug)]
pub struct Site {
    pub(super) number: SiteNumber,
    pub(super) route: Option<RouteNumber>,
    pub(crate) origin: SiteOrigin,
    /// The scheme and the host that requests should have.
    pub(crate) canonical: Canonical,
    /// The path that the origin is asked for instead.
    pub(crate) rewrite: Option<Rewrite>,
    /// Pages in place of those of this server.
    pub(crate) error_pages: Vec<ErrorPage>,
    /// The file whose existence answers requests with 503.
    pub(crate) maintenance: Option<Arc<Maintenance>>,
    /// Methods that are forwarded to the origin.
    pub(crate) methods: Vec<String>,
    /// All methods, as in Allow.
    pub(crate) allowed: String,
    /// How a forwarded request names its client.
    pub(crate) forwarded: Forwarded,
    /// Whether requests to the origin and responses have an id.
    pub(crate) request_id: RequestIds,
    /// Verifies the tokens that requests must have.
    pub(crate) tokens: Option<TokenVerifier>,
    /// Who may use it; `None` is everyone.
    pub(crate) access: Option<Access>,
    /// How much of it may be used; `None` is no limit.
    pub(crate) limits: Option<Arc<Limits>>,
    /// How fast each of its responses is sent; `None` is as fast as clients take them.
    pub(crate) pace: Option<Pace>,
    /// Whether early data are answered with 425.
    pub(crate) early_data: EarlyRequests,
    /// Whether files are served whose path has a segment that begins with a dot.
    pub(crate) dot_files: DotFiles,
    /// Whether small texts are compressed.
    pub(crate) compress: bool,
    /// Name of the file that represents a directory.
    pub(crate) index: String,
    /// Value of Strict-Transport-Security, for HTTPS.
    pub(crate) hsts: Option<String>,
    /// What pages of other origins may do.
    pub(crate) cors: Option<Cors>,
    /// Changes to the fields of responses.
    pub(crate) response_rules: FieldRules,
    /// What it does with what players say of themselves.
    pub(crate) cmcd: CmcdRules,
    /// Whether players are told what the network says of their connection.
    pub(crate) cmsd: bool,
    /// Which pathway players should use; `None` if they are not told.
    pub(crate) steering: Option<Steering>,
    /// Paths with a segment that names a title; `None` is the default.
    pub(super) title_patterns: Option<TitlePatterns>,
    /// Whether OPTIONS goes to the origin.
    forwards_options: bool,
}

impl Site {
    /// The site.
    pub(crate) fn number(&self) -> SiteNumber {
        self.number
    }

    /// The route of the site; `None` for requests that no route matches.
    pub(crate) fn route(&self) -> Option<RouteNumber> {
        self.route
    }

    /// Whether OPTIONS goes to the origin: the site says nothing of its own about CORS.
    pub(crate) fn forwards_options(&self) -> bool {
        self.forwards_options
    }

    /// Whether bodies are divided into pieces that have their time.
    pub(crate) fn is_paced(&self) -> bool {
        self.pace.is_some() || self.limits.as_ref().is_some_and(|limits| limits.has_bandwidth())
    }

    /// The HTTP origin; `None` for other origins.
    pub(crate) fn http(&self) -> Option<&Arc<HttpSite>> {
        match &self.origin {
            SiteOrigin::Http(http, _) | SiteOrigin::Relayed(http) => Some(http),
            SiteOrigin::Directory(_) | SiteOrigin::Redirect(_) | SiteOrigin::Fixed(_) => None,
        }
    }
}

/// Where the bytes of a site come from.
#[derive(Debug)]
pub enum SiteOrigin {
    /// Files.
    Directory(Directory),
    /// HTTP servers, through the cache.
    Http(Arc<HttpSite>, Arc<Store>),
    /// HTTP servers, without the cache.
    Relayed(Arc<HttpSite>),
    /// Nowhere: a redirect.
    Redirect(Redirect),
    /// Nowhere: the configuration has the response.
    Fixed(FixedResponse),
}

/// The place of a site in the configuration, which bounds it. A request carries the number and not the site, whose reference
/// count all workers would write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteNumber(pub(super) usize);

impl SiteNumber {
    /// The place in the list of [`SiteTable::names`](super::SiteTable::names).
    pub fn index(self) -> usize {
        self.0
    }
}

/// The place of a route in its site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteNumber(pub(super) usize);

/// Tells the rates of a site, and of each of its routes, from the others.
fn limits_number(SiteNumber(site): SiteNumber, route: Option<RouteNumber>) -> u64 {
    let place = route.map_or(0, |RouteNumber(place)| place as u64 + 1);
    ((site as u64) << 32) | place
}

/// The methods that every site knows.
const ALLOWED: &str = "GET, HEAD, OPTIONS";

/// The value of Strict-Transport-Security (RFC 6797 §6.1).
fn hsts_value(hsts: &Hsts) -> String {
    let mut value = format!("max-age={}", hsts.max_age.as_secs());
    if hsts.include_subdomains {
        value.push_str("; includeSubDomains");
    }
    if hsts.preload {
        value.push_str("; preload");
    }
    value
}

/// The caching of a site. Origin goes to an origin that decides on CORS, and selects responses if that says so.
fn cache_of(raw: &SiteSettings) -> Cow<'_, CachePolicy> {
    if raw.headers.cors.is_some() || raw.cache.vary.iter().any(|name| name == "origin") {
        return Cow::Borrowed(&raw.cache);
    }
    let mut cache = raw.cache.clone();
    cache.vary.push("origin".to_owned());
    Cow::Owned(cache)
}

/// Whether OPTIONS is a question for the origin: it knows which other origins may read its responses, unless the site says
/// so. A preflight has no cookie, so a site with tokens or passwords answers itself.
fn asks_origin_for_options(raw: &SiteSettings) -> bool {
    let is_server = matches!(&raw.origin, Origin::Http(origin) if origin.s3.is_none());
    is_server && raw.headers.cors.is_none() && raw.tokens.is_none() && raw.access.basic.is_none()
}

/// What the settings of one site and of its routes share.
#[derive(Default)]
pub(super) struct Siblings {
    /// The first host of the site, as configured.
    host: String,
    /// The origins so far.
    origins: Vec<Arc<HttpSite>>,
    /// The limits of the site: requests of a route with the same ones count together with its.
    limits: Option<(SiteLimits, Option<Arc<Limits>>)>,
}

impl Siblings {
    /// Those of the site with this first host, of which none is opened yet.
    pub(super) fn of(host: &str) -> Self {
        Self { host: host.to_owned(), ..Self::default() }
    }
}

/// What is opened already, and used again.
pub(super) struct Opened<'o> {
    /// Directories of the sites before a reload.
    pub(super) directories: Vec<Directory>,
    /// Files of maintenance of this table, by path.
    pub(super) maintenances: HashMap<PathBuf, Arc<Maintenance>>,
    /// Directories of this table, by path: routes seldom have others than their site.
    pub(super) by_path: HashMap<PathBuf, Directory>,
    /// Origins of the sites before a reload.
    pub(super) origins: Vec<Arc<HttpOrigin>>,
    /// Rates of requests to all sites.
    pub(super) rates: Arc<Rates>,
    /// Passwords of the users of all sites.
    pub(super) passwords: Arc<VerifiedPasswords>,
    pub(super) store: Option<&'o Arc<Store>>,
    pub(super) peers: Option<&'o Arc<Peers>>,
}

impl Opened<'_> {
    fn maintenance(&mut self, path: &Path) -> Arc<Maintenance> {
        let new = || Arc::new(Maintenance::new(path));
        Arc::clone(self.maintenances.entry(path.to_owned()).or_insert_with(new))
    }

    fn limits(&self, raw: &SiteLimits, number: u64, siblings: &mut Siblings) -> Option<Arc<Limits>> {
        let new = || Limits::new(raw, number, &self.rates).map(Arc::new);
        match siblings.limits.get_or_insert_with(|| (*raw, new())) {
            (of_site, limits) if *of_site == *raw => limits.clone(),
            _ => new(),
        }
    }

    fn http_site(
        &self,
        http: &penstock_config::HttpOrigin,
        raw: &SiteSettings,
        tokens: Option<&TokenVerifier>,
        siblings: &mut Siblings,
    ) -> Arc<HttpSite> {
        let cookies = tokens.filter(|_| http.uncached.is_none());
        let cookies = cookies.map_or(&[][..], |tokens| &tokens.fields().cookies);
        let (known, rules) = (self.origins.iter(), &raw.headers.request);
        let of_site = (&*siblings.host, &*siblings.origins);
        let site = HttpSite::new(http, &cache_of(raw), cookies, known, self.peers, rules, of_site);
        siblings.origins.push(Arc::clone(&site));
        site
    }

    /// Opens what these settings name. `None` if the site is cached and there is no store. The site is opened before its
    /// routes, with the same `siblings`.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub(super) fn open(
        &mut self,
        raw: &SiteSettings,
        (number, route): (SiteNumber, Option<RouteNumber>),
        siblings: &mut Siblings,
    ) -> Result<Option<Site>, RootError> {
        let now = Instant::now();
        let verifier = |rules| TokenVerifier::new(rules, &self.passwords.secrets, now);
        let tokens = raw.tokens.as_ref().map(verifier);
        let origin = match &raw.origin {
            Origin::Directory(root) => match self.by_path.get(root) {
                Some(directory) => SiteOrigin::Directory(directory.clone()),
                None => {
                    let directory = Directory::open_again(root, self.directories.iter())?;
                    self.by_path.insert(root.clone(), directory.clone());
                    SiteOrigin::Directory(directory)
                }
            },
            Origin::Http(http) => {
                let site = self.http_site(http, raw, tokens.as_ref(), siblings);
                match (http.uncached, self.store) {
                    (Some(_), _) => SiteOrigin::Relayed(site),
                    (None, Some(store)) => SiteOrigin::Http(site, Arc::clone(store)),
                    // The caller opens a store if a site is cached.
                    (None, None) => return Ok(None),
                }
            }
            Origin::Redirect(redirect) => SiteOrigin::Redirect(redirect.clone()),
            Origin::Fixed(fixed) => SiteOrigin::Fixed(fixed.clone()),
        };
        let methods = match &raw.origin {
            // Requests to a bucket are signed here: clients may read only.
            Origin::Http(origin) if origin.s3.is_none() => raw.methods.clone(),
            _ => Vec::new(),
        };
        Ok(Some(Site {
            number,
            route,
            canonical: raw.canonical.clone(),
            rewrite: raw.rewrite.clone(),
            error_pages: raw.error_pages.clone(),
            maintenance: raw.maintenance.as_ref().map(|path| self.maintenance(path)),
            forwards_options: asks_origin_for_options(raw),
            origin,
            allowed: [ALLOWED]
                .into_iter()
                .chain(methods.iter().map(String::as_str))
                .collect::<Vec<_>>()
                .join(", "),
            methods,
            forwarded: raw.forwarded,
            request_id: raw.request_id,
            tokens,
            access: Access::new(&raw.access, &self.passwords, now),
            limits: self.limits(&raw.limits, limits_number(number, route), siblings),
            pace: raw.pace,
            early_data: raw.early_data,
            dot_files: raw.dot_files,
            compress: raw.compress,
            index: raw.index.clone(),
            hsts: raw.headers.hsts.as_ref().map(hsts_value),
            cors: raw.headers.cors.as_ref().map(Cors::new),
            response_rules: raw.headers.response.clone(),
            cmcd: raw.players.cmcd,
            cmsd: raw.players.cmsd,
            title_patterns: raw.title_patterns.clone(),
            steering: raw.players.steering.as_ref().map(|rules| Steering::new(rules, self.peers)),
        }))
    }
}
