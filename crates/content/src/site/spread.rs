//! Which server gets which request, so that the same requests go to the same server.

use penstock_cluster::{Key, Load, LoadLimits, Node, Ring, first_below_bound};
use penstock_config::{OriginServer, SpreadBy, limits};
use penstock_http::Request;
use penstock_sys::digest::sha256;

const LOAD: LoadLimits = LoadLimits {
    percent_of_share: limits::SPREAD_LOAD_PERCENT,
    always: Load { requests: limits::SPREAD_LOAD_ALWAYS, connections: 0, busy: 0 },
};

/// The servers of a site, by rendezvous hashing with their weights. Other proxies with the same servers choose alike.
#[derive(Debug)]
pub(crate) struct Spread {
    by: SpreadBy,
    ring: Ring,
}

impl Spread {
    /// Backups, which come last in `servers`, are chosen by no request.
    pub(crate) fn new(by: SpreadBy, servers: &[OriginServer]) -> Self {
        let own = servers.iter().filter(|server| !server.is_backup);
        let nodes = own.map(|server| Node::new(server.url.to_string(), server.weight));
        Self { by, ring: Ring::new(nodes) }
    }

    /// The place of the server that a cached target is fetched from.
    pub(crate) fn server_of(&self, target: &str) -> Option<usize> {
        let text = match self.by {
            SpreadBy::Url => target,
            SpreadBy::Path | SpreadBy::Host => target.split('?').next().unwrap_or_default(),
        };
        self.ring.rank(&key_of(&[text.as_bytes()]), 0).first().copied()
    }

    /// What the server of a request is chosen by.
    pub(crate) fn key(&self, request: &Request<'_>) -> Key {
        match self.by {
            SpreadBy::Path => key_of(&[request.raw_path().as_bytes()]),
            SpreadBy::Host => key_of(&[request.host().to_ascii_lowercase().as_bytes()]),
            SpreadBy::Url => {
                let query = request.query();
                let separator: &[u8] = if query.is_some() { b"?" } else { b"" };
                key_of(&[request.raw_path().as_bytes(), separator, query.unwrap_or_default().as_bytes()])
            }
        }
    }

    /// The places of the servers for a key, best first, given the responses that each is sending; `None` for a server that
    /// is out. One that has more than its share stands behind the others.
    pub(crate) fn order(&self, key: &Key, loads: &[Option<u64>]) -> Vec<usize> {
        let mut rank = self.ring.rank(key, 0);
        let loaded = |(load, node): (&Option<u64>, &Node)| {
            load.map(|requests| (node.weight, Load { requests, ..Load::default() }))
        };
        let loads: Vec<_> = loads.iter().zip(self.ring.nodes()).map(loaded).collect();
        if let Some(first) = first_below_bound(&rank, &loads, LOAD) {
            rank[..=first].rotate_right(1);
        }
        rank
    }
}

fn key_of(pieces: &[&[u8]]) -> Key {
    let mut key = Key::default();
    key.copy_from_slice(&sha256(pieces)[..16]);
    key
}

#[cfg(test)]
mod tests {
    use penstock_http::{HeadLimits, OriginUrl};

    use super::*;

    fn servers(weights: &[u32]) -> Vec<OriginServer> {
        let server = |(number, weight): (usize, &u32)| OriginServer {
            url: OriginUrl::parse(&format!("http://192.0.2.{number}:8080")).unwrap(),
            weight: *weight,
            is_backup: false,
        };
        weights.iter().enumerate().map(server).collect()
    }

    fn key(by: SpreadBy, host: &str, target: &str) -> Key {
        let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let limits = HeadLimits { head_bytes: 4096, fields: 10, target_bytes: 1024 };
        let request = Request::parse(head.as_bytes(), &limits).unwrap();
        Spread::new(by, &servers(&[1])).key(&request)
    }

    #[test]
    fn a_request_is_known_by_what_the_site_says() {
        let same = |by, (host, target), (other, and)| key(by, host, target) == key(by, other, and);
        let (first, query, host) = (("a.example", "/x"), ("a.example", "/x?q"), ("B.example", "/x"));
        assert!(!same(SpreadBy::Url, first, query) && same(SpreadBy::Url, first, host));
        assert!(same(SpreadBy::Path, first, query) && !same(SpreadBy::Path, first, ("a.example", "/y")));
        assert!(same(SpreadBy::Host, first, query) && !same(SpreadBy::Host, first, host));
        assert!(same(SpreadBy::Host, host, ("b.example", "/y")));
    }

    #[test]
    fn a_server_that_is_out_leaves_its_share_to_the_next_and_moves_no_other() {
        let spread = Spread::new(SpreadBy::Url, &servers(&[1, 1, 1, 1]));
        let all = [Some(0); 4];
        let mut without = all;
        without[2] = None;
        let mut moved = 0;
        for number in 0..2000 {
            let key = key(SpreadBy::Url, "a", &format!("/{number}"));
            let (before, after) = (spread.order(&key, &all), spread.order(&key, &without));
            if before[0] == 2 {
                moved += 1;
                assert_eq!(after[0], before[1]);
            } else {
                assert_eq!(after, before);
            }
        }
        assert!((400..600).contains(&moved), "{moved}");
    }

    #[test]
    fn a_server_over_its_share_sheds_and_weights_count() {
        let spread = Spread::new(SpreadBy::Url, &servers(&[3, 1]));
        let first = |loads: [u64; 2]| {
            let keys = (0..400).map(|number| key(SpreadBy::Url, "a", &format!("/{number}")));
            keys.filter(|key| spread.order(key, &loads.map(Some))[0] == 0).count()
        };
        assert!((270..330).contains(&first([0, 0])), "{}", first([0, 0]));
        assert!((270..330).contains(&first([3000, 1000])), "each has its share");
        assert_eq!((first([9900, 100]), first([3000, 9000])), (0, 400));
    }
}
