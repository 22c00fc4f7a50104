//! The end of a response whose length is not known before.

use super::*;

#[test]
fn an_end_behind_its_content_that_is_lost_is_sent_again() {
    let mut pair = Pair::new(3000, Weather::Fair);
    pair.server.answers = false;
    let stream = pair.client.get("/");
    pair.until(|pair| !pair.server.events.is_empty());
    send_zeros(&mut pair, stream, 3000);
    let mut packet = [0; MAX_DATAGRAM_BYTES];
    while let Some((length, _)) = pair.server.connection.packet(&mut packet) {
        pair.client.receive(&mut packet[..length]);
    }
    assert_eq!(pair.server.connection.send_end(stream), Ok(true));
    let mut lost = 0;
    while pair.server.connection.packet(&mut packet).is_some() {
        lost += 1;
    }
    assert!(lost > 0);
    pair.until(|pair| pair.client.finished.contains(&stream));
}

#[test]
fn an_end_for_which_there_is_no_window_waits_and_counts_as_stalled() {
    let mut pair = Pair::new(300_000, Weather::Fair);
    pair.download("/first");
    pair.server.answers = false;
    let stream = pair.client.get("/second");
    pair.until(|pair| pair.server.events.len() == 2);
    pair.settle();
    let space = pair.server.connection.space(stream);
    assert!(space >= 0x4000, "a frame below has a shorter header, and leaves place for an end: {space}");
    send_zeros(&mut pair, stream, space);
    assert_eq!(pair.server.connection.space(stream), 0);
    assert_eq!(pair.server.connection.send_end(stream), Ok(false));
    pair.until(|pair| pair.server.connection.send_end(stream) == Ok(true));
    pair.until(|pair| pair.client.finished.contains(&stream));
}

#[test]
fn a_response_that_was_reset_does_not_end_for_a_client_that_misses_the_packet_of_the_reset() {
    let mut pair = Pair::new(0, Weather::Fair);
    pair.server.answers = false;
    let [first, second] = [pair.client.get("/first"), pair.client.get("/second")];
    pair.until(|pair| pair.server.events.len() == 4);
    pair.server.connection.set_priority(first, 0, false);
    send_zeros(&mut pair, second, 1);
    pair.settle();
    send_zeros(&mut pair, first, 5000);
    send_zeros(&mut pair, second, 5000);
    pair.server.connection.reset(second, code::INTERNAL_ERROR);
    let mut packets = probes::packets(&mut pair.server);
    packets.remove(0);
    for mut packet in packets {
        pair.client.receive(&mut packet);
    }
    assert!(pair.client.finished.is_empty());
    pair.until(|pair| !pair.client.resets.is_empty());
    assert_eq!((&pair.client.resets[..], &pair.client.finished[..]), (&[code::INTERNAL_ERROR][..], &[][..]));
}
