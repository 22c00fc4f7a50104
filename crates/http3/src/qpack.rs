//! Field sections of responses (RFC 9204 §4.5): references to the static table, and literals.
//!
//! Strings are not compressed: for the head of a response of 1 KiB the Huffman code saves 60 bytes and takes 4,000 instructions.

/// A reference to a whole field, from the static table.
const INDEXED: u8 = 0b1100_0000;
/// A literal whose name is in the static table.
const NAMED: u8 = 0b0101_0000;
/// The same, never to be put into a table.
const NAMED_SECRET: u8 = 0b0111_0000;
/// A literal with its name.
const LITERAL: u8 = 0b0010_0000;

/// Begins a field section that refers to no other table (RFC 9204 §4.5.1).
pub(crate) fn begin(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0]);
}

/// Appends `:status`, which is 100 to 999.
pub(crate) fn status(status: u16, out: &mut Vec<u8>) {
    let index = match status {
        103 => 24,
        200 => 25,
        304 => 26,
        404 => 27,
        503 => 28,
        100 => 63,
        204 => 64,
        206 => 65,
        302 => 66,
        400 => 67,
        403 => 68,
        421 => 69,
        425 => 70,
        500 => 71,
        _ => {
            let digit = |place: u16| b'0' + u8::try_from(status / place % 10).unwrap_or(0);
            integer(24, 4, NAMED, out);
            return string(&[digit(100), digit(10), digit(1)], out);
        }
    };
    integer(index, 6, INDEXED, out);
}

/// Appends a field, whose name is turned into lowercase letters.
pub(crate) fn field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let Some((_, index, values)) = known(name) else {
        integer(name.len(), 3, LITERAL, out);
        out.extend(name.iter().map(u8::to_ascii_lowercase));
        return string(value, out);
    };
    match values.iter().find(|(known, _)| *known == value) {
        Some((_, whole)) => integer(*whole, 6, INDEXED, out),
        None => {
            let is_secret = *index == SET_COOKIE;
            integer(*index, 4, if is_secret { NAMED_SECRET } else { NAMED }, out);
            string(value, out);
        }
    }
}

/// A name, the first entry that has it, and the entries with values that responses often have.
type KnownName = (&'static [u8], usize, &'static [(&'static [u8], usize)]);

const SET_COOKIE: usize = 14;

/// What the static table has for a name of responses (RFC 9204 Appendix A).
fn known(name: &[u8]) -> Option<&'static KnownName> {
    let of_length: &[KnownName] = match name.len() {
        3 => &[(b"age", 2, &[])],
        4 => &[
            (b"date", 6, &[]),
            (b"etag", 7, &[]),
            (b"link", 11, &[]),
            (b"vary", 59, &[(b"accept-encoding", 59), (b"origin", 60)]),
        ],
        6 => &[(b"server", 92, &[])],
        7 => &[(b"alt-svc", 83, &[])],
        8 => &[(b"location", 12, &[])],
        10 => &[(b"set-cookie", SET_COOKIE, &[])],
        12 => &[(b"content-type", 44, &[])],
        13 => &[
            (b"last-modified", 10, &[]),
            (b"cache-control", 36, &[(b"no-cache", 39), (b"no-store", 40)]),
            (b"accept-ranges", 32, &[(b"bytes", 32)]),
        ],
        14 => &[(b"content-length", 4, &[])],
        15 => &[(b"x-frame-options", 97, &[])],
        16 => &[(b"content-encoding", 42, &[(b"br", 42), (b"gzip", 43)])],
        19 => &[(b"content-disposition", 3, &[]), (b"timing-allow-origin", 93, &[])],
        22 => &[(b"x-content-type-options", 61, &[(b"nosniff", 61)])],
        23 => &[(b"content-security-policy", 85, &[])],
        25 => &[(b"strict-transport-security", 56, &[])],
        27 => &[(b"access-control-allow-origin", 35, &[(b"*", 35)])],
        28 => &[(b"access-control-allow-headers", 33, &[]), (b"access-control-allow-methods", 76, &[])],
        29 => &[(b"access-control-expose-headers", 79, &[])],
        32 => &[(b"access-control-allow-credentials", 73, &[])],
        _ => &[],
    };
    of_length.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name))
}

/// A string without the Huffman code.
fn string(bytes: &[u8], out: &mut Vec<u8>) {
    integer(bytes.len(), 7, 0, out);
    out.extend_from_slice(bytes);
}

/// An integer with a prefix of `prefix` bits in an octet whose other bits are `flags` (RFC 7541 §5.1).
fn integer(value: usize, prefix: u32, flags: u8, out: &mut Vec<u8>) {
    let max = (1usize << prefix) - 1;
    if value < max {
        return out.push(flags | low_octet(value));
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

#[cfg(test)]
mod tests {
    use quiche::h3::{Header, NameValue, qpack};

    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_by_the_library() {
        let long = "v".repeat(20_000);
        let mut fields =
            vec![("x-long", &*long), ("x-empty", ""), ("X-Upper", "Value"), ("set-cookie", "a=b")];
        let named = [
            "age",
            "content-disposition",
            "content-length",
            "date",
            "etag",
            "last-modified",
            "link",
            "location",
            "accept-ranges",
            "access-control-allow-headers",
            "access-control-allow-origin",
            "cache-control",
            "content-encoding",
            "content-type",
            "strict-transport-security",
            "vary",
            "x-content-type-options",
            "x-xss-protection",
            "access-control-allow-credentials",
            "access-control-allow-methods",
            "access-control-expose-headers",
            "alt-svc",
            "content-security-policy",
            "server",
            "timing-allow-origin",
            "x-frame-options",
            "a-name-that-is-in-no-table",
        ];
        let values = [
            "bytes",
            "*",
            "no-cache",
            "no-store",
            "br",
            "gzip",
            "accept-encoding",
            "origin",
            "nosniff",
            "17",
        ];
        fields.extend(named.iter().flat_map(|name| values.map(|value| (*name, value))));
        for code in [100, 103, 200, 204, 206, 302, 304, 400, 403, 404, 421, 425, 500, 503, 429, 999] {
            let mut block = Vec::new();
            begin(&mut block);
            status(code, &mut block);
            for (name, value) in &fields {
                field(name.as_bytes(), value.as_bytes(), &mut block);
            }
            let decoded = qpack::Decoder::new().decode(&block, u64::MAX).unwrap();
            let code = code.to_string();
            let expected = std::iter::once((":status", &*code)).chain(fields.iter().copied());
            let expected: Vec<_> = expected
                .map(|(name, value)| Header::new(name.to_ascii_lowercase().as_bytes(), value.as_bytes()))
                .collect();
            for (decoded, expected) in decoded.iter().zip(&expected) {
                assert_eq!((decoded.name(), decoded.value()), (expected.name(), expected.value()));
            }
            assert_eq!(decoded.len(), expected.len());
        }
    }
}
