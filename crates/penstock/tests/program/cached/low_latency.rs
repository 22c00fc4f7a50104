//! Low-latency HLS: playlists held back until they have a part, deltas, and parts that are sent while they are made.

use std::net::TcpStream;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex};

use penstock_testkit::origin::{Origin, answer, answer_in_chunks};
use penstock_testkit::{Client, Gate, until};

use super::{Edge, SLICE};

const PARTS_PER_SEGMENT: u64 = 4;

/// A packager that makes a part whenever it is told to, and holds back requests for a later one.
#[derive(Default)]
pub(crate) struct Packager {
    parts: Mutex<u64>,
    more: Condvar,
}

impl Packager {
    pub(crate) fn make(&self) {
        *self.parts.lock().unwrap() += 1;
        self.more.notify_all();
    }

    pub(crate) fn playlist(parts: u64, skip: bool) -> String {
        let (whole, open) = (parts / PARTS_PER_SEGMENT, parts % PARTS_PER_SEGMENT);
        let mut text = "#EXTM3U\n#EXT-X-TARGETDURATION:600\n#EXT-X-PART-INF:PART-TARGET=1\n\
            #EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,CAN-SKIP-UNTIL=24,PART-HOLD-BACK=3\n\
            #EXT-X-MEDIA-SEQUENCE:0\n"
            .to_owned();
        if skip {
            text.push_str(&format!("#EXT-X-SKIP:SKIPPED-SEGMENTS={whole}\n"));
        } else {
            (0..whole).for_each(|segment| text.push_str(&format!("#EXTINF:4,\ns{segment}.mp4\n")));
        }
        (0..open).for_each(|part| {
            text.push_str(&format!("#EXT-X-PART:DURATION=1,URI=\"s{whole}.{part}.mp4\"\n"));
        });
        text
    }

    pub(crate) fn serve(&self, head: &str, stream: &mut TcpStream) -> bool {
        let number = |name: &str| {
            let value = head.split_once(name)?.1;
            value[..value.find(|byte: char| !byte.is_ascii_digit())?].parse::<u64>().ok()
        };
        let mut parts = self.parts.lock().unwrap();
        if let Some(segment) = number("_HLS_msn=") {
            let wanted =
                segment * PARTS_PER_SEGMENT + number("_HLS_part=").map_or(PARTS_PER_SEGMENT, |part| part + 1);
            parts = self.more.wait_while(parts, |parts| *parts < wanted).unwrap();
        }
        let body = Self::playlist(*parts, head.contains("_HLS_skip=YES"));
        answer(stream, "200 OK", "Content-Type: application/vnd.apple.mpegurl\r\n", body.as_bytes())
    }
}

/// A packager with some parts, and an edge in front of it.
fn live(parts: u64) -> (Arc<Packager>, Origin, Edge) {
    let packager = Arc::new(Packager::default());
    (0..parts).for_each(|_| packager.make());
    let serving = Arc::clone(&packager);
    let origin = Origin::start(move |head, _, stream| serving.serve(head, stream));
    let edge = Edge::of(&origin);
    (packager, origin, edge)
}

fn reloads(edge: &Edge, outcome: &str) -> f64 {
    edge.server.metrics().sum("penstock_playlist_reloads_total", &[outcome])
}

#[test]
fn all_clients_that_wait_for_a_part_share_one_request_and_are_answered_together() {
    let (packager, origin, edge) = live(5);
    let crowd = 300;
    let mut clients: Vec<_> = (0..crowd).map(|_| Client::plain(&edge.server)).collect();
    for part in 5..9 {
        let (segment, number) = (part / PARTS_PER_SEGMENT, part % PARTS_PER_SEGMENT);
        for (place, client) in clients.iter_mut().enumerate() {
            // The order of directives is the player's business.
            let query = match place % 2 {
                0 => format!("_HLS_msn={segment}&_HLS_part={number}"),
                _ => format!("_HLS_part={number}&_HLS_msn={segment}"),
            };
            client.ask(&format!("/live/a.m3u8?{query}"));
        }
        let waiting = f64::from(crowd) * (part - 4) as f64;
        until("all wait", || (reloads(&edge, "held") == waiting).then_some(()));
        packager.make();
        for client in &mut clients {
            assert_eq!(client.response().unwrap().text(), Packager::playlist(part + 1, false));
        }
        let late =
            Client::tls(&edge.server).get(&format!("/live/a.m3u8?_HLS_msn={segment}&_HLS_part={number}"));
        assert_eq!(late.text(), Packager::playlist(part + 1, false));
        assert_eq!(
            Client::tls(&edge.server).get("/live/a.m3u8").text(),
            late.text(),
            "a new client is up to date"
        );
    }
    let asked = origin.asked();
    assert_eq!(asked.len(), 5, "the playlist, and each of four parts once: {asked:?}");
    assert_eq!(reloads(&edge, "at_once"), 4.0);
}

