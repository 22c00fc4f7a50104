//! Purging by URL, prefix and tag.

use std::fmt;

use penstock_cache::purge::{NotKept, Pattern, PurgeOrder, PurgeTarget};
use penstock_http::uri::{normalise, normalise_target};

use crate::clock::Clock;
use crate::clock::Moment;
use crate::site::{HttpSite, rewritten_path, rewritten_prefix, split_target};
use crate::site_table::{RoutedSite, Site, SiteOrigin, SiteTable};
use crate::store::Store;

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
        for pattern in patterns(&order.target, sites).map_err(PurgeFailure::Wrong)? {
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
            if pattern.matches(object.metadata().subject()) {
                objects += 1;
            }
            self.drop_if_purged(object, now.0);
        });
        kept.map_err(PurgeFailure::NotKept)?;
        Ok(Purged { objects, cluster: None })
    }
}

/// The objects of a purge, by the names that they have in the cache. A URL has several if several routes could answer it.
pub(crate) fn patterns(target: &PurgeTarget, sites: &SiteTable) -> Result<Vec<Pattern>, String> {
    let (url, is_prefix) = match target {
        PurgeTarget::Tag(tag) if tag.is_empty() || tag.contains([' ', ',']) => {
            return Err(format!("`{tag}` is not one tag: purge several one by one"));
        }
        PurgeTarget::Tag(tag) => {
            return Ok(vec![Pattern { place: None, target: PurgeTarget::Tag(tag.clone()) }]);
        }
        PurgeTarget::Everything => return Ok(vec![Pattern { place: None, target: PurgeTarget::Everything }]),
        PurgeTarget::Url(url) => (url, false),
        PurgeTarget::Prefix(url) => (url, true),
    };
    let (host, target) = split(url)?;
    // The normal form, in which requests are looked up. A prefix may end within a segment.
    let target = target.split('#').next().unwrap_or(target);
    let target = if is_prefix { normalise(target) } else { normalise_target(target) };
    let target = &*target;
    let Some(host) = host else {
        let purged = if is_prefix {
            PurgeTarget::Prefix(target.to_owned())
        } else {
            PurgeTarget::Url(target.to_owned())
        };
        return Ok(vec![Pattern { place: None, target: purged }]);
    };
    let (path, query) = split_target(target);
    let found: Vec<&Site> = match is_prefix {
        true => sites.of_host(host).flat_map(RoutedSite::all).collect(),
        false => sites.of_host(host).flat_map(|site| site.possible(path)).collect(),
    };
    let mut patterns = Vec::new();
    for (site, http) in found.iter().filter_map(|site| Some((site, cached(site)?))) {
        let purged = match (is_prefix, &site.rewrite) {
            (true, None) => PurgeTarget::Prefix(target.to_owned()),
            (true, Some(rewrite)) => match rewritten_prefix(rewrite, target) {
                Some(prefix) => PurgeTarget::Prefix(prefix),
                None => continue,
            },
            (false, None) => PurgeTarget::Url(http.target(path, query).into_owned()),
            (false, Some(rewrite)) => {
                PurgeTarget::Url(http.target(&rewritten_path(rewrite, path), query).into_owned())
            }
        };
        let pattern = Pattern { place: Some(http.name.clone()), target: purged };
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
