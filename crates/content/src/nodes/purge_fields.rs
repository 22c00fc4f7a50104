//! Orders to purge as fields of a request of one node to another.

use penstock_cache::purge::{Pattern, PurgeTarget};
use penstock_config::limits;
use penstock_http::Request;

use crate::peers::MissingNodes;
use crate::peers::peer_fields as fields;

/// The one value of a field.
pub(super) fn value<'r>(request: &Request<'r>, name: &str) -> Option<&'r [u8]> {
    let mut values = request.values(name);
    let first = values.next()?;
    values.next().is_none().then_some(first)
}

const SOFT: &str = "; soft";

/// The fields of a request that orders a purge.
pub(super) fn purge_fields(pattern: &Pattern, soft: bool) -> Vec<(&'static str, String)> {
    let (kind, value) = (pattern.target.kind().label(), pattern.target.text());
    let mode = if soft { SOFT } else { "" };
    let site = pattern.place.as_ref().map(|place| (fields::PURGE_SITE, fields::escape(place.as_bytes())));
    [(fields::PURGE, format!("{kind}{mode}")), (fields::PURGE_VALUE, fields::escape(value.as_bytes()))]
        .into_iter()
        .chain(site)
        .collect()
}

/// The nodes that have missed a purge, as text. `None` if that is too long for a field: the nodes that are asked then
/// learn it from those themselves.
pub(super) fn missing_text(missing: &MissingNodes) -> Option<String> {
    let MissingNodes { ordered, taker, nodes, settled } = missing;
    let word = if *settled { "settled" } else { "missing" };
    let nodes: Vec<String> = nodes.iter().map(|node| fields::escape(node.as_bytes())).collect();
    let text = format!("{word} {ordered} {} {}", fields::escape(taker.as_bytes()), nodes.join(","));
    (text.len() <= limits::PEER_MISSING_BYTES).then_some(text)
}

/// Reads what [`missing_text`] wrote.
pub(super) fn missing_nodes(text: &[u8]) -> Option<MissingNodes> {
    let mut words = str::from_utf8(text).ok()?.splitn(4, ' ');
    let settled = match words.next()? {
        "settled" => true,
        "missing" => false,
        _ => return None,
    };
    let ordered = words.next()?.parse().ok()?;
    let taker = fields::unescape(words.next()?.as_bytes())?;
    // A field loses the space at its end.
    let nodes = words.next().unwrap_or_default().split(',').filter(|node| !node.is_empty());
    let nodes = nodes.map(|node| fields::unescape(node.as_bytes())).collect::<Option<_>>()?;
    Some(MissingNodes { ordered, taker, nodes, settled })
}

/// Reads what [`purge_fields`] wrote.
pub(super) fn pattern(request: &Request<'_>) -> Option<(Pattern, bool)> {
    let kind = str::from_utf8(value(request, fields::PURGE)?).ok()?;
    let (kind, soft) = kind.strip_suffix(SOFT).map_or((kind, false), |kind| (kind, true));
    let text = fields::unescape(value(request, fields::PURGE_VALUE).unwrap_or_default())?;
    let target = PurgeTarget::new(kind, text)?;
    let place = match value(request, fields::PURGE_SITE) {
        Some(site) => Some(fields::unescape(site)?),
        None => None,
    };
    Some((Pattern { place, target }, soft))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_nodes_are_read_as_they_were_written() {
        for (nodes, settled) in [(vec![], true), (vec!["e 2"], false), (vec!["e2", "%3", "[::1]"], false)] {
            let nodes = nodes.into_iter().map(str::to_owned).collect();
            let told = MissingNodes { ordered: u64::MAX, taker: "edge 1".to_owned(), nodes, settled };
            let text = missing_text(&told).unwrap();
            assert_eq!(missing_nodes(text.trim_end().as_bytes()), Some(told), "{text}");
        }
        for wrong in ["", "missing", "missing x e1 e2", "lost 1 e1 e2", "missing 1 %zz e2", "settled 1"] {
            assert_eq!(missing_nodes(wrong.as_bytes()), None, "{wrong}");
        }
        let nodes = vec!["e".repeat(limits::PEER_MISSING_BYTES)];
        let long = MissingNodes { ordered: 1, taker: String::new(), nodes, settled: false };
        assert_eq!(missing_text(&long), None);
    }
}
