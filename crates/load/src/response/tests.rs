use super::*;

/// Feeds pieces of this size. Returns the body, the end of the response, and the bytes taken.
fn receive(bytes: &[u8], for_head: bool, piece: usize) -> (Vec<u8>, Result<bool, LoadFailure>, usize) {
    let mut receiver = ResponseReader::default();
    receiver.expect(for_head);
    let mut body = Vec::new();
    let mut used = 0;
    for piece in bytes.chunks(piece) {
        match receiver.feed(piece, |bytes| body.extend_from_slice(bytes)) {
            Ok(count) => used += count,
            Err(failure) => return (body, Err(failure), 0),
        }
        if receiver.is_done() {
            return (body, Ok(receiver.head().unwrap().keeps_alive), used);
        }
    }
    match receiver.end() {
        Ok(()) => (body, Ok(receiver.head().unwrap().keeps_alive), used),
        Err(failure) => (body, Err(failure), 0),
    }
}

/// The result, which must be the same for every way to cut the bytes.
fn receive_all_ways(bytes: &[u8], for_head: bool) -> (Vec<u8>, Result<bool, LoadFailure>, usize) {
    let whole = receive(bytes, for_head, bytes.len().max(1));
    for piece in 1..bytes.len() {
        assert_eq!(receive(bytes, for_head, piece), whole, "in pieces of {piece}");
    }
    whole
}

#[test]
fn a_body_ends_after_its_length_and_what_follows_is_left() {
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    assert_eq!(receive_all_ways(bytes, false), (b"hello".to_vec(), Ok(true), bytes.len()));
    let more = [&bytes[..], b"HTTP"].concat();
    assert_eq!(receive(&more, false, more.len()).2, bytes.len());
}

#[test]
fn chunks_extensions_and_trailers_are_taken_apart() {
    let bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
        5;a=b\r\nhello\r\nA\r\n, the worl\r\n1\r\nd\r\n0\r\nX: y\r\n\r\n";
    assert_eq!(receive_all_ways(bytes, false), (b"hello, the world".to_vec(), Ok(true), bytes.len()));
}

#[test]
fn without_length_the_body_ends_with_the_connection_which_then_is_over() {
    let bytes = b"HTTP/1.1 200 OK\r\n\r\nhello";
    assert_eq!(receive_all_ways(bytes, false), (b"hello".to_vec(), Ok(false), bytes.len()));
}

#[test]
fn some_responses_have_no_body_whatever_their_length_says() {
    for (bytes, for_head) in [
        (&b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"[..], true),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", false),
        (b"HTTP/1.1 204 No Content\r\n\r\n", false),
    ] {
        assert_eq!(receive_all_ways(bytes, for_head), (Vec::new(), Ok(true), bytes.len()));
    }
}

#[test]
fn an_interim_response_is_not_the_answer() {
    let bytes =
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
    assert_eq!(receive_all_ways(bytes, false), (b"x".to_vec(), Ok(true), bytes.len()));
}

#[test]
fn a_cut_response_is_reported_by_the_place_of_the_cut() {
    for (bytes, failure) in [
        (&b""[..], LoadFailure::ClosedBeforeResponse),
        (b"HTTP/1.1 20", LoadFailure::HeadCut),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", LoadFailure::BodyShort),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", LoadFailure::BodyShort),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", LoadFailure::BodyShort),
    ] {
        let text = String::from_utf8_lossy(bytes);
        assert_eq!(receive_all_ways(bytes, false).1, Err(failure), "{text}");
    }
}

#[test]
fn malformed_responses_are_refused() {
    for bytes in [
        &b"220 mail.example ESMTP\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n",
    ] {
        let text = String::from_utf8_lossy(bytes);
        assert_eq!(receive_all_ways(bytes, false).1, Err(LoadFailure::ResponseMalformed), "{text}");
    }
    let other = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n";
    assert_eq!(receive_all_ways(other, false).1, Err(LoadFailure::ResponseMalformed));
}

#[test]
fn a_head_has_a_bound_however_it_comes() {
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 0\r\n\r\n", "y".repeat(HEAD_BYTES_MAX));
    let many = format!("HTTP/1.1 200 OK\r\n{}Content-Length: 0\r\n\r\n", "X: y\r\n".repeat(FIELDS_MAX));
    let interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(HEAD_BYTES_MAX / 25 + 1);
    for endless in [long, many, interim] {
        for piece in [1000, 64 * 1024, endless.len()] {
            let found = receive(endless.as_bytes(), false, piece).1;
            assert_eq!(found, Err(LoadFailure::HeadTooLarge), "{} in pieces of {piece}", &endless[..40]);
        }
    }
}

#[test]
fn the_connection_goes_on_as_the_head_says() {
    for (head, keeps_alive) in [
        ("HTTP/1.1 204 No Content\r\n\r\n", true),
        ("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", false),
        ("HTTP/1.0 204 No Content\r\n\r\n", false),
        ("HTTP/1.0 204 No Content\r\nConnection: keep-alive\r\n\r\n", true),
    ] {
        assert_eq!(receive(head.as_bytes(), false, 1000).1, Ok(keeps_alive), "{head}");
    }
}
