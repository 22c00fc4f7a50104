//! Which site answers which host, and which route of it which request.

mod listener_rules;
mod opened;

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::sync::Arc;

use penstock_config::{HostPattern, RouteMatcher, TitlePatterns};
use penstock_http::Request;
use penstock_origin::http::HttpOrigin;
use penstock_sys::root::RootError;

use crate::peers::Peers;
use crate::site::{
    AmbiguousPath, HttpSite, Rates, RouteMatchers, TokenVerifier, VerifiedPasswords, split_path,
};
use crate::store::Store;
pub use listener_rules::ListenerRules;
use opened::{Opened, Siblings};
pub use opened::{RouteNumber, Site, SiteNumber, SiteOrigin};

/// The site of some hosts, with its routes.
#[derive(Debug)]
pub(crate) struct RoutedSite {
    /// The first host, as configured.
    name: String,
    matchers: RouteMatchers,
    /// By number.
    routes: Vec<Site>,
    /// The paths of the routes, as configured.
    paths: Vec<String>,
    /// Answers what no route matches.
    default: Site,
}

impl RoutedSite {
    /// The route of a request, or the site itself if none matches.
    ///
    /// # Errors
    /// See [`RouteMatchers::find`].
    pub(crate) fn route(&self, request: &Request<'_>) -> Result<&Site, AmbiguousPath> {
        if self.matchers.is_empty() {
            return Ok(&self.default);
        }
        // A token in front of the path is no part of it.
        let of_path = |path| Ok(self.numbered(self.matchers.find(request, path)?));
        let takes =
            |site: &Site, name| site.tokens.as_ref().and_then(TokenVerifier::path_parameter) == Some(name);
        let Some((parameter, path)) = self.split_token(request.raw_path()) else {
            return of_path(request.raw_path());
        };
        let site = of_path(path)?;
        if takes(site, parameter) {
            return Ok(site);
        }
        match of_path(request.raw_path())? {
            // It would take the token away, and serve what another route is for.
            other if takes(other, parameter) => Err(AmbiguousPath),
            other => Ok(other),
        }
    }

    /// The site, or one of its routes.
    fn part(&self, route: Option<RouteNumber>) -> &Site {
        self.numbered(route.map(|RouteNumber(number)| number))
    }

    /// The sites that could answer requests for a path.
    pub(crate) fn possible(&self, path: &str) -> impl Iterator<Item = &Site> {
        let possible = self.matchers.possible(path);
        possible.into_iter().map(|number| &self.routes[number]).chain([&self.default])
    }

    /// The site and all of its routes.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Site> {
        self.routes.iter().chain([&self.default])
    }

    fn numbered(&self, number: Option<usize>) -> &Site {
        number.and_then(|number| self.routes.get(number)).unwrap_or(&self.default)
    }

    /// The parameter of a token in front of a path, and the path behind it.
    fn split_token<'p>(&self, path: &'p str) -> Option<(&str, &'p str)> {
        self.all().find_map(|site| {
            let parameter = site.tokens.as_ref()?.path_parameter()?;
            Some((parameter, split_path(path, parameter)?.1))
        })
    }
}

/// The sites of one listener, by host: places in the list of sites. More exact patterns win.
#[derive(Clone, Debug, Default)]
struct Hosts {
    exact: HashMap<String, usize>,
    /// By the domain behind `*.`.
    under: HashMap<String, usize>,
    any: Option<usize>,
}

impl Hosts {
    fn add(&mut self, pattern: &HostPattern, site: usize) {
        match pattern {
            HostPattern::Exact(name) => drop(self.exact.insert(name.clone(), site)),
            HostPattern::Under(domain) => drop(self.under.insert(domain.clone(), site)),
            HostPattern::Any => self.any = Some(site),
        }
    }

    fn find(&self, host: &str) -> Option<usize> {
        if self.exact.is_empty() && self.under.is_empty() {
            return self.any;
        }
        let name = canonical(host);
        let under = || self.under.get(name.split_once('.')?.1);
        self.exact.get(&*name).or_else(under).copied().or(self.any)
    }
}

