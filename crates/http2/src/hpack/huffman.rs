//! The Huffman code of HPACK (RFC 7541 §5.2 and Appendix B).
//!
//! The code is canonical: codes of one length are consecutive in the order of their symbols, and shorter codes come first.
//! So the lengths define it, and both directions are computed from them at compile time.

use super::error::HpackError;

/// The number of symbols: all octets, and EOS.
const SYMBOLS: usize = 257;

/// The symbol that ends the code and never occurs in a string.
const EOS: u16 = 256;

/// The longest code, in bits.
const LENGTH_MAX: u32 = 30;

/// The length of each symbol's code in bits (RFC 7541 Appendix B).
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
     6, 10, 10, 12, 13,  6,  8, 11, 10, 10,  8, 11,  8,  6,  6,  6,
     5,  5,  5,  6,  6,  6,  6,  6,  6,  6,  7,  8, 15,  6, 12, 10,
    13,  6,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,
     7,  7,  7,  7,  7,  7,  7,  7,  8,  7,  8, 13, 19, 13, 14,  6,
    15,  5,  6,  5,  6,  5,  6,  6,  6,  5,  7,  7,  6,  6,  6,  5,
     6,  7,  6,  5,  5,  6,  7,  7,  7,  7,  7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// A code: its bits, at the low end, and their number.
#[derive(Clone, Copy)]
struct Code {
    bits: u32,
    length: u32,
}

/// The symbols of one length: where they begin in `SORTED`, the first code, and the first code behind them, both with
/// the highest of [`LENGTH_MAX`] bits first.
#[derive(Clone, Copy)]
struct Group {
    first_symbol: usize,
    first: u32,
    end: u32,
}

struct Tables {
    codes: [Code; SYMBOLS],
    /// Symbols by the order of their codes.
    sorted: [u16; SYMBOLS],
    groups: [Group; LENGTH_MAX as usize + 1],
    /// For each octet at the front of a string: the symbol whose code it begins with, and the length of the code, 0 if it
    /// is longer than eight bits.
    short: [(u8, u8); 256],
}

static TABLES: Tables = tables();

#[expect(clippy::cast_possible_truncation, reason = "symbols are below 257, codes have 30 bits at most")]
const fn tables() -> Tables {
    let mut tables = Tables {
        codes: [Code { bits: 0, length: 0 }; SYMBOLS],
        sorted: [0; SYMBOLS],
        groups: [Group { first_symbol: 0, first: 0, end: 0 }; LENGTH_MAX as usize + 1],
        short: [(0, 0); 256],
    };
    let mut code = 0u32;
    let mut place = 0;
    let mut length = 1;
    while length <= LENGTH_MAX {
        code <<= 1;
        let shift = LENGTH_MAX - length;
        tables.groups[length as usize].first_symbol = place;
        tables.groups[length as usize].first = code << shift;
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as u32 == length {
                tables.codes[symbol] = Code { bits: code, length };
                tables.sorted[place] = symbol as u16;
                if length <= 8 {
                    let mut octet = (code as usize) << (8 - length);
                    let end = (code as usize + 1) << (8 - length);
                    while octet < end {
                        tables.short[octet] = (symbol as u8, length as u8);
                        octet += 1;
                    }
                }
                place += 1;
                code += 1;
            }
            symbol += 1;
        }
        tables.groups[length as usize].end = code << shift;
        length += 1;
    }
    tables
}

/// The length of `text` in Huffman code, in octets.
pub(super) fn encoded_length(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|&octet| usize::from(LENGTHS[usize::from(octet)])).sum();
    bits.div_ceil(8)
}

/// Appends `text` in Huffman code.
pub(super) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let mut bits = 0u64;
    let mut count = 0;
    for &octet in text {
        let code = TABLES.codes[usize::from(octet)];
        bits = bits << code.length | u64::from(code.bits);
        count += code.length;
        if count >= 32 {
            count -= 32;
            let whole = (bits >> count).to_be_bytes();
            out.extend_from_slice(&whole[4..]);
        }
    }
    // The rest is padded with the first bits of EOS, which are ones.
    let padding = (8 - count % 8) % 8;
    let bits = (bits << padding | ((1 << padding) - 1)).to_be_bytes();
    let octets = (count + padding) as usize / 8;
    out.extend_from_slice(&bits[8 - octets..]);
}

