//! Which site answers which host.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Instant;

use penstock_config::{
    CachePolicy, DotFiles, EarlyRequests, Forwarded, HostPattern, Hsts, Origin, SignedUrls,
};
use penstock_origin::directory::Directory;
use penstock_origin::http::HttpOrigin;
use penstock_sys::root::RootError;

use crate::peers::Peers;
use crate::site::{Access, Cors, HttpSite, Limits, Rates, VerifiedPasswords};
use crate::store::Store;

/// One site, ready to serve.
#[derive(Debug)]
pub struct Site {
    number: SiteNumber,
    pub(crate) origin: SiteOrigin,
    /// Methods that are forwarded to the origin.
    pub(crate) methods: Vec<String>,
    /// All methods, as in Allow.
    pub(crate) allowed: String,
    /// How a forwarded request names its client.
    pub(crate) forwarded: Forwarded,
    /// Signatures that URLs must have.
    pub(crate) signed_urls: Option<SignedUrls>,
    /// Who may use it; `None` is everyone.
    pub(crate) access: Option<Access>,
    /// How much of it may be used; `None` is no limit.
    pub(crate) limits: Option<Limits>,
    /// Whether early data are answered with 425.
    pub(crate) refuses_early: bool,
    /// Whether files are served whose path has a segment that begins with a dot.
    pub(crate) dot_files: DotFiles,
    /// Name of the file that represents a directory.
    pub(crate) index: String,
    /// Value of Strict-Transport-Security, for HTTPS.
    pub(crate) hsts: Option<String>,
    /// What pages of other origins may do.
    pub(crate) cors: Option<Cors>,
    /// Whether OPTIONS goes to the origin.
    forwards_options: bool,
}

impl Site {
    /// Its number.
    pub(crate) fn number(&self) -> SiteNumber {
        self.number
    }

    /// Whether OPTIONS goes to the origin: the site says nothing of its own about CORS.
    pub(crate) fn forwards_options(&self) -> bool {
        self.forwards_options
    }

