use super::*;

/// A request for an ECDSA signature, byte by byte.
fn ecdsa_request() -> Vec<u8> {
    let mut bytes = vec![
        0x01, 0x00, 0x03, 0xf8, 0x00, 0x00, 0x00, 0x2a, // version 1.0, 1,016 bytes, request 42
        0x11, 0x00, 0x01, 0x15, // opcode: ECDSA over SHA-256
        0x04, 0x00, 0x14, // key identifier
    ];
    bytes.extend([0xab; 20]);
    bytes.extend(b"\x02\x00\x11video.example.com");
    bytes.extend([0x03, 0x00, 0x04, 192, 0, 2, 7]); // address of the client
    bytes.extend([0x12, 0x00, 0x20]); // payload: the digest
    bytes.extend([0x5a; 32]);
    bytes.extend([0x20, 0x03, 0x9c]); // padding
    bytes.resize(1024, 0);
    bytes
}

fn decoded(bytes: &[u8]) -> Result<Message<'_>, ProtocolError> {
    let (header, body) = bytes.split_first_chunk().ok_or(ProtocolError::Malformed)?;
    let header = decode_header(*header)?;
    assert_eq!(header.body_bytes, body.len());
    decode_body(header.id, body)
}

/// A message whose body is these bytes.
fn with_body(body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap().to_be_bytes();
    [&[1, 0, length[0], length[1], 0, 0, 0, 9][..], body].concat()
}

#[test]
fn a_request_has_these_bytes() {
    let digest = [0x5a; 32];
    let message = Message {
        key: Some(KeyId([0xab; 20])),
        server_name: Some("video.example.com"),
        client: Some("192.0.2.7".parse().unwrap()),
        ..Message::new(42, Opcode(0x15), &digest)
    };
    assert_eq!(encode(&message).unwrap(), ecdsa_request());
    assert_eq!(decoded(&ecdsa_request()), Ok(message));
}

#[test]
fn answers_have_these_bytes() {
    let mut error = b"\x01\x00\x03\xf8\x00\x00\x00\x07\x11\x00\x01\xff\x12\x00\x01\x02\x20\x03\xed".to_vec();
    error.resize(1024, 0);
    assert_eq!(encode(&Message::new(7, Opcode::ERROR, &[ErrorCode::KeyNotFound as u8])).unwrap(), error);
    let mut pong = b"\x01\x00\x03\xf8\xff\xff\xff\xff\x11\x00\x01\xf2\x12\x00\x04ping\x20\x03\xea".to_vec();
    pong.resize(1024, 0);
    assert_eq!(encode(&Message::new(u32::MAX, Opcode::PONG, b"ping")).unwrap(), pong);
}

#[test]
fn messages_of_any_content_have_one_size() {
    for payload in [0, 1, 32, 256, 512, 1024 - 8 - 4 - 3 - 3] {
        let payload = vec![1; payload];
        let message = Message::new(1, Opcode::RESPONSE, &payload);
        let bytes = encode(&message).unwrap();
        assert_eq!(bytes.len(), PADDED_BYTES);
        assert_eq!(decoded(&bytes), Ok(message));
    }
    // No item fits into the last bytes, so that a message without padding is the only other size.
    let payload = vec![1; 1024 - 8 - 4 - 3 - 2];
    assert_eq!(encode(&Message::new(1, Opcode::RESPONSE, &payload)).unwrap().len(), 1022);
}

#[test]
fn unknown_items_are_skipped_and_known_ones_appear_once() {
    let ping = b"\x11\x00\x01\xf1";
    let unknown = b"\x15\x00\x02ab\x06\x00\x00\x7f\x00\x01x";
    let body = [&unknown[..], ping, b"\x12\x00\x01p"].concat();
    assert_eq!(decoded(&with_body(&body)), Ok(Message::new(9, Opcode::PING, b"p")));
    for twice in [&ping[..], b"\x12\x00\x01p", b"\x02\x00\x01a", b"\x03\x00\x04\x01\x02\x03\x04"] {
        let body = [ping, twice, twice].concat();
        assert_eq!(decoded(&with_body(&body)), Err(ProtocolError::Malformed), "{twice:?}");
    }
}

#[test]
fn items_of_the_wrong_length_are_malformed() {
    let ping = b"\x11\x00\x01\xf1";
    for wrong in [
        &b"\x11\x00\x00"[..],               // no opcode in it
        b"\x11\x00\x02\xf1\xf1",            // two
        b"\x12\x00",                        // half a length
        b"\x12\x00\x05abcd",                // ends behind the body
        b"\x04\x00\x13aaaaaaaaaaaaaaaaaaa", // 19 bytes of a key identifier
        b"\x03\x00\x05\x01\x02\x03\x04\x05",
        b"\x02\x00\x02\xff\xfe", // no UTF-8
    ] {
        assert_eq!(decode_body(1, wrong), Err(ProtocolError::Malformed), "{wrong:?}");
        let behind = [ping, wrong].concat();
        assert_eq!(decode_body(1, &behind), Err(ProtocolError::Malformed), "{wrong:?}");
    }
    assert_eq!(decode_body(1, b"\x12\x00\x01p"), Err(ProtocolError::Malformed), "no opcode");
    assert_eq!(decode_body(1, b""), Err(ProtocolError::Malformed));
}

#[test]
fn other_versions_and_long_bodies_end_a_connection() {
    assert_eq!(decode_header([2, 0, 0, 0, 0, 0, 0, 1]), Err(ProtocolError::Version));
    assert_eq!(decode_header([1, 1, 0, 0, 0, 0, 0, 1]), Err(ProtocolError::Version));
    assert_eq!(decode_header([1, 0, 0x10, 1, 0, 0, 0, 1]), Err(ProtocolError::TooLong));
    assert_eq!(decode_header([1, 0, 0x10, 0, 0, 0, 0, 1]), Ok(Header { id: 1, body_bytes: 4096 }));
    let long = vec![0; BODY_BYTES_MAX];
    assert_eq!(encode(&Message::new(1, Opcode::RESPONSE, &long)), Err(ProtocolError::TooLong));
}

#[test]
fn each_kind_of_signature_has_an_opcode_of_its_own() {
    for (number, kind) in KINDS {
        assert_eq!(Opcode(number).signature(), Some(kind));
        assert_eq!(Opcode::of(kind), Some(Opcode(number)));
        assert!(!Opcode(number).is_answer());
    }
    assert_eq!(Opcode::RSA_DECRYPT.signature(), None);
    assert_eq!(Opcode::of(SignatureKind::RsaPss(Hash::Sha1)), None);
}
