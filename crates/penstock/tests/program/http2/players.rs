//! What players do on a connection: seek, ask with priorities, read slowly; behind a balancer, and with new keys.

use std::io::Write;

use penstock_testkit::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, Peer, RST_STREAM, block, frame, get, request, window,
};
use penstock_testkit::{Client, TlsOptions, until};

use super::setup;
use crate::cached::unread::Unread;

/// SETTINGS_INITIAL_WINDOW_SIZE of 16 KiB.
const NARROW_STREAMS: [u8; 6] = [0, 4, 0, 0, 0x40, 0];
const NARROW: u32 = 16 * 1024;

/// Viewers behind one connection, and how often each seeks.
const VIEWERS: u32 = 50;
const SEEKS: u32 = 8;

#[test]
fn many_viewers_who_seek_behind_one_connection_are_served() {
    let server = setup().start();
    server.file("1m.bin", 1 << 20);
    let playlist = server.file("1k.bin", 1024);
    let mut peer = Peer::tls(&server).open(&NARROW_STREAMS);
    peer.send(&window(0, 1 << 30));
    let cancel = |stream| frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    for seek in 0..VIEWERS * SEEKS {
        let [segment, next, wanted] = [6 * seek + 1, 6 * seek + 3, 6 * seek + 5];
        peer.send(&[get(segment, "/1m.bin"), get(next, "/1m.bin")].concat());
        while peer.expect(DATA).stream != segment {}
        // Where the viewer was is not needed any more.
        peer.send(&[cancel(segment), cancel(next), get(wanted, "/1k.bin")].concat());
        let body = loop {
            let frame = peer.expect(DATA);
            if frame.stream == wanted {
                break frame.payload;
            }
        };
        assert_eq!(body, playlist.all(), "seek {seek}");
    }
    server.counted("penstock_http2_streams", &[], 0.0);
    let metrics = server.metrics();
    let resets = metrics.sum("penstock_http2_resets_total", &["cause=\"client\""]);
    assert!(resets >= f64::from(VIEWERS * SEEKS), "{resets}");
    assert_eq!(metrics.sum("penstock_http2_connection_errors_total", &[]), 0.0);
}

#[test]
fn urgent_responses_come_first_and_incremental_ones_in_turns() {
    let server = setup().start();
    server.file("1m.bin", 1 << 20);
    let mut peer = Peer::tls(&server).open(&[]);
    // The first takes the whole window of the connection.
    peer.send(&get(1, "/1m.bin"));
    let mut taken = 0;
    while taken < 65_535 {
        taken += peer.expect(DATA).payload.len();
    }
    for (stream, priority) in [(3, "u=5"), (5, "u=3, i"), (7, "u=3, i"), (9, "u=1")] {
        let head = [request("GET", "/1m.bin"), block(&[("priority", priority)])].concat();
        peer.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &head));
        assert_eq!(peer.expect(HEADERS).stream, stream);
    }
    // All that the windows of the four streams allow.
    peer.send(&window(0, 4 * 65_535));
    let mut order = Vec::new();
    let mut left = 4 * 65_535;
    while left > 0 {
        let frame = peer.expect(DATA);
        left -= frame.payload.len();
        order.push(frame.stream);
    }
    let first = order.iter().position(|stream| *stream != 9).expect("others");
    let last = order.iter().position(|stream| *stream == 3).expect("the least urgent");
    assert!(order[first..last].iter().all(|stream| [5, 7].contains(stream)), "{order:?}");
    assert!(order[first..last - 2].windows(2).all(|pair| pair[0] != pair[1]), "{order:?}");
    assert!(order[last..].iter().all(|stream| *stream == 3), "{order:?}");
}