/// All sites by host.
#[derive(Debug, Default)]
pub struct SiteTable {
    /// By number.
    sites: Vec<RoutedSite>,
    /// Sites of listeners that no site names.
    hosts: Hosts,
    /// Sites of listeners that a site names, by the name of the listener.
    on_listeners: HashMap<String, Hosts>,
    /// What other nodes of the cluster share, by the identity of the objects.
    shared: HashMap<String, (Arc<HttpSite>, Arc<Store>)>,
    /// Rates of requests to all sites.
    rates: Arc<Rates>,
    /// Passwords of the users of all sites.
    passwords: Arc<VerifiedPasswords>,
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
        let named = sites.iter().flat_map(|site| site.listeners.iter().flatten());
        table.on_listeners.extend(named.map(|name| (name.clone(), Hosts::default())));
        let mut opened = Opened {
            directories: previous.into_iter().flat_map(Self::directories).cloned().collect(),
            origins: previous.into_iter().flat_map(Self::origins).cloned().collect(),
            by_path: HashMap::new(),
            maintenances: HashMap::new(),
            rates: Arc::clone(&table.rates),
            passwords: Arc::clone(&table.passwords),
            store,
            peers,
        };
        for raw in sites {
            let Some(site) = routed(raw, SiteNumber(table.sites.len()), &mut opened)? else { continue };
            for one in site.all() {
                if let SiteOrigin::Http(http, store) = &one.origin
                    && let Some(sharing) = &http.sharing
                {
                    let shared = || (Arc::clone(http), Arc::clone(store));
                    table.shared.entry(sharing.identity.clone()).or_insert_with(shared);
                }
            }
            let place = table.sites.len();
            for host in &raw.hosts {
                match &raw.listeners {
                    None => {
                        let all = table.on_listeners.values_mut().chain([&mut table.hosts]);
                        all.for_each(|hosts| hosts.add(host, place));
                    }
                    Some(names) => {
                        let hosts = table.on_listeners.iter_mut().filter(|(name, _)| names.contains(name));
                        hosts.for_each(|(_, hosts)| hosts.add(host, place));
                    }
                }
            }
            table.sites.push(site);
        }
        Ok(table)
    }

    /// The first host of a site, as configured. Empty for a number of another table.
    pub fn name(&self, number: SiteNumber) -> &str {
        self.sites.get(number.0).map_or("", |site| &site.name)
    }

    /// The first hosts of all sites, as configured, by number.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.sites.iter().map(|site| &*site.name)
    }

    /// The path of a request without the token in front of it.
    pub fn without_token<'p>(&self, site: SiteNumber, route: Option<RouteNumber>, path: &'p str) -> &'p str {
        let verifier = self.sites.get(site.index()).and_then(|site| site.part(route).tokens.as_ref());
        let parameter = verifier.and_then(TokenVerifier::path_parameter);
        parameter.and_then(|name| split_path(path, name)).map_or(path, |(_, rest)| rest)
    }

    /// The paths of a site, or of one of its routes, that have a segment which names a title; `None` is the default.
    pub fn title_patterns(&self, site: SiteNumber, route: Option<RouteNumber>) -> Option<&TitlePatterns> {
        self.sites.get(site.index())?.part(route).title_patterns.as_ref()
    }

    /// A target or a URL of a request as logs show it: without the token that opens it.
    pub fn hide_tokens<'t>(
        &self,
        site: Option<SiteNumber>,
        route: Option<RouteNumber>,
        text: &'t str,
    ) -> Cow<'t, str> {
        let site = site.and_then(|number| self.sites.get(number.index()));
        let verifier = site.and_then(|site| site.part(route).tokens.as_ref());
        verifier.map_or(Cow::Borrowed(text), |verifier| verifier.hide(text))
    }

    /// The path of a route of a site, as configured. Empty for numbers of another table.
    pub fn path(&self, site: SiteNumber, route: RouteNumber) -> &str {
        let path = self.sites.get(site.0).and_then(|site| site.paths.get(route.0));
        path.map_or("", String::as_str)
    }

    /// Whether a site, or a route of it, tells players what the network says of their connection.
    pub fn tells_path(&self, site: SiteNumber, route: Option<RouteNumber>) -> bool {
        self.sites.get(site.0).is_some_and(|site| site.numbered(route.map(|route| route.0)).cmsd)
    }

    /// The origins of all sites, each once.
    pub fn origins(&self) -> impl Iterator<Item = &Arc<HttpOrigin>> {
        let mut seen = Vec::new();
        let all = self.all_origins().map(|(_, origin)| origin);
        all.filter(move |origin| is_new(&mut seen, Arc::as_ptr(origin)))
    }

    /// The origins of each site, with the name of the site. Sites may share one.
    pub fn origins_by_site(&self) -> impl Iterator<Item = (&str, &Arc<HttpOrigin>)> {
        let mut seen = Vec::new();
        self.all_origins().filter(move |(name, origin)| is_new(&mut seen, (Arc::as_ptr(origin), *name)))
    }

    fn all_origins(&self) -> impl Iterator<Item = (&str, &Arc<HttpOrigin>)> {
        let all = self.sites.iter().flat_map(|routed| routed.all().map(|site| (&*routed.name, site)));
        all.filter_map(|(name, site)| Some((name, site.http()?.origin())))
    }

    fn directories(&self) -> impl Iterator<Item = &penstock_origin::directory::Directory> {
        self.sites.iter().flat_map(RoutedSite::all).filter_map(|site| match &site.origin {
            SiteOrigin::Directory(directory) => Some(directory),
            _ => None,
        })
    }

    /// The site whose objects other nodes name by this identity.
    pub(crate) fn find_shared(&self, identity: &str) -> Option<(&Arc<HttpSite>, &Arc<Store>)> {
        self.shared.get(identity).map(|(site, store)| (site, store))
    }

    /// The site for the host of a request over a listener of this name.
    pub(crate) fn find(&self, host: &str, listener: Option<&str>) -> Option<&RoutedSite> {
        let hosts = listener.and_then(|name| self.on_listeners.get(name)).unwrap_or(&self.hosts);
        self.sites.get(hosts.find(host)?)
    }

    /// The sites for a host, on any listener.
    pub(crate) fn of_host(&self, host: &str) -> impl Iterator<Item = &RoutedSite> {
        let places = self.on_listeners.values().chain([&self.hosts]).filter_map(|hosts| hosts.find(host));
        let mut places: Vec<usize> = places.collect();
        places.sort_unstable();
        places.dedup();
        places.into_iter().map(|place| &self.sites[place])
    }
}