#[test]
fn deltas_are_asked_for_and_kept_apart_from_whole_playlists() {
    let (packager, origin, edge) = live(6);
    let mut client = Client::plain(&edge.server);
    assert_eq!(client.get("/a.m3u8?token=t&_HLS_skip=YES").text(), Packager::playlist(6, true));
    assert_eq!(client.get("/a.m3u8?token=t").text(), Packager::playlist(6, false));
    client.ask("/a.m3u8?_HLS_skip=YES&token=t&_HLS_msn=1&_HLS_part=2");
    until("it waits", || (reloads(&edge, "held") == 1.0).then_some(()));
    packager.make();
    assert_eq!(client.response().unwrap().text(), Packager::playlist(7, true));
    assert_eq!(client.get("/a.m3u8?_HLS_skip=YES&token=t").text(), Packager::playlist(7, true));
    let last = origin.asked().pop().unwrap();
    assert!(last.contains("/a.m3u8?token=t&_HLS_msn=1&_HLS_part=2&_HLS_skip=YES"), "{last}");
    assert_eq!(origin.asked().len(), 3);
}

#[test]
fn directives_that_no_player_means_are_400_and_cost_the_origin_nothing() {
    let (_packager, origin, edge) = live(5);
    let mut client = Client::plain(&edge.server);
    client.get("/a.m3u8");
    for query in ["_HLS_part=0", "_HLS_msn=x", "_HLS_msn=-1", "_HLS_msn=1&_HLS_msn=2", "_HLS_skip=maybe"] {
        assert_eq!(client.get(&format!("/a.m3u8?{query}")).status, 400, "{query}");
    }
    for query in
        ["_HLS_msn=3", "_HLS_msn=1&_HLS_part=9", "_HLS_msn=2&_HLS_part=7", "_HLS_msn=18446744073709551614"]
    {
        assert_eq!(client.get(&format!("/a.m3u8?{query}")).status, 400, "{query}");
    }
    assert_eq!(origin.asked().len(), 1);
    assert_eq!((reloads(&edge, "bad"), reloads(&edge, "too_far")), (5.0, 4.0));
}

#[test]
fn a_playlist_is_one_object_for_all_requested_numbers() {
    let (packager, _origin, edge) = live(40);
    let mut client = Client::plain(&edge.server);
    for part in 40..60 {
        packager.make();
        let (segment, number) = (part / PARTS_PER_SEGMENT, part % PARTS_PER_SEGMENT);
        for query in [
            format!("_HLS_msn={segment}&_HLS_part={number}"),
            format!("_HLS_msn={segment}&_HLS_part={number}&_HLS_skip=YES"),
            format!("_HLS_msn={}", segment - 3),
            format!("_HLS_msn={}&_HLS_part={part}", segment - 9),
        ] {
            assert_eq!(client.get(&format!("/a.m3u8?{query}")).status, 200, "{query}");
        }
    }
    until("only the newest are left", || {
        (edge.server.metrics().sum("penstock_cache_slices", &[]) <= 2.0).then_some(())
    });
}