#[test]
fn streams_that_are_read_slowly_have_their_bytes_while_their_slices_are_evicted() {
    const SLOW: usize = 30;
    let unread = Unread::before(setup());
    let mut peer = Peer::tls(&unread.server).open(&NARROW_STREAMS);
    peer.send(&window(0, 1 << 30));
    let stream = |place: usize| u32::try_from(2 * place + 1).unwrap();
    (0..SLOW).for_each(|place| peer.send(&get(stream(place), &format!("/{place}"))));
    let mut bodies = [const { Vec::new() }; SLOW];
    let mut open = [true; SLOW];
    for other in SLOW.. {
        let mut missing: Vec<usize> =
            open.iter().map(|is_open| if *is_open { NARROW as usize } else { 0 }).collect();
        while missing.iter().any(|bytes| *bytes > 0) {
            let frame = peer.expect(DATA);
            let place = usize::try_from(frame.stream / 2).unwrap();
            bodies[place].extend_from_slice(&frame.payload);
            missing[place] -= frame.payload.len();
            if frame.flags & END_STREAM != 0 {
                (open[place], missing[place]) = (false, 0);
            }
        }
        if !open.contains(&true) {
            break;
        }
        // Another client needs the memory.
        let answer = Client::tls(&unread.server).get(&format!("/{other}"));
        unread.assert_object(other, &answer.body);
        (0..SLOW).filter(|place| open[*place]).for_each(|place| peer.send(&window(stream(place), NARROW)));
    }
    for (place, body) in bodies.iter().enumerate() {
        unread.assert_object(place, body);
    }
    assert!(unread.server.metrics().sum("penstock_cache_evictions_total", &[]) > 0.0);
}

#[test]
fn the_client_that_a_balancer_names_is_the_one_of_each_stream() {
    const PROXY: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.1 51234 443\r\n";
    let listeners = ["proxy_protocol: true, protocols: [h1, h2]", "proxy_protocol: true, tls: true"];
    let server = setup().listeners(&listeners).start();
    let file = server.file("1k.bin", 1024);
    let expect = |target: &str| {
        let line = server.logged(target);
        assert_eq!((&line["client_ip"], &line["protocol"]), (&"192.0.2.7".into(), &"h2".into()), "{line}");
    };
    let mut socket = Client::connect(server.listener(0)).stream;
    socket.write_all(PROXY).unwrap();
    let mut plain = Peer(socket).open(&[]);
    plain.send(&[get(1, "/1k.bin?1"), get(3, "/1k.bin?3")].concat());
    assert_eq!((plain.expect(DATA).payload, plain.expect(DATA).payload), (file.all(), file.all()));
    let mut socket = Client::connect(server.listener(1)).stream;
    socket.write_all(PROXY).unwrap();
    let options = TlsOptions { alpn: &["h2"], ..TlsOptions::default() };
    let mut sealed = Peer(options.handshake(&server, socket).unwrap()).open(&[]);
    sealed.send(&get(1, "/1k.bin?5"));
    assert_eq!(sealed.expect(DATA).payload, file.all());
    ["/1k.bin?1", "/1k.bin?3", "/1k.bin?5"].into_iter().for_each(expect);
}

#[test]
fn a_storm_of_key_updates_ends_the_connection() {
    let server = setup().start();
    let file = server.file("1k.bin", 1024);
    let mut peer = Peer::tls(&server).open(&[]);
    for number in 0.. {
        peer.0.update_keys(true);
        let stream = 2 * number + 1;
        if !peer.try_send(&get(stream, "/1k.bin")) {
            break;
        }
        match std::iter::from_fn(|| peer.receive()).find(|frame| frame.kind == DATA) {
            Some(frame) => assert_eq!(frame.payload, file.all()),
            None => break,
        }
        assert!(number < 1000, "nothing stops the client");
    }
    let followed = server.metrics().sum("penstock_tls_key_updates_total", &[]);
    assert!((1.0..=61.0).contains(&followed), "the server followed {followed} KeyUpdates");
    until("the connection to end", || {
        (server.metrics().sum("penstock_http2_streams", &[]) == 0.0).then_some(())
    });
}