/// Whether it is not among those that were seen, to which it is added.
fn is_new<T: PartialEq>(seen: &mut Vec<T>, one: T) -> bool {
    let is_new = !seen.contains(&one);
    seen.extend(is_new.then_some(one));
    is_new
}

/// A site with its routes; `None` if it is cached and there is no store.
fn routed(
    raw: &penstock_config::Site,
    number: SiteNumber,
    opened: &mut Opened<'_>,
) -> Result<Option<RoutedSite>, RootError> {
    let name = raw.hosts.first().map(ToString::to_string).unwrap_or_default();
    let mut siblings = Siblings::of(&name);
    let Some(default) = opened.open(&raw.settings, (number, None), &mut siblings)? else { return Ok(None) };
    let mut routes = Vec::new();
    for (place, route) in raw.routes.iter().enumerate() {
        let numbers = (number, Some(RouteNumber(place)));
        let Some(site) = opened.open(&route.settings, numbers, &mut siblings)? else { return Ok(None) };
        routes.push(site);
    }
    let matchers: Vec<RouteMatcher> = raw.routes.iter().map(|route| route.matcher.clone()).collect();
    Ok(Some(RoutedSite {
        name,
        paths: matchers.iter().map(|matcher| matcher.path.to_string()).collect(),
        matchers: RouteMatchers::new(matchers),
        routes,
        default,
    }))
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
    use penstock_config::{Origin, SiteSettings};

    fn table(patterns: &[&[HostPattern]]) -> SiteTable {
        let sites: Vec<_> = patterns
            .iter()
            .enumerate()
            .map(|(number, hosts)| penstock_config::Site {
                hosts: hosts.to_vec(),
                listeners: None,
                routes: Vec::new(),
                settings: SiteSettings {
                    index: number.to_string(),
                    ..SiteSettings::new(Origin::Directory(std::env::temp_dir()))
                },
            })
            .collect();
        SiteTable::open(&sites, None, None, None).unwrap()
    }

    fn found(table: &SiteTable, host: &str) -> Option<String> {
        table.find(host, None).map(|site| site.default.index.clone())
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