#[test]
fn a_playlist_whose_server_does_not_hold_back_is_asked_for_without_directives() {
    let origin = Origin::start(|head, _, stream| {
        let ended = if head.contains("/vod") { "#EXT-X-ENDLIST\n" } else { "" };
        let body = format!("#EXTM3U\n#EXT-X-TARGETDURATION:600\n#EXTINF:4,\na.ts\n{ended}");
        answer(stream, "200 OK", "", body.as_bytes())
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    for number in 0..20 {
        for name in ["live", "vod"] {
            assert_eq!(client.get(&format!("/{name}.m3u8?_HLS_msn={number}&_HLS_part=1")).status, 200);
        }
    }
    let asked = origin.asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(asked.iter().all(|head| !head.contains("_HLS_")));
}

#[test]
fn a_client_that_is_held_back_for_too_long_gets_503() {
    let held = Gate::closed();
    let origin = Origin::start(move |head, _, stream| {
        if head.contains("_HLS_msn") {
            return held.pass();
        }
        let body = Packager::playlist(5, false).replace("DURATION:600", "DURATION:1");
        answer(stream, "200 OK", "", body.as_bytes())
    });
    let edge = Edge::of(&origin);
    let response = Client::plain(&edge.server).get("/a.m3u8?_HLS_msn=1&_HLS_part=1");
    assert_eq!((response.status, response.field("Retry-After")), (503, Some("1")));
}

#[test]
fn an_error_of_the_origin_is_passed_on_to_all_waiting_clients() {
    let origin = Origin::start(|head, _, stream| match head.contains("_HLS_msn") {
        true => answer(stream, "503 Too long", "X-Why: stalled\r\n", b"stalled"),
        false => answer(stream, "200 OK", "", Packager::playlist(5, false).as_bytes()),
    });
    let edge = Edge::of(&origin);
    let response = Client::plain(&edge.server).get("/a.m3u8?_HLS_msn=1&_HLS_part=1");
    assert_eq!((response.status, response.field("X-Why")), (503, Some("stalled")));
    assert_eq!(Client::plain(&edge.server).get("/a.m3u8").status, 200, "the playlist is still known");
}

/// An origin that sends a body in chunks, each when the test sends it, until the test drops the sender.
fn part_in_chunks() -> (Sender<Vec<u8>>, Origin) {
    let (more, chunks) = channel::<Vec<u8>>();
    let chunks = Mutex::new(chunks);
    let origin = Origin::start(move |_, _, stream| {
        answer_in_chunks(stream, "Content-Type: video/mp4\r\n", chunks.lock().unwrap().iter())
    });
    (more, origin)
}

#[test]
fn a_part_is_sent_to_all_while_it_is_made() {
    let (more, origin) = part_in_chunks();
    let edge = Edge::of(&origin);
    let mut clients: Vec<_> = (0..50).map(|_| Client::plain(&edge.server)).collect();
    more.send(b"first".to_vec()).unwrap();
    for client in &mut clients {
        client.ask("/s1.0.mp4");
        let head = client.response_to_head().unwrap();
        assert_eq!(head.field("Transfer-Encoding"), Some("chunked"));
        assert_eq!(client.take(10).unwrap(), b"5\r\nfirst\r\n", "before it is whole");
    }
    more.send(b"more".to_vec()).unwrap();
    for client in &mut clients {
        assert_eq!(client.take(9).unwrap(), b"4\r\nmore\r\n");
    }
    drop(more);
    for client in &mut clients {
        assert_eq!(client.take(5).unwrap(), b"0\r\n\r\n");
    }
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn a_part_passes_through_two_edges_while_it_is_made() {
    let (more, origin) = part_in_chunks();
    let inner = Edge::of(&origin);
    let outer = Edge::before(&format!("- origin: {{http: [\"{}\"]}}", inner.server.plain_url("")));
    let mut clients: Vec<_> = (0..5).map(|_| Client::plain(&outer.server)).collect();
    more.send(b"first".to_vec()).unwrap();
    for client in &mut clients {
        client.ask("/s1.0.mp4");
        assert_eq!(client.response_to_head().unwrap().status, 200);
        assert_eq!(client.take(10).unwrap(), b"5\r\nfirst\r\n", "before it is whole");
    }
    more.send(b"more".to_vec()).unwrap();
    drop(more);
    for client in &mut clients {
        assert_eq!(client.take(14).unwrap(), b"4\r\nmore\r\n0\r\n\r\n");
    }
    let part = clients[0].get_range("/s1.0.mp4", 3, 6);
    assert_eq!((part.status, part.text()), (206, "stmo"));
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn byte_ranges_of_a_segment_are_given_as_soon_as_they_are_made() {
    let (more, origin) = part_in_chunks();
    let edge = Edge::of(&origin);
    let mut clients: Vec<_> = (0..4).map(|_| Client::plain(&edge.server)).collect();
    let ranges = ["100-199", "150-", "150-9007199254740991", &format!("{}-{}", SLICE, SLICE + 9)];
    for (client, range) in clients.iter_mut().zip(ranges) {
        client.send(format!("GET /s1.mp4 HTTP/1.1\r\nHost: localhost\r\nRange: bytes={range}\r\n\r\n"));
    }
    more.send(vec![b'a'; 150]).unwrap();
    more.send(vec![b'b'; 100]).unwrap();
    let part = clients[0].response().unwrap();
    assert_eq!((part.status, part.field("Content-Range")), (206, Some("bytes 100-199/*")));
    assert_eq!(part.text(), format!("{}{}", "a".repeat(50), "b".repeat(50)));
    let stream = clients[2].response_to_head().unwrap();
    assert_eq!(stream.status, 206);
    assert_eq!(stream.field("Content-Range"), Some("bytes 150-9007199254740991/*"));
    assert_eq!(clients[2].take(2).unwrap(), b"64", "a hundred bytes while it is made");
    more.send(vec![b'c'; SLICE]).unwrap();
    let later = clients[3].response().unwrap();
    assert_eq!((later.status, later.text()), (206, "cccccccccc"));
    drop(more);
    let open = clients[1].response().unwrap();
    let whole = 250 + SLICE;
    assert_eq!(open.field("Content-Range"), Some(format!("bytes 150-{}/{whole}", whole - 1).as_str()));
    assert_eq!(open.body.len(), whole - 150);
    assert_eq!(origin.asked().len(), 1);
}
