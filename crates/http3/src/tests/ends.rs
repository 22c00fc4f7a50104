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

/// Resets two responses that have something to send, and has the client miss the packet with this number. Returns how many packets there
/// were.
fn reset_two_and_lose(lost: usize) -> usize {
    let mut pair = Pair::new(0, Weather::Fair);
    pair.server.answers = false;
    let [bulk, second, third] = ["/bulk", "/second", "/third"].map(|path| pair.client.get(path));
    pair.until(|pair| pair.server.events.len() == 6);
    pair.settle();
    for stream in [bulk, second, third] {
        send_zeros(&mut pair, stream, 4000);
    }
    pair.server.connection.reset(second, code::INTERNAL_ERROR);
    pair.server.connection.reset(third, code::INTERNAL_ERROR);
    let packets = probes::packets(&mut pair.server);
    let count = packets.len();
    for (_, mut packet) in packets.into_iter().enumerate().filter(|(number, _)| *number != lost) {
        pair.client.receive(&mut packet);
    }
    assert!(pair.client.finished.is_empty(), "{:?} without packet {lost}", pair.client.finished);
    pair.until(|pair| pair.client.resets.len() == 2);
    assert!(pair.client.finished.is_empty());
    count
}

#[test]
fn a_response_that_was_reset_does_not_end_for_a_client_that_misses_the_packet_of_the_reset() {
    let count = reset_two_and_lose(usize::MAX);
    assert!(count > 3);
    for lost in 0..count {
        reset_two_and_lose(lost);
    }
}

#[test]
fn a_reset_of_a_stream_that_is_gone_holds_up_no_other() {
    let mut pair = Pair::new(0, Weather::Fair);
    pair.server.answers = false;
    let [gone, other] = ["/gone", "/other"].map(|path| pair.client.get(path));
    pair.until(|pair| pair.server.events.len() == 4);
    pair.client.quic.stream_shutdown(gone, quiche::Shutdown::Read, 0x10c).unwrap();
    pair.settle();
    assert!(pair.server.connection.is_stopped(gone));
    for stream in [gone, other] {
        pair.server.connection.reset(stream, code::INTERNAL_ERROR);
        pair.server.connection.finished(stream);
    }
    assert!(!probes::packets(&mut pair.server).is_empty());
}
