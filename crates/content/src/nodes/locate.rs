//! Which node of the cluster owns the object at a URL, by a configuration and the list of nodes that it names.

use std::borrow::Cow;
use std::time::Instant;

use penstock_config::{ClusterNode, Config, HostPattern, Origin};
use penstock_http::uri::normalise_target;

use crate::nodes::purge::split;
use crate::peers::Peers;
use crate::site::{HttpSite, rewritten_path, split_target};

/// The nodes that may have a byte of the object at a URL: its owner, then its substitutes.
///
/// `listed` asks the store or DNS for all nodes of the cluster; `None` if the configuration lists them.
///
/// # Errors
/// What is wrong with the URL, that its site shares no objects, or why there is no list.
pub fn locate(
    config: &Config,
    url: &str,
    byte: u64,
    listed: impl FnOnce() -> Result<Option<Vec<ClusterNode>>, String>,
) -> Result<Vec<String>, String> {
    let Some(cluster) = &config.cluster else { return Err("there is no cluster".to_owned()) };
    let (host, target) = split(url)?;
    let Some(host) = host else { return Err(format!("`{url}` has no host name: write the whole URL")) };
    let is_for = |pattern: &HostPattern| match pattern {
        HostPattern::Exact(name) => host.eq_ignore_ascii_case(name),
        HostPattern::Under(domain) => {
            host.split_once('.').is_some_and(|(_, under)| under.eq_ignore_ascii_case(domain))
        }
        HostPattern::Any => true,
    };
    let exactness = |pattern: &HostPattern| match pattern {
        HostPattern::Exact(_) => 2,
        HostPattern::Under(_) => 1,
        HostPattern::Any => 0,
    };
    let matching = config.sites.iter().filter_map(|site| {
        let best = site.hosts.iter().filter(|pattern| is_for(pattern)).map(exactness).max()?;
        Some((best, site))
    });
    let Some((_, site)) = matching.max_by_key(|(exactness, _)| *exactness) else {
        return Err(format!("no site answers to {host}"));
    };
    let target = normalise_target(target);
    let (path, query) = split_target(&target);
    // Of the route that the path selects. Conditions on other parts of a request are not known here.
    let route = site.routes.iter().find(|route| route.matcher.path.matches(path));
    let settings = route.map_or(&site.settings, |route| &route.settings);
    let path = match &settings.rewrite {
        Some(rewrite) => Cow::Owned(rewritten_path(rewrite, path)),
        None => Cow::Borrowed(path),
    };
    let origin = match &settings.origin {
        Origin::Http(origin) if origin.peers => origin,
        _ => {
            return Err(format!("the site of {host} has no peers: true, each node has its own objects"));
        }
    };
    let listed = listed()?;
    let peers = Peers::open(cluster, None, Instant::now());
    if let Some(nodes) = listed {
        peers.set_members(&nodes, Instant::now());
    }
    let http = {
        let rules = &settings.headers.request;
        HttpSite::new(origin, &settings.cache, &[], [].into_iter(), Some(&peers), rules, ("", &[]))
    };
    let route = http.route(&http.target(&path, query), byte);
    Ok(peers.rank(route))
}
