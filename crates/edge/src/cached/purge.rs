//! Purging by URL, prefix and tag.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use penstock_cache::purge::{NotKept, Pattern, PurgeLimits, Purges, Subject, Verdict, What};
use penstock_cache::{Object, TierError};
use penstock_config::limits;

use super::{Description, HttpSite, Store};
use crate::site::{SiteTable, Source};

/// What somebody wants to be rid of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeOrder {
    /// What.
    pub what: PurgeWhat,
    /// Whether it only becomes stale: it is then good while a newer one is fetched, if its origin allows that.
    pub soft: bool,
}

/// What is to be purged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurgeWhat {
    /// The object at this URL; a path alone is that path on every site.
    Url(String),
    /// All whose URL begins so.
    Prefix(String),
    /// All with this tag, on every site.
    Tag(String),
    /// All there is.
    Everything,
}

/// What was purged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purged {
    /// Objects that were known. Others that lie in the cache are recognised when somebody asks for them.
    pub objects: usize,
}

/// Why a purge cannot be.
#[derive(Debug)]
pub enum PurgeFailure {
    /// The order makes no sense; what to write instead.
    Wrong(String),
    /// It holds until this process ends, and is not written down for the next.
    NotKept(NotKept),
}

impl fmt::Display for PurgeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(what) => f.write_str(what),
            Self::NotKept(error) => write!(f, "it holds, but only until the next start: {error}"),
        }
    }
}

impl std::error::Error for PurgeFailure {}

/// Opens the list of purges in the directories of the tiers.
pub(super) fn open(directories: &[&Path]) -> Result<Arc<Purges>, TierError> {
    let limits = PurgeLimits { purges: limits::PURGES, bytes: limits::PURGES_BYTES };
    let opened = Purges::open(directories, limits, SystemTime::now());
    opened.map(Arc::new).map_err(|NotKept { path, source }| TierError::Unusable { path, source })
}

impl Store {
    /// Whether an object was purged, and is forgotten now; one that became stale by it is marked.
    pub(super) fn is_purged(&self, object: &Arc<Object<Description>>) -> bool {
        let gone = self.is_gone(object.description());
        if gone {
            self.index.forget_version(object.key(), object);
        }
        gone
    }

    /// Whether what is described was purged; what became stale by it is marked.
    pub(super) fn is_gone(&self, description: &Description) -> bool {
        let verdict = self.purges.judge(&description.judged, || description.subject());
        if verdict == Verdict::Stale {
            description.make_stale(Instant::now());
        }
        verdict == Verdict::Gone
    }

    /// Purges, for all workers and for good. Blocks until it is written down.
    pub(crate) fn purge(&self, order: &PurgeOrder, sites: &SiteTable) -> Result<Purged, PurgeFailure> {
        let pattern = pattern(&order.what, sites).map_err(PurgeFailure::Wrong)?;
        let kept = self.purges.add(pattern.clone(), order.soft, SystemTime::now());
        let mut objects = 0;
        self.index.each(|object| {
            if pattern.matches(object.description().subject()) {
                objects += 1;
            }
            self.is_purged(object);
        });
        kept.map_err(PurgeFailure::NotKept)?;
        Ok(Purged { objects })
    }
}

impl Description {
    fn subject(&self) -> Subject<'_> {
        Subject { place: &self.site.name, name: self.target(), tags: self.tags() }
    }
}

fn pattern(what: &PurgeWhat, sites: &SiteTable) -> Result<Pattern, String> {
    let (url, is_prefix) = match what {
        PurgeWhat::Tag(tag) if tag.is_empty() || tag.contains([' ', ',']) => {
            return Err(format!("`{tag}` is not one tag: purge several one by one"));
        }
        PurgeWhat::Tag(tag) => return Ok(Pattern { place: None, what: What::Tag(tag.clone()) }),
        PurgeWhat::Everything => return Ok(Pattern { place: None, what: What::Everything }),
        PurgeWhat::Url(url) => (url, false),
        PurgeWhat::Prefix(url) => (url, true),
    };
    let (host, target) = split(url)?;
    let site = host.map(|host| find(sites, host)).transpose()?;
    let target = target.split('#').next().unwrap_or(target);
    let what = match (is_prefix, site) {
        (true, _) => What::Beginning(target.to_owned()),
        (false, Some(site)) => {
            let (path, query) =
                target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
            What::Name(site.target(path, query))
        }
        (false, None) => What::Name(target.to_owned()),
    };
    Ok(Pattern { place: site.map(|site| site.name.clone()), what })
}

/// Host, if there is one, and what stands behind it.
fn split(url: &str) -> Result<(Option<&str>, &str), String> {
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

fn find<'s>(sites: &'s SiteTable, host: &str) -> Result<&'s HttpSite, String> {
    match sites.find(host).map(|site| &site.source) {
        Some(Source::Http(site, _)) => Ok(site),
        Some(Source::Directory(_)) => {
            Err(format!("the site of {host} serves a directory of files, of which nothing is cached"))
        }
        None => Err(format!("no site answers to {host}")),
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn urls_are_taken_apart() {
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
