//! JA4: a fingerprint of the client software, computed from its ClientHello.
//!
//! The algorithm is FoxIO's JA4 for TLS clients: `t13d1516h2_8daaf6152771_e5627efa2ab1` is a readable part, the suites,
//! and the extensions with the signature algorithms; both lists are hashed, the first two sorted, so that clients which
//! shuffle them stay recognisable. GREASE values (RFC 8701) do not count.

use std::fmt;

use boring::sha::sha256;

/// The fingerprint of one ClientHello: 36 characters of ASCII.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ja4([u8; LENGTH]);

const LENGTH: usize = 10 + 1 + HASH_LENGTH + 1 + HASH_LENGTH;
const HASH_LENGTH: usize = 12;

impl Ja4 {
    /// The fingerprint of a ClientHello over TCP or QUIC: the message without its header. `None` if it is cut short.
    pub fn of(hello: &[u8], is_quic: bool) -> Option<Self> {
        let hello = HelloFields::read(hello)?;
        let mut readable = String::with_capacity(LENGTH);
        readable.push(if is_quic { 'q' } else { 't' });
        readable.push_str(hello.version());
        readable.push(if hello.extension(SERVER_NAME).is_some() { 'd' } else { 'i' });
        readable.push_str(&format!("{:02}", hello.suites.len().min(99)));
        readable.push_str(&format!("{:02}", hello.extensions.len().min(99)));
        readable.extend(hello.protocol());

        let mut suites = hello.suites.clone();
        suites.sort_unstable();
        let mut extensions: Vec<u16> = hello.extensions.iter().map(|(number, _)| *number).collect();
        extensions.retain(|number| ![SERVER_NAME, ALPN].contains(number));
        extensions.sort_unstable();
        let mut what_it_can = list(&extensions);
        let schemes = numbers(hello.extension(SIGNATURE_ALGORITHMS).and_then(|body| body.get(2..)));
        if !schemes.is_empty() {
            what_it_can = format!("{what_it_can}_{}", list(&schemes));
        }
        let text = format!("{readable}_{}_{}", hash(&list(&suites)), hash(&what_it_can));
        text.as_bytes().try_into().ok().map(Self)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for Ja4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

const SERVER_NAME: u16 = 0;
const SIGNATURE_ALGORITHMS: u16 = 13;
const ALPN: u16 = 16;
const SUPPORTED_VERSIONS: u16 = 43;

/// The parts of a ClientHello that count, without GREASE (RFC 8446 §4.1.2).
struct HelloFields<'h> {
    legacy_version: u16,
    suites: Vec<u16>,
    extensions: Vec<(u16, &'h [u8])>,
}

impl<'h> HelloFields<'h> {
    fn read(hello: &'h [u8]) -> Option<Self> {
        let mut rest = hello;
        let legacy_version = number(take(&mut rest, 2)?);
        take(&mut rest, 32)?;
        with_length(&mut rest, 1)?;
        let suites = numbers(Some(with_length(&mut rest, 2)?));
        with_length(&mut rest, 1)?;
        let mut extensions = Vec::new();
        // Clients of TLS 1.2 may send none, not even a length.
        let mut list = if rest.is_empty() { rest } else { with_length(&mut rest, 2)? };
        while !list.is_empty() {
            let kind = number(take(&mut list, 2)?);
            let body = with_length(&mut list, 2)?;
            if !is_grease(kind) {
                extensions.push((kind, body));
            }
        }
        Some(Self { legacy_version, suites, extensions })
    }

    fn extension(&self, wanted: u16) -> Option<&'h [u8]> {
        self.extensions.iter().find(|(number, _)| *number == wanted).map(|(_, body)| *body)
    }

    fn version(&self) -> &'static str {
        let listed = self.extension(SUPPORTED_VERSIONS).map(|body| numbers(body.get(1..)));
        let newest = listed.map_or(Some(self.legacy_version), |listed| listed.into_iter().max());
        match newest {
            Some(0x0304) => "13",
            Some(0x0303) => "12",
            Some(0x0302) => "11",
            Some(0x0301) => "10",
            Some(0x0300) => "s3",
            Some(0x0002) => "s2",
            _ => "00",
        }
    }

