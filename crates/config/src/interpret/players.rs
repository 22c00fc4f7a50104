//! What a site does for players.

use std::time::Duration;

use serde_saphyr::Spanned;

use super::reader::Reader;
use super::unknown_keys::nearest;
use crate::limits;
use crate::model::{Cluster, ClusterSource, CmcdRules, HttpOrigin, Origin, Pathway, PlayerRules, Steering};
use crate::raw;
use crate::section::{Sections, Text, Texts, position};

/// Reads the keys for players; what is not written is that of `base`.
pub(super) fn players(
    raw: &raw::SiteSettings,
    base: PlayerRules,
    cluster: Option<&Cluster>,
    reader: &mut Reader<'_>,
) -> PlayerRules {
    let cmcd = match raw.cmcd.as_ref().map(|section| &section.value) {
        None => base.cmcd,
        Some(section) => CmcdRules {
            prefetch: reader.flag("prefetch", section.prefetch.as_ref(), base.cmcd.prefetch),
            to_origin: reader.flag("to_origin", section.to_origin.as_ref(), base.cmcd.to_origin),
        },
    };
    let cmsd = reader.flag("cmsd", raw.cmsd.as_ref(), base.cmsd);
    let steering = match &raw.steering {
        None => base.steering,
        Some(section) => steering(section, cluster, reader),
    };
    PlayerRules { cmcd, cmsd, steering }
}

/// Checks what is done with CMCD against the origin that it is done for.
pub(super) fn check_cmcd(
    section: Option<&Spanned<raw::Cmcd>>,
    rules: CmcdRules,
    origin: &Origin,
    reader: &mut Reader<'_>,
) {
    let Some(Spanned { value: raw, .. }) = section else { return };
    let http = match origin {
        Origin::Http(http) => Some(&**http),
        Origin::Directory(_) | Origin::Redirect(_) | Origin::Fixed(_) => None,
    };
    let is_cached = |http: &HttpOrigin| http.uncached.is_none();
    if let Some(text) = raw.prefetch.as_ref().filter(|_| rules.prefetch && !http.is_some_and(is_cached)) {
        let instead = "remove it: only objects of a cached HTTP origin are fetched ahead";
        reader.fault(position(text), "prefetch: there is no cache here", instead);
    }
    let has_fields = |http: &HttpOrigin| http.s3.is_none();
    if let Some(text) = raw.to_origin.as_ref().filter(|_| rules.to_origin && !http.is_some_and(has_fields)) {
        let what = "to_origin: this origin takes neither queries nor fields of clients";
        reader.fault(position(text), what, "remove it");
    }
}

fn steering(
    section: &Spanned<raw::Steering>,
    cluster: Option<&Cluster>,
    reader: &mut Reader<'_>,
) -> Option<Steering> {
    let raw = &section.value;
    if raw.hls.is_none() && raw.dash.is_none() {
        let instead = "add hls: /steering.json, dash: /steering.json or both";
        reader.fault(position(section), "steering: it has no path", instead);
        return None;
    }
    let default = Steering::new();
    let range = Duration::from_secs(1)..=Duration::from_secs(limits::STEERING_TTL_SECONDS_MAX);
    let pathways = match &raw.pathways {
        Some(list) => pathways(list, cluster, reader),
        None if cluster.is_some() => Vec::new(),
        None => {
            let instead = "add pathways: [{id: A}, {id: B}], the preferred one first";
            reader.fault(position(section), "steering: there are no pathways, and no cluster", instead);
            Vec::new()
        }
    };
    Some(Steering {
        hls: raw.hls.as_ref().and_then(|text| path("hls", text, reader)),
        dash: raw.dash.as_ref().and_then(|text| path("dash", text, reader)),
        ttl: reader.time("ttl", raw.ttl.as_ref(), &range, default.ttl),
        pathways,
    })
}

/// A path as requests have it.
fn path(key: &str, text: &Text, reader: &mut Reader<'_>) -> Option<String> {
    let path = text.value.as_str();
    let path_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let is_plain = path.len() > 1
        && path.starts_with('/')
        && path.bytes().all(path_byte)
        && !path.split('/').any(|segment| matches!(segment, "." | ".."));
    if is_plain {
        return Some(path.to_owned());
    }
    let what = format!("{key}: `{}` is not a path", path.escape_debug());
    reader.fault(position(text), what, "write a path of letters and digits, such as /steering.json");
    None
}

fn pathways(
    list: &Sections<raw::Pathway>,
    cluster: Option<&Cluster>,
    reader: &mut Reader<'_>,
) -> Vec<Pathway> {
    let (number, most) = (list.value.len(), limits::STEERING_PATHWAYS_MAX);
    if number == 0 || number > most {
        let what = format!("pathways: there are {number}");
        reader.fault(position(list), what, format!("write at least one and at most {most}"));
    }
    let mut pathways: Vec<Pathway> = Vec::new();
    for section in &list.value {
        let Some(text) = &section.value.id else {
            reader.fault(position(section), "pathways: this one has no id", "add id: A");
            continue;
        };
        let id = text.value.as_str();
        let id_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if id.is_empty() || id.len() > limits::STEERING_ID_BYTES || !id.bytes().all(id_byte) {
            let what = format!("id: `{}` cannot be a pathway ID", id.escape_debug());
            reader.fault(position(text), what, "write letters, digits, `-`, `.` and `_`");
        } else if pathways.iter().any(|known| known.id == id) {
            reader.fault(position(text), format!("id: {id} is a pathway already"), "remove one of them");
        }
        let nodes = match &section.value.nodes {
            Some(list) => nodes(list, cluster, reader),
            None => Vec::new(),
        };
        pathways.push(Pathway { id: id.to_owned(), nodes });
    }
    pathways
}

/// Names of nodes. If the configuration lists the nodes of the cluster, it has to list these.
fn nodes(list: &Texts, cluster: Option<&Cluster>, reader: &mut Reader<'_>) -> Vec<String> {
    let names = || cluster.iter().flat_map(|cluster| &cluster.nodes).map(|node| node.name.as_str());
    let is_listed = cluster.is_none_or(|cluster| cluster.source == ClusterSource::Listed);
    let mut found = Vec::new();
    for text in &list.value {
        let name = text.value.to_ascii_lowercase();
        if is_listed && !names().any(|known| known == name) {
            let what = format!("nodes: the cluster has no node `{}`", name.escape_debug());
            let instead = match nearest(&name, names()) {
                Some(near) => format!("write {near}"),
                None => "write names of cluster.nodes".to_owned(),
            };
            reader.fault(position(text), what, instead);
        }
        found.push(name);
    }
    found
}