    /// The HTTP origin; `None` for a directory.
    pub(crate) fn http(&self) -> Option<&Arc<HttpSite>> {
        match &self.origin {
            SiteOrigin::Http(http, _) | SiteOrigin::Relayed(http) => Some(http),
            SiteOrigin::Directory(_) => None,
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
}

/// The place of a site in the configuration, which bounds it. A request carries the number and not the site, whose reference
/// count all workers would write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteNumber(usize);

/// All sites by host. More exact patterns win.
#[derive(Debug, Default)]
pub struct SiteTable {
    /// The first host of each site, as configured, by number.
    names: Vec<String>,
    exact: HashMap<String, Arc<Site>>,
    /// By the domain behind `*.`.
    under: HashMap<String, Arc<Site>>,
    any: Option<Arc<Site>>,
    /// Sites whose objects the cluster shares, by their identity.
    shared: HashMap<String, Arc<Site>>,
    /// Rates of requests to all sites.
    rates: Arc<Rates>,
    /// Passwords of the users of all sites.
    passwords: Arc<VerifiedPasswords>,
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
fn cache_of(raw: &penstock_config::Site) -> Cow<'_, CachePolicy> {
    if raw.headers.cors.is_some() || raw.cache.vary.iter().any(|name| name == "origin") {
        return Cow::Borrowed(&raw.cache);
    }
    let mut cache = raw.cache.clone();
    cache.vary.push("origin".to_owned());
    Cow::Owned(cache)
}

/// Whether OPTIONS is a question for the origin: it knows which other origins may read its responses, unless the site says
/// so. A preflight has no cookie, so a site with tokens or passwords answers itself.
fn asks_origin_for_options(raw: &penstock_config::Site) -> bool {
    let is_server = matches!(&raw.origin, Origin::Http(origin) if origin.s3.is_none());
    is_server && raw.headers.cors.is_none() && raw.signed_urls.is_none() && raw.access.basic.is_none()
}

impl SiteTable {
    /// Opens directories and origins of the sites. Those that `previous` has open are used again, with the files that
    /// the workers have open in them.
    ///
    /// # Errors
    /// The first directory that cannot be opened.
    pub fn open(
        sites: &[penstock_config::Site],
        previous: Option<&Self>,
        store: Option<&Arc<Store>>,
        peers: Option<&Arc<Peers>>,
    ) -> Result<Self, RootError> {
        let mut table = Self::default();
        if let Some(previous) = previous {
            // Reloads forget no client.
            table.rates = Arc::clone(&previous.rates);
            table.passwords = Arc::clone(&previous.passwords);
        }
        for (number, raw) in sites.iter().enumerate() {
            table.names.push(raw.hosts.first().map(ToString::to_string).unwrap_or_default());
            let origin = match (&raw.origin, store) {
                (Origin::Directory(root), _) => {
                    let known = previous.into_iter().flat_map(Self::directories);
                    SiteOrigin::Directory(Directory::open_again(root, known)?)
                }
                (Origin::Http(http), _) if http.uncached.is_some() => {
                    let known = previous.into_iter().flat_map(Self::origins);
                    SiteOrigin::Relayed(HttpSite::new(http, &cache_of(raw), None, known, peers))
                }
                (Origin::Http(http), Some(store)) => {
                    let known = previous.into_iter().flat_map(Self::origins);
                    let token = raw.signed_urls.as_ref().and_then(|rules| rules.cookie.as_deref());
                    SiteOrigin::Http(
                        HttpSite::new(http, &cache_of(raw), token, known, peers),
                        Arc::clone(store),
                    )
                }
                // The caller opens a store if a site is cached.
                (Origin::Http(_), None) => continue,
            };
            let methods = match &raw.origin {
                // Requests to a bucket are signed here: clients may read only.
                Origin::Http(origin) if origin.s3.is_none() => raw.methods.clone(),
                Origin::Http(_) | Origin::Directory(_) => Vec::new(),
            };
            let site = Arc::new(Site {
                number: SiteNumber(number),
                forwards_options: asks_origin_for_options(raw),
                origin,
                allowed: [ALLOWED]
                    .into_iter()
                    .chain(methods.iter().map(String::as_str))
                    .collect::<Vec<_>>()
                    .join(", "),
                methods,
                forwarded: raw.forwarded,
                signed_urls: raw.signed_urls.clone(),
                access: Access::new(&raw.access, &table.passwords, Instant::now()),
                limits: Limits::new(&raw.limits, number as u64, &table.rates),
                refuses_early: raw.early_data == EarlyRequests::Refuse,
                dot_files: raw.dot_files,
                index: raw.index.clone(),
                hsts: raw.headers.hsts.as_ref().map(hsts_value),
                cors: raw.headers.cors.as_ref().map(Cors::new),
            });
            if let SiteOrigin::Http(http, _) = &site.origin
                && let Some(sharing) = &http.sharing
            {
                table.shared.insert(sharing.identity.clone(), Arc::clone(&site));
            }
            for host in &raw.hosts {
                match host {
                    HostPattern::Exact(name) => drop(table.exact.insert(name.clone(), Arc::clone(&site))),
                    HostPattern::Under(domain) => drop(table.under.insert(domain.clone(), Arc::clone(&site))),
                    HostPattern::Any => table.any = Some(Arc::clone(&site)),
                }
            }
        }
        Ok(table)
    }

    /// The first host of a site, as configured. Empty for a number of another table.
    pub fn name(&self, number: SiteNumber) -> &str {
        self.names.get(number.0).map_or("", String::as_str)
    }

    /// The origins of all sites.
    pub fn origins(&self) -> impl Iterator<Item = &Arc<HttpOrigin>> {
        let sites = self.exact.values().chain(self.under.values()).chain(&self.any);
        sites.filter_map(|site| match &site.origin {
            SiteOrigin::Http(site, _) | SiteOrigin::Relayed(site) => Some(site.origin()),
            SiteOrigin::Directory(_) => None,
        })
    }

    fn directories(&self) -> impl Iterator<Item = &Directory> {
        self.all().filter_map(|site| match &site.origin {
            SiteOrigin::Directory(directory) => Some(directory),
            SiteOrigin::Http(..) | SiteOrigin::Relayed(_) => None,
        })
    }

    /// All sites; a site with several hosts appears once for each.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Site>> {
        self.exact.values().chain(self.under.values()).chain(&self.any)
    }

    /// The site whose objects other nodes name by this identity.
    pub(crate) fn find_shared(&self, identity: &str) -> Option<(&Arc<HttpSite>, &Arc<Store>)> {
        match &self.shared.get(identity)?.origin {
            SiteOrigin::Http(site, store) => Some((site, store)),
            SiteOrigin::Relayed(_) | SiteOrigin::Directory(_) => None,
        }
    }

    /// The site for the host of a request.
    pub fn find(&self, host: &str) -> Option<&Arc<Site>> {
        if self.exact.is_empty() && self.under.is_empty() {
            return self.any.as_ref();
        }
        let name = canonical(host);
        let domain = name.split_once('.').map(|(_, domain)| domain);
        self.exact.get(&*name).or_else(|| self.under.get(domain?)).or(self.any.as_ref())
    }
}

/// Lower case, and IPv6 addresses in their shortest form without brackets, as the configuration keeps them. Allocates for an
/// IPv6 address and for capital letters only; an IPv4 address has one form.
fn canonical(host: &str) -> Cow<'_, str> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if bare.contains(':')
        && let Ok(address) = bare.parse::<Ipv6Addr>()
    {
        return Cow::Owned(address.to_string());
    }
    if bare.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Owned(bare.to_ascii_lowercase());
    }
    Cow::Borrowed(bare)
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_config::Headers;

    fn table(patterns: &[&[HostPattern]]) -> SiteTable {
        let sites: Vec<_> = patterns
            .iter()
            .enumerate()
            .map(|(number, hosts)| penstock_config::Site {
                hosts: hosts.to_vec(),
                origin: Origin::Directory(std::env::temp_dir()),
                cache: CachePolicy::default(),
                methods: Vec::new(),
                forwarded: Forwarded::default(),
                signed_urls: None,
                access: penstock_config::Access::default(),
                limits: penstock_config::SiteLimits::default(),
                early_data: EarlyRequests::Allow,
                dot_files: DotFiles::default(),
                index: number.to_string(),
                headers: Headers::default(),
            })
            .collect();
        SiteTable::open(&sites, None, None, None).unwrap()
    }

    fn found(table: &SiteTable, host: &str) -> Option<String> {
        table.find(host).map(|site| site.index.clone())
    }

    #[test]
    fn exact_beats_wildcard_and_wildcard_beats_any() {
        let exact = HostPattern::Exact("a.example.com".into());
        let under = HostPattern::Under("example.com".into());
        let table = table(&[&[exact], &[under], &[HostPattern::Any]]);
        assert_eq!(found(&table, "A.Example.com").as_deref(), Some("0"));
        assert_eq!(found(&table, "b.example.com").as_deref(), Some("1"));
        assert_eq!(found(&table, "b.c.example.com").as_deref(), Some("2"));
        assert_eq!(found(&table, "example.com").as_deref(), Some("2"));
    }

    #[test]
    fn a_host_without_a_site_is_not_found() {
        assert_eq!(found(&table(&[&[HostPattern::Exact("a.test".into())]]), "b.test"), None);
    }

    #[test]
    fn ipv6_hosts_match_in_any_spelling() {
        let table = table(&[&[HostPattern::Exact("::1".into())]]);
        assert_eq!(found(&table, "[0:0::1]").as_deref(), Some("0"));
        assert_eq!(found(&table, "[::1]").as_deref(), Some("0"));
    }

    #[test]
    fn a_host_as_clients_spell_it_is_found_without_an_allocation() {
        for host in ["a.example.com", "192.0.2.1", "localhost", "example.com1"] {
            assert!(matches!(canonical(host), Cow::Borrowed(same) if same == host), "{host}");
        }
        assert_eq!(canonical("A.Example.com"), "a.example.com");
        assert_eq!(canonical("192.0.2.01"), "192.0.2.01", "no address");
    }
}
