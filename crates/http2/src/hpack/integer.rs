//! Integers with a prefix (RFC 7541 §5.1).

use super::error::HpackError;

/// Octets behind the prefix that are read. Four carry 28 bits, more than any length or index that is accepted.
const CONTINUATION_MAX: usize = 4;

/// Appends `value` with a prefix of `prefix` bits (1 to 8) in an octet whose other bits are `flags`.
pub(super) fn encode(value: usize, prefix: u32, flags: u8, out: &mut Vec<u8>) {
    let max = (1usize << prefix) - 1;
    if value < max {
        out.push(flags | low_octet(value));
        return;
    }
    out.push(flags | low_octet(max));
    let mut rest = value - max;
    while rest >= 0x80 {
        out.push(low_octet(rest) | 0x80);
        rest >>= 7;
    }
    out.push(low_octet(rest));
}

fn low_octet(value: usize) -> u8 {
    value.to_le_bytes()[0]
}

/// Takes an integer with a prefix of `prefix` bits from the front of `block`.
///
/// # Errors
/// The block ends within the integer, or the integer has 29 bits or more.
pub(super) fn decode(block: &mut &[u8], prefix: u32) -> Result<usize, HpackError> {
    let (&first, mut rest) = block.split_first().ok_or(HpackError("hpack_truncated"))?;
    let max = (1usize << prefix) - 1;
    let mut value = usize::from(first) & max;
    if value == max {
        for place in 0.. {
            if place == CONTINUATION_MAX {
                return Err(HpackError("hpack_integer"));
            }
            let (&octet, after) = rest.split_first().ok_or(HpackError("hpack_truncated"))?;
            rest = after;
            value += usize::from(octet & 0x7f) << (7 * place);
            if octet < 0x80 {
                break;
            }
        }
    }
    *block = rest;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_rfc_7541_appendix_c_1_agree() {
        for (value, prefix, octets) in [
            (10, 5, &[0b01010][..]),
            (1337, 5, &[0b11111, 0b1001_1010, 0b1010][..]),
            (42, 8, &[0b10_1010][..]),
        ] {
            let mut out = Vec::new();
            encode(value, prefix, 0, &mut out);
            assert_eq!(out, octets);
            assert_eq!(decode(&mut &*out, prefix), Ok(value));
        }
    }

    #[test]
    fn every_integer_that_was_encoded_is_decoded() {
        for prefix in 1..=8 {
            for value in (0..3000).chain([16_383, 16_384, (1 << 28) - 1]) {
                let mut out = Vec::new();
                encode(value, prefix, 0, &mut out);
                out.push(7);
                let mut block = &*out;
                assert_eq!(decode(&mut block, prefix), Ok(value), "{prefix}");
                assert_eq!(block, [7]);
                for cut in 0..out.len() - 1 {
                    assert_eq!(decode(&mut &out[..cut], prefix), Err(HpackError("hpack_truncated")));
                }
            }
        }
    }

    #[test]
    fn an_integer_of_too_many_octets_is_refused() {
        assert_eq!(decode(&mut &[0xff, 0x80, 0x80, 0x80, 0x80, 0][..], 7), Err(HpackError("hpack_integer")));
        assert_eq!(
            decode(&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1][..], 5),
            Err(HpackError("hpack_integer"))
        );
    }
}
