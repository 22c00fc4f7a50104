//! Which site answers which host.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use penstock_config::{DotFiles, EarlyRequests, Forwarded, HostPattern, Hsts, Origin, SignedUrls};
use penstock_http::HeadWriter;
use penstock_origin::directory::Directory;
use penstock_origin::http::HttpOrigin;
use penstock_sys::root::RootError;

use crate::peers::Peers;
use crate::site::HttpSite;
use crate::store::Store;

/// One site, ready to serve.
#[derive(Debug)]
pub struct Site {
    /// Its place in the configuration, from 0 on.
    number: usize,
    /// Its first host, as configured.
    name: Arc<str>,
    pub(crate) origin: SiteOrigin,
    /// Methods that are forwarded to the origin.
    pub(crate) methods: Vec<String>,
    /// All methods, as in Allow.
    pub(crate) allowed: String,
    /// How a forwarded request names its client.
    pub(crate) forwarded: Forwarded,
    /// Signatures that URLs must have.
    pub(crate) signed_urls: Option<SignedUrls>,
    /// Whether early data are answered with 425.
    pub(crate) refuses_early: bool,
    /// Whether files are served whose path has a segment that begins with a dot.
    pub(crate) dot_files: DotFiles,
    /// Name of the file that represents a directory.
    pub(crate) index: String,
    /// Value of Strict-Transport-Security, for HTTPS.
    pub(crate) hsts: Option<String>,
    /// Value of Access-Control-Allow-Origin.
    pub(crate) cors: Option<String>,
    /// Field lines of every response in the clear, and over TLS.
    lines: [Vec<u8>; 2],
    /// Whether OPTIONS goes to the origin.
    forwards_options: bool,
}

/// Fields of responses that pages of other origins may read beside those that every page may (Fetch standard §3.2.4).
const EXPOSED: &str = "Age, Cache-Status, Content-Length, Content-Range, Date, ETag";

impl Site {
    /// Its place in the configuration, from 0 on: a number that the configuration bounds.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Its first host, as configured.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The field lines of every response.
    pub(crate) fn lines(&self, secure: bool) -> &[u8] {
        &self.lines[usize::from(secure)]
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

/// The field lines of every response of a site.
fn site_lines(cors: Option<&str>, hsts: Option<&str>) -> Vec<u8> {
    let mut lines = Vec::new();
    let mut writer = HeadWriter::continuing(&mut lines);
    if let Some(origin) = cors {
        writer.field("Access-Control-Allow-Origin", origin).field("Access-Control-Expose-Headers", EXPOSED);
    }
    if let Some(policy) = hsts {
        writer.field("Strict-Transport-Security", policy);
    }
    lines
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

/// All sites by host. More exact patterns win.
#[derive(Debug, Default)]
pub struct SiteTable {
    exact: HashMap<String, Arc<Site>>,
    /// By the domain behind `*.`.
    under: HashMap<String, Arc<Site>>,
    any: Option<Arc<Site>>,
    /// Sites whose objects the cluster shares, by their identity.
    shared: HashMap<String, Arc<Site>>,
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
        for (number, raw) in sites.iter().enumerate() {
            let origin = match (&raw.origin, store) {
                (Origin::Directory(root), _) => {
                    let known = previous.into_iter().flat_map(Self::directories);
                    SiteOrigin::Directory(Directory::open_again(root, known)?)
                }
                (Origin::Http(http), _) if http.uncached.is_some() => {
                    let known = previous.into_iter().flat_map(Self::origins);
                    SiteOrigin::Relayed(HttpSite::new(http, &raw.cache, None, known, peers))
                }
                (Origin::Http(http), Some(store)) => {
                    let known = previous.into_iter().flat_map(Self::origins);
                    let token = raw.signed_urls.as_ref().and_then(|rules| rules.cookie.as_deref());
                    SiteOrigin::Http(HttpSite::new(http, &raw.cache, token, known, peers), Arc::clone(store))
                }
                // The caller opens a store if a site is cached.
                (Origin::Http(_), None) => continue,
            };
            let methods = match &raw.origin {
                // Requests to a bucket are signed here: clients may read only.
                Origin::Http(origin) if origin.s3.is_none() => raw.methods.clone(),
                Origin::Http(_) | Origin::Directory(_) => Vec::new(),
            };
            let (cors, hsts) = (raw.headers.cors.clone(), raw.headers.hsts.as_ref().map(hsts_value));
            let is_http = matches!(&raw.origin, Origin::Http(origin) if origin.s3.is_none());
            let site = Arc::new(Site {
                number,
                name: raw.hosts.first().map(ToString::to_string).unwrap_or_default().into(),
                lines: [site_lines(cors.as_deref(), None), site_lines(cors.as_deref(), hsts.as_deref())],
                forwards_options: is_http && cors.is_none(),
                origin,
                allowed: [ALLOWED]
                    .into_iter()
                    .chain(methods.iter().map(String::as_str))
                    .collect::<Vec<_>>()
                    .join(", "),
                methods,
                forwarded: raw.forwarded,
                signed_urls: raw.signed_urls.clone(),
                refuses_early: raw.early_data == EarlyRequests::Refuse,
                dot_files: raw.dot_files,
                index: raw.index.clone(),
                hsts,
                cors,
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
        self.exact.get(&name).or_else(|| self.under.get(domain?)).or(self.any.as_ref())
    }
}

/// Lower case, and IP addresses in their shortest form without brackets, as the configuration keeps them.
fn canonical(host: &str) -> String {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    match bare.parse::<IpAddr>() {
        Ok(address) => address.to_string(),
        Err(_) => bare.to_ascii_lowercase(),
    }
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
                cache: penstock_config::SiteCache::default(),
                methods: Vec::new(),
                forwarded: Forwarded::default(),
                signed_urls: None,
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
    }
}