/// Appends what `coded` says: at most eight fifths of its length.
///
/// # Errors
/// EOS occurs, or the padding is longer than seven bits or not ones (RFC 7541 §5.2).
pub(super) fn decode(mut coded: &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    // The next `have` bits of the string begin at the highest bit; ones follow.
    let mut bits = u64::MAX;
    let mut have = 0u32;
    loop {
        while have <= 56 {
            let Some((&octet, rest)) = coded.split_first() else { break };
            coded = rest;
            bits &= !(0xff << (56 - have)) | u64::from(octet) << (56 - have);
            have += 8;
        }
        let (symbol, length) = TABLES.short[(bits >> 56) as usize];
        let length = u32::from(length);
        if length != 0 {
            if length > have {
                break;
            }
            out.push(symbol);
            consume(&mut bits, &mut have, length);
            continue;
        }
        let (symbol, length) = long_code(bits);
        if length > have {
            break;
        }
        // A symbol that is no octet is EOS.
        out.push(u8::try_from(symbol).map_err(|_| HpackError("hpack_huffman"))?);
        consume(&mut bits, &mut have, length);
    }
    let is_padding = have < 8 && bits == u64::MAX;
    is_padding.then_some(()).ok_or(HpackError("hpack_huffman"))
}

const fn consume(bits: &mut u64, have: &mut u32, length: u32) {
    *bits = *bits << length | ((1 << length) - 1);
    *have -= length;
}

/// The symbol of a code of more than eight bits, and its length.
fn long_code(bits: u64) -> (u16, u32) {
    let front = (bits >> (64 - LENGTH_MAX)) as u32;
    for length in 9..LENGTH_MAX {
        let group = &TABLES.groups[length as usize];
        if front < group.end {
            let place = (front - group.first) as usize >> (LENGTH_MAX - length);
            return (TABLES.sorted[group.first_symbol + place], length);
        }
    }
    let group = &TABLES.groups[LENGTH_MAX as usize];
    let symbol = TABLES.sorted.get(group.first_symbol + (front - group.first) as usize);
    (symbol.copied().unwrap_or(EOS), LENGTH_MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(coded: &[u8]) -> Result<Vec<u8>, HpackError> {
        let mut out = Vec::new();
        decode(coded, &mut out).map(|()| out)
    }

    #[test]
    fn codes_of_rfc_7541_appendix_b_are_those_computed() {
        for (symbol, bits, length) in [
            (b' ', 0x14, 6),
            (b'0', 0x0, 5),
            (b'a', 0x3, 5),
            (b'z', 0x7b, 7),
            (b'~', 0x1ffd, 13),
            (0, 0x1ff8, 13),
            (1, 0x7f_ffd8, 23),
            (10, 0x3fff_fffc_u64, 30),
            (22, 0x3fff_fffe, 30),
            (127, 0xfff_fffc, 28),
            (255, 0x3ff_ffee, 26),
        ] {
            let code = TABLES.codes[usize::from(symbol)];
            assert_eq!((u64::from(code.bits), code.length), (bits, length), "{symbol}");
        }
        let eos = TABLES.codes[usize::from(EOS)];
        assert_eq!((eos.bits, eos.length), (0x3fff_ffff, 30));
    }

    #[test]
    fn every_octet_is_decoded_alone_and_between_others() {
        for octet in 0..=255 {
            for text in [vec![octet], vec![b'0', octet], vec![octet, b'z', octet, octet, 1]] {
                let mut coded = Vec::new();
                encode(&text, &mut coded);
                assert_eq!(coded.len(), encoded_length(&text));
                assert_eq!(decoded(&coded), Ok(text));
            }
        }
    }

    #[test]
    fn padding_must_be_shorter_than_an_octet_and_all_ones() {
        // "a" is 00011.
        assert_eq!(decoded(&[0b0001_1111]), Ok(b"a".to_vec()));
        for coded in [
            &[0b0001_1110][..],
            &[0b0001_1000],
            &[0b0001_1111, 0xff],
            &[0xff],
            &[0xff; 3],
            &[0xff, 0xff, 0xff, 0xff],
            &[0xff; 30],
        ] {
            assert_eq!(decoded(coded), Err(HpackError("hpack_huffman")), "{coded:?}");
        }
        assert_eq!(decoded(&[]), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn any_text_is_decoded_as_it_was(text: Vec<u8>) {
            let mut coded = Vec::new();
            encode(&text, &mut coded);
            prop_assert_eq!(coded.len(), encoded_length(&text));
            prop_assert_eq!(decoded(&coded), Ok(text));
        }

        #[test]
        fn a_string_has_one_code_only(coded: Vec<u8>) {
            if let Ok(text) = decoded(&coded) {
                prop_assert!(text.len() <= coded.len() * 8 / 5);
                let mut again = Vec::new();
                encode(&text, &mut again);
                prop_assert_eq!(again, coded);
            }
        }
    }
}