    /// The first and the last character of the first protocol; where one of them is neither letter nor digit, of its
    /// hexadecimal form.
    fn protocol(&self) -> [char; 2] {
        let mut list = self.extension(ALPN).and_then(|body| body.get(2..)).unwrap_or_default();
        let name = with_length(&mut list, 1).unwrap_or_default();
        let (Some(&first), Some(&last)) = (name.first(), name.last()) else { return ['0', '0'] };
        if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() {
            return [char::from(first), char::from(last)];
        }
        let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
        [digit(first >> 4), digit(last & 15)]
    }
}

fn take<'h>(rest: &mut &'h [u8], count: usize) -> Option<&'h [u8]> {
    let (taken, behind) = rest.split_at_checked(count)?;
    *rest = behind;
    Some(taken)
}

/// Returns the content behind its length of one or two bytes.
fn with_length<'h>(rest: &mut &'h [u8], length_bytes: usize) -> Option<&'h [u8]> {
    let length = take(rest, length_bytes)?.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
    take(rest, length)
}

fn number(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |number, byte| number << 8 | u16::from(*byte))
}

/// The numbers of a list without GREASE.
fn numbers(list: Option<&[u8]>) -> Vec<u16> {
    list.unwrap_or_default().chunks_exact(2).map(number).filter(|number| !is_grease(*number)).collect()
}

fn is_grease(number: u16) -> bool {
    let [high, low] = number.to_be_bytes();
    high == low && low & 15 == 10
}

fn list(numbers: &[u16]) -> String {
    numbers.iter().map(|number| format!("{number:04x}")).collect::<Vec<_>>().join(",")
}

