//! Players of `penstock load` that watch a film while a server is operated on.

use std::sync::atomic::{AtomicBool, Ordering};

use penstock_testkit::{Server, Tool};
use serde_json::Value;

/// The playlist of a film of five segments of 0.2 s, beside it.
pub(crate) const FILM: &str = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:0.2,\n0.ts\n#EXTINF:0.2,\n1.ts\n#EXTINF:0.2,\n2.ts\n\
     #EXTINF:0.2,\n3.ts\n#EXTINF:0.2,\n4.ts\n#EXT-X-ENDLIST\n";

/// The segments of the film.
pub(crate) const SEGMENTS: u64 = 5;

/// Has players watch `/film/index.m3u8` to its end, again and again while this is true. No request may fail, and no byte may be
/// missing; clients that know the content compare it.
pub(crate) fn watch_while(server: &Server, goes_on: &AtomicBool, segment_bytes: u64) {
    const PLAYERS: u64 = 3;
    while goes_on.load(Ordering::Relaxed) {
        let players = Tool::penstock().args(["load", "playback", "--quiet", "--json", "--start", "200ms"]);
        let players = players.args(["--viewers", "3", "--requests", "3", "--ca"]);
        let finished =
            players.arg(server.certificates().authority()).arg(server.url("/film/index.m3u8")).run();
        let report: Value = serde_json::from_slice(&finished.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}{}", finished.text(), finished.stderr));
        assert_eq!(report["errors_total"], 0, "{report:#}");
        assert_eq!(report["playback"]["segments"], PLAYERS * SEGMENTS, "{report:#}");
        let film = FILM.len() as u64 + SEGMENTS * segment_bytes;
        assert_eq!(report["bytes"], PLAYERS * film, "{report:#}");
    }
}
