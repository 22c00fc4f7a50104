//! Which site answers which host.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use penstock_config::{EarlyRequests, Forwarded, HostPattern, Hsts, Origin, SignedUrls};
use penstock_origin::directory::Directory;
use penstock_origin::http::HttpOrigin;
use penstock_sys::root::RootError;

use crate::cached::{HttpSite, Store};

/// One site, ready to serve.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) source: Source,
    /// Methods that are passed on to its origin; none where there is no other server.
    pub(crate) methods: Vec<String>,
    /// All methods, as Allow names them.
    pub(crate) allowed: String,
    /// How its origin is told who sent what is passed on.
    pub(crate) forwarded: Forwarded,
    /// Signatures that URLs have to have.
    pub(crate) signed_urls: Option<SignedUrls>,
    /// Whether what came as early data is answered with 425.
    pub(crate) refuses_early: bool,
    /// The file that answers for a directory.
    pub(crate) index: String,
    /// Value of Strict-Transport-Security, for HTTPS.
    pub(crate) hsts: Option<String>,
    /// Value of Access-Control-Allow-Origin.
    pub(crate) cors: Option<String>,
}

/// Where the bytes of a site come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// Files.
    Directory(Directory),
    /// HTTP servers, through the cache.
    Http(Arc<HttpSite>, Store),
}

/// All sites by host. More exact patterns win.
#[derive(Debug, Default)]
pub(crate) struct SiteTable {
    exact: HashMap<String, Arc<Site>>,
    /// By the domain behind `*.`.
    under: HashMap<String, Arc<Site>>,
    any: Option<Arc<Site>>,
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
    /// Opens what the sites need. Directories that `previous` has open stay the same, and so do the files that the
    /// workers remember in them.
    ///
    /// # Errors
    /// The first directory that cannot be opened.
    pub(crate) fn open(
        sites: &[penstock_config::Site],
        previous: Option<&Self>,
        store: Option<&Store>,
    ) -> Result<Self, RootError> {
        let mut table = Self::default();
        for written in sites {
            let source = match (&written.origin, store) {
                (Origin::Directory(root), _) => {
                    let known = previous.into_iter().flat_map(Self::directories);
                    Source::Directory(Directory::open_again(root, known)?)
                }
                (Origin::Http(origin), Some(store)) => {
                    let known = previous.into_iter().flat_map(Self::origins);
                    Source::Http(HttpSite::new(origin, &written.cache, known), store.clone())
                }
                // Whoever opens sites with HTTP origins has opened a store for them.
                (Origin::Http(_), None) => continue,
            };
            let methods = match &written.origin {
                // What goes to a bucket is signed by us: clients read there, and nothing else.
                Origin::Http(origin) if origin.s3.is_none() => written.methods.clone(),
                Origin::Http(_) | Origin::Directory(_) => Vec::new(),
            };
            let site = Arc::new(Site {
                source,
                allowed: [ALLOWED]
                    .into_iter()
                    .chain(methods.iter().map(String::as_str))
                    .collect::<Vec<_>>()
                    .join(", "),
                methods,
                forwarded: written.forwarded,
                signed_urls: written.signed_urls.clone(),
                refuses_early: written.early_data == EarlyRequests::Refuse,
                index: written.index.clone(),
                hsts: written.headers.hsts.as_ref().map(hsts_value),
                cors: written.headers.cors.clone(),
            });
            for host in &written.hosts {
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
    pub(crate) fn origins(&self) -> impl Iterator<Item = &Arc<HttpOrigin>> {
        let sites = self.exact.values().chain(self.under.values()).chain(&self.any);
        sites.filter_map(|site| match &site.source {
            Source::Http(site, _) => Some(site.origin()),
            Source::Directory(_) => None,
        })
    }

    fn directories(&self) -> impl Iterator<Item = &Directory> {
        self.all().filter_map(|site| match &site.source {
            Source::Directory(directory) => Some(directory),
            Source::Http(..) => None,
        })
    }

    /// All sites, one that has several hosts as often.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Site>> {
        self.exact.values().chain(self.under.values()).chain(&self.any)
    }

    /// The site for a host as it stood in a request.
    pub(crate) fn find(&self, host: &str) -> Option<&Arc<Site>> {
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
                index: number.to_string(),
                headers: Headers::default(),
            })
            .collect();
        SiteTable::open(&sites, None, None).unwrap()
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
    fn a_host_that_nobody_answers_for_has_no_site() {
        assert_eq!(found(&table(&[&[HostPattern::Exact("a.test".into())]]), "b.test"), None);
    }

    #[test]
    fn ipv6_hosts_match_in_any_spelling() {
        let table = table(&[&[HostPattern::Exact("::1".into())]]);
        assert_eq!(found(&table, "[0:0::1]").as_deref(), Some("0"));
    }
}
