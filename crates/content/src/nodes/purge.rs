//! Purging by URL, prefix and tag.

use std::fmt;

use penstock_cache::purge::{NotKept, Pattern, Scope};
use penstock_http::uri::{normalise, normalise_target};

use crate::clock::Clock;
use crate::clock::Moment;
use crate::site::{HttpSite, rewritten_path, rewritten_prefix, split_target};
use crate::site_table::{RoutedSite, Site, SiteOrigin, SiteTable};
use crate::store::Store;

/// A purge, as an operator orders it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeOrder {
    /// The objects.
    pub what: PurgeWhat,
    /// Whether the objects only become stale: they may then be used while a newer version is fetched (RFC 5861).
    pub soft: bool,
}

/// The objects of a purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurgeWhat {
    /// The object at this URL; a path alone is that path on every site.
    Url(String),
    /// All objects whose URL begins so.
    Prefix(String),
    /// All objects with this tag, on every site.
    Tag(String),
    /// The whole cache.
    Everything,
}

/// The other nodes of the cluster after a purge, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PurgedNodes {
    /// Those in which it is in force.
    pub confirmed: Vec<String>,
    /// Those that did not say so in time. They may have the objects, and give them to clients and other nodes.
    pub missing: Vec<String>,
}

/// The result of a purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purged {
    /// Matching objects in the index. Objects of an earlier process are compared with the purge when they are looked up.
    pub objects: usize,
    /// The other nodes of the cluster; `None` without a cluster.
    pub cluster: Option<PurgedNodes>,
}

/// Why a purge was not done.
#[derive(Debug)]
pub enum PurgeFailure {
    /// The order is not valid; with what to write instead.
    Wrong(String),
    /// It is in force until this process ends, and could not be stored for the next.
    NotKept(NotKept),
}

impl fmt::Display for PurgeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(what) => f.write_str(what),
            Self::NotKept(error) => {
                write!(f, "the purge is in force, but only until the next start: {error}")
            }
        }
    }
}

impl std::error::Error for PurgeFailure {}

impl Store {
    /// Purges for all workers and for good. Blocks until the purge is written to the tiers.
    ///
    /// # Errors
    /// See [`PurgeFailure`].
    pub fn purge(&self, order: &PurgeOrder, sites: &SiteTable) -> Result<Purged, PurgeFailure> {
        let clock = Clock::system();
        self.purge_at(order, sites, (clock.now(), clock.wall()))
    }

    /// [`Self::purge`] at this time.
    pub(crate) fn purge_at(
        &self,
        order: &PurgeOrder,
        sites: &SiteTable,
        now: Moment,
    ) -> Result<Purged, PurgeFailure> {
        let mut objects = 0;
        for pattern in patterns(&order.what, sites).map_err(PurgeFailure::Wrong)? {
            objects += self.purge_pattern(&pattern, order.soft, now)?.objects;
        }
        Ok(Purged { objects, cluster: None })
    }

    /// Purges what a pattern selects.
    ///
    /// # Errors
    /// [`PurgeFailure::NotKept`].
    pub(crate) fn purge_pattern(
        &self,
        pattern: &Pattern,
        soft: bool,
        now: Moment,
    ) -> Result<Purged, PurgeFailure> {
        let kept = self.purges.add(pattern.clone(), soft, now.1);
        let mut objects = 0;
        self.index.for_each(|object| {
            if pattern.matches(object.description().subject()) {
                objects += 1;
            }
            self.drop_if_purged(object, now.0);
        });
        kept.map_err(PurgeFailure::NotKept)?;
        Ok(Purged { objects, cluster: None })
    }
}

