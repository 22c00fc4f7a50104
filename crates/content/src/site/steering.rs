//! Content steering: which pathway players should use, by the state of the nodes that serve it (RFC 8216bis §7, ETSI TS
//! 103 998).

use std::sync::Arc;

use penstock_config::{Pathway, limits};
use penstock_http::cmcd;

use crate::peers::{PeerStatus, Peers};

/// The steering manifest of a site.
#[derive(Debug)]
pub(crate) struct Steering {
    rules: penstock_config::Steering,
    peers: Option<Arc<Peers>>,
}

/// How well a pathway serves, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Good,
    /// Its workers have no time left.
    Hot,
    /// It will stop soon.
    Leaving,
    /// It does not answer, or is no node of the cluster any more.
    Out,
}

impl Standing {
    fn of(node: &PeerStatus) -> Self {
        match node {
            PeerStatus { up: false, .. } => Self::Out,
            PeerStatus { leaving: true, .. } => Self::Leaving,
            PeerStatus { load, .. } if load.busy > limits::STEERING_BUSY_THOUSANDTHS => Self::Hot,
            PeerStatus { .. } => Self::Good,
        }
    }
}

impl Steering {
    pub(crate) fn new(rules: &penstock_config::Steering, peers: Option<&Arc<Peers>>) -> Self {
        Self { rules: rules.clone(), peers: peers.cloned() }
    }

    /// The manifest for a request with this path and query; `None` for a request for anything else.
    pub(crate) fn manifest(&self, path: &str, query: Option<&str>) -> Option<String> {
        if !self.rules.is_at(path) {
            return None;
        }
        let nodes = self.peers.as_ref().map_or_else(Vec::new, |peers| peers.status());
        let ids = order(&self.rules.pathways, &nodes);
        let ids: Vec<String> = ids.into_iter().map(quoted).collect();
        Some(format!(
            "{{\"VERSION\":1,\"TTL\":{},\"RELOAD-URI\":{},\"PATHWAY-PRIORITY\":[{}]}}\n",
            self.rules.ttl.as_secs(),
            quoted(&reload_uri(path, query)),
            ids.join(",")
        ))
    }
}

/// The IDs of pathways, those whose nodes do better first; without `pathways` those of all nodes.
fn order<'p>(pathways: &'p [Pathway], nodes: &'p [PeerStatus]) -> Vec<&'p str> {
    let node = |name: &str| nodes.iter().find(|node| node.name == name).map(Standing::of);
    let mut ranked: Vec<(Standing, &str)> = if pathways.is_empty() {
        nodes.iter().map(|node| (Standing::of(node), &*node.name)).collect()
    } else {
        let standing = |pathway: &Pathway| match &pathway.nodes[..] {
            // A pathway that is no node is somewhere else: nothing is known of it.
            [] => node(&pathway.id.to_ascii_lowercase()).unwrap_or(Standing::Good),
            names => names.iter().filter_map(|name| node(name)).min().unwrap_or(Standing::Out),
        };
        pathways.iter().map(|pathway| (standing(pathway), &*pathway.id)).collect()
    };
    // Stable: the order of the configuration is the preference among equals.
    ranked.sort_by_key(|(standing, _)| *standing);
    ranked.into_iter().map(|(_, id)| id).collect()
}

/// Where the player asks the next time: here, with what is not about the playback of this moment.
fn reload_uri(path: &str, query: Option<&str>) -> String {
    let lasts = |parameter: &&str| {
        let name = parameter.split('=').next().unwrap_or_default();
        !name.is_empty()
            && !name.starts_with("_HLS_")
            && !name.starts_with("_DASH_")
            && name != cmcd::PARAMETER
    };
    let kept: Vec<&str> = query.into_iter().flat_map(|query| query.split('&')).filter(lasts).collect();
    if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) }
}

/// A string of JSON. Nothing in it has a control character.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use penstock_cluster::Load;

    use super::*;

    fn node(name: &str, up: bool, leaving: bool, busy: u64) -> PeerStatus {
        PeerStatus {
            name: name.to_owned(),
            own: false,
            weight: 1,
            up,
            leaving,
            load: Load { requests: 0, connections: 0, busy },
            fault: String::new(),
            purges_missed: 0,
            requests: Default::default(),
        }
    }

    fn pathway(id: &str, nodes: &[&str]) -> Pathway {
        Pathway { id: id.to_owned(), nodes: nodes.iter().map(|name| (*name).to_owned()).collect() }
    }

    #[test]
    fn pathways_follow_the_state_of_their_nodes_and_then_the_configuration() {
        let nodes = [
            node("a", true, true, 0),
            node("b", false, false, 0),
            node("c", true, false, 950),
            node("d", true, false, 900),
        ];
        assert_eq!(order(&[], &nodes), ["d", "c", "a", "b"], "each node is one");
        let by_id = ["B", "A", "C", "D", "elsewhere"].map(|id| pathway(id, &[]));
        assert_eq!(order(&by_id, &nodes), ["D", "elsewhere", "C", "A", "B"]);
        let several = [
            pathway("1", &["b"]),
            pathway("2", &["a", "b"]),
            pathway("3", &["a", "d"]),
            pathway("4", &["gone"]),
        ];
        assert_eq!(order(&several, &nodes), ["3", "2", "1", "4"], "the best node of each");
        assert_eq!(order(&several, &[]), ["1", "2", "3", "4"], "without a cluster");
    }

    #[test]
    fn the_manifest_is_json_and_leads_back_here_without_the_state_of_the_player() {
        let rules = penstock_config::Steering {
            hls: Some("/hls.json".to_owned()),
            dash: Some("/dash.json".to_owned()),
            ttl: Duration::from_secs(30),
            pathways: vec![pathway("A", &[]), pathway("B", &[])],
        };
        let steering = Steering::new(&rules, None);
        for (path, query, reload) in [
            ("/hls.json", None, "/hls.json"),
            ("/hls.json", Some("_HLS_pathway=A&_HLS_throughput=9"), "/hls.json"),
            ("/dash.json", Some("_DASH_pathway=%22A%22&s=\"1\"&CMCD=bs&t=2"), "/dash.json?s=\\\"1\\\"&t=2"),
        ] {
            let expected = format!(
                "{{\"VERSION\":1,\"TTL\":30,\"RELOAD-URI\":\"{reload}\",\"PATHWAY-PRIORITY\":[\"A\",\"B\"]}}\n"
            );
            assert_eq!(steering.manifest(path, query), Some(expected), "{path} {query:?}");
        }
        assert_eq!(steering.manifest("/hls.json/", None), None);
    }
}
