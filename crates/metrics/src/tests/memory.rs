//! The memory that docs/numbers.md states.

use std::fmt::Display;

use crate::labels::ClientKind;
use crate::players::PlayerCounters;
use crate::shard::SiteCounters;
use crate::{Asked, ClientMarks, Metrics, PlayerSaid, limits, viewers};

const DOCS: &str = include_str!("../../../../docs/numbers.md");

/// What the allocator has in front of a text that is shared: two counts.
const SHARED_TEXT: usize = 2 * size_of::<usize>();

/// The longest name of a host (RFC 1035 section 2.3.4).
const SITE_BYTES: usize = 253;

fn kib(bytes: usize) -> String {
    format!("{:.1} KiB", bytes as f64 / 1024.0)
}

#[test]
fn docs_numbers_md_states_the_memory_of_counters() {
    let sites = kib(size_of::<SiteCounters>());
    let mut rows = vec![
        format!("| a site that has had a request | {sites}, for at most 1,024 sites |"),
        format!("| a site whose players send CMCD | {} more |", kib(size_of::<PlayerCounters>())),
        format!(
            "| a site with measured viewers, and `metrics.rates` | {} more, and {} for each rate |",
            kib(viewers::bytes(0)),
            kib(viewers::bytes(1) - viewers::bytes(0))
        ),
    ];
    let (own, keys) = (tables_filled(), keys_of_tables());
    rows.push(format!(
        "| the six tables | {:.1} MiB at most, of which {:.1} MiB are the longest keys |",
        (own + keys) as f64 / f64::from(1 << 20),
        keys as f64 / f64::from(1 << 20),
    ));
    rows.retain(|row| !DOCS.contains(row));
    assert!(rows.is_empty(), "docs/numbers.md lacks:\n{}", rows.join("\n"));
}

/// The bytes of full tables without those of keys.
fn tables_filled() -> usize {
    let metrics = Metrics::new(1);
    let shard = metrics.shard(0);
    let said = PlayerSaid {
        session: None,
        buffer: None,
        starved: true,
        startup: false,
        malformed: false,
        throughput: None,
    };
    for number in 0..20 * limits::TOP_ENTRIES {
        let (text, key) = (format!("/{number}"), number as u64);
        shard.asked(&Asked {
            site: "a",
            title: &text,
            player: Some(&said),
            refused_path: Some(&text),
            network: Some((key, &text as &dyn Display)),
            client: ClientMarks { user_agent: Some(&text), ja4: None, table: 0, kind: &|| ClientKind::Other },
            bytes: 1,
        });
    }
    shard.top.bytes()
}

/// The bytes of the longest keys: three tables of titles and one of paths with the name of a site, one of networks, and one of
/// `User-Agent`.
fn keys_of_tables() -> usize {
    let of_site = SHARED_TEXT + SITE_BYTES + " ".len() + limits::TOP_KEY_BYTES;
    let network = SHARED_TEXT + "2001:db8:ffff:ff00::/56".len();
    limits::TOP_ENTRIES * (4 * of_site + network + SHARED_TEXT + limits::TOP_KEY_BYTES)
}