/// The beginning of SHA-256 in hexadecimal; zeros for nothing.
fn hash(text: &str) -> String {
    if text.is_empty() {
        return "0".repeat(HASH_LENGTH);
    }
    sha256(text.as_bytes()).iter().take(HASH_LENGTH / 2).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ClientHello with these suites and extensions; the bodies of those that are read are made from the rest.
    struct Made<'m> {
        legacy_version: u16,
        suites: &'m [u16],
        extensions: &'m [u16],
        schemes: &'m [u16],
        versions: &'m [u16],
        protocols: &'m [&'m [u8]],
    }

    impl Made<'_> {
        fn bytes(&self) -> Vec<u8> {
            let list =
                |numbers: &[u16]| -> Vec<u8> { numbers.iter().flat_map(|n| n.to_be_bytes()).collect() };
            let long =
                |body: Vec<u8>| [u16::try_from(body.len()).unwrap().to_be_bytes().to_vec(), body].concat();
            let short = |body: &[u8]| [&[u8::try_from(body.len()).unwrap()], body].concat();
            let mut extensions = Vec::new();
            for number in self.extensions {
                let body = match number {
                    13 => long(list(self.schemes)),
                    16 => long(self.protocols.iter().flat_map(|name| short(name)).collect()),
                    43 => short(&list(self.versions)),
                    _ => vec![],
                };
                extensions.extend([number.to_be_bytes().to_vec(), long(body)].concat());
            }
            let head = [self.legacy_version.to_be_bytes().to_vec(), vec![7; 32], short(&[9; 32])].concat();
            [head, long(list(self.suites)), short(&[0]), long(extensions)].concat()
        }
    }

    const CHROME_SUITES: [u16; 16] = [
        0x4a4a, 0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013, 0xc014,
        0x009c, 0x009d, 0x002f, 0x0035,
    ];
    const CHROME_SCHEMES: [u16; 8] = [0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601];

    /// Chrome as in the published description of JA4, with its extensions in one of the orders it shuffles them to.
    const CHROME: Made<'_> = Made {
        legacy_version: 0x0303,
        suites: &CHROME_SUITES,
        extensions: &[
            0x1a1a, 0x001b, 0x0000, 0x0033, 0x0010, 0x4469, 0x0017, 0x002d, 0x000d, 0x0005, 0x0023, 0x0012,
            0x002b, 0xff01, 0x000b, 0x000a, 0x0015, 0x2a2a,
        ],
        schemes: &CHROME_SCHEMES,
        versions: &[0xdada, 0x0304, 0x0303],
        protocols: &[b"h2", b"http/1.1"],
    };

    fn ja4(made: &Made<'_>) -> String {
        Ja4::of(&made.bytes(), false).unwrap().as_str().to_owned()
    }

    #[test]
    fn published_fingerprints_come_out() {
        assert_eq!(ja4(&CHROME), "t13d1516h2_8daaf6152771_e5627efa2ab1");
        // A later Chrome with Encrypted ClientHello.
        let later = Made {
            extensions: &[
                0x0000, 0x0005, 0x000a, 0x000b, 0x000d, 0x0010, 0x0012, 0x0017, 0x001b, 0x0023, 0x002b,
                0x002d, 0x0033, 0x44cd, 0xfe0d, 0xff01,
            ],
            ..CHROME
        };
        assert_eq!(ja4(&later), "t13d1516h2_8daaf6152771_d8a2da3f94cd");
        let crawler = Made {
            suites: &[0x1302, 0x1303, 0x1301, 0xc02c, 0xc030, 0xc02b, 0xc02f, 0xcca9, 0xcca8, 0x00ff],
            extensions: &[
                0x0000, 0x000b, 0x000a, 0x0023, 0x0005, 0x0010, 0x0017, 0x000d, 0x002b, 0x002d, 0x0033,
            ],
            schemes: &[0x0503, 0x0403, 0x0807, 0x0806, 0x0805, 0x0804, 0x0601, 0x0501, 0x0401],
            versions: &[0x0304, 0x0303],
            ..CHROME
        };
        assert_eq!(ja4(&crawler), "t13d1011h2_61a7ad8aa9b6_3fcd1a44f3e3");
    }

    #[test]
    fn the_readable_part_tells_version_name_counts_and_protocol() {
        let bare = Made {
            legacy_version: 0x0301,
            suites: &[],
            extensions: &[],
            schemes: &[],
            versions: &[],
            protocols: &[],
        };
        assert_eq!(ja4(&bare), "t10i000000_000000000000_000000000000");
        for (protocols, shown) in [
            (&[b"http/1.1".as_slice()][..], "h1"),
            (&[b"h".as_slice()], "hh"),
            (&[b"\xab".as_slice()], "ab"),
            (&[b"\x30\xab\xcd\x31".as_slice()], "01"),
            (&[b"\xab0".as_slice()], "a0"),
            (&[b"".as_slice()], "00"),
            (&[], "00"),
        ] {
            let made = Made { protocols, ..CHROME };
            assert_eq!(&ja4(&made)[..10], format!("t13d1516{shown}"), "{protocols:?}");
        }
        let many: Vec<u16> = (0x100..0x200).collect();
        assert_eq!(&ja4(&Made { suites: &many, ..CHROME })[..10], "t13d9916h2");
        // Unknown versions, and a list that has none.
        assert!(ja4(&Made { versions: &[0x7f1c], ..CHROME }).starts_with("t00"));
        assert!(ja4(&Made { versions: &[0x0a0a], ..CHROME }).starts_with("t00"));
    }

    #[test]
    fn a_hello_that_is_cut_anywhere_has_no_fingerprint_and_never_panics() {
        let whole = CHROME.bytes();
        for length in 0..whole.len() {
            let cut = Ja4::of(&whole[..length], false);
            // Cut at the start of the extensions, it looks like a hello without any.
            assert!(cut.is_none() || cut.unwrap().as_str().contains("i1500"), "{length}: {cut:?}");
        }
    }
}
