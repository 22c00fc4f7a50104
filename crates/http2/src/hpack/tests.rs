use proptest::prelude::*;

use super::dynamic_table::DynamicTable;
use super::error::HpackError;
use super::*;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Fields, HpackError> {
    let mut fields = Fields::new();
    decoder.decode(block, &mut Vec::new(), |name, value, _| fields.push((name.to_vec(), value.to_vec())))?;
    Ok(fields)
}

fn encode(encoder: &mut Encoder, fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut block = Vec::new();
    encoder.begin(&mut block);
    fields.iter().for_each(|(name, value)| encoder.field(name, value, &mut block));
    block
}

fn octets(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|digit| !digit.is_ascii_whitespace()).collect();
    let pairs = digits.chunks(2).map(|pair| str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn fields(lines: &[(&str, &str)]) -> Fields {
    lines.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

/// Decodes the blocks of one example, one after the other, with a table of `limit` bytes.
fn check_example(limit: usize, blocks: &[(&str, &[(&str, &str)])]) {
    let mut decoder = Decoder::new();
    // The examples set the size of the table by SETTINGS; a size update has the same effect.
    let mut update = Vec::new();
    integer::encode(limit, 5, 0x20, &mut update);
    assert_eq!(decode(&mut decoder, &update), Ok(Fields::new()));
    for (block, expected) in blocks {
        assert_eq!(decode(&mut decoder, &octets(block)), Ok(fields(expected)), "{block}");
    }
}

const REQUESTS: [&[(&str, &str)]; 3] = [
    &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")],
    &[
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "www.example.com"),
        ("cache-control", "no-cache"),
    ],
    &[
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/index.html"),
        (":authority", "www.example.com"),
        ("custom-key", "custom-value"),
    ],
];

const RESPONSES: [&[(&str, &str)]; 3] = [
    &[
        (":status", "302"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com"),
    ],
    &[
        (":status", "307"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com"),
    ],
    &[
        (":status", "200"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
        ("location", "https://www.example.com"),
        ("content-encoding", "gzip"),
        ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"),
    ],
];

#[test]
fn the_examples_of_rfc_7541_appendix_c_2_agree() {
    for (block, field) in [
        ("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", ("custom-key", "custom-header")),
        ("040c 2f73 616d 706c 652f 7061 7468", (":path", "/sample/path")),
        ("1008 7061 7373 776f 7264 0673 6563 7265 74", ("password", "secret")),
        ("82", (":method", "GET")),
    ] {
        assert_eq!(decode(&mut Decoder::new(), &octets(block)), Ok(fields(&[field])), "{block}");
    }
}

#[test]
fn the_requests_of_rfc_7541_appendix_c_3_and_c_4_agree() {
    let plain = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    let huffman = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    for blocks in [plain, huffman] {
        check_example(4096, &[0, 1, 2].map(|at| (blocks[at], REQUESTS[at])));
    }
}

#[test]
fn the_responses_of_rfc_7541_appendix_c_5_and_c_6_agree() {
    let plain = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32
         3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970
         7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61
         6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
    ];
    let huffman = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad
         1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2
         e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ];
    for blocks in [plain, huffman] {
        check_example(256, &[0, 1, 2].map(|at| (blocks[at], RESPONSES[at])));
    }
}

#[test]
fn malformed_blocks_are_refused_with_their_reason() {
    for (block, reason) in [
        ("80", "hpack_index"),
        ("be", "hpack_index"),
        ("ff00", "hpack_index"),
        ("7f00 0161", "hpack_index"),
        ("ff80 8080 8080 01", "hpack_integer"),
        ("40", "hpack_truncated"),
        ("4001", "hpack_truncated"),
        ("4001 61", "hpack_truncated"),
        ("4001 6102 62", "hpack_truncated"),
        ("4001 6181 ff", "hpack_huffman"),
        ("4001 6184 ffff ffff", "hpack_huffman"),
        ("3fe2 1f", "hpack_table_size"),
        ("82 20", "hpack_late_size_update"),
        ("20 20 20", "hpack_late_size_update"),
    ] {
        assert_eq!(decode(&mut Decoder::new(), &octets(block)), Err(HpackError(reason)), "{block}");
    }
}

#[test]
fn a_smaller_table_has_to_be_announced_at_the_start_of_the_next_block() {
    let mut decoder = Decoder::new();
    decoder.set_limit(100);
    assert_eq!(decode(&mut decoder, &octets("82")), Err(HpackError("hpack_missing_size_update")));
    let mut decoder = Decoder::new();
    decoder.set_limit(100);
    assert_eq!(decode(&mut decoder, &octets("3f46 82")), Err(HpackError("hpack_table_size")));
    let mut decoder = Decoder::new();
    decoder.set_limit(100);
    assert_eq!(decode(&mut decoder, &octets("203f 4582")), Ok(fields(&[(":method", "GET")])));
    assert_eq!(decode(&mut decoder, &octets("82")), Ok(fields(&[(":method", "GET")])));
}

#[test]
fn an_evicted_entry_may_give_its_name_to_the_entry_that_evicts_it() {
    let mut decoder = Decoder::new();
    assert_eq!(decode(&mut decoder, &octets("3f15 4001 6101 62")), Ok(fields(&[("a", "b")])));
    // A table of 52 bytes holds one of these: index 62 is read before it goes.
    assert_eq!(decode(&mut decoder, &octets("7e02 6363 be")), Ok(fields(&[("a", "cc"), ("a", "cc")])));
    assert_eq!(decode(&mut decoder, &octets("bf")), Err(HpackError("hpack_index")));
}

#[test]
fn an_entry_larger_than_the_table_empties_it() {
    let mut table = DynamicTable::new(64);
    table.insert(0, b"a", b"b");
    assert_eq!(table.get(0), Some((&b"a"[..], &b"b"[..])));
    table.insert(0, &[b'x'; 20], &[b'y'; 20]);
    assert_eq!((table.len(), table.get(0)), (0, None));
}

#[test]
fn a_head_that_repeats_takes_one_octet_for_each_field() {
    let mut encoder = Encoder::new();
    let head: [(&[u8], &[u8]); 4] = [
        (b"server", b"penstock"),
        (b"content-type", b"video/mp4"),
        (b"cache-control", b"public, max-age=31536000, immutable"),
        (b"timing-allow-origin", b"*"),
    ];
    let mut decoder = Decoder::new();
    let lengths = [0; 4].map(|_| {
        let block = encode(&mut encoder, &head);
        let expected: Fields = head.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        assert_eq!(decode(&mut decoder, &block), Ok(expected));
        block.len()
    });
    assert_eq!(lengths[2..], [4, 4], "{lengths:?}");
}

#[test]
fn values_that_never_repeat_do_not_enter_the_table_and_cookies_never_do() {
    let mut encoder = Encoder::new();
    for number in 0..100 {
        let etag = format!("\"{number}\"");
        let block = encode(&mut encoder, &[(b"etag", etag.as_bytes()), (b"set-cookie", b"a=b")]);
        assert!(block.len() > 8, "{number}");
        // Literals without indexing, and never indexed.
        let first = if number == 0 { &block[3..] } else { &block };
        assert_eq!(first[..2], [0x0f, 34 - 15], "{number}");
        assert!(block.windows(2).any(|octets| octets == [0x1f, 55 - 15]), "{number}");
    }
}

#[test]
fn changes_of_the_peers_table_size_are_announced_with_the_least_and_the_last() {
    let mut encoder = Encoder::new();
    let mut decoder = Decoder::new();
    let head: [(&[u8], &[u8]); 1] = [(b"server", b"penstock")];
    for _ in 0..3 {
        decode(&mut decoder, &encode(&mut encoder, &head)).unwrap();
    }
    encoder.set_limit(0);
    encoder.set_limit(100);
    let block = encode(&mut encoder, &head);
    assert_eq!(block[..3], [0x20, 0x3f, 0x45]);
    assert_eq!(decode(&mut decoder, &block), Ok(fields(&[("server", "penstock")])));
    encoder.set_limit(0);
    for _ in 0..5 {
        let block = encode(&mut encoder, &head);
        assert_eq!(decode(&mut decoder, &block), Ok(fields(&[("server", "penstock")])));
        assert!(block.len() > 4);
    }
}

proptest! {
    #[test]
    fn what_was_encoded_is_decoded(
        heads in prop::collection::vec(
            prop::collection::vec((0usize..20, 0usize..6, any::<bool>()), 0..12),
            1..12,
        ),
        limits in prop::collection::vec(0usize..5000, 12),
    ) {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
        for (head, limit) in heads.iter().zip(limits) {
            if limit < 3000 {
                // As SETTINGS would; the decoder of the peer allows its own limit.
                encoder.set_limit(limit);
            }
            let head: Fields = head
                .iter()
                .map(|&(name, value, long)| {
                    let value = format!("value {value}").repeat(if long { 40 } else { 1 });
                    (static_name_or(name), value.into_bytes())
                })
                .collect();
            let borrowed: Vec<(&[u8], &[u8])> = head.iter().map(|(name, value)| (&**name, &**value)).collect();
            prop_assert_eq!(decode(&mut decoder, &encode(&mut encoder, &borrowed)), Ok(head));
        }
    }

    #[test]
    fn any_block_is_decoded_or_refused(block: Vec<u8>) {
        let _fields = decode(&mut Decoder::new(), &block);
    }
}

fn static_name_or(number: usize) -> Vec<u8> {
    match static_table::STATIC_TABLE.get(number * 5) {
        Some((name, _)) => name.to_vec(),
        None => format!("x-{number}").into_bytes(),
    }
}