/// The objects of a purge, by the names that they have in the cache. A URL has several if several routes could answer it.
pub(crate) fn patterns(what: &PurgeWhat, sites: &SiteTable) -> Result<Vec<Pattern>, String> {
    let (url, is_prefix) = match what {
        PurgeWhat::Tag(tag) if tag.is_empty() || tag.contains([' ', ',']) => {
            return Err(format!("`{tag}` is not one tag: purge several one by one"));
        }
        PurgeWhat::Tag(tag) => return Ok(vec![Pattern { place: None, scope: Scope::Tag(tag.clone()) }]),
        PurgeWhat::Everything => return Ok(vec![Pattern { place: None, scope: Scope::Everything }]),
        PurgeWhat::Url(url) => (url, false),
        PurgeWhat::Prefix(url) => (url, true),
    };
    let (host, target) = split(url)?;
    // The normal form, in which requests are looked up. A prefix may end within a segment.
    let target = target.split('#').next().unwrap_or(target);
    let target = if is_prefix { normalise(target) } else { normalise_target(target) };
    let target = &*target;
    let Some(host) = host else {
        let scope = if is_prefix { Scope::Prefix(target.to_owned()) } else { Scope::Name(target.to_owned()) };
        return Ok(vec![Pattern { place: None, scope }]);
    };
    let (path, query) = split_target(target);
    let found: Vec<&Site> = match is_prefix {
        true => sites.of_host(host).flat_map(RoutedSite::all).collect(),
        false => sites.of_host(host).flat_map(|site| site.possible(path)).collect(),
    };
    let mut patterns = Vec::new();
    for (site, http) in found.iter().filter_map(|site| Some((site, cached(site)?))) {
        let scope = match (is_prefix, &site.rewrite) {
            (true, None) => Scope::Prefix(target.to_owned()),
            (true, Some(rewrite)) => match rewritten_prefix(rewrite, target) {
                Some(prefix) => Scope::Prefix(prefix),
                None => continue,
            },
            (false, None) => Scope::Name(http.target(path, query).into_owned()),
            (false, Some(rewrite)) => {
                Scope::Name(http.target(&rewritten_path(rewrite, path), query).into_owned())
            }
        };
        let pattern = Pattern { place: Some(http.name.clone()), scope };
        if !patterns.contains(&pattern) {
            patterns.push(pattern);
        }
    }
    if patterns.is_empty() { Err(without_objects(host, &found)) } else { Ok(patterns) }
}

/// The origin whose responses are cached.
fn cached(site: &Site) -> Option<&HttpSite> {
    match &site.origin {
        SiteOrigin::Http(http, _) => Some(http),
        _ => None,
    }
}

/// Why there is nothing to purge.
fn without_objects(host: &str, found: &[&Site]) -> String {
    match found.first().map(|site| &site.origin) {
        None => format!("no site answers to {host}"),
        Some(SiteOrigin::Directory(_)) => {
            format!("the site of {host} serves a directory of files, which are not cached")
        }
        Some(SiteOrigin::Relayed(_)) => format!("the site of {host} relays without the cache"),
        Some(_) => format!("the site of {host} has no objects there"),
    }
}

/// The host, if there is one, and the rest of the URL.
pub(crate) fn split(url: &str) -> Result<(Option<&str>, &str), String> {
    let wrong = || {
        format!("`{url}` is not a URL: write one such as https://video.example.com/vod/film.mp4, or its path")
    };
    if url.bytes().any(|byte| byte.is_ascii_control() || byte == b' ') {
        return Err(wrong());
    }
    if url.starts_with('/') {
        return Ok((None, url));
    }
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).ok_or_else(wrong)?;
    let (authority, target) = rest.split_at(rest.find('/').ok_or_else(wrong)?);
    let port = authority.rfind(':').filter(|colon| !authority[*colon..].contains(']'));
    Ok((Some(&authority[..port.unwrap_or(authority.len())]), target))
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn urls_are_split_into_host_and_target() {
        assert_eq!(split("https://a.test/b?c"), Ok((Some("a.test"), "/b?c")));
        assert_eq!(split("http://a.test:8443/"), Ok((Some("a.test"), "/")));
        assert_eq!(split("http://[::1]:80/x"), Ok((Some("[::1]"), "/x")));
        assert_eq!(split("http://[::1]/x"), Ok((Some("[::1]"), "/x")));
        assert_eq!(split("/x"), Ok((None, "/x")));
        for wrong in ["", "x", "a.test/b", "https://a.test", "ftp://a/b", "/a b", "/a\n"] {
            assert!(split(wrong).is_err(), "{wrong}");
        }
    }
}
