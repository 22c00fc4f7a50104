//! A live stream with viewers on all nodes: one request to the packager for each playlist and each part.

use std::sync::Arc;

use penstock_testkit::origin::{Origin, answer, target};
use penstock_testkit::{Client, Server, until};

use super::{Cluster, asked_targets, size};
use crate::cached::low_latency::Packager;

fn held(server: &Server) -> f64 {
    server.metrics().sum("penstock_playlist_reloads_total", &["held"])
}

#[test]
fn viewers_on_all_nodes_are_one_request_for_each_reload_and_each_part() {
    let packager = Arc::new(Packager::default());
    (0..5).for_each(|_| packager.make());
    let serving = Arc::clone(&packager);
    let origin = Origin::start(move |head, _, stream| match target(head) {
        playlist if playlist.contains(".m3u8") => serving.serve(head, stream),
        part => answer(stream, "200 OK", "ETag: \"p\"\r\nCache-Control: max-age=60\r\n", part.as_bytes()),
    });
    let cluster = Cluster::of(3, &origin);
    let count = size("PENSTOCK_TEST_CLUSTER_VIEWERS", 45);
    let mut viewers: Vec<_> = (0..count).map(|place| Client::plain(&cluster.servers[place % 3])).collect();
    for (round, part) in (5..8_u64).enumerate() {
        let (segment, number) = (part / 4, part % 4);
        let path = format!("/live/a.m3u8?_HLS_msn={segment}&_HLS_part={number}");
        viewers.iter_mut().for_each(|viewer| viewer.ask(&path));
        let waiting = (count * (round + 1)) as f64;
        // The owner also counts the nodes that wait there.
        until("all wait", || (cluster.servers.iter().map(held).sum::<f64>() >= waiting).then_some(()));
        packager.make();
        for viewer in &mut viewers {
            assert_eq!(viewer.response().unwrap().text(), Packager::playlist(part + 1, false));
        }
        let path = format!("/live/s{segment}.{number}.mp4");
        viewers.iter_mut().for_each(|viewer| viewer.ask(&path));
        for viewer in &mut viewers {
            assert_eq!(viewer.response().unwrap().text(), path);
        }
    }
    let asked = asked_targets(&origin);
    assert!(asked.values().all(|times| *times == 1), "{asked:?}");
    assert_eq!(asked.len(), 1 + 3 + 3, "the playlist, three reloads, three parts: {asked:?}");
    println!("{count} viewers of three nodes: {} requests at the origin", origin.asked().len());
}
