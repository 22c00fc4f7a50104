//! Probes (RFC 9002 §6.2) of what the client has received, and what counts as lost beside them.

use super::*;

/// Takes all packets that the server sends.
pub(super) fn packets(server: &mut Server) -> Vec<Vec<u8>> {
    let mut packet = [0; MAX_DATAGRAM_BYTES];
    let next = || server.connection.packet(&mut packet).map(|(length, _)| packet[..length].to_vec());
    std::iter::from_fn(next).collect()
}

/// Sends what the client has to send to the server, and nothing back.
fn pass_to_server(pair: &mut Pair) {
    let mut packet = [0; MAX_DATAGRAM_BYTES];
    while let Ok((length, _)) = pair.client.quic.send(&mut packet) {
        pair.server.receive(&mut packet[..length], client_address());
    }
}

#[test]
fn a_stream_whose_probe_came_too_late_holds_up_no_other() {
    let mut pair = Pair::new(0, Weather::Fair);
    pair.server.answers = false;
    let waiting = pair.client.get("/waiting");
    let bulk = pair.client.get("/bulk");
    pair.settle();
    // Several full packets, and what fills the window.
    send_zeros(&mut pair, waiting, 5000);
    let space = pair.server.connection.space(bulk);
    send_zeros(&mut pair, bulk, space);
    let mut late = packets(&mut pair.server);
    // An acknowledgement takes place in the first probe, so that the content of two packets fits into no two.
    pair.client.quic.send_ack_eliciting().unwrap();
    pass_to_server(&mut pair);
    std::thread::sleep(pair.server.connection.deadline().unwrap().saturating_duration_since(Instant::now()));
    pair.server.connection.on_timeout();
    late.extend(packets(&mut pair.server));
    for mut packet in late {
        pair.client.receive(&mut packet);
    }
    pass_to_server(&mut pair);
    let come = pair.client.content.len();
    assert_eq!(come, 5000 + space);
    let space = pair.server.connection.space(bulk);
    assert!(space > 0);
    send_zeros(&mut pair, bulk, space);
    for mut packet in packets(&mut pair.server) {
        pair.client.receive(&mut packet);
    }
    // Headers of packets take a part of the window.
    assert!(pair.client.content.len() > come + space / 2);
    pair.settle();
    send_zeros(&mut pair, waiting, 5000);
    pair.until(|pair| pair.client.content.len() == come + space + 5000);
    assert!(pair.server.connection.announce_end());
    pair.until(|pair| pair.client.goaway.is_some());
}

type Step<'s> = &'s dyn Fn(&mut Pair, u64);

/// What `begin` sends never arrives, and what `go_on` sends does. Its probe arrives while it counts as lost and has not been sent again,
/// behind `blocked`.
fn repeats_without_need(begin: Step<'_>, go_on: Step<'_>, blocked: Step<'_>) {
    let mut tries = 0..20;
    while !repeats_once_without_need(begin, go_on, blocked) {
        assert!(tries.next().is_some(), "the probe counts as lost each time");
    }
}

/// False if the probe counts as lost as well, because this process had to wait for the processor.
fn repeats_once_without_need(begin: Step<'_>, go_on: Step<'_>, blocked: Step<'_>) -> bool {
    let mut pair = Pair::new(0, Weather::Fair);
    pair.server.answers = false;
    let waiting = pair.client.get("/waiting");
    let bulk = pair.client.get("/bulk");
    pair.settle();
    pair.server.connection.set_priority(waiting, 1, false);
    begin(&mut pair, waiting);
    assert_eq!(packets(&mut pair.server).len(), 1);
    std::thread::sleep(pair.server.connection.deadline().unwrap().saturating_duration_since(Instant::now()));
    pair.server.connection.on_timeout();
    let mut probes = packets(&mut pair.server);
    go_on(&mut pair, waiting);
    let space = pair.server.connection.space(bulk);
    send_zeros(&mut pair, bulk, space);
    let mut bulky = packets(&mut pair.server);
    // Its acknowledgement makes the first one a lost one, for the time that went by, and not its probe.
    pair.client.receive(&mut bulky.remove(0));
    pass_to_server(&mut pair);
    if pair.server.connection.counts()[2] != 1 {
        return false;
    }
    assert!(packets(&mut pair.server).is_empty(), "the window is full");
    blocked(&mut pair, waiting);
    for mut packet in probes.drain(..).chain(bulky) {
        pair.client.receive(&mut packet);
    }
    pass_to_server(&mut pair);
    let space = pair.server.connection.space(bulk);
    assert!(space > 0);
    send_zeros(&mut pair, bulk, space);
    let sent: usize = packets(&mut pair.server).iter().map(Vec::len).sum();
    // Not all of the window, because something was lost.
    assert!(sent > space / 4, "{sent} of {space}");
    true
}

#[test]
fn a_stream_that_counts_as_lost_while_its_probe_arrives_holds_up_no_other() {
    repeats_without_need(
        &|pair, waiting| send_zeros(pair, waiting, 1000),
        &|pair, waiting| send_zeros(pair, waiting, 10),
        &|_, _| {},
    );
}

#[test]
fn an_announcement_that_counts_as_lost_while_its_probe_arrives_holds_up_no_response() {
    repeats_without_need(
        &|pair, _| assert!(pair.server.connection.announce_end()),
        &|pair, _| assert!(pair.server.connection.announce_last()),
        &|_, _| {},
    );
}

#[test]
fn an_announcement_that_finds_no_space_holds_up_no_response() {
    repeats_without_need(
        &|pair, _| assert!(pair.server.connection.announce_end()),
        &|pair, waiting| send_zeros(pair, waiting, 10),
        &|pair, waiting| {
            // A head takes what space there is.
            let head = HeadFrame::new(&vec![0; 50_000], None);
            assert_eq!(pair.server.connection.send_head(waiting, head, false), HeadSent::Later);
            assert!(!pair.server.connection.announce_last());
        },
    );
}
