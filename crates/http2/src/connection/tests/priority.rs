//! Which stream is sent next (RFC 9218).

use super::*;

/// Requests of these Priority fields, all with DATA to send.
fn ready(fields: &[&str]) -> (Client, Vec<StreamId>) {
    let mut client = Client::with_defaults();
    client.window_update(0, 1 << 30).unwrap();
    let mut streams = Vec::new();
    for (at, field) in (0u32..).zip(fields) {
        let line: &[(&[u8], &[u8])] = &[(b"priority", field.as_bytes())];
        let request = if field.is_empty() { GET.to_vec() } else { [&GET[..], line].concat() };
        client.headers(2 * at + 1, flag::END_STREAM, &request).unwrap();
        let stream = client.expect_request();
        client.connection.set_outgoing(stream, Outgoing::Data);
        streams.push(stream);
    }
    (client, streams)
}

/// The places in the list of requests of the next streams; each is sent a frame of one byte.
fn order(client: &mut Client, number: usize) -> Vec<u32> {
    let next = std::iter::from_fn(|| {
        let stream = client.connection.next_stream()?;
        client.connection.data_header(stream, 1, false);
        Some(stream.get() / 2)
    });
    next.take(number).collect()
}

#[test]
fn lower_urgency_is_sent_first_and_equal_ones_in_the_order_of_requests() {
    let (mut client, streams) = ready(&["", "u=5", "u=0", "u=3", "u=2"]);
    for expected in [2, 4, 0, 3, 1] {
        assert_eq!(order(&mut client, 3), [expected; 3]);
        client.connection.data_header(streams[expected as usize], 1, true);
    }
    assert_eq!(client.connection.next_stream(), None);
}

#[test]
fn incremental_streams_take_turns_with_each_other_and_with_the_first_that_is_not() {
    let (mut client, _) = ready(&["i", "i", "i"]);
    assert_eq!(order(&mut client, 7), [0, 1, 2, 0, 1, 2, 0]);
    let (mut client, streams) = ready(&["", "", "i", "i"]);
    let mut shares = [0; 4];
    order(&mut client, 300).into_iter().for_each(|place| shares[place as usize] += 1);
    assert_eq!(shares, [100, 0, 100, 100]);
    client.connection.data_header(streams[0], 1, true);
    let mut shares = [0; 4];
    order(&mut client, 300).into_iter().for_each(|place| shares[place as usize] += 1);
    assert_eq!(shares, [0, 100, 100, 100]);
}

#[test]
fn a_newcomer_takes_its_turn_once_in_a_round() {
    let (mut client, _) = ready(&["i", "i"]);
    order(&mut client, 101);
    client.headers(5, flag::END_STREAM, &[&GET[..], &[(b"priority", b"i")]].concat()).unwrap();
    let stream = client.expect_request();
    client.connection.set_outgoing(stream, Outgoing::Data);
    let round = order(&mut client, 6);
    assert_eq!(round.iter().filter(|place| **place == 2).count(), 2, "{round:?}");
}

#[test]
fn urgency_by_content_type_counts_where_the_client_says_none() {
    let (mut client, streams) = ready(&["", "u=3", "i"]);
    for stream in &streams {
        client.connection.set_default_urgency(*stream, 1);
    }
    let urgencies = streams.iter().map(|stream| client.connection.priority(*stream).urgency);
    assert_eq!(urgencies.collect::<Vec<_>>(), [1, 3, 1]);
    client.connection.set_default_urgency(streams[0], 200);
    assert_eq!(client.connection.priority(streams[0]).urgency, 7);
}

#[test]
fn an_update_replaces_the_priority_also_before_the_request() {
    let (mut client, streams) = ready(&["u=1, i", ""]);
    client.frame(kind::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=6").unwrap();
    assert_eq!(client.connection.priority(streams[0]), Priority { urgency: 6, incremental: false });
    assert_eq!(order(&mut client, 1), [1]);
    client.frame(kind::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x05u=5").unwrap();
    client.frame(kind::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x05u=0, i").unwrap();
    client.frame(kind::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01not a (dictionary").unwrap();
    let third = client.get(5);
    assert_eq!(client.connection.priority(third), Priority { urgency: 0, incremental: true });
    assert_eq!(client.connection.priority(streams[0]), Priority::default());
    assert!(client.connection.early_priorities.is_empty());
}

#[test]
fn priorities_kept_for_later_streams_are_bounded() {
    let mut client = Client::with_defaults();
    for id in (1..1000u32).step_by(2) {
        let payload = [&id.to_be_bytes()[..], b"u=1"].concat();
        client.frame(kind::PRIORITY_UPDATE, 0, 0, &payload).unwrap();
    }
    assert_eq!(client.connection.early_priorities.len(), 16);
    client.get(901);
    assert!(client.connection.early_priorities.is_empty(), "streams that were skipped cannot be opened");
}
